"""What arrives at the sources of streams on Spark, and what waits, beside what is known of them."""

import itertools
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from listening import Listening
from pyspark.sql import functions

from optimizers import Edge, Operator, Plan, Topology
from optimizers.spark import Sized, SparkEngine

JOB = Topology.source("in", parallelism=2).then("by_key", key="k", parallelism=2)
FILE = 500  # rows

pytestmark = pytest.mark.spark


def engine(spark, folder, every=1):
    return SparkEngine(checkpoint=str(folder), spark=spark, every=every)


def write(folder, number, rows=FILE):
    """Put a file in a folder, whole or not at all."""
    keys = np.arange(rows) + number * rows
    hidden = Path(folder) / f".{number}.tmp"
    pq.write_table(pa.table({"k": keys}), hidden, compression="none", use_dictionary=False)
    hidden.rename(Path(folder) / f"{number:04}.parquet")


def files(spark, folder, **options):
    return spark.readStream.schema("k bigint").options(**options).parquet(str(folder))


def wait_until(is_so, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rows_of_a_known_rate_arrive_at_that_rate(spark, tmp_path):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 333).load()
    listening = Listening()
    run = engine(spark, tmp_path, every=2).start(
        JOB,
        rows.select(functions.col("value").alias("k")),
        listening,
        trigger={"processingTime": "1 second"},
    )
    wait_until(lambda: len(listening.heard) > 4)
    run.stop()

    epochs = listening.sources("in")
    assert len(epochs) >= 4
    if not epochs[0].admitted:  # the first second was not over: how large one is, is not known
        assert epochs[0].arrived is None
        epochs = epochs[1:]
    for seen in epochs:
        assert 333 == pytest.approx(seen.rate, rel=0.01)
        assert seen.admitted % 333 == 0  # Spark lets in whole seconds
    # What came was let in, or waits.
    for before, seen in itertools.pairwise(epochs):
        assert seen.waiting == pytest.approx(before.waiting + seen.arrived - seen.admitted)
    # The time of batches is another one: by it, more would seem to come than does.
    busy = sum(statistics.seconds for statistics in listening.heard[1:])
    assert sum(seen.seconds for seen in listening.sources("in")) > busy


