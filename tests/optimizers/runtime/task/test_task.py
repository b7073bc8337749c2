"""One task: the same parcels whatever came first, names of keys, errors that say where."""

from dataclasses import replace

import any_job
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import rows_of

from optimizers import Cluster, Edge, LocalOrShuffle, Operator, Plan, Topology
from optimizers.errors import DeliveryError, FoldError, FunctionError, StateError
from optimizers.folds import Count, Emit, Sum, each_row
from optimizers.layout import Layout
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.parcels import REPORT, Parcel, as_batches, from_batches, packed
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.task.task import run_source, run_task
from optimizers.runtime.work import JobContext, Settings, Ticket


def work_of(job, folder="/nowhere", plan=None, **settings):
    plan = plan or Plan()
    layout = Layout.of(job, Cluster.uniform(2), plan)
    return JobContext(layout, plan.batch, Location(str(folder)), Settings(**settings))


FIRST = Ticket(0, first=True, state={})


def split(batches):
    """Parcels of tuples as plain values, and reports."""
    parcels = list(from_batches(batches))
    tuples = [p for p in parcels if p.edge != REPORT]
    reports = [Reports.from_parcel(p) for p in parcels if p.edge == REPORT]
    return sorted(map(plain, tuples)), rows_of(reports)


def plain(parcel):
    fields = parcel.task, *parcel.order, parcel.target, parcel.rows
    return *fields, bytes(memoryview(parcel.body))


