"""Every tuple counts once: after kills, failures, torn files and full disks, or it is said why."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import killing
import numpy as np
import pyarrow as pa
import pyspark
import pytest
import victim
import victim_task
from cluster.standalone import standalone
from killing import Tally
from pyspark import TaskContext, cloudpickle
from pyspark.errors import StreamingQueryException
from victim import Restless
from victim_task import Task

from optimizers import Cluster, Edge, Operator, Topology
from optimizers.errors import CheckpointError, DeliveryError, FoldError
from optimizers.folds import Count, Emit, Sum
from optimizers.runtime.driver import coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark import shipping
from optimizers.spark.engine import Run, SparkEngine

pytestmark = pytest.mark.spark

# Workers cannot import these modules, so what tasks need of them travels with the tasks.
cloudpickle.register_pickle_by_value(victim)
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_drivers_and_workers_may_be_killed_at_any_moment(tmp_path):
    task = Task(
        folder=str(tmp_path),
        job="fork",
        source="files",
        master="local[2,9]",
        batches=8,
        history=3,
        restless=True,
        bad=True,
    )
    tally = Tally()

    killing.run(task, 3, tally, also=killing.WORKER)

    assert 3 == tally.drivers.total()
    assert [place for place in tally.drivers if place.startswith("in a batch")]
    assert tally.others[killing.WORKER] > 0
    assert tally.plans > 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone(2, folder=tmp_path_factory.mktemp("cluster")) as url:
        yield url


SPECULATION = {
    # A task is tried again on another machine only, so both have to be there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


class TestOnACluster:
    def test_tasks_may_run_twice_at_once(self, cluster, tmp_path):
        task = Task(
            folder=str(tmp_path),
            job="fork",
            source="files",
            master=cluster,
            batches=2,
            slow=3,
            alone=True,
            settings=SPECULATION,
        )

        killing.run(task, 0, Tally())

        assert [path for path in task.attempts.iterdir() if path.name.endswith("-1")]

    def test_tasks_may_fail_and_executors_may_be_killed(self, cluster, tmp_path):
        task = Task(
            folder=str(tmp_path),
            job="fork",
            source="files",
            master=cluster,
            batches=3,
            flaky=True,
            settings={"spark.task.maxFailures": "9"},
        )
        tally = Tally()

        killing.run(task, 0, tally, also=killing.EXECUTOR)

        assert tally.others[killing.EXECUTOR] > 0
        assert [path for path in task.attempts.iterdir() if path.name.endswith("-1")]


def test_executors_without_penstock_are_told_of(tmp_path):
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(0))"
    home = Path(pyspark.__file__).parent.parent
    asked = subprocess.run(
        [sys.executable, "-S", "-c", code],
        input=cloudpickle.dumps(shipping.asking()),
        env={"PYTHONPATH": str(home)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert b"ModuleNotFoundError: No module named 'optimizers'" == asked.stdout.strip()


def batches(spark, task, number):
    return [spark.createDataFrame(victim.tuples(batch, task.rows)) for batch in range(number)]


def run(spark, task, number, **options):
    """Run batches of a job that changes its plan with each."""
    engine = SparkEngine(checkpoint=task.checkpoint, cluster=Cluster.uniform(2), every=1)
    options.setdefault("each_batch", lambda rows, batch: victim_task.keep(task, rows, batch))
    return engine.run(
        victim.topology(task), batches(spark, task, number), Restless(task.seed), **options
    )


def stream(spark, task, before=lambda batch: None):
    """Start a job on all files that are there."""

    def keep(rows, batch):
        victim_task.keep(task, rows, batch)
        before(batch + 1)

    engine = SparkEngine(checkpoint=task.checkpoint, cluster=Cluster.uniform(2), every=1)
    return engine.start(
        victim.topology(task),
        victim.files(spark, task),
        Restless(task.seed),
        each_batch=keep,
        trigger={"availableNow": True},
    )


class TestHandingOut:
    def test_a_batch_that_spark_replays_is_handed_out_again_and_not_done_again(
        self, spark, tmp_path
    ):
        task = Task(folder=str(tmp_path), job="fork", source="files", batches=3)
        victim.write_files(task)
        stream(spark, task).wait()
        before = content(task.checkpoint)
        for name in ("2", ".2.crc"):
            (Path(task.checkpoint) / "spark" / "commits" / name).unlink()
        (task.handed / "00002.json").unlink()

        stream(spark, task).wait()

        assert 3 == killing.check(task, stopped=False)
        assert before == content(task.checkpoint)

    def test_what_a_sink_refused_is_handed_out_by_the_next_run(self, spark, tmp_path):
        task = Task(folder=str(tmp_path))

        def refuse(rows, batch):
            if batch == 1:
                raise OSError("as planned, the sink is down")

        with pytest.raises(OSError, match="as planned"):
            run(spark, task, 3, each_batch=refuse)
        handed = []
        run(spark, task, 3, each_batch=lambda rows, batch: handed.append(batch), resume=True)

        assert [1, 2] == handed

    def test_rows_of_operators_with_other_columns_are_all_there(self, spark, tmp_path):
        job = Topology(
            operators=(
                Operator("in"),
                Operator("by_user", "user", parallelism=2, apply=Count(emit=Emit.CHANGES)),
                Operator("by_place", "place", apply=Sum("spent", emit=Emit.CHANGES)),
            ),
            edges=(Edge("in", "by_user"), Edge("in", "by_place")),
        )
        rows = spark.createDataFrame(pa.table({"user": [1, 2], "place": [7, 7], "spent": [3, 4]}))
        handed = []

        # Spark takes brackets in paths for patterns.
        SparkEngine(checkpoint=str(tmp_path / "{of} [this] *")).run(
            job, rows, each_batch=lambda rows, _: handed.extend(rows.collect())
        )

        columns = ("operator", "user", "count", "place", "sum")
        found = {tuple(row[column] for column in columns) for row in handed}
        assert {
            ("by_user", 1, 1, None, None),
            ("by_user", 2, 1, None, None),
            ("by_place", None, None, 7, 7),
        } == found
        assert 3 == len(handed)

    def test_a_file_that_is_missing_is_named(self, spark, tmp_path):
        task = Task(folder=str(tmp_path), rows=100)
        run(spark, task, 1)
        lost = next(Path(task.checkpoint, "output").rglob("*.parquet"))
        lost.unlink()

        with pytest.raises(CheckpointError, match=lost.name):
            run(spark, task, 1, resume=True)


def content(folder):
    """Return all that a checkpoint keeps, but for Spark's own."""
    location = Location(folder)
    return {
        name: location.read_bytes(name)
        for name in location.list("")
        if not name.startswith("spark/")
    }


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def change(path):
    found = bytearray(path.read_bytes())
    found[len(found) // 2] ^= 1
    path.write_bytes(found)


class TestDamage:
    @pytest.mark.parametrize(
        ("harm", "what"),
        [(Path.unlink, "is missing"), (cut, "bytes"), (change, "checksum")],
        ids=["missing", "cut", "changed"],
    )
    def test_of_a_state_file_is_refused_and_once_mended_the_job_goes_on(
        self, spark, tmp_path, harm, what
    ):
        # In another folder than the one it was written in, no worker remembers the state.
        first = Task(folder=str(tmp_path / "first"), rows=200)
        run(spark, first, 2)
        task = Task(folder=str(tmp_path / "second"), rows=200)
        shutil.copytree(first.folder, task.folder)
        last = Checkpoint.open(Location(task.checkpoint)).last_commit()
        path = Path(task.checkpoint) / last.state["by_place"][0][0].path
        whole = path.read_bytes()
        harm(path)
        before = content(task.checkpoint)

        with pytest.raises(CheckpointError, match=f"{path.name} .*{what}.* bring .* back"):
            run(spark, task, 4, resume=True)
        after = content(task.checkpoint)
        path.write_bytes(whole)
        run(spark, task, 4, resume=True)

        assert before.items() <= after.items()
        assert not {name for name in after.keys() - before.keys() if name.startswith("commits")}
        assert 4 == killing.check(task, stopped=False)

    def test_of_a_plan_that_was_saved_before_a_crash_is_refused_until_it_is_mended(
        self, spark, tmp_path
    ):
        task = Task(folder=str(tmp_path), rows=200)
        run(spark, task, 2)
        plan = Path(task.checkpoint) / "plans" / f"{2:010}.json"
        plan.write_text('{"torn')
        engine = SparkEngine(checkpoint=task.checkpoint, cluster=Cluster.uniform(2), every=1)

        def resumed():
            return Run(engine, spark, victim.topology(task), Restless(0), None)

        for _ in range(2):
            with pytest.raises(CheckpointError, match=plan.name):
                resumed()
        plan.unlink()
        resumed().execute(batches(spark, task, 3)[2])

        assert 3 == killing.done(task)


@contextmanager
def small_disk(folder, size):
    """Mount a file system that is soon full."""
    folder.mkdir()
    tried = subprocess.run(
        [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"cannot mount a file system: {tried.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run([shutil.which("umount") or "umount", "-l", folder], check=True)


def fill(folder, free):
    """Leave a number of bytes free, in a file that can be removed again."""
    there = os.statvfs(folder)
    with (folder / "filler").open("wb") as filler:
        filler.write(b"x" * max(0, there.f_bavail * there.f_frsize - free))


def test_a_full_disk_is_told_and_once_there_is_room_the_job_goes_on(spark, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, "8m"):
        task = Task(folder=str(tmp_path), job="fork", rows=300, kept=str(disk / "kept"))
        run(spark, task, 1)
        for pages in (0, 3, 8, 15):  # so that it is full now here, now there
            fill(disk, 4096 * pages)
            with pytest.raises(CheckpointError, match="the disk is full; free some space"):
                run(spark, task, 6, resume=True)
            killing.check(task)
            (disk / "filler").unlink()
        run(spark, task, 6, resume=True)

        assert 6 == killing.check(task, stopped=False)


@pytest.mark.parametrize("free", [0, 48_000], ids=["for Spark too", "for state"])
def test_a_stream_for_which_the_disk_is_full_goes_on_once_there_is_room(spark, tmp_path, free):
    disk = tmp_path / "disk"
    with small_disk(disk, "4m"):
        task = Task(folder=str(tmp_path), source="files", batches=3, kept=str(disk / "kept"))
        victim.write_files(task)
        started = stream(spark, task, before=lambda batch: batch == 1 and fill(disk, free))

        # Spark keeps a log as well, and tells in its own words that it could not.
        with pytest.raises((CheckpointError, StreamingQueryException), match=r"full|No space left"):
            started.wait()
        killing.check(task)
        (disk / "filler").unlink()
        stream(spark, task).wait()

        assert 3 == killing.check(task, stopped=False)


def test_a_stream_that_ends_by_an_error_of_ours_says_so(spark, tmp_path):
    task = Task(folder=str(tmp_path), source="files", batches=1)
    victim.write_files(task)
    job = Topology.source("in").then("by_colour", key="colour")

    started = SparkEngine(checkpoint=task.checkpoint).start(job, victim.files(spark, task))

    with pytest.raises(FoldError, match="no column 'colour'"):
        started.wait()


@dataclass(frozen=True)
class Losing:
    """Lets tuples through; one of its tasks loses all that is on its way to the others, once.

    It is the first to run after one of the two that the session runs at once has ended: by then
    that one has read all of its tuples, and the last ones cannot have begun.
    """

    folder: str
    once: str

    def __call__(self, batch):
        if TaskContext.get().partitionId() >= 2 and self._is_first():
            for path in Path(self.folder).rglob("shuffle_*"):
                path.unlink(missing_ok=True)  # Spark removes what it no longer needs
        return batch

    def _is_first(self):
        try:
            Path(self.once).unlink()
        except FileNotFoundError:
            return False
        return True


@dataclass(frozen=True)
class Disorder:
    """Gives the rows of a partition in an order of their own each time they are asked for."""

    def __call__(self, batches):
        for batch in batches:
            yield batch.take(pa.array(np.random.default_rng().permutation(len(batch))))


class TestSourcesThatAreReadAgain:
    """A shuffle is lost when a part of the last stage has read it, as with a machine."""

    @pytest.fixture
    def losses(self, monkeypatch):
        """The times that tuples were found to be lost or doubled."""
        found = []

        def checked(*arguments):
            try:
                check(*arguments)
            except DeliveryError as error:
                found.append(error)
                raise

        check = coordinator.check_delivery
        monkeypatch.setattr(coordinator, "check_delivery", checked)
        return found

    @pytest.fixture
    def trusting(self, spark):
        """Spark as it was before 4.2, and may be set: not looking at what tasks write again."""
        name = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
        before = spark.conf.get(name)
        spark.conf.set(name, "false")
        yield
        spark.conf.set(name, before)

    def read_twice(self, spark, folder, rows):
        """Run one batch in which the source is read twice, and return what it hands out."""
        once = folder / "once"
        once.touch()
        losing = Losing(spark.conf.get("spark.local.dir"), str(once))
        job = Topology.source("in", parallelism=2).then(
            Operator("clean", parallelism=8, apply=losing)
        )
        handed = []
        SparkEngine(checkpoint=str(folder / "kept")).run(
            job, rows, each_batch=lambda rows, _: handed.append(rows.toArrow())
        )
        assert not once.exists()
        return sorted(handed[0].column("id").to_pylist())

    def test_count_once_where_spark_gives_up(self, spark, tmp_path, losses):
        rows = spark.range(0, 1_000, 1, 2)

        assert list(range(1_000)) == self.read_twice(spark, tmp_path, rows)
        assert [] == losses

    def test_count_once_if_in_the_same_order(self, spark, tmp_path, losses, trusting):
        rows = spark.range(0, 1_000, 1, 2)

        assert list(range(1_000)) == self.read_twice(spark, tmp_path, rows)
        assert [] == losses

    def test_are_noticed_if_in_another_order_and_read_once_more(
        self, spark, tmp_path, losses, trusting
    ):
        rows = spark.range(0, 1_000, 1, 2).mapInArrow(Disorder(), "id bigint")

        assert list(range(1_000)) == self.read_twice(spark, tmp_path, rows)
        assert 1 == len(losses)
