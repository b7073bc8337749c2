"""File systems as few operations: the operating system's own, and those that pyarrow reaches.

Everything in a checkpoint is made of these operations. Each either happens or raises `OSError`
(or pyarrow's own error), and what it did lasts once it returns.
"""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import pyarrow as pa
import pyarrow.fs

Content: TypeAlias = "bytes | pa.Buffer"

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class NameTakenError(Exception):
    """The name that a new file was to get is another file's."""


class Disk(ABC):
    """The few operations on a file system that everything is made of."""

    @abstractmethod
    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return what the file holds."""

    @abstractmethod
    def write(self, path: str, content: Content) -> None:
        """Write a new file and see that its content lasts."""

    @abstractmethod
    def replace(self, path: str, name: str) -> None:
        """Give a file this name, whoever had it, and see that it lasts."""

    @abstractmethod
    def claim(self, path: str, name: str) -> None:
        """Give a file this name, which must be free, and see that it lasts."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file."""

    @abstractmethod
    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder, by its name relative to it."""

    @abstractmethod
    def entries(self, folder: str) -> list[str]:
        """Return the names of files and folders that stand directly in a folder, if it is there."""

    @abstractmethod
    def make_folder(self, path: str) -> None:
        """Make a folder, and those it stands in, unless they are there."""


class LocalDisk(Disk):
    """A file system that the operating system has mounted."""

    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return what the file holds."""
        if mapped:
            with pa.memory_map(path) as source:
                return source.read_buffer()
        with pa.OSFile(path) as source:
            return source.read_buffer()

    def write(self, path: str, content: Content) -> None:
        """Write a new file and flush it to the disk."""
        with Path(path).open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def replace(self, path: str, name: str) -> None:
        """Rename the file, then flush its folder."""
        Path(path).replace(name)
        self._flush_folder(name)

    def claim(self, path: str, name: str) -> None:
        """Link the file to its new name, which fails if that is taken, then drop the old name."""
        try:
            Path(name).hardlink_to(path)
        except FileExistsError as error:
            raise NameTakenError(name) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if Path(name).exists():
                raise NameTakenError(name) from error
            self.replace(path, name)
        else:
            Path(path).unlink()
            self._flush_folder(name)

    def delete(self, path: str) -> None:
        """Remove a file."""
        Path(path).unlink()

    def exists(self, path: str) -> bool:
        """Return whether there is a file."""
        return Path(path).is_file()

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder, by its name relative to it."""
        return dict(_walk(folder, ""))

    def entries(self, folder: str) -> list[str]:
        """Return the names of files and folders that stand directly in a folder, if it is there."""
        try:
            return os.listdir(folder)  # noqa: PTH208
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """Make a folder, and flush the one it stands in."""
        folder = Path(path)
        if not folder.is_dir():
            self.make_folder(str(folder.parent))
            folder.mkdir(exist_ok=True)
            self._flush_folder(path)

    def _flush_folder(self, name: str) -> None:
        """Flush the folder that this name is in: it holds the name, the file only its content."""
        if os.name == "nt":  # Windows cannot open folders, and keeps names by itself
            return
        descriptor = os.open(Path(name).parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RemoteDisk(Disk):
    """A file system that pyarrow reaches: HDFS, S3, Google's and Azure's stores."""

    def __init__(self, files: pyarrow.fs.FileSystem) -> None:
        self._files = files

    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return what the file holds."""
        with self._files.open_input_file(path) as source:
            return source.read_buffer()

    def write(self, path: str, content: Content) -> None:
        """Write a new file; closing it makes it last."""
        with self._files.open_output_stream(path) as sink:
            sink.write(content)

    def replace(self, path: str, name: str) -> None:
        """Rename the file."""
        self._files.move(path, name)

    def claim(self, path: str, name: str) -> None:
        """Look whether the name is taken, then rename the file."""
        if self.exists(name):
            raise NameTakenError(name)
        self._files.move(path, name)

    def delete(self, path: str) -> None:
        """Remove a file."""
        self._files.delete_file(path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file."""
        kind = self._files.get_file_info(path).type
        return bool(kind == pyarrow.fs.FileType.File)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder, by its name relative to it."""
        wanted = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
        return {
            str(PurePosixPath(found.path).relative_to(folder)): found.size
            for found in self._files.get_file_info(wanted)
            if found.type == pyarrow.fs.FileType.File
        }

    def entries(self, folder: str) -> list[str]:
        """Return the names of files and folders that stand directly in a folder, if it is there."""
        wanted = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        return [found.base_name for found in self._files.get_file_info(wanted)]

    def make_folder(self, path: str) -> None:
        """Make a folder, and those it stands in."""
        self._files.create_dir(path, recursive=True)


def is_uri(root: str) -> bool:
    """Return whether it is a URI, not the path of a local folder."""
    return "://" in root or root.startswith("file:")


@lru_cache(maxsize=64)
def disk_of(root: str) -> tuple[Disk, str]:
    """Return the file system of a path or URI, and the path there."""
    if not is_uri(root):
        return LocalDisk(), root
    files, path = pyarrow.fs.FileSystem.from_uri(root)
    local = isinstance(files, pyarrow.fs.LocalFileSystem)
    return LocalDisk() if local else RemoteDisk(files), path


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, int]]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                with suppress(FileNotFoundError):  # somebody is just removing it
                    yield prefix + entry.name, entry.stat().st_size