def from_source(work, rows, *, cuts=1, sender=0):
    table = pa.table(rows) if isinstance(rows, dict) else rows
    batches = table.to_batches(max_chunksize=max(1, len(table) // cuts))
    return list(run_source(work, FIRST, work.topology.sources[0], sender, batches))


@settings(max_examples=40)
@given(st.data(), st.integers(0, 1 << 20))
def test_tasks_make_the_same_parcels_in_whatever_order_theirs_arrive(data, seed):
    drawn = data.draw(any_job.jobs(4, least=2))
    (batch,) = data.draw(any_job.streams(drawn, 1, sizes=st.sampled_from((9, 40))))
    random = np.random.default_rng(seed)
    with any_job.temporary() as folder:
        work = work_of(drawn.topology, folder, parcel=5)
        arriving = [
            made
            for source, partitions in batch.items()
            for sender, batches in enumerate(partitions)
            for made in run_source(work, FIRST, source, sender, batches)
        ]
        for stage, tasks in list(enumerate(work.layout.stages))[1:]:
            one, other = (any_job.dealt(arriving, len(tasks), random) for _ in range(2))
            arriving = []
            for task in range(len(tasks)):
                cache.forget()
                first = list(run_task(work, FIRST, stage, task, one[task]))
                cache.forget()
                second = list(run_task(work, FIRST, stage, task, other[task]))
                assert split(first)[0] == split(second)[0]
                arriving += first


@pytest.mark.parametrize("emit", [Emit.TUPLES, Emit.CHANGES])
def test_what_a_keyed_operator_makes_of_tuples_does_not_depend_on_how_they_were_packed(emit):
    job = Topology.source("s").then("a", key="k", apply=Sum("n", emit=emit)).then("b")
    rows = {"k": np.arange(60) % 7, "n": np.arange(60)}
    made = []
    for most in (1, 7, 1000):
        with any_job.temporary() as folder:
            work = work_of(job, folder, Plan(batch={"s": most}))
            parcels, _ = split(run_task(work, FIRST, 1, 0, from_source(work, rows, cuts=most)))
            made.append(parcels)

    assert made[0] == made[1] == made[2]
    assert made[0]


def test_a_source_may_have_more_partitions_than_instances(tmp_path):
    work = work_of(Topology.source("s", parallelism=2), tmp_path)

    reports = [split(from_source(work, {"k": [1]}, sender=sender))[1][0] for sender in range(5)]

    assert [0, 1, 0, 1, 0] == [report.instance for report in reports]
    assert [0, 1, 2, 3, 4] == [report.sender for report in reports]
    assert 5 == len({report.output[0].path for report in reports})


def test_a_task_without_tuples_reports_and_leaves_nothing(tmp_path):
    job = Topology.source("s").then("a", key="k").then("b", apply=any_job.odd)
    work = work_of(job, tmp_path)

    for stage in (1, 2):
        parcels, (report,) = split(run_task(work, FIRST, stage, 0, []))
        assert [] == parcels
        assert (0, 0, (), None) == (report.tuples, report.emitted, report.output, report.state)
    assert {} == work.location.list("state")
    assert {} == work.location.list("output")


def test_empty_batches_are_nothing(tmp_path):
    work = work_of(Topology.source("s", apply=any_job.twice), tmp_path)
    empty = any_job.empty(pa.schema([("k", pa.int64())]))

    parcels, (report,) = split(run_source(work, FIRST, "s", 0, [empty, empty]))

    assert ([], 0, ()) == (parcels, report.emitted, report.output)


def test_what_leaves_the_job_is_written_only_if_it_is_wanted(tmp_path):
    job = Topology.source("s")
    kept, dropped = (
        split(from_source(work_of(job, tmp_path, keep_output=keep), {"k": [1, 2]}))[1][0]
        for keep in (True, False)
    )

    assert [2] == [file.rows for file in kept.output]
    assert () == dropped.output
    assert 2 == dropped.emitted


def test_attached_operators_go_on_with_each_batch_where_it_is(tmp_path):
    job = Topology.source("s", parallelism=2)
    job = job.then("odd", parallelism=2, grouping=LocalOrShuffle(), apply=any_job.odd)
    job = job.then("twice", parallelism=2, grouping=LocalOrShuffle(), apply=any_job.twice)
    work = work_of(job.then("a", key="n", after="twice"), tmp_path)

    parcels, reports = split(from_source(work, {"n": range(10)}, cuts=3, sender=1))

    facts = {r.operator: (r.instance, r.sender, r.tuples, r.emitted) for r in reports}
    assert {"s": (1, 1, 10, 10), "odd": (1, 1, 10, 5), "twice": (1, 1, 5, 10)} == facts
    assert 10 == sum(parcel[-2] for parcel in parcels)


class TestFunctions:
    def test_are_called_batch_by_batch(self, tmp_path):
        sizes = []

        def seen(batch):
            sizes.append(len(batch))
            return batch

        work = work_of(Topology.source("s", apply=seen), tmp_path)
        from_source(work, {"k": range(10)}, cuts=3)

        assert [3, 3, 3, 1] == sizes

    def test_keep_the_types_of_their_first_batch(self, tmp_path):
        maybe = each_row(lambda row: {"n": row["n"] if row["n"] < 3 else None})
        work = work_of(Topology.source("s", apply=maybe).then("a", key="n"), tmp_path)

        with pytest.raises(FoldError, match="null"):
            from_source(work, {"n": range(6)}, cuts=2)

        free = work_of(Topology.source("s", apply=maybe).then("a"), tmp_path)
        parcels, _ = split(from_source(free, {"n": range(6)}, cuts=2))
        kinds = {pa.ipc.open_stream(parcel[-1]).schema.field("n").type for parcel in parcels}
        assert {pa.int64()} == kinds

    def test_may_meet_tuples_of_several_sorts(self, tmp_path):
        job = (
            Topology.source("s")
            .also("t")
            .then("j", after=("s", "t"), apply=any_job.twice)
            .then("a", key="k")
        )
        driver = Driver(tmp_path, job)

        driver.batch({"s": pa.table({"k": [1, 2]}), "t": pa.table({"x": ["u"], "k": [2]})})

        assert {1: 2, 2: 4} == driver.results("a")

    def test_say_where_they_failed(self, tmp_path):
        def broken(batch):
            raise RuntimeError("no luck")

        work = work_of(Topology.source("s", parallelism=2, apply=broken), tmp_path)

        line = broken.__code__.co_firstlineno + 1
        with pytest.raises(FunctionError) as failed:
            from_source(work, {"k": [1]}, sender=3)

        said = f"operator 's' raised RuntimeError: no luck, at {__file__}:{line} in broken"
        assert str(failed.value).startswith(f'{said}; the row of batch 0: {{"k": 1}}; mend')
        assert ["at s[1] in batch 0"] == failed.value.__notes__
        assert isinstance(failed.value.__cause__, RuntimeError)

    def test_are_timed_without_what_comes_after(self, tmp_path):
        def busy(batch):
            for _ in range(30):
                pc.sort_indices(batch.column(0))
            return batch

        job = Topology.source("s", apply=busy).then(
            "f", grouping=LocalOrShuffle(), apply=any_job.twice
        )
        rows = {"k": np.random.default_rng(0).random(20_000)}

        _, reports = split(from_source(work_of(job, tmp_path), rows))

        seconds = {report.operator: report.seconds for report in reports}
        assert seconds["s"] > 3 * seconds["f"]


class TestNamesOfKeys:
    def test_follow_those_of_the_operator(self, tmp_path):
        job = Topology(
            (Operator("s"), Operator("t"), Operator("a", ("k", "l"), apply=Count())),
            (Edge("s", "a", None, ("x", "k")), Edge("t", "a", None, ("l", "k"))),
        )
        driver = Driver(tmp_path, job)

        driver.batch(
            {
                "s": pa.table({"x": [1, 1], "k": ["p", "p"]}),
                "t": pa.table({"l": [1, 7], "k": ["p", "q"]}),
            }
        )

        assert {(1, "p"): 3, (7, "q"): 1} == any_job.results_by(driver, "a")

    def test_must_not_be_taken_by_other_columns(self, tmp_path):
        job = Topology((Operator("s"), Operator("a", "k")), (Edge("s", "a", None, "x"),))

        with pytest.raises(FoldError, match=r"edge s -> a: its key 'x' becomes 'k' .*rename one"):
            Driver(tmp_path, job).batch({"s": pa.table({"k": [1], "x": [2]})})

    def test_stay_where_the_target_has_no_key(self, tmp_path):
        job = Topology((Operator("s"), Operator("a")), (Edge("s", "a", None, "x"),))
        work = work_of(job, tmp_path)

        _, reports = split(run_task(work, FIRST, 1, 0, from_source(work, {"x": [2]})))

        (file,) = next(report for report in reports if report.operator == "a").output
        assert ["x"] == pa.parquet.read_table(work.location.path_of(file.path)).column_names


class TestTuplesThatDoNotFit:
    def test_of_two_types_in_one_column(self, tmp_path):
        job = Topology.source("s").also("t").then("a", key="k", after=("s", "t"))
        tables = {"s": pa.table({"k": [1]}), "t": pa.table({"k": pa.array([1], pa.int32())})}

        with pytest.raises(FoldError, match=r"'a': column 'k' is of type int64 .* int32") as failed:
            Driver(tmp_path, job).batch(tables)

        assert ["at a[0] in batch 0"] == failed.value.__notes__

    def test_where_some_lack_a_column_it_is_null(self, tmp_path):
        job = Topology.source("s").also("t").then("a", key="k", after=("s", "t"), apply=Sum("n"))
        tables = {"s": pa.table({"k": [1], "n": [5]}), "t": pa.table({"k": [1, 2]})}
        driver = Driver(tmp_path, job)

        driver.batch(tables)

        assert {1: 5, 2: None} == driver.results("a")

    def test_columns_without_any_value_take_the_type_of_others(self, tmp_path):
        job = Topology.source("s").then("a", key="k", apply=Sum("n"))
        driver = Driver(tmp_path, job)

        driver.batch(
            {"s": [pa.table({"k": [1], "n": pa.nulls(1)}), pa.table({"k": [1], "n": [5]})]}
        )

        assert {1: 5} == driver.results("a")


class TestStrays:
    job = Topology.source("s").then("a", key="k", parallelism=2).also("t").then("b", after="t")

    def parcel(self, **fields):
        batch = pa.record_batch({"k": [1]})
        parcel = Parcel(0, 0, 0, 0, 0, 1, packed(batch))
        return replace(parcel, **fields)

    def test_of_another_instance_are_refused(self):
        batches = as_batches([self.parcel(target=1)])

        with pytest.raises(DeliveryError, match=r"for a\[1\] came to a\[0\]"):
            list(run_task(work_of(self.job), FIRST, 1, 0, batches))

    def test_of_another_operator_are_refused_though_the_number_is_right(self):
        batches = as_batches([self.parcel(edge=1)])

        with pytest.raises(DeliveryError, match=r"for b\[0\] came to a\[0\]"):
            list(run_task(work_of(self.job), FIRST, 1, 0, batches))

    def test_for_nobody_are_refused(self):
        job = Topology(
            (Operator("s"), Operator("a", "k"), Operator("b", "k")),
            (Edge("s", "a"), Edge("a", "b"), Edge("s", "b")),
        )
        batches = as_batches([self.parcel(edge=2, target=7)])

        with pytest.raises(DeliveryError, match=r"for b\[7\] is for no instance"):
            list(run_task(work_of(job), FIRST, 1, 0, batches))

    def test_that_a_key_does_not_belong_to_are_refused(self, tmp_path):
        work = work_of(self.job, tmp_path)
        owner = int(work.layout.owners("a").assign([1])[0])
        wrong = 1 - owner

        with pytest.raises(StateError, match="is owned by"):
            list(run_task(work, FIRST, 1, wrong, as_batches([self.parcel(target=wrong)])))


def test_parcels_for_later_stages_and_reports_are_passed_on(tmp_path):
    job = Topology(
        (Operator("s"), Operator("a", "k", 2), Operator("b", "k", 2)),
        (Edge("s", "a"), Edge("a", "b"), Edge("s", "b")),
    )
    work = work_of(job, tmp_path)
    sent = from_source(work, {"k": range(20)}, sender=3)
    arriving = any_job.dealt(sent, 2, np.random.default_rng(0))

    made = [batch for task in range(2) for batch in run_task(work, FIRST, 1, task, arriving[task])]

    skipping = {plain(p)[1:] for p in from_batches(sent) if p.edge == 2}
    parcels, reports = split(made)
    assert skipping == {parcel[1:] for parcel in parcels if parcel[1] == 2}
    assert all(parcel[0] == parcel[4] for parcel in parcels)
    assert [("a", 0), ("a", 1), ("s", 3)] == sorted((r.operator, r.sender) for r in reports)
    tasks = {p.sender: p.task for p in from_batches(made) if p.edge == REPORT}
    assert {0: 0, 1: 1, 3: 1} == tasks
