"""What feeds a job: history first and live data then, in any turn, and every row counts once."""

import logging
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimizers import Optimizer, Plan
from optimizers import Topology as Job
from optimizers.errors import CheckpointError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark import Sized, SparkEngine
from optimizers.spark.broadcasts import Broadcasts

pytestmark = pytest.mark.spark

JOB = Job.source("in").then("count", key="k", parallelism=2)


def rows(spark, *keys):
    return spark.createDataFrame(pa.table({"k": list(keys)}))


def write(folder, *files):
    """Write files to be streamed, each with the keys that its letters are."""
    folder.mkdir(exist_ok=True)
    for name in files:
        pq.write_table(pa.table({"k": list(name)}), folder / f"{name}.parquet")


def files(spark, folder, at_once=1):
    stream = spark.readStream.schema("k string").option("maxFilesPerTrigger", at_once)
    return stream.parquet(str(folder))


def counts(run):
    return {row["k"]: row["count"] for row in run.state("count").to_pylist()}


class Sink:
    """Keeps what it is handed, by batch, each time that it is."""

    def __init__(self):
        self.handed = []

    def __call__(self, frame, batch):
        self.handed.append((batch, {row["k"]: row["count"] for row in frame.collect()}))

    @property
    def batches(self):
        return [batch for batch, _ in self.handed]


def live(engine, spark, folder, sink=None, **options):
    """Stream all files that are there, to the end."""
    started = engine.start(
        JOB, files(spark, folder), each_batch=sink, trigger={"availableNow": True}, **options
    )
    assert started.wait(120)
    return started.run


@pytest.fixture
def engine(spark, tmp_path):
    return SparkEngine(checkpoint=str(tmp_path / "kept"), spark=spark, every=100)


class TestHistoryThenLive:
    def test_every_row_counts_once_and_each_batch_is_handed_out_as_what_it_is(
        self, spark, engine, tmp_path
    ):
        history, sink = Sink(), Sink()
        engine.run(JOB, [rows(spark, "a"), rows(spark, "a", "b")], each_batch=history)
        write(tmp_path / "in", "abc", "c", "ad")

        run = live(engine, spark, tmp_path / "in", sink)

        every = Counter("a" + "ab" + "abc" + "c" + "ad")
        assert every == counts(run)
        assert [0, 1] == history.batches
        assert [1, 2, 3, 4] == sink.batches  # the last one of before once more, for who knows
        assert history.handed[1] == sink.handed[0]
        assert set("abcd") == set().union(*(found for _, found in sink.handed[1:]))

    def test_in_turn(self, spark, engine, tmp_path):
        folder = tmp_path / "in"
        engine.run(JOB, rows(spark, *"aab"), names=["monday"])
        write(folder, "abc")
        live(engine, spark, folder)
        engine.run(JOB, [rows(spark, *"x"), rows(spark, *"bd")], names=["monday", "tuesday"])
        write(folder, "dd")
        live(engine, spark, folder)
        run = engine.run(JOB, rows(spark, *"ae"), names=["wednesday"])

        assert Counter("aab" + "abc" + "bd" + "dd" + "ae") == counts(run)
        progress = run.progress
        assert (3, ("monday", "tuesday", "wednesday")) == (progress.bounded, progress.names)
        assert [1] == [last.number for last in progress.streams.values()]

    def test_a_batch_that_spark_replays_is_not_counted_or_handed_out_as_another(
        self, spark, engine, tmp_path
    ):
        folder, sink = tmp_path / "in", Sink()
        write(folder, "abc")
        live(engine, spark, folder)
        noted = Path(engine.checkpoint, "spark", "commits")
        (noted / "0").unlink()
        (noted / ".0.crc").unlink()

        live(engine, spark, folder, sink)
        assert [(0, dict.fromkeys("abc", 1))] == sink.handed

        engine.run(JOB, rows(spark, "z"))
        (noted / "0").unlink()
        (noted / ".0.crc").unlink()
        run = live(engine, spark, folder, sink)

        assert Counter("abcz") == counts(run)
        assert [0, 1] == sink.batches
        assert {"z": 1} == sink.handed[1][1]


