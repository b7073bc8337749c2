"""Files of a checkpoint, on a local disk or on any file system that pyarrow knows.

A file appears under its name whole or not at all: it is written under a name of its own, made to
last, and only then given the name that others look for. What stands here knows nothing of what
is in the files.
"""

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from optimizers.errors import CheckpointError
from optimizers.runtime.disks import Content, Disk, NameTakenError, disk_of, is_uri

TEMPORARY = ".tmp"
"""How the names of files end that are still being written; they begin with a dot."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_MISSING = (errno.ENOENT,)
_NO_FOLDER = (errno.ENOTDIR,)


@dataclass(frozen=True, slots=True, init=False)
class Location:
    """A folder on a file system, named so that every process finds it again.

    Names of files in it are relative, with slashes. Folders are made as they are needed. Every
    failure is a `CheckpointError` that names the file and the remedy.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     here = Location(folder)
    ...     here.write_new("notes/first.txt", b"kept")
    ...     print(here.list("notes"), here.read_bytes("notes/first.txt"))
    {'notes/first.txt': 4} b'kept'

    Attributes:
        root: an absolute path, or a URI such as ``"s3://bucket/folder"``. A relative path is made
            absolute where it is given, for another process may work in another folder.
    """

    root: str

    def __init__(self, root: str | os.PathLike[str]) -> None:
        given = os.fspath(root)
        if not given:
            raise CheckpointError("location '' is not a folder; give its path or its URI")
        if not is_uri(given):
            given = os.path.abspath(given)  # noqa: PTH100  # resolve() would follow links
        object.__setattr__(self, "root", given)
        with _telling("find", given):
            disk_of(given)

    def __str__(self) -> str:
        return self.root

    @property
    def disk(self) -> Disk:
        """What does the reading and writing."""
        return disk_of(self.root)[0]

    def path_of(self, name: str) -> str:
        """Return the path of a file, or of a folder, as its own file system calls it."""
        base = disk_of(self.root)[1]
        parts = name.split("/") if name else []
        if any(part in {"", ".", ".."} for part in parts):
            raise CheckpointError(f"{name!r} does not name a file inside {self.root}")
        return "/".join([base.rstrip("/"), *parts])

    def read_bytes(self, name: str) -> bytes:
        """Return what the file holds."""
        return self.read(name).to_pybytes()  # type: ignore[no-any-return]

    def read(self, name: str, *, mapped: bool = False) -> pa.Buffer:
        """Return what the file holds, as memory that Arrow reads without copying.

        Args:
            name: the file.
            mapped: whether to map a local file into memory, in place of copying it there: only
                what is looked at is then read. Such memory must not outlive the file.
        """
        path = self.path_of(name)
        with _telling("read", path):
            return self.disk.read(path, mapped=mapped)

    def write_atomically(self, name: str, content: Content) -> None:
        """Write a file in place of any that has this name.

        Whatever happens, one of the two is there afterwards, whole.
        """
        self._write(name, content, self.disk.replace)

    def write_new(self, name: str, content: Content) -> None:
        """Write a file that must not be there yet, and refuse if it is.

        On a local disk, of two that write it at once one is refused. Where the file system has
        no means for that (object stores, shares without hard links), the second is refused if
        it comes after the first is done.
        """
        try:
            self._write(name, content, self.disk.claim)
        except NameTakenError as error:
            raise CheckpointError(
                f"{self.path_of(name)} is already there, though nobody else should write it; "
                "see that one job only works on this checkpoint"
            ) from error

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
        """Return the names of files and folders that stand in it directly, sorted.

        Of a folder that is not there nothing stands in it.
        """
        with _telling("list", self.root):
            return tuple(sorted(self.disk.entries(self.path_of(""))))

    def delete(self, name: str) -> None:
        """Remove a file; it is no error if it is gone already."""
        path = self.path_of(name)
        with _telling("delete", path), suppress(FileNotFoundError):
            self.disk.delete(path)

    def make_folder(self, name: str) -> None:
        """Make a folder, and those it stands in, so that it lasts."""
        path = self.path_of(name)
        with _telling("make the folder", path):
            self.disk.make_folder(path)

    def _write(self, name: str, content: Content, publish: Callable[[str, str], None]) -> None:
        path = self.path_of(name)
        folder, _, last = path.rpartition("/")
        temporary = f"{folder}/.{last}.{secrets.token_hex(8)}{TEMPORARY}"
        with _telling("write", path):
            try:
                try:
                    self.disk.write(temporary, content)
                except FileNotFoundError:
                    self.disk.make_folder(folder)
                    self.disk.write(temporary, content)
                publish(temporary, path)
            except BaseException:
                # What is to be told is why the writing failed, not that tidying did as well.
                with suppress(OSError, pa.ArrowException):
                    self.disk.delete(temporary)
                raise


@contextmanager
def _telling(doing: str, path: str) -> Iterator[None]:
    """Turn what a file system says into an error that says what to do."""
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
