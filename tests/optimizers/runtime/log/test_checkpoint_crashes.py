"""Crashes at every operation on files: what is found afterwards is what was before, or after.

A batch is done or it is not, a plan is saved or it is not, and cleaning and compaction change
nothing that can be read; whether the machine dies at an operation or the disk refuses it.
"""

import errno
import itertools
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from optimizers import Plan, Topology
from optimizers.errors import CheckpointError
from optimizers.runtime.log.checkpoint import Checkpoint, SavedPlan
from optimizers.runtime.log.cleaning import batch_of
from optimizers.runtime.log.records import Commit
from optimizers.runtime.state.file import Attempt, FileKind, write_state
from optimizers.runtime.storage.disk import NameTakenError, RenamingDisk
from optimizers.runtime.storage.local import LocalDisk
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.output_file import OutputFile

JOB = Topology.source("words").then("count", key="word", parallelism=2)
WAYS = ("before", "half", "after", "refused")


class Death(BaseException):
    """The machine is gone: nothing that would tidy up can run any more."""


class MemoryDisk(RenamingDisk):
    """Files in memory, on a machine that dies at a chosen operation, or whose disk refuses it.

    An operation that is cut off did not happen, did half of what it does, or all of it.
    """

    def __init__(self):
        self.files = {}
        self.left = None  # how many changes until it happens; None for never
        self.way = None
        self.dead = False
        self.changes = 0

    def fail_at(self, change, way):
        self.left, self.way = change, way

    def restart(self):
        self.left, self.dead = None, False

    def _change(self, whole, half=lambda: None):
        if self.dead:
            raise Death
        self.changes += 1
        if self.left is not None:
            self.left -= 1
        if self.left != -1:
            return whole()
        self.left = None
        if self.way == "refused":
            half()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        {"before": lambda: None, "half": half, "after": whole}[self.way]()
        self.dead = True
        raise Death

    def _get(self, path):
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.files[path]

    def read(self, path, *, mapped):
        return pa.py_buffer(self._get(path))

    def exists(self, path):
        return path in self.files

    def sizes(self, folder):
        prefix = f"{folder}/"
        return {
            path.removeprefix(prefix): len(content)
            for path, content in self.files.items()
            if path.startswith(prefix)
        }

    def entries(self, folder):
        return list(dict.fromkeys(name.split("/")[0] for name in self.sizes(folder)))

    def make_folder(self, path):
        self._change(lambda: None)

    def write(self, path, content):
        data = bytes(memoryview(content))

        def write(length):
            self.files[path] = data[:length]

        self._change(lambda: write(len(data)), lambda: write(len(data) // 2))

    def replace(self, path, name):
        def rename():
            self.files[name] = self.files.pop(path)

        self._change(rename)

    def claim(self, path, name):
        if name in self.files:
            raise NameTakenError(name)

        def link():
            self.files[name] = self.files[path]

        def rename():
            link()
            del self.files[path]

        # What comes half-way has both names; a disk that refuses gave none.
        self._change(rename, link if self.way == "half" else lambda: None)

    def delete(self, path):
        self._get(path)
        self._change(lambda: self.files.pop(path))


class InMemory(Location):
    """A location on a disk in memory."""

    __slots__ = ("_disk",)

    def __init__(self, disk):
        super().__init__("/checkpoint")
        object.__setattr__(self, "_disk", disk)

    @property
    def disk(self):
        return self._disk


def table(counts, gone=None):
    places = sorted(counts)
    columns = {
        "place": pa.array(places, pa.uint64()),
        "key_0": pa.array([f"w{place}" for place in places], pa.string()),
        "value_count": pa.array([counts[place] for place in places], pa.int64()),
    }
    if gone is not None:
        columns["gone"] = pa.array([place in gone for place in places], pa.bool_())
    return pa.table(columns)


class Job:
    """A job that counts words on two instances, in the way the engine does."""

    attempts = itertools.count()

    def __init__(self, disk):
        self.checkpoint = Checkpoint.create_or_open(InMemory(disk), JOB)
        self.here = self.checkpoint.location

    def run(self, changes):
        """Do the next batch: changes of counts, None where a word is to be forgotten."""
        last = self.checkpoint.last_commit()
        batch = 0 if last is None else last.batch + 1
        saved = self.checkpoint.plan_of(batch)
        chains = ((), ()) if last is None else last.state["count"]
        before = content(self.checkpoint)
        state = tuple(self.chain(batch, each, chains[each], changes, before) for each in range(2))
        output = f"output/{batch:010}-0-{next(self.attempts)}.arrow"
        self.here.write_new(output, b"rows")
        file = OutputFile(output, "count", pa.schema([]))
        plan, revision = (None, 0) if saved is None else saved.number
        state = {"count": state}
        self.checkpoint.commit(
            Commit(batch, plan, state, (file,), len(changes), plan_revision=revision), after=last
        )

    def chain(self, batch, instance, files, changes, before):
        mine = {place: count for place, count in changes.items() if place % 2 == instance}
        attempt = Attempt("count", instance, batch, f"x{next(self.attempts)}")
        if len(files) in {0, 4}:  # by bytes, states as small as these would always be rewritten
            kept = {place: count for place, count in before.items() if place % 2 == instance}
            kept.update(mine)
            rows = table({place: count for place, count in kept.items() if count is not None})
            return (write_state(self.here, attempt, rows, kind=FileKind.BASE),)
        if not mine:
            return files
        gone = {place for place, count in mine.items() if count is None}
        rows = table({place: count or 0 for place, count in mine.items()}, gone)
        return (*files, write_state(self.here, attempt, rows, kind=FileKind.DELTA))


def content(checkpoint, batch=None):
    """What the checkpoint says the counts are."""
    if checkpoint.last_commit() is None:
        return {}
    rows = checkpoint.read("count", batch)
    if not rows.num_rows:
        return {}
    places = (int(word[1:]) for word in rows["word"].to_pylist())
    return dict(zip(places, rows["count"].to_pylist(), strict=True))


def merged(counts, changes):
    found = {**counts, **changes}
    return {place: count for place, count in found.items() if count is not None}


def survive(disk, act):
    """Let something happen to the job, whether or not it gets through; then start again."""
    there = set(disk.files)
    with suppress(Death):
        refusal = refusal_of(lambda: act(Job(disk)))
        if refusal is not None:
            assert "the disk is full; free some space" in refusal
            assert [] == [path for path in {*disk.files} - there if path.endswith(".tmp")]
    disk.restart()
    return Job(disk).checkpoint


def refusal_of(act):
    """What a checkpoint refuses to do something for; None if it does it."""
    try:
        act()
    except CheckpointError as error:
        return str(error)
    return None


def plan(number):
    return Plan(parallelism={"count": number})


SCRIPT = [
    lambda job: None,  # the checkpoint is made
    lambda job: job.checkpoint.save_plan(0, plan(2)),
    lambda job: job.run({1: 1, 2: 2, 3: 3}),
    lambda job: job.run({1: 5, 4: 4}),
    lambda job: job.checkpoint.save_plan(2, plan(3)),
    lambda job: job.run({2: None, 6: 6, 3: 4}),
    lambda job: job.checkpoint.compact(),
    lambda job: job.checkpoint.clean(keep=1, alone=True),
    lambda job: job.run({5: 5, 6: None}),
    lambda job: job.checkpoint.clean(keep=1, alone=True),
]


FEWEST_CHANGES = (6, 2, 8, 6, 2, 8, 4, 2, 6, 2)
"""The least number of changes on the disk for each of them, and so of crashes."""


def seen(checkpoint):
    """All that may not change by itself: counts of the last batch, its number, plans."""
    last = checkpoint.last_commit()
    following = 0 if last is None else last.batch + 1
    return (
        None if last is None else (last.batch, last.tuples, last.plan),
        content(checkpoint),
        checkpoint.plan_of(following),
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", range(len(SCRIPT)))
def test_after_a_crash_at_any_operation_all_is_as_before_or_as_after(step, way):
    act = SCRIPT[step]
    for change in itertools.count():
        disk = disk_after(SCRIPT[:step])
        before = seen(Job(disk).checkpoint) if step else (None, {}, None)
        done = disk.changes
        disk.fail_at(change, way)

        found = seen(survive(disk, act))

        reached = disk.changes - done > change
        after = seen(Job(disk_after(SCRIPT[: step + 1])).checkpoint)
        assert found in (before, after)
        if found != after:  # the job goes on as if nothing had been
            act(Job(disk))
            assert after == seen(Job(disk).checkpoint)
        if not reached:
            break
    assert change >= FEWEST_CHANGES[step]


def disk_after(acts):
    """A disk on which these things were done and nothing happened to them."""
    disk = MemoryDisk()
    for act in acts:
        act(Job(disk))
    return disk


class Crashes(RuleBasedStateMachine):
    """A job to which anything may happen at any operation, against plain dictionaries."""

    @initialize()
    def begin(self):
        self.disk = MemoryDisk()
        self.batch = -1
        self.counts = [{}]
        self.plan = None  # in force in the next batch
        self.revisions = False  # whether the state of the last batch may have been rewritten
        self.checkpoint = Job(self.disk).checkpoint

    def arm(self, crash):
        if crash is not None:
            self.disk.fail_at(*crash)

    crashes = st.none() | st.tuples(st.integers(0, 14), st.sampled_from(WAYS))
    changes = st.dictionaries(st.integers(0, 9), st.none() | st.integers(0, 99), max_size=6)

    @rule(changes=changes, crash=crashes)
    def run(self, changes, crash):
        self.arm(crash)
        self.checkpoint = survive(self.disk, lambda job: job.run(changes))

        last = self.checkpoint.last_commit()
        done = -1 if last is None else last.batch
        assert done in (self.batch, self.batch + 1)
        assert done == self.batch + 1 or crash is not None
        if done > self.batch:
            self.batch, self.revisions = done, False
            self.counts.append(merged(self.counts[-1], changes))

    @rule(number=st.integers(1, 5), crash=crashes)
    def save_plan(self, number, crash):
        following, before = self.batch + 1, self.plan
        if before is not None and before.batch < following:
            before = None
        revision = 0 if before is None else before.revision + 1
        wanted = SavedPlan(following, plan(number), revision=revision)
        self.arm(crash)
        self.checkpoint = survive(
            self.disk,
            lambda job: job.checkpoint.save_plan(following, wanted.plan, instead_of=before),
        )

        found = self.checkpoint.plan_of(following)
        assert found in (self.plan, wanted)
        assert found == wanted or crash is not None
        self.plan = found

    @precondition(lambda self: self.batch >= 0)
    @rule(keep=st.integers(1, 3), alone=st.booleans(), crash=crashes)
    def clean(self, keep, alone, crash):
        self.arm(crash)
        self.checkpoint = survive(
            self.disk, lambda job: job.checkpoint.clean(keep=keep, alone=alone)
        )
        if crash is None:
            assert len(self.checkpoint.batches()) <= keep
            kept = [self.checkpoint.commit_of(batch) for batch in self.checkpoint.batches()]
            needed = set().union(*(commit.files for commit in kept))
            there = {*self.checkpoint.location.list("state")}
            done = {name for name in there if batch_of(name) <= self.batch}
            found = {name for name in needed if name.startswith("state/")}
            assert done == found or (done > found and not alone and self.revisions)

    @rule(crash=crashes)
    def compact(self, crash):
        self.arm(crash)
        self.checkpoint = survive(self.disk, lambda job: job.checkpoint.compact())
        self.revisions = True
        if crash is None and self.batch >= 0:
            chains = self.checkpoint.last_commit().state["count"]
            assert all(len(files) == 1 for files in chains)

    @invariant()
    def nothing_is_lost_or_changed(self):
        if self.batch < 0:
            assert self.checkpoint.last_commit() is None
        for batch in self.checkpoint.batches():
            assert self.counts[batch + 1] == content(self.checkpoint, batch)
            assert self.checkpoint.commit_of(batch).files <= {*self.checkpoint.location.list("")}
        assert self.batch < 0 or self.batch == max(self.checkpoint.batches())

    @invariant()
    def the_plan_in_force_is_the_one_saved(self):
        assert self.plan == self.checkpoint.plan_of(self.batch + 1)


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=80, stateful_step_count=20)


@pytest.mark.parametrize("write", ["write_new", "write_atomically"])
def test_on_a_local_disk_content_lasts_before_its_name_and_the_name_before_it_returns(
    tmp_path, monkeypatch, write
):
    done = []

    def noted(name, function):
        def call(*args, **options):
            done.append(name)
            return function(*args, **options)

        return call

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append("flush the folder" if path.is_dir() else f"flush {path.read_bytes()!r}")

    here = Location(tmp_path)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "hardlink_to", noted("name it", Path.hardlink_to))
    monkeypatch.setattr(Path, "replace", noted("name it", Path.replace))

    getattr(here, write)("a", b"whole")

    assert ["flush b'whole'", "name it", "flush the folder"] == done


def test_on_a_local_disk_a_new_folder_is_made_to_last_in_the_one_it_stands_in(
    tmp_path, monkeypatch
):
    flushed = []

    def fsync(descriptor):
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)

    LocalDisk().make_folder(str(tmp_path / "a" / "b"))
    LocalDisk().make_folder(str(tmp_path / "a" / "b"))

    assert [str(tmp_path), str(tmp_path / "a")] == flushed


def test_the_state_of_a_job_is_replayed_by_a_driver_that_lost_its_commit():
    # The same batch is done twice, by attempts of other names: the first leaves only garbage.
    disk = MemoryDisk()
    Job(disk).run({1: 1})
    disk.fail_at(2 * 2 + 2, "half")  # both files of state and the output, half the commit
    survive(disk, lambda job: job.run({1: 2, 2: 2}))
    lost = len(disk.files)

    Job(disk).run({1: 2, 2: 2})

    checkpoint = Job(disk).checkpoint
    assert {1: 2, 2: 2} == content(checkpoint)
    assert {1: 1} == content(checkpoint, 0)
    assert len(disk.files) > lost
    checkpoint.clean(keep=1)
    assert checkpoint.last_commit().files == {
        name for name in checkpoint.location.list("") if name.startswith(("state/", "output/"))
    }
