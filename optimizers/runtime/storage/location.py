"""Files of a checkpoint, on a local disk or on shared storage.

A file that others look for by name appears there whole or not at all. This module does not know
what is in the files.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.storage.disk import (
    TEMPORARY,
    Content,
    Disk,
    NameTakenError,
    NoFenceError,
)
from optimizers.runtime.storage.opening import disk_of
from optimizers.runtime.storage.places import Place

__all__ = ["TEMPORARY", "Guard", "Location"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_MISSING = (errno.ENOENT,)
_NO_FOLDER = (errno.ENOTDIR,)


_ALONE = (
    "use storage that can, or, if you see to it that one driver only ever works there, give "
    "Location(..., one_driver=True)"
)


class Guard(Protocol):
    """The driver's means for promises that a disk cannot keep: Spark's file systems."""

    def create(self, path: str, content: Content) -> None:
        """Create a file, by its name for Spark; raises NameTakenError or NoFenceError."""

    def replace(self, path: str, content: Content) -> None:
        """Write a file, by its name for Spark, over any other; may raise NoFenceError."""


@dataclass(frozen=True, slots=True, init=False)
class Location:
    """A folder on some storage, named so that every process finds it again.

    Names of files in it are relative, with slashes. Folders are made as they are needed. Every
    failure is a `CheckpointError` that names the file and the remedy.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     here = Location(folder)
    ...     here.write_new("notes/first.txt", b"kept")
    ...     print(here.list("notes"), here.read_bytes("notes/first.txt"))
    {'notes/first.txt': 4} b'kept'

    A folder has a name for Penstock and one for Spark; the second follows from the first, unless
    the storage is mounted for the one and not for the other.

    >>> Location("/mnt/jobs/trending", spark="abfss://jobs@ours.dfs.core.windows.net/trending").spark
    'abfss://jobs@ours.dfs.core.windows.net/trending'

    Attributes:
        root: an absolute path, or a URI such as ``"s3://bucket/folder"``. A relative path is made
            absolute at once, as another process may work in another folder.
        spark: Spark's name of the same folder, a URI of Hadoop.
        one_driver: whether you make sure that only one driver ever works here. It is needed where
            the storage cannot refuse a second; two would overwrite each other's commits, and
            results would be silently wrong.
    """

    root: str
    spark: str
    one_driver: bool
    _guard: Guard | None = field(compare=False, repr=False)

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        spark: str | None = None,
        one_driver: bool = False,
    ) -> None:
        given = _text_of(root)
        if spark is not None and not isinstance(spark, str):
            raise InvalidValueError(f"spark={spark!r} is not a text; give a URI, or leave it out")
        if not isinstance(one_driver, bool):  # any text would be true, and end all fencing
            raise InvalidValueError(f"one_driver={one_driver!r} is not a bool; give True or False")
        if not isinstance(root, str):  # a path, even with colons in it
            given = os.path.abspath(given)  # noqa: PTH100  # resolve() would follow links
        place = Place.read(given)
        if place.scheme == "file" and not given.startswith("file:"):
            given = place.path
        object.__setattr__(self, "root", given)
        object.__setattr__(self, "spark", place.spark if spark is None else _tidy_uri(spark))
        object.__setattr__(self, "one_driver", one_driver)
        object.__setattr__(self, "_guard", None)
        with _telling("find", str(place)):
            disk_of(given)

    def __str__(self) -> str:
        return str(self.place)

    def __reduce__(self) -> tuple[Any, ...]:
        # The guard is the driver's; executors neither have one nor need it.
        return _again, (type(self), self.root, self.spark, self.one_driver)

    @classmethod
    def of(cls, given: "str | os.PathLike[str] | Location") -> "Location":
        """Return a location, which may be given as such, as a path or as a URI."""
        return given if isinstance(given, Location) else cls(given)

    def guarded(self, guard: Guard) -> "Location":
        """Return the same folder, with other means for promises that its disk cannot keep."""
        return self._but(guard=guard)

    def called(self, spark: str) -> "Location":
        """Return the same folder, by another name for Spark."""
        return self._but(spark=spark)

    def within(self, folder: str) -> "Location":
        """Return a folder in this one."""
        place = replace(self.place, path=f"{self.place.path.rstrip('/')}/{folder}")
        return self._but(root=place.root, spark=f"{self.spark}/{folder}")

    @property
    def place(self) -> Place:
        """Where it is."""
        return disk_of(self.root)[1]

    @property
    def disk(self) -> Disk:
        """The disk that reads and writes."""
        return disk_of(self.root)[0]

    def path_of(self, name: str) -> str:
        """Return the path of a file, or of a folder, by its own file system's name."""
        return self._joined(self.place.folder, name)

    def spark_path_of(self, name: str) -> str:
        """Return the path of a file, or of a folder, by Spark's name."""
        return self._joined(self.spark, name)

    def read_bytes(self, name: str) -> bytes:
        """Return what the file holds."""
        return self.read(name).to_pybytes()  # type: ignore[no-any-return]

    def read(self, name: str, *, mapped: bool = False) -> pa.Buffer:
        """Return the content of the file, as memory that Arrow reads without copying.

        Args:
            name: the file.
            mapped: whether to map a local file into memory instead of copying it: only what is used
                is then read. Such memory must not outlive the file.
        """
        path = self.path_of(name)
        with _telling("read", path):
            return self.disk.read(path, mapped=mapped)

    def write_atomically(self, name: str, content: Content) -> None:
        """Write a file, replacing any of this name.

        In any case one of the two is there afterwards, whole.
        """
        path = self.path_of(name)
        with _telling("write", path):
            try:
                self.disk.put_over(path, content)
            except NoFenceError as error:
                if self._guard is None:
                    raise OSError(f"{error}; let the driver of the job write it") from error
                self._guard.replace(self.spark_path_of(name), content)

    def write_once(self, name: str, content: Content) -> None:
        """Write a file whose name is unique for ever.

        On object stores it is sent under its name at once. What is cut off stays there as garbage;
        read it only by a record that says it is whole, with its size and checksum.
        """
        path = self.path_of(name)
        with _telling("write", path), self._refusing_taken(path):
            self.disk.put(path, content)

    def write_new(self, name: str, content: Content) -> None:
        """Write a file that must not be there yet, and refuse if it is.

        Of two that write it at once one is refused, on any processes and machines.
        Where the storage cannot do that, every such file is refused, unless `one_driver` is given.
        """
        path = self.path_of(name)
        with _telling("write", path), self._refusing_taken(path):
            try:
                self.disk.put_new(path, content)
            except NoFenceError as error:
                self._write_new_otherwise(name, content, error)

    def check_fence(self) -> None:
        """Test that the storage refuses a name that is taken.

        Some stores speak S3's protocol and ignore what they do not know.

        Raises:
            CheckpointError: it does not, so that two drivers could both commit.
        """
        if self.one_driver:
            return
        # It has the name of a plan that is still being written, so that it is cleaned up like one.
        name = f"plans/.{0:010}.fence.{secrets.token_hex(8)}{TEMPORARY}"
        path = self.path_of(name)
        self.write_new(name, b"first")
        try:
            with suppress(CheckpointError):
                self.write_new(name, b"second")
            if self.read_bytes(name) != b"first":
                raise CheckpointError(
                    f"the storage of {self} puts a second file in place of {path}, though it was "
                    f"asked to refuse; {_ALONE}"
                )
        finally:
            self.delete(name)

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        path = self.path_of(name)
        with _telling("look for", path):
            return self.disk.exists(path)

    def list(self, folder: str) -> dict[str, int]:
        """Return the names of all files below a folder, sorted, with their sizes in bytes.

        A folder that is not there has no files.
        """
        path = self.path_of(folder)
        with _telling("list", path):
            found = self.disk.sizes(path)
        prefix = f"{folder}/" if folder else ""
        return {prefix + name: found[name] for name in sorted(found)}

    def entries(self) -> tuple[str, ...]:
        """Return the names of files and folders directly in it, sorted.

        A folder that is not there is empty.
        """
        with _telling("list", str(self)):
            return tuple(sorted(self.disk.entries(self.path_of(""))))

    def delete(self, name: str) -> None:
        """Remove a file; it is no error if it is gone already."""
        path = self.path_of(name)
        with _telling("delete", path), suppress(FileNotFoundError):
            self.disk.delete(path)

    def make_folder(self, name: str) -> None:
        """Make a folder, and its parents, durably."""
        path = self.path_of(name)
        with _telling("make the folder", path):
            self.disk.make_folder(path)

    def _write_new_otherwise(self, name: str, content: Content, why: NoFenceError) -> None:
        """Write a new file by the guard, or without one if there is only one driver."""
        path = self.path_of(name)
        if self._guard is not None:
            try:
                self._guard.create(self.spark_path_of(name), content)
            except NoFenceError as error:
                why = NoFenceError(f"{why}; {error}")
            else:
                return
        if not self.one_driver:
            raise CheckpointError(
                f"cannot write {path} so that no two drivers could both do it: {why}; {_ALONE}"
            )
        if self.exists(name):
            raise NameTakenError(path)
        self.disk.put(path, content)

    @contextmanager
    def _refusing_taken(self, path: str) -> Iterator[None]:
        try:
            yield
        except NameTakenError as error:
            raise CheckpointError(
                f"{path} is already there, though nothing else should write it; "
                "see that one job only works on this checkpoint"
            ) from error

    def _joined(self, base: str, name: str) -> str:
        parts = name.split("/") if name else []
        if any(part in {"", ".", ".."} for part in parts):
            raise CheckpointError(f"{name!r} does not name a file inside {self}")
        return "/".join([base.rstrip("/"), *parts])

    def _but(
        self, *, root: str | None = None, spark: str | None = None, guard: Guard | None = None
    ) -> "Location":
        made = Location(
            self.root if root is None else root,
            spark=self.spark if spark is None else spark,
            one_driver=self.one_driver,
        )
        object.__setattr__(made, "_guard", self._guard if guard is None else guard)
        return made


