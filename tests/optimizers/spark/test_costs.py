"""On Spark, too, an optimizer that asks for it learns what the tuples of each key cost."""

import time

import numpy as np
import pyarrow as pa
import pytest

from optimizers import Optimizer, Plan
from optimizers import Topology as Job
from optimizers.folds import each_row
from optimizers.spark.engine import SparkEngine
from optimizers.statistics import Probe

pytestmark = pytest.mark.spark

MILLISECONDS = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0}


class Curious(Optimizer):
    """Asks what tuples cost, and keeps what it is told."""

    def __init__(self):
        self.seen = []

    @property
    def observes(self):
        return frozenset({Probe.COSTS})

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(statistics)
        return Plan()


def busy(kind, costs=MILLISECONDS):  # with its costs, as workers cannot import this module
    """Keep the processor busy for as long as a tuple of a kind costs."""
    end = time.thread_time() + costs[kind] / 1_000
    while time.thread_time() < end:
        pass


def test_costs_by_key_are_what_a_busy_operator_takes(spark, tmp_path):
    def of_rows(row, busy=busy):
        busy(row["kind"])
        return row

    def of_batches(batch, busy=busy):
        for kind in batch.column("kind").to_pylist():
            busy(kind)
        return batch

    job = Job.source("in").then("rows", apply=each_row(of_rows), edge_key="kind", parallelism=2)
    job = job.then("batches", after="in", apply=of_batches, edge_key="kind", parallelism=2)
    job = job.then("counted", after=("rows", "batches"), key="kind")
    kinds = np.random.default_rng(0).choice(list(MILLISECONDS), 400)
    frames = [spark.createDataFrame(pa.table({"kind": kinds})).coalesce(1) for _ in range(3)]
    curious = Curious()

    run = SparkEngine(checkpoint=str(tmp_path), every=3).run(job, frames, curious)

    statistics = curious.seen[-1]
    statistics.check(job)
    for name in ("rows", "batches"):
        sketches = statistics.costs[name]
        assert 2 == len(sketches)
        for sketch in sketches:
            found = 1_000 * sketch.estimate(list(MILLISECONDS))
            # It takes no less than that, but for a wait that is told to the tuple after; how much
            # more is up to what else the machine does to a processor at work.
            assert (found > 0.9 * np.array(list(MILLISECONDS.values()))).all()
            assert sorted(found) == found.tolist()
            assert found[-1] < 2 * MILLISECONDS["d"]
    assert 1_200 == sum(sketch.total for sketch in statistics.costs["rows"])
    counted = dict(zip(*run.state("counted").to_pydict().values(), strict=True))
    assert {kind: 6 * int((kinds == kind).sum()) for kind in MILLISECONDS} == counted
