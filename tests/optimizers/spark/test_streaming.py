"""Sources of Spark whose batches a plan sizes: begun again, with every tuple counted once."""

import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimizers import Optimizer, Plan
from optimizers import Topology as Job
from optimizers.errors import InvalidValueError
from optimizers.spark import Sized, SparkEngine, StreamingRun

pytestmark = pytest.mark.spark

NOTHING = Plan()
FILE = 10  # tuples in each file
JOB = Job.source("in").then("by_user", key="user", parallelism=2)


@dataclass(frozen=True)
class Scripted(Optimizer):
    """Decides what it was told to, epoch by epoch; and first of all."""

    plans: tuple[Plan, ...]
    first: Plan = NOTHING

    def plan(self, topology, cluster, statistics, current):
        if not statistics:
            return self.first
        return self.plans[statistics.epoch] if statistics.epoch < len(self.plans) else Plan()


def write_files(folder, numbers):
    """Write files one second after the other, for they are let in by their times."""
    Path(folder).mkdir(exist_ok=True)
    for number in numbers:
        path = f"{folder}/{number:03}.parquet"
        users = [(number * FILE + row) % 7 for row in range(FILE)]
        pq.write_table(pa.table({"user": users}), path)
        os.utime(path, (1e9 + number, 1e9 + number))


def files_in(spark, folder, asked=None):
    def read(rows):
        if asked is not None:
            asked.append(rows)
        stream = spark.readStream.schema("user bigint")
        return stream.option("maxFilesPerTrigger", rows // FILE).parquet(folder)

    return read


def expected(files):
    return dict(Counter(n % 7 for n in range(files * FILE)))


def state_of(run):
    columns = run.state("by_user").to_pydict()
    return dict(zip(columns["user"], columns["count"], strict=True))


def sizes_of(run):
    return [sum(batch.loads("by_user")) for batch in run.batches]


def test_a_plan_sizes_the_batches_of_files(spark, tmp_path):
    folder = str(tmp_path / "in")
    write_files(folder, range(12))
    asked, handed = [], Counter()
    script = Scripted((Plan(), Plan(admit={"in": 30}), Plan(), Plan(admit={"in": 20})))
    engine = SparkEngine(checkpoint=str(tmp_path / "kept"), every=1)

    started = engine.start(
        JOB,
        Sized(files_in(spark, folder, asked), 10),
        script,
        each_batch=lambda rows, number: handed.update([number]),
        trigger={"availableNow": True},
        name="sized",
    )

    assert started.wait(120)
    assert [10, 10, 30, 30, 20, 20] == sizes_of(started.run)
    assert [10, 30, 20] == asked
    assert expected(12) == state_of(started.run)
    assert set(range(6)) == set(handed)
    assert 20 == started.run.plan.admit["in"]
    assert [0, 0, 2, 2, 4, 4] == [batch.planned for batch in started.run.batches]


def test_the_first_plan_and_that_of_a_driver_before_size_the_query_from_its_beginning(
    spark, tmp_path
):
    folder = str(tmp_path / "in")
    engine = SparkEngine(checkpoint=str(tmp_path / "kept"), every=9)
    asked = []
    for files in (range(4), range(4, 8)):
        write_files(folder, files)
        source = Sized(files_in(spark, folder, asked), 10)
        script = Scripted((), first=Plan(admit={"in": 20}))
        started = engine.start(JOB, source, script, trigger={"availableNow": True})
        assert started.wait(120)
        assert [20, 20] == sizes_of(started.run)

    assert [20, 20] == asked
    assert expected(8) == state_of(started.run)


def test_a_job_that_goes_on_for_ever_can_be_waited_for_and_stopped(spark, tmp_path):
    folder = str(tmp_path / "in")
    write_files(folder, range(9))
    plans = tuple(Plan(admit={"in": 10 * (2 + n % 2)}) for n in range(50))
    engine = SparkEngine(checkpoint=str(tmp_path / "kept"), every=1)
    started = engine.start(JOB, Sized(files_in(spark, folder), 10), Scripted(plans))

    try:
        deadline = time.monotonic() + 90
        while sum(sizes_of(started.run)) < 9 * FILE:
            assert time.monotonic() < deadline
            assert not started.wait(0.01)
    finally:
        started.stop()

    assert started.wait(10)
    assert not started.query.isActive
    assert not spark.streams.active
    assert expected(9) == state_of(started.run)
    assert 10 == sizes_of(started.run)[0]
    assert {20, 30} <= set(sizes_of(started.run)[1:])


def test_a_source_that_cannot_be_read_anew_ends_the_job_with_its_error(spark, tmp_path):
    folder = str(tmp_path / "in")
    write_files(folder, range(4))
    read = files_in(spark, folder)

    def failing(rows):
        if rows > 10:
            raise InvalidValueError(f"rows={rows} is too much")
        return read(rows)

    engine = SparkEngine(checkpoint=str(tmp_path / "kept"), every=1)
    started = engine.start(JOB, Sized(failing, 10), Scripted((Plan(admit={"in": 20}),)))

    with pytest.raises(InvalidValueError, match="rows=20"):
        started.wait(60)
    assert not spark.streams.active
    again = engine.start(JOB, Sized(read, 10), Scripted(()), trigger={"availableNow": True})
    assert again.wait(60)
    assert expected(4) == state_of(again.run)


def test_what_is_no_function_and_no_number_is_refused():
    with pytest.raises(InvalidValueError, match="is not a function"):
        Sized("files", 10)
    with pytest.raises(InvalidValueError, match="rows=0"):
        Sized(print, 0)


class Query:
    """Ends as one of Spark does: it counts as ended once it is being stopped."""

    def __init__(self):
        self.ended = threading.Event()

    @property
    def isActive(self):  # noqa: N802
        return not self.ended.is_set()

    def awaitTermination(self, seconds):  # noqa: N802
        return self.ended.wait(seconds)

    def exception(self):
        return None

    def stop(self):
        self.ended.set()


class Resized:
    """A job whose plan resizes its source with the first batch."""

    period = 0.0

    def __init__(self):
        self.rows = {"in": 10}

    def admitted(self, sized):
        return self.rows

    def execute_stream(self, rows, number):
        self.rows = {"in": 20}

    def is_noted(self, number):
        return True

    def rest(self):
        pass


def test_a_query_that_is_being_stopped_to_begin_again_is_not_taken_for_the_end(monkeypatch):
    begin_thread = threading.Thread.start

    def slowly(thread):
        begin_thread(thread)
        time.sleep(0.3)  # the thread is at work before any caller knows

    queries = []

    def begin(batch, rows):
        query = Query()
        queries.append(query)
        if len(queries) == 1:
            first = threading.Timer(0.2, batch, (None, 0))
            begin_thread(first)
        else:
            time.sleep(0.2)  # as it does to begin a query
        return query

    monkeypatch.setattr(threading.Thread, "start", slowly)
    started = StreamingRun(Resized(), begin, {"in": 10})

    assert not started.wait(1.0)
    assert [False, True] == [query.isActive for query in queries]
    started.stop()
    assert started.wait(1.0)