class TestRunningAgain:
    def test_is_refused_with_both_ways_out(self, spark, engine):
        sink = Sink()
        engine.run(JOB, rows(spark, "a"))

        with pytest.raises(CheckpointError, match=r"resume=True .* names=\[...\]"):
            engine.run(JOB, rows(spark, "b"), each_batch=sink)
        with pytest.raises(CheckpointError, match="'first' may be one of them"):
            engine.run(JOB, rows(spark, "a"), names=["first"], each_batch=sink)

        assert [] == sink.handed
        assert {"a": 1} == counts(engine.run(JOB, []))

    def test_with_names_runs_what_is_new_and_tells_what_is_not(self, spark, engine, caplog):
        sink = Sink()
        engine.run(JOB, [rows(spark, "a"), rows(spark, "b")], names=["a", "b"])

        with caplog.at_level(logging.WARNING, logger="optimizers"):
            run = engine.run(
                JOB,
                [rows(spark, key) for key in "abc"],
                names=["a", "b", "c"],
                each_batch=sink,
            )

        assert ["a", "b"] == run.skipped
        assert ["2 batches are done already and were skipped: a, b"] == [
            record.getMessage() for record in caplog.records
        ]
        assert [(1, {"b": 1}), (2, {"c": 1})] == sink.handed
        assert Counter("abc") == counts(run)

    def test_with_names_adds_to_batches_without_if_that_is_said(self, spark, engine):
        engine.run(JOB, rows(spark, "a"))
        for _ in range(2):
            run = engine.run(JOB, rows(spark, "b"), names=["b"], append=True)

        assert ["b"] == run.skipped
        assert Counter("ab") == counts(run)

    def test_with_all_of_them_runs_the_rest(self, spark, engine):
        batches = [rows(spark, key) for key in "abc"]
        engine.run(JOB, batches[:2])

        run = engine.run(JOB, batches, resume=True)

        assert Counter("abc") == counts(run)
        assert ["0", "1"] == run.skipped


class TestStreamsOfWhichSparkKnowsNothing:
    @pytest.fixture
    def folder(self, spark, engine, tmp_path):
        write(tmp_path / "in", "abc", "d")
        live(engine, spark, tmp_path / "in")
        return tmp_path / "in"

    def test_are_refused_before_a_row_is_read(self, spark, engine, folder):
        shutil.rmtree(Path(engine.checkpoint, "spark"))

        with pytest.raises(CheckpointError, match=r"2 batches of .*another one \(new\).*append"):
            live(engine, spark, folder)

        assert not Path(engine.checkpoint, "spark").exists()
        assert Counter("abcd") == counts(engine.run(JOB, []))

    def test_are_further_input_if_that_is_said(self, spark, engine, folder):
        shutil.rmtree(Path(engine.checkpoint, "spark"))
        write(folder.parent / "more", "ax", "y")

        live(engine, spark, folder.parent / "more", append=True)
        write(folder.parent / "more", "zz")
        run = live(engine, spark, folder.parent / "more")

        assert Counter("abcd" + "ax" + "y" + "zz") == counts(run)
        assert [1, 2] == sorted(last.number for last in run.progress.streams.values())

    @pytest.mark.parametrize(
        ("harm", "told"),
        [
            (lambda kept: shutil.copytree(kept / "early", kept / "spark"), "would count twice"),
            (lambda kept: _forget(kept, 1), "would be lost"),
        ],
        ids=["older than the state", "newer than the state"],
    )
    def test_are_refused_where_spark_and_state_are_of_two_times(
        self, spark, engine, tmp_path, harm, told
    ):
        kept = Path(engine.checkpoint)
        folder = tmp_path / "in"
        for number, name in enumerate(("ab", "c", "d")):
            write(folder, name)
            live(engine, spark, folder)
            if number == 0:
                shutil.copytree(kept / "spark", kept / "early")
        if told == "would count twice":
            shutil.rmtree(kept / "spark")
        harm(kept)
        write(folder, "e")

        with pytest.raises(CheckpointError, match=told):
            live(engine, spark, folder)


def _forget(kept, batches):
    """Go back to an older state, as from a copy of all but what Spark keeps."""
    names = sorted((kept / "commits").iterdir())
    for name in names[-batches:]:
        name.unlink()


