"""Key groups move under a budget while a job runs on Spark, alone and after Locality.

What moves is followed key by key in tests/optimizers/runtime/test_albic.py, by the same tasks.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from decide_later import Later

from optimizers import Albic, Chain, Cluster, Locality, Operator, Topology
from optimizers.folds import Count, Emit
from optimizers.spark import SparkEngine

pytestmark = pytest.mark.spark

NODES, ROWS, BATCHES = 3, 4_000, 6
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", NODES, apply=Count(emit=Emit.TUPLES), key_groups=48))
    .then(Operator("b", "l", NODES, apply=Count(emit=Emit.CHANGES), key_groups=48))
)


def batches():
    """Return batches with all keys at first, and later with few of them only."""
    drawn = np.random.default_rng(3)
    keys = drawn.zipf(1.4, ROWS * BATCHES) % 200
    keys[2 * ROWS :] = drawn.integers(0, 12, len(keys) - 2 * ROWS)
    tags = (keys * 7 + drawn.integers(0, 2, len(keys))) % 300
    keys[:300], tags[:300] = np.arange(300) % 200, np.arange(300)
    return [
        pa.table({"k": keys[start : start + ROWS], "l": tags[start : start + ROWS]})
        for start in range(0, len(keys), ROWS)
    ]


@pytest.mark.parametrize("with_locality", [False, True])
def test_groups_move_under_a_budget_and_results_are_exact(spark, tmp_path, with_locality):
    albic = Later(Albic(budget="30 %", max_load_distance=0.05), 2)
    locality = Locality(worth=0, offline=True, imbalance=1.5, adopts=False)
    engine = SparkEngine(checkpoint=str(tmp_path), cluster=Cluster.uniform(NODES), every=1)
    tables = batches()

    run = engine.run(
        JOB,
        [spark.createDataFrame(table) for table in tables],
        Chain(locality, albic) if with_locality else albic,
    )

    for name, column in (("a", "k"), ("b", "l")):
        expected = Counter(key for table in tables for key in table.column(column).to_pylist())
        rows = run.state(name)
        columns = [rows.column(part).to_pylist() for part in (column, "count")]
        assert dict(zip(*columns, strict=True)) == dict(expected)
    assert not [decision.refused for decision in run.decisions if decision.refused]
    acted = [one for one in run.decisions if one.applied and 2 <= one.after < BATCHES - 1]
    assert acted
    for decision in acted:
        said = {note.about: dict(note.figures) for note in decision.notes if note.by == "Albic"}
        assert 0 < said["the job"]["cost"] <= 0.3 * (1 + 1e-9)
        taken_over = run.batches[decision.after + 1].taken_over
        assert taken_over > 0
        for name in set(said) - {"the job"}:
            came = run.batches[decision.after + 1].imbalance(name)
            assert came == pytest.approx(said[name]["imbalance now"], rel=0.05)
        if with_locality:  # its tables name nearly all keys; others go with their groups as well
            unnamed = 200 + 300 - sum(len(run.plan.routing[name]) for name in "ab")
            assert said["the job"]["keys"] > 10
            assert 0 <= taken_over - said["the job"]["keys"] <= unnamed <= 20
