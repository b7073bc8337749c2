"""Files of a checkpoint: whole or not there, told apart by name, and clear about what failed."""

import errno
import os
import pickle
import subprocess
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.storage.disk import NameTakenError
from optimizers.runtime.storage.fence import StoreFence
from optimizers.runtime.storage.local import LocalDisk
from optimizers.runtime.storage.location import Location
from optimizers.runtime.storage.remote import RemoteDisk


class HardLinks(StoreFence):
    """A store's conditional create, as a folder has it."""

    def put(self, path, content, token):
        LocalDisk().put_new(path, content)

    def token_of(self, path):
        return None


class Shared(Location):
    """A location behind pyarrow's own file systems, as object stores are."""

    __slots__ = ()

    @property
    def disk(self):
        files = pyarrow.fs.LocalFileSystem()
        return RemoteDisk(files, HardLinks, whole=True, folders=True)


@pytest.fixture(params=[Location, Shared], ids=["local", "remote"])
def here(request, tmp_path):
    return request.param(tmp_path / "check point")


def left_in(here):
    """All names of files, those of temporary ones too."""
    return sorted(path.name for path in Path(here.root).rglob("*") if path.is_file())


def test_what_is_written_is_read_back(here):
    here.write_new("state/count/a.arrow", b"first")
    here.write_atomically("b", pa.py_buffer(b""))
    here.write_atomically("state/count/a.arrow", b"second")

    assert b"second" == here.read_bytes("state/count/a.arrow")
    assert b"second" == here.read("state/count/a.arrow", mapped=True).to_pybytes()
    assert b"" == here.read("b", mapped=True).to_pybytes()
    assert ["a.arrow", "b"] == left_in(here)


def test_files_are_listed_by_name_with_their_sizes(here):
    here.write_new("state/sum/b", b"12")
    here.write_new("state/count/c", b"123")
    here.write_new("state/a", b"1")
    here.write_new("other", b"")

    assert {"state/a": 1, "state/count/c": 3, "state/sum/b": 2} == here.list("state")
    assert ["state/a", "state/count/c", "state/sum/b"] == list(here.list("state"))
    assert ["other", "state/a", "state/count/c", "state/sum/b"] == list(here.list(""))
    assert {} == here.list("nowhere")


def test_a_new_file_is_refused_where_there_is_one(here):
    here.write_new("commits/1.json", b"mine")

    with pytest.raises(CheckpointError, match=r"commits/1\.json is already there.* one job only"):
        here.write_new("commits/1.json", b"yours")
    assert b"mine" == here.read_bytes("commits/1.json")
    assert ["1.json"] == left_in(here)


def test_of_many_that_write_a_new_file_at_once_one_does(tmp_path):
    here = Location(tmp_path)

    def try_it(name):
        try:
            here.write_new("it", name)
        except CheckpointError:
            return None
        return name

    with ThreadPool(8) as pool:
        for turn in range(20):
            done = pool.map(try_it, [b"%d" % number for number in range(8)])
            assert [here.read_bytes("it")] == [name for name in done if name is not None], turn
            here.delete("it")


def test_a_deleted_file_is_gone_and_may_be_deleted_again(here):
    here.write_new("a/b", b"x")

    here.delete("a/b")
    here.delete("a/b")

    assert [] == left_in(here)


def test_a_missing_file_is_named(here):
    with pytest.raises(CheckpointError, match=r"cannot read .*check point/a/b: it is missing"):
        here.read_bytes("a/b")
    with pytest.raises(CheckpointError, match=r"cannot read .*check point/a/b: it is missing"):
        here.read("a/b", mapped=True)


