"""A driver that has begun, and has run nothing yet: no command takes its files away."""

import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimizers import Topology
from optimizers.cli import main
from optimizers.errors import CheckpointError
from optimizers.runtime.log import checkpoint as log
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark import Sized, SparkEngine

pytestmark = pytest.mark.spark

JOB = Topology.source("in").then("count", key="k", parallelism=2)


def rows(spark, keys):
    return spark.createDataFrame(pa.table({"k": list(keys)}))


def counts(run):
    return {row["k"]: row["count"] for row in run.state("count").to_pylist()}


@pytest.fixture
def engine(spark, tmp_path):
    made = SparkEngine(checkpoint=str(tmp_path / "kept"), spark=spark, every=100)
    made.run(JOB, [rows(spark, "abcdefghij"), rows(spark, "a"), rows(spark, "bc")])
    return made


@pytest.fixture
def compact(engine, capsys):
    def run():
        code = main(["state", engine.checkpoint, "--compact"])
        return code, capsys.readouterr().err

    return run


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    return made


def drivers(engine):
    return Checkpoint.open(Location(engine.checkpoint)).drivers()


def test_a_stream_that_idles_is_not_compacted_away(spark, engine, compact, folder):
    started = engine.start(JOB, spark.readStream.schema("k string").parquet(str(folder)))
    try:
        code, told = compact()
        assert 2 == code
        assert f"may be in use by {drivers(engine)[0]}" in told
        pq.write_table(pa.table({"k": ["a", "z"]}), folder / "1.parquet")
        while started.run.next_batch < 4:
            assert not started.wait(0.1)
    finally:
        started.stop()

    assert Counter("abcdefghij" + "a" + "bc" + "az") == counts(started.run)
    assert [] == drivers(engine)
    assert 0 == compact()[0]


def test_so_is_a_bounded_run_before_its_first_batch(spark, engine, compact):
    codes = []

    def made():
        codes.append(compact()[0])
        yield rows(spark, "z")

    run = engine.run(JOB, made(), names=["z"], append=True)

    assert [2] == codes
    assert Counter("abcdefghij" + "a" + "bc" + "z") == counts(run)


def test_one_that_rested_goes_on_from_the_files_that_are_there(spark, engine, compact):
    run = engine.run(JOB, [])
    assert 0 == compact()[0]

    run.execute(rows(spark, "z"))
    run.rest()

    assert Counter("abcdefghij" + "a" + "bc" + "z") == counts(run)


def fail(rows):
    raise RuntimeError("no such topic")


def test_a_start_that_is_refused_keeps_nobody_away(spark, engine, folder, monkeypatch):
    stream = spark.readStream.schema("k string").parquet(str(folder))
    with pytest.raises(RuntimeError, match="no such topic"):
        engine.start(JOB, Sized(fail, 5))
    assert [] == drivers(engine)
    with monkeypatch.context() as broken:

        def unreadable(self, batch):
            raise CheckpointError("the plan is damaged; bring it back")

        broken.setattr(log.Checkpoint, "plan_of", unreadable)
        with pytest.raises(CheckpointError, match="the plan is damaged"):
            engine.start(JOB, stream)

    assert [] == drivers(engine)


def test_two_may_begin_in_one_session_and_the_second_goes_on(spark, engine, folder, compact):
    stream = spark.readStream.schema("k string").parquet(str(folder))
    first, second = engine.start(JOB, stream), engine.start(JOB, stream)
    try:
        assert 2 == len(drivers(engine))
        assert first.wait(60)  # Spark has ended it, as a query has one driver
        assert 1 == len(drivers(engine))
        assert 2 == compact()[0]
        pq.write_table(pa.table({"k": ["z"]}), folder / "1.parquet")
        while second.run.next_batch < 4:
            assert not second.wait(0.1)
    finally:
        second.stop()

    assert {"z": 1}.items() <= counts(second.run).items()
    assert [] == drivers(engine)


def test_files_that_were_compacted_by_force_are_said_to_be(spark, engine, folder, monkeypatch):
    started = engine.start(JOB, spark.readStream.schema("k string").parquet(str(folder)))
    try:
        time.sleep(0.1)
        kept = Checkpoint.open(Location(engine.checkpoint))
        kept.compact()
        kept.clean(alone=True)  # as by a version that did not see drivers that idle
        pq.write_table(pa.table({"k": list("abcdefghij")}), folder / "1.parquet")
        with pytest.raises(CheckpointError, match=r"was rewritten since.*start the job") as raised:
            started.wait(60)
    finally:
        started.stop()

    assert "\n" not in str(raised.value)
