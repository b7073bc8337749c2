"""Osg on Spark: costs measured in the operator, schedules in the tasks before it, equal results."""

import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

from optimizers import Hash, Osg, Topology
from optimizers.errors import FoldError
from optimizers.folds import Sum, each_row
from optimizers.spark.engine import SparkEngine

pytestmark = pytest.mark.spark

COSTLY = 5  # authors below this cost much, in milliseconds; the others next to nothing
INSTANCES = 3


def milliseconds(author):
    return 8.0 if author < COSTLY else 0.2


@each_row
def work(row):
    spent = milliseconds(row["author"])
    time.sleep(spent / 1_000)
    return {**row, "spent": spent, "at": TaskContext.get().partitionId()}


def tweets(batch, rows=240):
    """Every third tweet is costly, so that dealing them out in turn gives all of these to one."""
    random = np.random.default_rng(batch)
    authors = random.integers(COSTLY, 400, rows)
    authors[::3] = random.integers(0, COSTLY, len(authors[::3]))
    return pa.table({"author": authors})


def run_of(spark, folder, optimizer, *, batches=4, edge_key="author"):
    """Run some batches; return the run, and the work of each instance in each batch."""
    job = Topology.source("tweets")
    job = job.then("reach", parallelism=INSTANCES, apply=work, edge_key=edge_key)
    job = job.then("spent", key="author", parallelism=2, apply=Sum("spent"))
    job = job.then("loads", after="reach", key="at", apply=Sum("spent"))
    run = SparkEngine(checkpoint=str(folder), spark=spark, every=1).run(job, [], optimizer)
    sums = [np.zeros(INSTANCES)]
    for batch in range(batches):
        run.execute(spark.createDataFrame(tweets(batch)).coalesce(1))
        state = run.state("loads")
        filled = np.zeros(INSTANCES)
        filled[state.column("at").to_numpy()] = state.column("sum").to_numpy()
        sums.append(filled)
    return run, np.diff(sums, axis=0)


def spent(run):
    state = run.state("spent")
    return dict(zip(*(state.column(name).to_pylist() for name in ("author", "sum")), strict=True))


def test_dear_tuples_no_longer_queue_behind_each_other(spark, tmp_path):
    osg, balanced = run_of(spark, tmp_path / "osg", Osg())
    _, in_turn = run_of(spark, tmp_path / "hash", Hash())

    applied = [decision for decision in osg.decisions if decision.applied]
    assert "finishes it first" in applied[0].plan.notes[0].text
    costs = osg.plan.scheduling["tweets", "reach"].costs
    costly, cheap = costs.estimate([0, 399])
    assert 0.008 <= costly < 0.02
    assert cheap < costly / 4
    # Before anything is known, both deal out in turn; then the work is divided evenly.
    assert balanced[0].tolist() == in_turn[0].tolist()
    assert in_turn[-1].max() > 2.5 * in_turn[-1].mean()
    assert balanced[-1].max() < 1.15 * balanced[-1].mean()


def test_results_are_those_of_any_schedule(spark, tmp_path):
    run, _ = run_of(spark, tmp_path, Osg(), batches=3)
    authors = Counter(
        author for batch in range(3) for author in tweets(batch).column("author").to_pylist()
    )
    expected = {author: count * milliseconds(author) for author, count in authors.items()}
    assert {author: pytest.approx(value) for author, value in expected.items()} == spent(run)


def test_a_key_that_tuples_do_not_have_is_refused_by_name(spark, tmp_path):
    with pytest.raises(FoldError, match="'writer'"):
        run_of(spark, tmp_path, Osg(), edge_key="writer")