def _again(kind: type[Location], root: str, spark: str, one_driver: bool) -> Location:  # noqa: FBT001
    return kind(root, spark=spark, one_driver=one_driver)


def _text_of(root: Any) -> str:
    """Return a path or a URI as text."""
    given = os.fspath(root) if isinstance(root, str | os.PathLike) else root
    if not isinstance(given, str):
        raise InvalidValueError(f"location {root!r} is not a folder; give its path or its URI")
    if not given:
        raise CheckpointError("location '' is not a folder; give its path or its URI")
    return given


def _tidy_uri(spark: str) -> str:
    """Return a name for Spark as it is joined with others; it has to be a URI."""
    scheme, colon, path = spark.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme or not path.startswith("/") or "?" in path:
        raise CheckpointError(
            f"spark={spark!r} is not a folder by Spark's name; give a URI without options, such as "
            "'abfss://container@account.dfs.core.windows.net/folder'"
        )
    return spark.rstrip("/")


@contextmanager
def _telling(doing: str, path: str) -> Iterator[None]:
    """Turn an error of a file system into one that says what to do."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"cannot {doing} {path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return "the disk is full; free some space there, then start again"
    if number in _FORBIDDEN:
        return "permission denied; let the user that runs the job read and write there"
    if number in _MISSING:
        return (
            "it is missing, or its folder cannot be made; if it was moved or removed, bring it "
            "back, else give another path"
        )
    if number in _NO_FOLDER:
        return "it, or what it should stand in, is a file and no folder; give another path"
    return f"{error}; see to the file system, then start again"
