"""Dispatchers and reporters: groupings that choose tuple by tuple, and listen while they do.

A router sends batches and hears nothing. A dispatcher sends one tuple at a time, and the instances
report the costs of tuples to it; a reporter is that other half, one for each instance. Neither does
input or output: the time, executed tuples and arrived messages are arguments, and messages to send
are returned. So they run the same in a simulation, behind real sockets, and under a test that loses
and doubles messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = Any
"""A message between a dispatcher and the reporters of its grouping: a frozen value."""

Letters: TypeAlias = Sequence[tuple[int, Message]]
"""Messages, each with the number of the sender that it is for."""


class Dispatcher(ABC):
    """Chooses an instance for each tuple of one sender, as it comes."""

    @abstractmethod
    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple, and a message to travel with it, if any.

        Args:
            code: the 64-bit code of the tuple's key, see `sketches.keys`; 0 where it has none.
            now: the time, in seconds of the sender's clock, which never goes backwards.
        """

    def receive(self, message: Message, now: float) -> None:  # noqa: B027  # some do not listen
        """Take in a message of an instance's reporter.

        Messages may be lost, doubled, late or overtake each other.
        """


class Reporter(ABC):
    """Reports the tuples that one instance executes to the dispatchers."""

    @abstractmethod
    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Note that a tuple was executed, and return the messages to send back.

        Args:
            sender: the number of the instance that sent the tuple.
            code: the code of its key.
            seconds: how long it took.
            now: the time, in seconds of the instance's clock, which need not agree with others.
            carried: the message that travelled with it.
        """


class Truth(Protocol):
    """The true present state, which only a simulation knows."""

    def seconds(self, instance: int) -> float:
        """Return how long the present tuple will take at an instance."""

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it, of all senders."""

    def waiting(self, instance: int) -> int:
        """Return how many tuples are at an instance or on their way to it, of all senders."""
