"""Where batches on Spark spend their time, beside jobs that are made to spend it somewhere."""

import time

import numpy as np
import pyarrow as pa
import pytest
from listening import Listening
from measuring import measured

from optimizers import Edge, Fixed, Operator, Plan, Topology
from optimizers.control.run_summary import RunSummary
from optimizers.folds import Count, Emit, Max, Min, Together
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.spark import SparkEngine

BUSY, ASLEEP = 0.3, 0.4  # seconds
TOOK = Together(least=Min("took"), most=Max("took"))

pytestmark = pytest.mark.spark


def working(how):
    """Return a function that works so, and tells how long it took; it goes to tasks by value."""

    def work(batch):
        started = time.perf_counter()
        if how == "asleep":
            time.sleep(ASLEEP)
        until = time.process_time() + BUSY
        while how == "busy" and time.process_time() < until:
            pass
        took = time.perf_counter() - started
        return batch.append_column("took", pa.array([took] * len(batch)))

    return work


def timed(how, parallelism):
    """Return a job whose first operator works so, and that keeps how long that took."""
    job = Topology.source("in").then("timed", apply=working(how), parallelism=parallelism)
    return job.then("by_k", key="k", parallelism=2, apply=TOOK)


def times_of(done):
    """Return how long the shortest and the longest call of the only batch took."""
    state = done.state("by_k")
    return min(state.column("least").to_pylist()), max(state.column("most").to_pylist())


def frame(spark, rows, partitions=2):
    numbers = np.arange(rows)
    table = pa.table({"k": numbers % 97, "v": numbers % 31})
    return spark.createDataFrame(table.to_pandas()).repartition(partitions).cache()


@pytest.fixture(scope="module")
def few(spark):
    """Return a few rows, which are there already, in two partitions."""
    rows = frame(spark, 200)
    rows.count()
    return rows


@pytest.fixture(scope="module")
def one(spark):
    """Return a few rows in one partition: so each instance behind it gets one parcel."""
    rows = frame(spark, 200, partitions=1)
    rows.count()
    return rows


def run(spark, folder, job, batches, optimizer=None):
    engine = SparkEngine(checkpoint=str(folder), spark=spark, every=1)
    return engine.run(job, batches, optimizer or Fixed(Plan()))


CHAIN = (
    Topology.source("in", parallelism=2)
    .then("by_k", key="k", parallelism=2, apply=Count(emit=Emit.TUPLES))
    .then("by_v", key="v", parallelism=2)
)
FORK = Topology(
    (
        Operator("in", parallelism=2),
        Operator("map", parallelism=3),
        Operator("by_k", key="k", parallelism=3),
        Operator("by_v", key="v"),
    ),
    (Edge("in", "map"), Edge("map", "by_k"), Edge("map", "by_v")),
)
WIDE = Topology.source("in").then("by_k", key="k", parallelism=7)
FLAT = Topology.source("in").then("map", parallelism=2)
OF_RATE = Topology.source("in").then("by_k", key="k", parallelism=2)


@pytest.mark.parametrize("job", [CHAIN, FORK, WIDE, FLAT], ids=["chain", "fork", "wide", "flat"])
def test_the_parts_of_any_batch_are_the_whole_within_a_twentieth(spark, tmp_path, job):
    sizes = [200, 20_000, 100, 50_000]
    begun = time.perf_counter()
    done = run(spark, tmp_path, job, [frame(spark, rows, 1 + rows % 3) for rows in sizes])
    took = time.perf_counter() - begun

    times = [summary.time for summary in done.batches]
    assert len(times) == len(sizes)
    for size, summary in zip(sizes, done.batches, strict=True):
        found = summary.time
        assert size == found.tuples
        assert abs(found.other) <= 0.05 * found.seconds
        # The whole is what is measured in another way, from the first task to the reports, and
        # what comes before and after.
        assert found.seconds >= summary.seconds
        assert found.seconds - summary.seconds == pytest.approx(
            0.0, abs=found.planning + found.commit
        )
        assert [size for stage in found.stages for size in (stage.size,)][1:] == [
            len(tasks) for tasks in done.layout.stages[1:]
        ]
        names = [name for stage in found.stages for name in stage.operators]
        assert sorted(names) == sorted(job.order)
        assert found.stages[0].reading > 0
        assert all(not stage.reading for stage in found.stages[1:])
    assert sum(found.seconds for found in times) < took
    summary = RunSummary.of(done)
    assert tuple(times) == summary.times == RunSummary.from_json(summary.to_json()).times


@pytest.mark.parametrize("how", ["asleep", "busy"])
def test_work_takes_as_long_as_it_takes_by_the_clock_on_the_wall(spark, tmp_path, one, how):
    listening = Listening()
    done = run(spark, tmp_path, timed(how, 2), [one], listening)

    (_, stage, _) = done.batches[-1].time.stages
    calls = times_of(done)
    assert (("timed",), 2, 1) == (stage.operators, stage.size, stage.turns)
    assert 0.9 * calls[0] <= stage.work <= 1.1 * calls[1]
    told = listening.heard[-1].operators["timed"]
    assert sum(calls) == pytest.approx(told.wall, rel=0.1)
    if how == "busy":
        assert 2 * BUSY == pytest.approx(told.seconds, rel=0.1)
    else:
        assert told.seconds < 0.1 * told.wall


