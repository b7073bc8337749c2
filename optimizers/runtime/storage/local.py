"""File systems that the operating system has mounted."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from optimizers.runtime.storage.disk import Content, NameTakenError, NoFenceError, RenamingDisk

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LocalDisk(RenamingDisk):
    """A file system that the operating system has mounted."""

    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return the content of the file."""
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
            # An NFS server that was asked twice, after a lost answer, says so as well.
            if not Path(name).samefile(path):
                raise NameTakenError(name) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise NoFenceError(f"the file system has no hard links ({error.strerror})") from error
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
        """Return the names of files and folders directly in a folder, if it is there."""
        try:
            return os.listdir(folder)  # noqa: PTH208
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """Make a folder, and flush its parent."""
        folder = Path(path)
        if not folder.is_dir():
            self.make_folder(str(folder.parent))
            folder.mkdir(exist_ok=True)
            self._flush_folder(path)

    def _flush_folder(self, name: str) -> None:
        """Flush the folder of this name: it has the name, the file only its content."""
        if os.name == "nt":  # Windows cannot open folders, and keeps names anyway
            return
        descriptor = os.open(Path(name).parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
                with suppress(FileNotFoundError):  # another process is just removing it
                    yield prefix + entry.name, entry.stat().st_size
