"""A file system as a few operations, which all of a checkpoint is made of.

Each either happens or raises `OSError` (or pyarrow's own error), and its effect is durable when it
returns.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa

Content: TypeAlias = "bytes | pa.Buffer"

TEMPORARY = ".tmp"
"""The ending of the names of files that are still being written; they begin with a dot."""


class NameTakenError(Exception):
    """The name for a new file is taken."""


class NoFenceError(Exception):
    """The storage has no usable means for an operation that has to be atomic."""


class Disk(ABC):
    """The few operations on a file system that everything else uses."""

    @abstractmethod
    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return the content of the file."""

    @abstractmethod
    def put(self, path: str, content: Content) -> None:
        """Write a file whose name is unique for ever."""

    @abstractmethod
    def put_new(self, path: str, content: Content) -> None:
        """Write a file that must not be there yet: of several that try at once, one succeeds.

        Raises:
            NameTakenError: it is there already.
            NoFenceError: the storage cannot promise that.
        """

    @abstractmethod
    def put_over(self, path: str, content: Content) -> None:
        """Write a file, replacing any of this name, so that one of the two is always there.

        Raises:
            NoFenceError: the storage cannot promise that.
        """

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
        """Return the names of files and folders directly in a folder, if it is there."""

    @abstractmethod
    def make_folder(self, path: str) -> None:
        """Make a folder, and its parents, unless they are there."""


class RenamingDisk(Disk):
    """A disk where a file is written under a name of its own, and then given the one it is for.

    So no reader sees half a file.
    """

    @abstractmethod
    def write(self, path: str, content: Content) -> None:
        """Write a new file and see that its content lasts."""

    @abstractmethod
    def replace(self, path: str, name: str) -> None:
        """Give a file this name, replacing any file of it, durably."""

    @abstractmethod
    def claim(self, path: str, name: str) -> None:
        """Give a file this name, which must be free, durably."""

    def put(self, path: str, content: Content) -> None:
        """Write a file whose name is unique for ever."""
        try:
            self.put_new(path, content)
        except NoFenceError:
            self.put_over(path, content)

    def put_new(self, path: str, content: Content) -> None:
        """Write a file that must not be there yet."""
        self._put(path, content, self.claim)

    def put_over(self, path: str, content: Content) -> None:
        """Write a file in place of any of this name."""
        self._put(path, content, self.replace)

    def _put(self, path: str, content: Content, publish: Callable[[str, str], None]) -> None:
        temporary = beside(path)
        try:
            try:
                self.write(temporary, content)
            except FileNotFoundError:
                self.make_folder(path.rpartition("/")[0])
                self.write(temporary, content)
            publish(temporary, path)
        except BaseException:
            # Raise the error of writing, not that of tidying up.
            with suppress(OSError, pa.ArrowException):
                self.delete(temporary)
            raise


def beside(path: str) -> str:
    """Return a unique name in the same folder, for the time of writing."""
    folder, _, last = path.rpartition("/")
    return f"{folder}/.{last}.{secrets.token_hex(8)}{TEMPORARY}"
