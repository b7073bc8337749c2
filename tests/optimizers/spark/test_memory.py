"""Nothing grows with the number of batches and plans, neither in the driver nor in workers."""

import gc
import subprocess
import sys
from collections import OrderedDict
from itertools import count
from pathlib import Path
from weakref import ref

import pyarrow as pa
import pytest
import soak_memory

from grouping.routing_table import RoutingTable
from optimizers import Cluster, Fixed, Plan, Topology
from optimizers.folds import Count, each_row
from optimizers.layout import Layout
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import JobContext, Settings, Ticket
from optimizers.spark import SparkEngine, broadcasts, tasks
from optimizers.spark.broadcasts import Broadcasts
from optimizers.spark.tasks import SharedWork

pytestmark = pytest.mark.spark


def test_nothing_grows_over_fourteen_plans_of_many_keys():
    # In a process and a session of its own: that of the tests holds what all of them have left.
    asked = ("--batches=16", "--plans=14", "--keys=50000", "--samples=5")
    done = subprocess.run(
        (sys.executable, soak_memory.__file__, *asked), capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"


JOB = Topology.source("s").then("a", key="k", parallelism=2, apply=Count())


def work(keys=3):
    table = RoutingTable(range(keys), [0] * keys, 2)
    plan = Plan(routing={"a": table})
    layout = Layout.of(JOB, Cluster.uniform(2), plan)
    return JobContext(layout, {}, Location("nowhere"), Settings())


def files_in(session):
    return {path.name for path in Path(session.sparkContext._temp_dir).iterdir()}  # noqa: SLF001


class TestSharing:
    def test_sends_work_once_and_takes_back_what_was_before(self, spark):
        before, sharing, first, second = (
            files_in(spark),
            Broadcasts(spark.sparkContext),
            work(),
            work(),
        )

        one = sharing.of(first)
        assert one is sharing.of(first)
        assert 1 == len(files_in(spark) - before)
        other = sharing.of(second)

        assert one.run == other.run
        assert one.plan != other.plan
        assert 1 == len(files_in(spark) - before)
        sharing.end()
        sharing.end()
        assert before == files_in(spark)

    def test_sends_work_again_after_it_was_taken_back(self, spark):
        sharing, job = Broadcasts(spark.sparkContext), work()
        first = sharing.of(job)
        sharing.end()

        again = sharing.of(job)

        assert again != first
        assert spark.sparkContext.parallelize([0], 1).map(
            lambda _: again.get().layout.topology.operator("a").parallelism
        ).collect() == [2]
        sharing.end()

    def test_sends_a_large_ticket_once_a_batch_and_takes_it_back(self, spark, monkeypatch):
        before, sharing = files_in(spark), Broadcasts(spark.sparkContext)
        small, large, next_one = (Ticket(number, first=False, state={}) for number in range(3))
        assert small is sharing.ticket(small)
        monkeypatch.setattr(broadcasts, "_LARGE", 10)

        one = sharing.ticket(large)
        assert one is sharing.ticket(large)
        assert 1 == len(files_in(spark) - before)
        assert spark.sparkContext.parallelize([0], 1).map(lambda _: one.value.batch).collect() == [
            1
        ]
        sharing.ticket(next_one)
        assert 1 == len(files_in(spark) - before)
        sharing.end()
        assert before == files_in(spark)

    def test_a_run_with_large_tickets_leaves_nothing_behind(self, spark, tmp_path, monkeypatch):
        monkeypatch.setattr(broadcasts, "_LARGE", 10)
        before = files_in(spark)
        engine = SparkEngine(checkpoint=str(tmp_path / "job"), spark=spark)
        rows = spark.createDataFrame(pa.table({"k": [1, 2, 3]}))

        run = engine.run(JOB, [rows, rows, rows])

        assert [3, 3, 3] == run.state("a").column("count").to_pylist()
        assert before == files_in(spark)

    def test_a_run_leaves_nothing_behind_when_its_batches_are_done(self, spark, tmp_path):
        before = files_in(spark)
        engine = SparkEngine(checkpoint=str(tmp_path / "job"), spark=spark, every=1)
        rows = spark.createDataFrame(pa.table({"k": [1, 2, 3]}))

        run = engine.run(JOB, [rows, rows], Fixed(Plan(parallelism={"a": 2})))

        assert before == files_in(spark)
        run.execute(rows)  # it goes on all the same
        assert [3, 3, 3] == run.state("a").column("count").to_pylist()
        run.rest()
        assert before == files_in(spark)


def test_workers_have_little_to_collect_after_a_task(spark, tmp_path):
    def to_be_collected(row):  # workers cannot import this file
        return {"left": len(gc.get_objects()), "set_aside": gc.get_freeze_count()}

    engine = SparkEngine(checkpoint=str(tmp_path / "job"), spark=spark)
    rows = spark.createDataFrame(pa.table({"k": [1, 2, 3]}))
    job = Topology.source("s").then("look", parallelism=1, apply=each_row(to_be_collected))

    run = engine.run(job, [rows] * 12)

    (seen,) = run.outputs()["look"].slice(0, 1).to_pylist()
    assert seen["left"] < seen["set_aside"] / 5


class Pickled:
    """Work as a worker finds it."""

    def __init__(self, value):
        self.value = value


class TestProcesses:
    task = 0

    @pytest.fixture(autouse=True)
    def _new_process(self, monkeypatch):
        monkeypatch.setattr(tasks, "_WORK", OrderedDict())
        monkeypatch.setattr(tasks.pa, "set_cpu_count", lambda count: None)
        monkeypatch.setattr(tasks.pickle, "loads", work)
        self.frozen_before = []
        monkeypatch.setattr(tasks, "_TASKS", count(1))
        monkeypatch.setattr(tasks.gc, "freeze", lambda: self.frozen_before.append(self.task))

    def test_set_aside_what_stays_before_fewer_and_fewer_tasks(self):
        for self.task in range(1, 101):
            SharedWork("run", 1, Pickled(3)).get()

        assert [1, 2, 4, 8, 16, 32, 64] == self.frozen_before

    def test_keep_the_work_of_one_plan_of_a_run(self):
        first = SharedWork("run", 1, Pickled(3)).get()
        known = ref(first)
        assert first is SharedWork("run", 1, Pickled(3)).get()
        del first

        second = SharedWork("run", 2, Pickled(4)).get()

        assert known() is None
        assert 4 == len(second.topology.grouping("s", "a"))

    def test_keep_the_work_of_several_runs_that_take_turns(self):
        runs = [SharedWork(f"run {n}", 1, Pickled(n)) for n in range(4)]
        found = [run.get() for run in runs]

        assert all(run.get() is work for run, work in zip(runs, found, strict=True))

    def test_forget_the_run_that_did_nothing_for_the_longest_time(self):
        runs = [SharedWork(f"run {n}", 1, Pickled(n)) for n in range(5)]
        found = [run.get() for run in runs[:4]]
        runs[0].get()
        runs[4].get()

        assert runs[0].get() is found[0]
        assert runs[1].get() is not found[1]
