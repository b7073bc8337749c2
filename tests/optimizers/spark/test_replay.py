"""The source of a recording by itself: what it answers when Spark asks, of whichever version."""

import pyarrow as pa
import pytest

from optimizers import Topology
from optimizers.errors import CheckpointError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark import SparkEngine, replay
from optimizers.spark.replay import ReplayReader, admit


@pytest.fixture
def location(tmp_path):
    found = Location(tmp_path)
    content = pa.BufferOutputStream()
    table = pa.table({"k": list(range(100))})
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table)
    found.write_new("recorded/in.arrow", content.getvalue())
    admit(found, "in", 30)
    return found


def reader(location):
    return ReplayReader(location, "in", 2)


def rows_between(source, start, end):
    parts = source.partitions(start, end)
    return [row for part in parts for batch in source.read(part) for row in batch["k"].to_pylist()]


def test_a_batch_ends_where_as_many_are_let_in_as_are_admitted_by_then(location):
    source = reader(location)

    assert {"row": 0} == source.initialOffset()
    assert {"row": 30} == source.latestOffset({"row": 0}, None)
    admit(location, "in", 60)
    assert {"row": 90} == source.latestOffset({"row": 30}, None)
    assert {"row": 100} == source.latestOffset({"row": 90}, None)
    assert list(range(30, 90)) == rows_between(source, {"row": 30}, {"row": 90})


class TestWhereSparkDoesNotSayWhereABatchBegins:
    """As Spark 4.1: it asks `latestOffset()`, logs that, and then asks for the partitions."""

    @pytest.fixture(autouse=True)
    def of_old(self, monkeypatch):
        monkeypatch.setattr(replay, "_TELLS_START", False)

    def test_the_source_remembers_it(self, location):
        source, start, read = reader(location), {"row": 0}, []
        for expected in (30, 60, 90, 100, 100):
            assert {"row": expected} == source.latestOffset()
            assert {"row": expected} == source.latestOffset()  # nothing was read meanwhile
            read += rows_between(source, start, {"row": expected})
            start = {"row": expected}

        assert list(range(100)) == read

    def test_a_query_that_goes_on_reads_each_row_once(self, location):
        first = reader(location)
        rows_between(first, {"row": 0}, first.latestOffset())
        assert {"row": 60} == first.latestOffset()  # logged, and the driver dies before it is read

        # The batch that was begun is read again, and the next one begins behind it.
        again = reader(location)
        assert list(range(30, 60)) == rows_between(again, {"row": 30}, {"row": 60})
        assert {"row": 90} == again.latestOffset()
        # One that was done is not.
        assert {"row": 90} == reader(location).latestOffset()


@pytest.mark.skipif(not replay._TELLS_START, reason="this Spark does not say it")  # noqa: SLF001
def test_nothing_is_written_where_spark_says_it(location):
    source = reader(location)
    rows_between(source, {"row": 0}, source.latestOffset({"row": 0}, None))

    assert not location.exists("read/in")


@pytest.mark.spark
class TestWhoseFolderItIs:
    TUPLES = pa.table({"k": ["a"]})

    def test_nothing_is_recorded_among_the_files_of_others(self, spark, tmp_path):
        (tmp_path / "notes.txt").write_text("ours")
        engine = SparkEngine(checkpoint=tmp_path, spark=spark)

        with pytest.raises(CheckpointError, match=r"is not a checkpoint, and holds 'notes.txt'"):
            engine.replay("in", self.TUPLES, rows=1)

        assert ["notes.txt"] == [path.name for path in tmp_path.iterdir()]

    def test_nothing_is_recorded_for_a_job_without_this_source(self, spark, tmp_path):
        engine = SparkEngine(checkpoint=tmp_path, spark=spark)
        Checkpoint.create_or_open(
            Location(tmp_path), Topology.source("posts").then("count", key="k")
        )

        with pytest.raises(CheckpointError, match=r"job without a source 'in': it has 'posts'"):
            engine.replay("in", self.TUPLES, rows=1)

        assert not (tmp_path / "recorded").exists()
        engine.replay("posts", self.TUPLES, rows=1)
        engine.replay("posts", self.TUPLES, rows=1)
        assert (tmp_path / "recorded" / "posts.arrow").exists()
