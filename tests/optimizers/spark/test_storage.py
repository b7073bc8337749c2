"""Checkpoints where Spark and Python name one folder differently, and on an object store."""

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import s3_server

from optimizers import Topology as Job
from optimizers.cli import main
from optimizers.errors import CheckpointError, SinkError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.disk import NameTakenError, NoFenceError
from optimizers.spark import Location, SparkEngine, ToParquet
from optimizers.spark.hadoop import HadoopGuard, folder_in, location_in

pytestmark = pytest.mark.spark

JOB = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=2)
TABLES = itertools.count()


@pytest.fixture
def mounted(spark, tmp_path):
    """A folder that only Spark knows by this name: Hadoop's connectors are asked for it."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    table = f"table{next(TABLES)}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    settings.set(f"fs.viewfs.mounttable.{table}.link./jobs", folder.as_uri())
    return folder, f"viewfs://{table}/jobs"


def state_of(run):
    columns = run.state("by_user").to_pydict()
    return dict(zip(columns["user"], columns["count"], strict=True))


def test_a_stream_goes_on_where_it_was_by_two_names(spark, mounted, tmp_path):
    folder, name = mounted
    here = Location(folder / "a job", spark=f"{name}/a job")
    engine = SparkEngine(checkpoint=here, spark=spark)
    handed, expected, frame = Counter(), Counter(), spark.range(30).selectExpr("id % 7 as user")
    source = str(tmp_path / "in")

    for turn in range(2):
        frame.write.mode("append").parquet(source)
        expected.update(number % 7 for number in range(30))
        started = engine.start(
            JOB,
            spark.readStream.schema("user bigint").parquet(source),
            each_batch=lambda rows, batch: handed.update(
                {row.user: row["count"] - handed[row.user] for row in rows.collect()}
            ),
            trigger={"availableNow": True},
        )
        assert started.wait(120)
        assert turn == started.run.next_batch - 1
        assert expected == state_of(started.run)

    assert expected == handed
    # Both halves are in the one folder, and nowhere else.
    assert {"commits", "plans", "state", "output", "spark", "penstock.json"} <= {
        path.name for path in (folder / "a job").iterdir()
    }
    assert len(list((folder / "a job" / "spark" / "commits").glob("[0-9]"))) == 2
    assert {"mounted", "in"} == {path.name for path in tmp_path.iterdir()}


FILES, LAST_BEFORE = 5, 1
VICTIM = """
import sys
from optimizers import Topology
from optimizers.spark import Location, SparkEngine, local_session
folder, name, source = sys.argv[1:]
link = "spark.hadoop.fs.viewfs.mounttable.table.link./jobs"
spark = local_session(1, quick_start=True, settings={link: "file:" + folder})
job = Topology.source("in", parallelism=2).then("by_user", key="user", parallelism=2)
stream = spark.readStream.schema("user bigint").option("maxFilesPerTrigger", 1).parquet(source)
engine = SparkEngine(checkpoint=Location(folder + "/job", spark=name + "/job"), spark=spark)
engine.start(job, stream, each_batch=lambda rows, batch: print(batch, flush=True)).wait()
"""


def test_a_job_whose_driver_is_killed_is_compacted_and_goes_on_by_two_names(
    spark, tmp_path, mounted, capsys
):
    folder, name = mounted
    source, users = tmp_path / "in", [[n * n % (7 + part) for n in range(30)] for part in range(9)]
    source.mkdir()
    for part in range(FILES):
        pq.write_table(pa.table({"user": users[part]}), source / f"{part}.parquet")
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(folder), "viewfs://table/jobs", str(source)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # with its Java, and its workers
    ) as victim:
        for line in victim.stdout:
            if int(line) == LAST_BEFORE:
                break
        os.killpg(victim.pid, signal.SIGKILL)
    root = str(folder / "job")
    (left,) = Checkpoint.open(Location(root)).drivers()
    assert victim.pid == left.pid
    assert 0 == main(["state", root, "--compact"])  # as it is known to be gone
    assert "compacted" in capsys.readouterr().out

    for part in range(FILES, FILES + 2):
        pq.write_table(pa.table({"user": users[part]}), source / f"{part}.parquet")
    run = SparkEngine(checkpoint=Location(root, spark=f"{name}/job"), spark=spark).start(
        JOB,
        spark.readStream.schema("user bigint").parquet(str(source)),
        trigger={"availableNow": True},
    )
    assert run.wait(120)

    expected = Counter(user for part in users[: FILES + 2] for user in part)
    assert expected == state_of(run.run)
    assert 0 == main(["state", root, "--compact"])
    assert expected == state_of(run.run)
    assert [] == Checkpoint.open(Location(root)).drivers()


def test_a_recording_is_played_back_by_two_names(spark, mounted):
    folder, name = mounted
    here = Location(folder / "job", spark=f"{name}/job")
    engine = SparkEngine(checkpoint=here, spark=spark)
    users = [number % 5 for number in range(40)]
    stream = engine.replay("in", pa.table({"user": users}), rows=25)

    started = engine.start(JOB, stream)
    try:
        for _ in range(600):
            if started.run.next_batch >= 2:
                break
            started.wait(0.1)
        assert Counter(users) == state_of(started.run)
    finally:
        started.stop()


def test_a_batch_is_run_on_an_object_store(spark):
    with s3_server() as store:
        root = store.uri(store.bucket(), "a%20job")
        engine = SparkEngine(checkpoint=root, spark=spark)
        frames = [spark.range(100).selectExpr("id % 9 as user") for _ in range(3)]

        engine.run(JOB, frames[:2])
        run = engine.run(JOB, frames, resume=True)

        assert 3 == run.next_batch
        assert Counter(n % 9 for n in range(100) for _ in range(3)) == state_of(run)
        assert run.spark_folder.startswith("s3a://bucket-")
        assert run.spark_folder.endswith("/a job/spark")


def test_spark_calls_s3_by_the_connector_that_it_has(spark, monkeypatch):
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    root = "s3://someone:hush@b/job?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    named = Location(root, spark="viewfs://x/job")

    assert "s3a://b/job" == location_in(spark, root).spark
    assert "s3a://b/out" == folder_in(spark, "s3://b/out") == folder_in(spark, "s3n://b/out")
    for other in ("s3a://b/out", "hdfs://n/s3/out", "/s3/out", "s3:out"):
        assert other == folder_in(spark, other)
    with pytest.raises(SinkError, match="batch 0 cannot be written to s3a://b/out/batch=0: "):
        ToParquet("s3://b/out")(spark.range(1), 0)
    settings.set("fs.s3.impl", "com.example.FileSystemOfTheDistribution")
    try:
        assert "s3://b/job" == location_in(spark, root).spark
        assert "s3://b/out" == folder_in(spark, "s3://b/out")
        assert "s3a://b/job" == location_in(spark, "s3a" + root.removeprefix("s3")).spark
        assert "viewfs://x/job" == location_in(spark, named).spark
    finally:
        settings.unset("fs.s3.impl")


def test_of_hadoop_only_what_is_known_to_refuse_is_trusted(spark, mounted):
    folder, name = mounted
    guard = HadoopGuard(spark)

    for write in (guard.create, guard.replace):
        with pytest.raises(NoFenceError, match=r"of file: behind viewfs://.* rename refuses"):
            write(f"{name}/commits/1", b"mine")
    assert [] == [path for path in folder.rglob("*") if path.is_file()]


def test_hadoop_puts_a_file_under_its_name_whole_unless_that_is_taken(spark, mounted):
    # Renaming over a mount of local files is not atomic; how Hadoop is asked can be tried by it.
    folder, name = mounted
    guard = HadoopGuard(spark, atomic={"file"})

    guard.create(f"{name}/a b/1.json", b"mine")
    with pytest.raises(NameTakenError):
        guard.create(f"{name}/a b/1.json", b"yours")

    assert b"mine" == (folder / "a b" / "1.json").read_bytes()
    guard.replace(f"{name}/a b/1.json", b"")
    assert b"" == (folder / "a b" / "1.json").read_bytes()
    assert ["1.json"] == [
        path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"
    ]


def test_a_mount_without_links_and_without_a_fence_is_refused_before_anything_is_done(
    spark, mounted, monkeypatch
):
    def fail(self, target):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    folder, name = mounted
    engine = SparkEngine(checkpoint=Location(folder / "job", spark=f"{name}/job"), spark=spark)

    with pytest.raises(CheckpointError, match=r"no hard links .*; of file: .*one_driver=True"):
        engine.run(JOB, spark.range(5).selectExpr("id as user"))
    one = Location(folder / "job", spark=f"{name}/job", one_driver=True)
    run = SparkEngine(checkpoint=one, spark=spark).run(JOB, spark.range(5).selectExpr("id as user"))
    assert dict.fromkeys(range(5), 1) == state_of(run)
