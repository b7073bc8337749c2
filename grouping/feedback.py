"""Dispatchers and reporters: groupings that choose tuple by tuple, and listen while they do.

A router sends batches and hears nothing. A dispatcher sends one tuple at a time, and the instances
that work on them tell it what the work came to; a reporter is the half that does the telling, one
for each instance. Neither does any input or output of its own: what time it is, what was executed
and what has arrived are arguments, and what is to be sent is returned. So they run the same in a
simulation, behind real sockets, and under a test that loses and doubles messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = Any
"""What a dispatcher and the reporters of its grouping send each other: a frozen value."""

Letters: TypeAlias = Sequence[tuple[int, Message]]
"""Messages, each with the number of the sender that it is for."""


class Dispatcher(ABC):
    """Chooses an instance for each tuple of one sender, as it comes."""

    @abstractmethod
    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple, and what is to travel with it, if anything.

        Args:
            code: the 64-bit code of the tuple's key, see `sketches.keys`; 0 where it has none.
            now: the time, in seconds of the sender's clock, which never goes backwards.
        """

    def receive(self, message: Message, now: float) -> None:  # noqa: B027  # some do not listen
        """Take in what the reporter of an instance has sent.

        Messages may be lost, doubled, late or overtake each other.
        """


class Reporter(ABC):
    """What one instance tells the dispatchers of what it executes."""

    @abstractmethod
    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Take in that a tuple was executed, and return what is to be sent back.

        Args:
            sender: the number of the instance that sent the tuple.
            code: the code of its key.
            seconds: how long it took.
            now: the time, in seconds of the instance's clock, which need not agree with others.
            carried: what travelled with it.
        """


class Truth(Protocol):
    """Things as they are at this moment, which only a simulation knows."""

    def seconds(self, instance: int) -> float:
        """Return how long the tuple at hand will take at an instance."""

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it, of all senders."""

    def waiting(self, instance: int) -> int:
        """Return how many tuples are at an instance or on their way to it, of all senders."""