def test_more_instances_than_cores_take_turns(spark, tmp_path, one):
    done = run(spark, tmp_path, timed("asleep", 6), [one, one])

    (_, stage, _) = done.batches[-1].time.stages
    least, most = times_of(done)
    assert 6 == stage.size
    assert 2 <= stage.turns <= 5  # 3, unless one of the two cores was slow to begin
    assert 0.9 * stage.turns * least <= stage.work <= 1.1 * stage.turns * most
    assert stage.seconds > 3 * ASLEEP


@pytest.mark.parametrize(
    ("method", "part"), [("assign", "planning"), ("_write_down", "commit")], ids=["plan", "commit"]
)
def test_what_the_driver_is_slow_at_takes_the_time(  # noqa: PLR0917
    spark, tmp_path, few, monkeypatch, method, part
):
    inner, seconds = getattr(Coordinator, method), []

    def slowly(*given):
        started = time.perf_counter()
        time.sleep(ASLEEP)
        found = inner(*given)
        seconds.append(time.perf_counter() - started)
        return found

    monkeypatch.setattr(Coordinator, method, slowly)
    found = run(spark, tmp_path, WIDE, [few, few]).batches[-1].time

    assert seconds[-1] <= found.parts[part]
    assert found.parts[part] - seconds[-1] < 0.5 * (found.seconds - seconds[-1])
    assert abs(found.other) <= 0.05 * found.seconds


@pytest.mark.parametrize("before", [False, True], ids=["in the same stage", "in one before"])
def test_rows_that_take_time_to_come_are_waited_for(spark, tmp_path, few, before):
    def slowly(batches):
        time.sleep(ASLEEP)
        yield from batches

    slow = few.mapInArrow(slowly, few.schema)
    if before:
        slow = slow.repartition(2)
    done = run(spark, tmp_path, WIDE, [slow, slow])

    found = done.batches[-1].time
    # In the same stage its worker may sleep some milliseconds before ours has begun to wait.
    waited = ASLEEP if before else 0.9 * ASLEEP
    assert waited < found.parts["reading"] < found.seconds - found.planning
    assert abs(found.other) <= 0.05 * found.seconds


def test_large_tuples_take_their_time_on_the_way(spark, tmp_path, few):
    job = Topology.source("in", parallelism=2).then("by_k", key="k", parallelism=2)
    columns = "k", "repeat(cast(v as string), 20000) as body"
    large = few.crossJoin(spark.range(20).select()).selectExpr(*columns).repartition(2).cache()
    large.count()
    small, heavy = (
        run(spark, tmp_path / name, job, [rows, rows]).batches[-1]
        for name, rows in (("small", few), ("heavy", large))
    )

    assert sum(edge.bytes for edge in heavy.edges.values()) > 50e6
    assert heavy.time.parts["shuffle"] > 5 * small.time.parts["shuffle"]
    assert heavy.time.parts["shuffle"] > heavy.time.parts["work"]


def stream(spark, folder, batches, optimizer=None, **options):
    """Return the times of some batches of a stream, but the first, and what Spark tells of them."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    engine = SparkEngine(checkpoint=str(folder), spark=spark, every=1)
    job = rows.selectExpr("value % 97 as k")
    started = engine.start(OF_RATE, job, optimizer or Fixed(Plan()), **options)
    deadline = time.monotonic() + 90
    while started.run.totals.batches < batches and time.monotonic() < deadline:
        started.wait(0.1)
    started.stop()
    triggers = {told["batchId"]: told["durationMs"] for told in started.query.recentProgress}
    known = [(batch.time, triggers.get(batch.batch)) for batch in started.run.batches]
    return [(found, told) for found, told in known if found is not None and told is not None]


@pytest.mark.parametrize("pause", [None, "2 seconds"], ids=["at once", "with pauses"])
def test_the_time_of_a_streams_batch_is_what_its_trigger_takes(spark, tmp_path, pause):
    trigger = {} if pause is None else {"trigger": {"processingTime": pause}}

    @measured
    def compare(folder):
        times = stream(spark, folder, 9, **trigger)
        first, *others = [(found, told["triggerExecution"] / 1e3) for found, told in times]

        assert len(others) >= 6
        assert first[0].trigger is None or first[0].batch > 0
        # What comes after a batch is told with the next, so sums are compared; and after the first
        # batches, which are slow, comes most.
        others = [(found, took) for found, took in others[1:] if found.trigger is not None]
        assert len(others) >= 4
        seconds, took = (
            sum(each) for each in zip(*((f.seconds, t) for f, t in others), strict=True)
        )
        assert took == pytest.approx(seconds, rel=0.05)
        inside = sum(found.seconds - found.trigger for found, _ in others)
        assert inside < 0.95 * took  # or this could not fail
        for found, _ in others:
            assert abs(found.other) <= 0.05 * found.seconds
            assert found.trigger == found.parts["trigger"]

    compare(tmp_path)


def test_time_to_hand_the_output_out_and_to_decide_is_the_triggers(spark, tmp_path):
    def slowly(_, number):
        time.sleep(ASLEEP)

    class Thinking(Listening):
        def plan(self, *given):
            time.sleep(ASLEEP)
            return super().plan(*given)

    times = stream(spark, tmp_path, 5, Thinking(), each_batch=slowly)

    known = [found for found, _ in times if found.trigger is not None]
    assert len(known) >= 2
    assert all(found.trigger > 2 * ASLEEP for found in known)


def test_bounded_data_has_no_trigger(spark, tmp_path, few):
    done = run(spark, tmp_path, FLAT, [few, few])

    assert [0.0, 0.0] == [batch.time.trigger for batch in done.batches]