@pytest.mark.parametrize("name", ["../a", "a/../b", "/etc/passwd", "a//b", "a/", ".", "./a"])
def test_no_name_leads_out_of_the_folder(here, name):
    with pytest.raises(CheckpointError, match="does not name a file inside"):
        here.write_new(name, b"")
    with pytest.raises(CheckpointError, match="does not name a file inside"):
        here.read_bytes(name)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "the disk is full; free some space"),
        (errno.EDQUOT, "the disk is full; free some space"),
        (errno.EACCES, "permission denied; let the user that runs the job"),
        (errno.EROFS, "permission denied; let the user that runs the job"),
        (errno.EIO, r"\[Errno 5\] Input/output error; see to the file system"),
    ],
)
@pytest.mark.parametrize("write", ["write_new", "write_atomically"])
def test_a_failure_to_write_names_the_remedy_and_leaves_nothing(
    tmp_path, monkeypatch, number, remedy, write
):
    here = Location(tmp_path)
    here.write_new("old", b"whole")

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(CheckpointError, match=rf"cannot write {tmp_path}/new: {remedy}"):
        getattr(here, write)("new", b"half")
    assert ["old"] == left_in(here)


def test_a_file_that_is_cut_short_while_it_is_written_is_never_seen(tmp_path):
    # The system really stops it, after the first 1000 bytes.
    code = (
        "import resource, sys\n"
        "from optimizers.runtime.storage.location import Location\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "Location(sys.argv[1]).write_new('state/big', bytes(5000))\n"
    )

    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False
    )

    assert f"CheckpointError: cannot write {tmp_path}/state/big: [Errno 27]" in told.stderr
    assert [] == left_in(Location(tmp_path))


@pytest.fixture
def without_links(monkeypatch):
    def fail(self, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", fail)


def test_where_there_are_no_hard_links_nothing_is_pretended(tmp_path, without_links):
    here = Location(tmp_path)

    with pytest.raises(
        CheckpointError, match=r"no two drivers could both.*no hard links.*one_driver=True"
    ):
        here.write_new("a", b"mine")
    with pytest.raises(CheckpointError, match="one_driver=True"):
        here.check_fence()
    here.write_once("b", b"a name of its own")

    assert ["b"] == left_in(here)
    assert b"a name of its own" == here.read_bytes("b")


def test_who_sees_to_it_that_there_is_one_driver_goes_without(tmp_path, without_links):
    here = pickle.loads(pickle.dumps(Location(tmp_path, one_driver=True)))  # noqa: S301
    here.check_fence()
    here.write_new("a", b"mine")

    with pytest.raises(CheckpointError, match="already there"):
        here.write_new("a", b"yours")
    assert b"mine" == here.read_bytes("a")
    assert ["a"] == left_in(here)


def test_the_fence_is_tried_and_leaves_nothing(here):
    here.check_fence()

    assert [] == left_in(here)


def test_a_link_whose_answer_was_lost_is_ours(tmp_path, monkeypatch):
    # So servers of NFS may say, when the answer is lost and the client asks again.
    link = Path.hardlink_to

    def twice(self, target):
        link(self, target)
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", twice)
    here = Location(tmp_path)
    here.write_new("a", b"mine")

    with pytest.raises(CheckpointError, match="already there"):
        here.write_new("a", b"mine")
    assert ["a"] == left_in(here)


class Keeping:
    """A guard that keeps files by their names for Spark."""

    def __init__(self):
        self.kept = {}

    def create(self, path, content):
        if path in self.kept:
            raise NameTakenError(path)
        self.kept[path] = content

    def replace(self, path, content):
        self.kept[path] = content


def test_what_the_disk_cannot_promise_its_guard_does(tmp_path, without_links):
    guard = Keeping()
    here = Location(tmp_path, spark="viewfs://jobs/a").guarded(guard)

    here.write_new("commits/1", b"mine")

    assert {"viewfs://jobs/a/commits/1": b"mine"} == guard.kept
    with pytest.raises(CheckpointError, match="already there"):
        here.write_new("commits/1", b"yours")
    here.within("inner").write_new("b", b"")
    assert "viewfs://jobs/a/inner/b" in guard.kept
    with pytest.raises(CheckpointError, match="one_driver=True"):
        pickle.loads(pickle.dumps(here)).write_new("c", b"")  # noqa: S301  # executors have none


def test_where_a_file_cannot_be_replaced_whole_the_guard_does_it(tmp_path, monkeypatch):
    class Hadoop(Location):
        __slots__ = ()

        @property
        def disk(self):
            files = pyarrow.fs.LocalFileSystem()
            return RemoteDisk(files, HardLinks, whole=False, folders=True)

    guard, here = Keeping(), Hadoop(tmp_path, spark="hdfs://name/a")
    with pytest.raises(CheckpointError, match="let the driver of the job write it"):
        here.write_atomically("admitted/x", b"5")
    object.__setattr__(here, "_guard", guard)

    here.write_atomically("admitted/x", b"5")

    assert {"hdfs://name/a/admitted/x": b"5"} == guard.kept


def test_a_link_that_fails_otherwise_is_an_error(tmp_path, monkeypatch):
    def fail(self, target):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "hardlink_to", fail)

    with pytest.raises(CheckpointError, match="cannot write"):
        Location(tmp_path).write_new("a", b"mine")
    assert [] == left_in(Location(tmp_path))


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(CheckpointError, match="cannot make the folder"):
        Location(tmp_path / "file").make_folder("commits")