def slow(begun, ended, seconds=1.5):
    def hand_out(frame, batch):
        begun.set()
        time.sleep(seconds)
        ended.append((batch, frame.count()))

    return hand_out


class Growing(Optimizer):
    """Lets ten more in each time that it is asked."""

    def plan(self, topology, cluster, statistics, current):
        return Plan(admit={"in": current.admit.get("in", 10) + 10}) if statistics else Plan()


def rate(spark, size=10):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size)
    return stream.load().selectExpr("cast(value % 7 AS string) AS k")


class TestStopping:
    def test_lets_the_batch_at_hand_finish_and_hands_it_out(self, spark, engine, capfd):
        begun, ended = threading.Event(), []
        started = engine.start(JOB, rate(spark), each_batch=slow(begun, ended))
        assert begun.wait(60)

        started.stop()

        last = started.run.progress.streams[started.query.id].number
        assert last == len(ended) - 1 == started.run.next_batch - 1
        assert started.wait(10)
        assert started.query.exception() is None
        assert [] == Checkpoint.open(Location(engine.checkpoint)).drivers()
        assert "Error" not in capfd.readouterr().err
        # So Spark knows that it is done, and nothing is handed out twice.
        handed = []
        again = engine.start(JOB, rate(spark), each_batch=lambda _, batch: handed.append(batch))
        while not handed:
            assert not again.wait(0.1)
        again.stop()
        assert last + 1 == handed[0]
        assert len(handed) == len(set(handed))
        assert 10 * again.run.next_batch == sum(counts(again.run).values())

    def test_may_be_asked_for_by_a_batch(self, spark, engine):
        handed = []

        def enough(frame, batch):
            handed.append(batch)
            if batch == 2:
                started.stop()

        started = engine.start(JOB, rate(spark), each_batch=enough)

        assert started.wait(60)
        assert [0, 1, 2] == handed
        assert started.query.exception() is None

    def test_cuts_off_a_batch_that_takes_too_long(self, spark, engine, caplog):
        begun, ended = threading.Event(), []
        started = engine.start(JOB, rate(spark), each_batch=slow(begun, ended, seconds=9))
        assert begun.wait(60)

        with caplog.at_level(logging.WARNING, logger="optimizers"):
            started.stop(patience=0.2)

        assert "longer than 0.2 s and is cut off" in caplog.text

    def test_a_batch_of_a_resized_source_hands_it_out_once(self, spark, engine, tmp_path):
        handed = Counter()
        started = SparkEngine(checkpoint=engine.checkpoint, spark=spark, every=2).start(
            JOB,
            Sized(lambda size: rate(spark, size), 10),
            Growing(),
            each_batch=lambda _, batch: handed.update([batch]),
        )
        while max(handed, default=0) < 12:
            assert not started.wait(0.05)
        started.stop()

        assert {1} == set(handed.values())
        assert sum(decision.applied for decision in started.run.decisions) >= 4


def test_executors_that_do_not_share_the_folder_are_told_of(spark, engine, monkeypatch):
    made = Broadcasts.__init__

    def elsewhere(self, context, checkpoint=None):
        made(self, context, "the checkpoint that the driver sees")

    monkeypatch.setattr(Broadcasts, "__init__", elsewhere)

    with pytest.raises(CheckpointError, match="executors do not share this folder"):
        engine.run(JOB, rows(spark, "a"))


def test_a_driver_says_that_it_works_for_as_long_as_it_does(spark, engine):
    checkpoint = Checkpoint.create_or_open(Location(engine.checkpoint), JOB)
    left = checkpoint.announce()  # by one that was ended without a word
    seen = []

    run = engine.run(JOB, rows(spark, "a"), each_batch=lambda *_: seen.append(checkpoint.drivers()))

    assert [1] == [len(found) for found in seen]
    assert left not in seen[0]
    assert [] == checkpoint.drivers()
    run.execute(rows(spark, "b"))
    assert 1 == len(checkpoint.drivers())


def test_as_many_batches_are_kept_as_readers_want(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, keep=5, every=100)
    run = engine.run(JOB, [])
    for _ in range(16):
        run.execute(rows(spark, "a"))

    assert tuple(range(11, 16)) == Checkpoint.open(Location(str(tmp_path))).batches()
