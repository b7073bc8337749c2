"""Conversations: the messages between the senders of an edge and the instances they send to."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from grouping.feedback import Dispatcher, Letters, Message, Reporter, Truth
from grouping.grouping import Grouping
from optimizers.errors import InvalidValueError

Parcel: TypeAlias = tuple[float, int, int, int, int, Message]
"""A message on its way: when it arrives, of which edge, from where, its number, and for whom."""


class Conversation:
    """The dispatchers and reporters of one edge, and the messages between them.

    Args:
        grouping: how tuples are spread.
        senders: how many instances send.
        instances: how many they send to.
        truth: of the target.
        since: from when on tuples are spread so.

    Attributes:
        messages: how many messages were sent to dispatchers, since they were counted last.
        carried: how many travelled with a tuple.
    """

    def __init__(
        self, grouping: Grouping, senders: int, instances: int, truth: Truth, since: float
    ) -> None:
        self.made_for = grouping, senders, instances
        self.since = since
        self.instances = instances
        self.messages = 0
        self.carried = 0
        self._where = grouping.kind
        self.dispatchers: list[Dispatcher] = [
            grouping.dispatcher(instances, sender=sender, senders=senders, truth=truth)
            for sender in range(senders)
        ]
        self.reporters: list[Reporter] = [
            grouping.reporter(instance, instances=instances, senders=senders)
            for instance in range(instances)
        ]

    def dispatch(self, sender: int, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple, and what is to travel with it.

        Raises:
            InvalidValueError: the dispatcher chose an instance that does not exist.
        """
        dispatchers = self.dispatchers
        # Senders that a plan has taken away may still have something to send.
        chosen, carried = dispatchers[sender % len(dispatchers)].dispatch(code, now)
        if not 0 <= chosen < self.instances:
            raise InvalidValueError(
                f"the dispatcher of a {self._where} grouping chose instance {chosen!r} of "
                f"{self.instances}; let it return one that is there"
            )
        if carried is not None:
            self.carried += 1
        return chosen, carried

    def receive(self, sender: int, message: Message, now: float) -> None:
        """Let the dispatcher of a sender take in a message."""
        self.dispatchers[sender].receive(message, now)

    def executed(  # noqa: PLR0913, PLR0917
        self, instance: int, sender: int, code: int, seconds: float, now: float, carried: Message
    ) -> Letters:
        """Tell the reporter of an instance that a tuple was executed, and return its letters.

        Raises:
            InvalidValueError: a letter is for a sender that does not exist.
        """
        if instance >= self.instances:
            return ()
        sender %= len(self.dispatchers)
        letters = self.reporters[instance].executed(sender, code, seconds, now, carried)
        if letters:
            self.messages += len(letters)
            self._check(letters)
        return letters

    def _check(self, letters: Letters) -> None:
        for whom, _ in letters:
            if not 0 <= whom < len(self.dispatchers):
                raise InvalidValueError(
                    f"a reporter of a {self._where} grouping wrote to sender {whom!r} of "
                    f"{len(self.dispatchers)}; let it write to one that is there"
                )


class Mailbox:
    """Messages on their way to dispatchers, by the time at which they arrive."""

    def __init__(self) -> None:
        self._number = count()
        self.parcels: list[Parcel] = []

    def send(self, time: float, edge: int, instance: int, sender: int, message: Message) -> None:
        """Let a message arrive at a time."""
        heappush(self.parcels, (time, edge, instance, next(self._number), sender, message))

    def forget(self, edge: int) -> None:
        """Drop the messages of an edge that no dispatcher waits for any more."""
        self.parcels[:] = [parcel for parcel in self.parcels if parcel[1] != edge]
        heapify(self.parcels)

    def deliver(self, now: float, receive: Callable[[int, int, Message, float], None]) -> None:
        """Hand out all messages that have arrived by now."""
        parcels = self.parcels
        while parcels and parcels[0][0] <= now:
            time, edge, _, _, sender, message = heappop(parcels)
            receive(edge, sender, message, time)
