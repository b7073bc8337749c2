"""Bounded batches of which a plan admits less: cut, every row once, also when a driver dies."""

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest

from optimizers import Optimizer, Plan, compare
from optimizers import Topology as Job
from optimizers.errors import CheckpointError
from optimizers.folds import Count, Emit
from optimizers.spark import SparkEngine
from optimizers.spark.run import Run
from optimizers.strategies.fixed import Fixed

pytestmark = pytest.mark.spark

JOB = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=2)


@dataclass(frozen=True)
class Scripted(Optimizer):
    """Decides what it was told to, epoch by epoch; and first of all."""

    plans: tuple[Plan, ...]

    def plan(self, topology, cluster, statistics, current):
        place = statistics.epoch + 1 if statistics else 0
        return self.plans[place] if place < len(self.plans) else Plan()


def users(first, last):
    return pa.table({"user": [n * n % 11 for n in range(first, last)]})


def counted(*tables):
    return dict(Counter(user for table in tables for user in table.column("user").to_pylist()))


def state_of(run):
    columns = run.state("by_user").to_pydict()
    return dict(zip(columns["user"], columns["count"], strict=True))


def sizes_of(run):
    return [sum(batch.loads("in")) for batch in run.batches]


def test_batches_are_cut_by_what_is_admitted_as_that_changes(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    script = Scripted(
        (Plan(), Plan(admit={"in": 40}), Plan(parallelism={"in": 3}), Plan(admit={"in": 25}))
    )
    tables = [users(0, 100), users(100, 200)]

    run = engine.run(JOB, [spark.createDataFrame(table) for table in tables], script)

    assert [100, 40, 40, 20] == sizes_of(run)
    assert counted(*tables) == state_of(run)
    assert 2 == run.progress.bounded
    assert run.progress.begun is None
    more = [spark.createDataFrame(users(200, 260))]
    again = engine.run(JOB, more, names=["more"], append=True)
    assert [25, 25, 10] == sizes_of(again)
    (refused,) = [each.refused for each in run.decisions if each.refused]
    assert "parallelism['in']=3" in refused
    assert "leave source 'in' out of parallelism" in refused


class KilledError(Exception):
    """What ends a driver in a test."""


def test_a_driver_that_takes_over_goes_on_with_the_rows_that_are_left(spark, tmp_path, monkeypatch):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=9)
    table = users(0, 100)
    hand_out, calls = Run.hand_out, []

    def dies(run):
        calls.append(run.next_batch)
        if run.next_batch == 2:
            raise KilledError
        hand_out(run)

    monkeypatch.setattr(Run, "hand_out", dies)
    with pytest.raises(KilledError):
        engine.run(
            JOB, spark.createDataFrame(table), Fixed(Plan(admit={"in": 30})), names=["monday"]
        )
    monkeypatch.setattr(Run, "hand_out", hand_out)

    with pytest.raises(CheckpointError, match="'monday' was cut, 60 rows of 'in' of it are done"):
        engine.run(JOB, spark.createDataFrame(table), names=["tuesday"])
    with pytest.raises(CheckpointError, match="'monday' was cut"):
        engine.run(JOB, spark.createDataFrame(table))
    run = engine.run(JOB, spark.createDataFrame(table), names=["monday"])

    assert [30, 10] == sizes_of(run)
    assert counted(table) == state_of(run)
    assert ("monday",) == run.progress.names
    assert run.progress.begun is None


@pytest.mark.parametrize("emit", [Emit.CHANGES, Emit.TUPLES])
def test_a_comparison_cuts_the_reference_alike(spark, tmp_path, emit):
    job = Job.source("in", parallelism=2).then(
        "by_user", key="user", parallelism=2, apply=Count(emit=emit)
    )
    variants = {
        "all": None,
        "less": Scripted((Plan(), Plan(admit={"in": 40}))),
    }
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    tables = [users(100 * n, 100 * n + 100) for n in range(3)]

    found = compare(job, tables, variants, engine=engine, warm_up=0)

    assert found.correct, found
    assert [100, 100, 100] == [batch.tuples for batch in found["less"].batches]
    assert [1, 3, 3] == [batch.batches for batch in found["less"].batches]
    assert [1, 1, 1] == [batch.batches for batch in found["all"].batches]
