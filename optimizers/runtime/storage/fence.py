"""Creating a file only if there is none, which keeps two drivers from both committing.

Object stores have a conditional create, but pyarrow has none; so the store's own client is used
for it. The answer to a create can be lost: the connection breaks, or the store fails after it has
kept the object. Asked again, it says that the name is taken. So each create carries a unique token,
and a name that is taken by an object with our token is ours.
"""

import secrets
import time
from abc import ABC, abstractmethod

from optimizers.runtime.storage.disk import Content, NameTakenError

MADE_BY = "penstock"
"""Where an object's metadata keeps the token of the create that made it."""

_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds between two tries


class PassingError(Exception):
    """The store failed, or did not answer: it may have created the object, or not."""


class Fence(ABC):
    """Creates files under names that must be free."""

    @abstractmethod
    def create(self, path: str, content: Content) -> None:
        """Create a file, whole, unless there is one of this name.

        Raises:
            NameTakenError: there is.
            NoFenceError: this cannot be promised for the path.
        """


class StoreFence(Fence):
    """The conditional create of an object store."""

    @abstractmethod
    def put(self, path: str, content: bytes, token: str) -> None:
        """Ask for the object to be made unless there is one; once, without trying again.

        Raises:
            NameTakenError: there is one.
            PassingError: it is not known whether it was made.
            OSError: it was not made, and will not be.
        """

    @abstractmethod
    def token_of(self, path: str) -> str | None:
        """Return the token of the object; None if it is not there, or has none.

        Raises:
            PassingError: the store does not answer.
        """

    def create(self, path: str, content: Content) -> None:
        """Create an object; if an answer is lost, find out whether it was created."""
        token, data = secrets.token_hex(16), bytes(memoryview(content))
        for pause in (*_PAUSES, None):
            try:
                self._create_once(path, data, token)
            except PassingError as error:
                if pause is None:
                    raise OSError(
                        "the store did not say whether it was written, though it was asked "
                        f"{len(_PAUSES) + 1} times ({error})"
                    ) from error
                time.sleep(pause)
            else:
                return

    def _create_once(self, path: str, data: bytes, token: str) -> None:
        try:
            self.put(path, data, token)
        except NameTakenError:
            if self.token_of(path) != token:
                raise


def refused(status: int, error: Exception) -> OSError:
    """Return a store's definite refusal as an error of a file system."""
    if status in {401, 403}:
        return PermissionError(13, str(error))
    if status == 404:
        return FileNotFoundError(2, str(error))
    return OSError(str(error))


def is_passing(status: int) -> bool:
    """Return whether a store may answer otherwise when it is asked again.

    409 is the answer to a create while another one is under way: neither has won yet.
    """
    return status in {408, 409, 425, 429} or status >= 500
