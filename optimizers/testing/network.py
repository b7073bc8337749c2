"""A small network of senders and instances, to try dispatchers and reporters in.

Instances execute tuples one after the other; a test decides which messages of reporters are late,
lost or come twice.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from grouping.feedback import Dispatcher, Message, Reporter
from grouping.grouping import Grouping
from optimizers.errors import PenstockError
from sketches.keys import as_keys

_BETWEEN = 0.1
_SECONDS = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Fate:
    """The fate of a message.

    Attributes:
        late: how many tuples are dispatched before it arrives.
        lost: whether it does not arrive at all.
        again: how many tuples later it arrives once more; None where it does not.
    """

    late: int = 0
    lost: bool = False
    again: int | None = None


def delivered_at_once() -> Iterator[Fate]:
    """Return the fates of messages in a network without faults."""
    return repeat(Fate())


@dataclass
class NetworkRun:
    """The fates of some tuples.

    Attributes:
        chosen: the instance of each.
        messages: all messages, in the order in which they were sent.
        recipients: the sender that each of the messages was for.
    """

    chosen: list[Any] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    recipients: list[int] = field(default_factory=list)


def run(  # noqa: PLR0913  # all that there is in a network
    grouping: Grouping,
    instances: int,
    senders: int,
    stream: Sequence[Any],
    fates: Iterator[Fate],
    *,
    wire: Callable[[Message], Message] = lambda message: message,
    foreign: Sequence[Any] = (),
) -> NetworkRun:
    """Send a stream through dispatchers that take turns, and return the fates of its tuples.

    Args:
        grouping: a grouping that listens.
        instances: how many instances there are.
        senders: how many dispatchers there are.
        stream: the keys of the tuples.
        fates: the fate of each message, in the order in which they are sent.
        wire: a function that each message passes through.
        foreign: messages that no reporter has sent, and that dispatchers get before each tuple.
    """
    network = _MessageNetwork(grouping, instances, senders, fates, wire)
    codes = as_keys(stream).codes.tolist()
    for turn, code in enumerate(codes):
        network.work_until(turn)
        network.deliver(turn)
        network.disturb(turn % senders, foreign)
        network.send(turn % senders, code, turn)
    return network.run


@dataclass(frozen=True)
class _SentMessage:
    sender: int
    code: int
    seconds: float
    done: float
    carried: Message | None


class _MessageNetwork:
    """The state of all, and the truth about it."""

    def __init__(
        self,
        grouping: Grouping,
        instances: int,
        senders: int,
        fates: Iterator[Fate],
        wire: Callable[[Message], Message],
    ) -> None:
        self.run = NetworkRun()
        self._dispatchers: list[Dispatcher] = [
            grouping.dispatcher(instances, sender=sender, senders=senders, truth=self)
            for sender in range(senders)
        ]
        self._reporters: list[Reporter] = [
            grouping.reporter(instance, instances=instances, senders=senders)
            for instance in range(instances)
        ]
        self._queues: list[deque[_SentMessage]] = [deque() for _ in range(instances)]
        self._free = [0.0] * instances
        self._fates, self._wire = fates, wire
        self._on_the_way: dict[int, list[tuple[int, Message]]] = {}
        self._turn = 0
        self._at_hand = 0.0

    def seconds(self, instance: int) -> float:
        """Return how long the present tuple will take."""
        return self._at_hand

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it."""
        return max(0.0, self._free[instance] - self._turn * _BETWEEN)

    def waiting(self, instance: int) -> int:
        """Return how many tuples an instance has before it."""
        return len(self._queues[instance])

    def work_until(self, turn: int) -> None:
        """Let instances execute the tuples that are done by now, and report them."""
        self._turn = turn
        for instance, queue in enumerate(self._queues):
            while queue and queue[0].done <= turn * _BETWEEN:
                sent = queue.popleft()
                letters = self._reporters[instance].executed(
                    sent.sender, sent.code, sent.seconds, sent.done, sent.carried
                )
                for recipient, message in letters:
                    self._post(turn, recipient, message)

    def deliver(self, turn: int) -> None:
        """Hand over the messages that arrive now."""
        for recipient, message in self._on_the_way.pop(turn, ()):
            self._dispatchers[recipient].receive(message, turn * _BETWEEN)

    def disturb(self, sender: int, foreign: Sequence[Any]) -> None:
        """Let a dispatcher receive a message that no reporter has sent; it may refuse it."""
        for message in foreign:
            with suppress(PenstockError):
                self._dispatchers[sender].receive(message, self._turn * _BETWEEN)

    def send(self, sender: int, code: int, turn: int) -> None:
        """Dispatch one tuple."""
        self._at_hand = _SECONDS[code % len(_SECONDS)]
        now = turn * _BETWEEN
        chosen, carried = self._dispatchers[sender].dispatch(code, now)
        self.run.chosen.append(chosen)
        if chosen not in range(len(self._queues)):
            raise AssertionError(
                f"a dispatcher sent a tuple to instance {chosen!r} of {len(self._queues)}"
            )
        done = max(now, self._free[chosen]) + self._at_hand
        self._free[chosen] = done
        travelled = None if carried is None else self._wire(carried)
        self._queues[chosen].append(_SentMessage(sender, code, self._at_hand, done, travelled))

    def _post(self, turn: int, recipient: int, message: Message) -> None:
        self.run.messages.append(message)
        self.run.recipients.append(recipient)
        if recipient not in range(len(self._dispatchers)):
            raise AssertionError(
                f"a reporter sent {message!r} to sender {recipient!r} of {len(self._dispatchers)}"
            )
        fate = next(self._fates)
        travelled = self._wire(message)
        if fate.lost:
            return
        arrives = turn + fate.late
        self._on_the_way.setdefault(arrives, []).append((recipient, travelled))
        if fate.again is not None:
            self._on_the_way.setdefault(arrives + fate.again, []).append((recipient, travelled))