def test_a_location_travels_and_means_the_same_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Location("relative")
    here.write_new("a", b"x")
    code = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read()).read_bytes('a'))"

    monkeypatch.chdir("/")
    told = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(here), capture_output=True, check=True
    )

    assert b"b'x'" == told.stdout.strip()
    assert here == pickle.loads(pickle.dumps(here)) == Location(str(tmp_path / "relative"))  # noqa: S301
    assert str(tmp_path / "relative") == str(here)


@pytest.mark.parametrize(
    "form", ["file://{}", "file:{}", "file://localhost{}", "FILE://LocalHost{}"]
)
def test_a_local_uri_is_the_local_folder(tmp_path, form):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c").write_bytes(b"x")

    here = Location(form.format(str(tmp_path / "a%20b")))

    assert b"x" == here.read_bytes("c")
    assert isinstance(here.disk, LocalDisk)
    assert str(tmp_path / "a b" / "c") == here.path_of("c")


def test_a_location_without_a_name_is_refused():
    with pytest.raises(CheckpointError, match="is not a folder; give its path or its URI"):
        Location("")


class Bytes:
    """A path that is bytes."""

    def __fspath__(self):
        return b"/here"


@pytest.mark.parametrize(
    ("root", "options", "words"),
    [
        (5, {}, "location 5 is not a folder; give its path or its URI"),
        (None, {}, "location None is not a folder"),
        (b"/here", {}, "location b'/here' is not a folder"),
        (Bytes(), {}, "is not a folder"),
        ("/here", {"spark": 5}, "spark=5 is not a text; give a URI, or leave it out"),
        ("/here", {"one_driver": "false"}, "one_driver='false' is not a bool; give True or False"),
        ("/here", {"one_driver": 1}, "one_driver=1 is not a bool"),
        ("/here", {"one_driver": None}, "one_driver=None is not a bool"),
    ],
)
def test_a_location_of_another_kind_is_refused(root, options, words):
    with pytest.raises(InvalidValueError) as refused:
        Location(root, **options)

    assert words in str(refused.value)


class Flat:
    """A file system that tells no folders unless files below them are asked for."""

    def __init__(self):
        self.files = pyarrow.fs.LocalFileSystem()

    def get_file_info(self, wanted):
        return self.files.get_file_info(wanted) if wanted.recursive else []


def test_folders_that_are_but_the_beginnings_of_names_are_seen(tmp_path):
    for name in ("b/c/1", "b/2", "a/3"):
        Location(tmp_path).write_new(name, b"")

    disk = RemoteDisk(Flat(), HardLinks, whole=True, folders=False)

    assert ["a", "b"] == sorted(disk.entries(str(tmp_path)))
