"""A keyed stream whose stages, tasks and admission change with each batch: all counts are exact."""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from batching.stages import Stages
from grouping.groupings import LocalOrShuffle
from optimizers import Optimizer, Plan, Topology
from optimizers.execution import Execution
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.spark import SparkEngine
from optimizers.statistics import Probe
from optimizers.strategies.parts.aeolus_stages import as_plan, present_stages, stage_job
from optimizers.strategies.parts.observed_dataflow import observed_dataflow

pytestmark = pytest.mark.spark

ROWS, SEED, PATIENCE = 900, 7, 300
DRAWN = np.random.default_rng(SEED)
WORDS = pa.table({"n": DRAWN.integers(0, 40, ROWS), "m": DRAWN.integers(0, 9, ROWS)})


def doubled(batch):
    return batch.set_column(0, "n", pa.array([2 * n for n in batch.column("n").to_pylist()]))


def without_tens(batch):
    return batch.filter(pa.array([n % 10 != 0 for n in batch.column("n").to_pylist()]))


JOB = (
    Topology.source("in", parallelism=2)
    .then("doubled", parallelism=2, apply=doubled)
    .then("without_tens", parallelism=2, apply=without_tens)
    .then("by_n", key="n", parallelism=2, key_groups=8, apply=Count(emit=Emit.TUPLES))
    .then("by_m", key="m", parallelism=2, key_groups=8, apply=Count())
)


@dataclass(frozen=True)
class Restless(Optimizer):
    """Cuts the job into other stages, of other tasks, and admits another number, each time."""

    observes = frozenset({Probe.OPERATORS})

    def plan(self, topology, cluster, statistics, current):
        assert statistics.execution in {
            None,
            Execution(micro_batches=True, slots=2, sized=("in",), paced=True),
        }
        seen = observed_dataflow(topology, statistics)
        if seen is None:
            return Plan()
        drawn = np.random.default_rng([SEED, statistics.epoch])
        layout = Layout.of(topology, cluster, current)
        job = stage_job(seen.at(1_000.0).flow, topology, 1, 2)  # of a recording all is there
        begins = np.arange(len(job.names))
        for place in np.flatnonzero((job.feeders >= 0) & (drawn.random(len(begins)) < 0.6)):
            begins[place] = begins[job.feeders[place]]
        tasks = drawn.integers(1, 4, len(begins))
        stages = Stages(begins, np.where(begins == 0, 2, tasks)[begins])
        plan = as_plan(job, stages, present_stages(job, layout, 2), layout, cluster)
        return plan | Plan(admit={"in": int(drawn.integers(20, 90))})


def expected():
    rows = [(2 * n, m) for n, m in zip(*(c.to_pylist() for c in WORDS.columns), strict=True)]
    kept = [(n, m) for n, m in rows if n % 10]
    return Counter(n for n, _ in kept), Counter(m for _, m in kept)


def counted(run, operator):
    return dict(zip(*(column.to_pylist() for column in run.state(operator).columns), strict=True))


def test_counts_are_exact_while_stages_tasks_and_admission_change(spark, tmp_path):
    engine = SparkEngine(checkpoint=tmp_path / "job", spark=spark, every=1)
    stream = engine.start(JOB, engine.replay("in", WORDS, rows=40), Restless())
    by_n, by_m = expected()

    until = time.monotonic() + PATIENCE
    while not stream.run.batches or sum(counted(stream.run, "by_m").values()) < by_m.total():
        assert time.monotonic() < until
        assert not stream.wait(0.3)
    stream.stop()

    assert by_n == counted(stream.run, "by_n")
    assert by_m == counted(stream.run, "by_m")
    # It did change all of them, and the keyed operators among them.
    applied = [decision.plan for decision in stream.run.decisions if decision.applied]
    assert [] == [decision.refused for decision in stream.run.decisions if decision.refused]
    assert {"by_n", "by_m"} <= {name for plan in applied for name in plan.parallelism}
    shared = {str(how)[: len("LocalOrShuffle")] for p in applied for how in p.scheduling.values()}
    assert {repr(LocalOrShuffle())[: len("LocalOrShuffle")]} < shared
    assert len({plan.admit["in"] for plan in applied if plan.admit}) > 3