def test_files_that_are_let_in_slowly_wait(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(10):
        write(folder, number)
    listening = Listening()
    run = engine(spark, tmp_path / "job").start(
        JOB, files(spark, folder, maxFilesPerTrigger=2), listening
    )
    wait_until(lambda: len(listening.heard) > 2)
    for number in range(10, 14):
        write(folder, number)
    wait_until(lambda: run.run.totals.tuples == 14 * FILE)
    run.stop()

    epochs = listening.sources("in")
    assert [2 * FILE] * 7 == [seen.admitted for seen in epochs]
    assert epochs[0].waiting is None  # by one batch it is not known that files are alike
    assert 4 * FILE == pytest.approx(sum(seen.arrived or 0.0 for seen in epochs), rel=0.01)
    assert 6 * FILE == pytest.approx(epochs[1].waiting, rel=0.01)
    assert 0.0 == epochs[-1].waiting
    admitted = 0.0
    for place, seen in enumerate(epochs):
        admitted += seen.admitted
        if seen.waiting is not None:
            there = {10 * FILE - admitted, 14 * FILE - admitted}
            there |= {(10 + number) * FILE - admitted for number in range(1, 4)}
            assert any(seen.waiting == pytest.approx(each, rel=0.01) for each in there), place


def test_files_dropped_at_a_known_pace_arrive_at_that_pace(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, 0)
    listening = Listening()
    run = engine(spark, tmp_path / "job", every=2).start(
        JOB, files(spark, folder), listening, trigger={"processingTime": "1 second"}
    )
    wait_until(lambda: run.run.totals.batches >= 1)
    stop, times = threading.Event(), []

    def drop():
        while not stop.wait(0.1 - time.monotonic() % 0.1):
            write(folder, len(times) + 1)
            times.append(time.monotonic())

    dropping = threading.Thread(target=drop)
    dropping.start()
    wait_until(lambda: len(listening.heard) > 4)
    stop.set()
    dropping.join()
    run.stop()

    pace = FILE * (len(times) - 1) / (times[-1] - times[0])
    found = [seen for seen in listening.sources("in")[1:-1] if seen.arrived is not None]
    assert found
    arrived, seconds = (sum(getattr(s, name) for s in found) for name in ("arrived", "seconds"))
    assert pace == pytest.approx(arrived / seconds, rel=0.1)


@pytest.fixture
def lines():
    """Send a line each hundredth of a second to the first to connect; yield port and times."""
    times, stop = [], threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(60.0)

    def send():
        try:
            connection, _ = server.accept()
        except TimeoutError:
            return
        with connection:
            while not stop.wait(0.01 - time.monotonic() % 0.01):
                try:
                    connection.sendall(f"{len(times)}\n".encode())
                except OSError:  # the query is stopped
                    return
                times.append(time.monotonic())

    sending = threading.Thread(target=send)
    sending.start()
    yield server.getsockname()[1], times
    stop.set()
    sending.join()
    server.close()


def test_lines_sent_to_a_socket_at_a_known_pace_arrive_at_that_pace(spark, tmp_path, lines):
    port, times = lines
    rows = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    listening = Listening()
    run = engine(spark, tmp_path, every=2).start(
        JOB,
        rows.select(functions.col("value").cast("bigint").alias("k")),
        listening,
        trigger={"processingTime": "1 second"},
    )
    wait_until(lambda: len(listening.heard) > 4)
    sent = list(times)
    run.stop()

    epochs = listening.sources("in")
    assert epochs[0].arrived is None  # Spark has told of no batch by then
    found = [seen for seen in epochs if seen.arrived]
    assert len(found) >= 2
    pace = (len(sent) - 1) / (sent[-1] - sent[0])
    arrived, seconds = (sum(getattr(s, name) for s in found) for name in ("arrived", "seconds"))
    assert pace == pytest.approx(arrived / seconds, rel=0.1)
    # What came since the last look is not known.
    assert [None] * len(epochs) == [seen.waiting for seen in epochs]


def test_of_a_recording_what_is_not_played_back_waits(spark, tmp_path):
    listening = Listening()
    job = engine(spark, tmp_path)
    rows = job.replay("in", pa.table({"k": np.arange(1000)}), rows=300)
    run = job.start(JOB, rows, listening)
    wait_until(lambda: run.run.totals.tuples == 1000)
    run.stop()

    epochs = listening.sources("in")
    assert [700.0, 400.0, 100.0, 0.0] == [seen.waiting for seen in epochs]
    assert [300.0, 300.0, 300.0, 100.0] == [seen.admitted for seen in epochs]
    assert [0.0] * 4 == [seen.arrived for seen in epochs]


def test_a_stream_that_is_started_again_goes_on_where_it_was(spark, tmp_path):
    done = 0
    for _ in range(2):
        listening = Listening()
        job = engine(spark, tmp_path)
        stream = job.replay("in", pa.table({"k": np.arange(5000)}), rows=100)
        run = job.start(JOB, stream, listening)
        wait_until(lambda run=run: run.run.totals.batches >= 2)
        run.stop()
        for seen in listening.sources("in"):
            done += seen.admitted
            assert (0.0, 5000 - done) == (seen.arrived, seen.waiting)
    assert done >= 400


def test_a_source_that_a_plan_resizes_goes_on_to_be_watched(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(12):
        write(folder, number)
    listening = Listening(plans={3: Plan(admit={"in": 3 * FILE})})
    stream = Sized(lambda rows: files(spark, folder, maxFilesPerTrigger=rows // FILE), FILE)
    run = engine(spark, tmp_path / "job").start(JOB, stream, listening)
    wait_until(lambda: run.run.totals.tuples == 12 * FILE)
    run.stop()

    epochs = listening.sources("in")
    assert [1, 1, 1, 3, 3, 3] == [seen.admitted / FILE for seen in epochs]
    left = [None if seen.waiting is None else round(seen.waiting / FILE, 2) for seen in epochs]
    assert [None, 10.0, 9.0, 6.0, 3.0, 0.0] == left


TWO = Topology(
    (Operator("in"), Operator("more"), Operator("by_key", key="k")),
    (Edge("in", "by_key"), Edge("more", "by_key")),
)


def test_two_sources_of_one_query_are_told_apart(spark, tmp_path):
    listening = Listening()
    job = engine(spark, tmp_path)
    first = job.replay("in", pa.table({"k": np.arange(100)}), rows=30)
    second = job.replay("more", pa.table({"k": np.arange(50)}), rows=5)
    run = job.start(TWO, {"in": first, "more": second}, listening)
    wait_until(lambda: len(listening.heard) > 3)
    run.stop()

    for name, waiting in (("in", [70.0, 40.0, 10.0]), ("more", [45.0, 40.0, 35.0])):
        assert waiting == [seen.waiting for seen in listening.sources(name)[:3]]


def test_a_source_of_two_streams_tells_nothing_and_another_beside_it_does(spark, tmp_path):
    listening = Listening()
    job = engine(spark, tmp_path / "job")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    rate = rate.select(functions.col("value").alias("k"))
    folder = tmp_path / "more"
    folder.mkdir()
    write(folder, 0)
    both = rate.union(files(spark, folder))
    recording = job.replay("more", pa.table({"k": np.arange(50)}), rows=5)
    run = job.start(TWO, {"in": both, "more": recording}, listening)
    wait_until(lambda: len(listening.heard) > 2)
    run.stop()

    for seen in listening.heard[1:3]:
        assert {"more"} == set(seen.sources)
    assert [45.0, 40.0] == [seen.waiting for seen in listening.sources("more")[:2]]


def test_one_stream_given_twice_is_not_told_apart(spark, tmp_path):
    listening = Listening()
    job = engine(spark, tmp_path)
    recording = job.replay("in", pa.table({"k": np.arange(50)}), rows=5)
    run = job.start(TWO, {"in": recording, "more": recording}, listening)
    wait_until(lambda: len(listening.heard) > 2)
    run.stop()

    heard = [seen.sources for seen in listening.heard[1:3]]
    assert heard == [{}, {}] or all(
        seen["in"].waiting in {45.0, 40.0} for seen in heard
    )  # Spark may read it twice, each with an offset of its own


def test_of_a_stream_that_is_thinned_out_as_it_comes_shares_are_seen(spark, tmp_path):
    listening = Listening()
    job = engine(spark, tmp_path)
    recording = job.replay("in", pa.table({"k": np.arange(1000)}), rows=100)
    run = job.start(JOB, recording.where("k % 4 = 0"), listening)
    wait_until(lambda: run.run.totals.tuples == 250)
    run.stop()

    epochs = listening.sources("in")
    assert epochs[0].waiting is None
    assert [200.0, 175.0, 150.0] == [seen.waiting for seen in epochs[1:4]]
    assert 0.0 == epochs[9].waiting


def test_of_bounded_data_nothing_arrives_or_waits(spark, tmp_path):
    listening = Listening()
    batch = spark.createDataFrame([(n,) for n in range(20)], "k bigint")
    engine(spark, tmp_path).run(JOB, [batch, batch], listening)

    assert [{}, {}] == [seen.sources for seen in listening.heard[1:]]
