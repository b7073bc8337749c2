"""Dispatchers that choose by the length of queues or by the truth, for comparison."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from grouping.feedback import Dispatcher, Letters, Message, Reporter
from grouping.hashing import LARGEST_PARTS
from grouping.routers import Router, less_loaded
from grouping.scheduling.online_shuffle.loads import InstanceLoads
from sketches.arrays import Parts
from sketches.checks import whole
from sketches.errors import InvalidValueError

Load: TypeAlias = Callable[[int], float]
"""A function that returns an instance's present load."""

_PAIRS_AT_A_TIME = 1 << 10

# Adding and subtracting work rounds: a backlog may come out this many seconds below zero.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The number of a sender's tuples that are done. From an instance to that sender.

    Attributes:
        instance: the instance.
        done: how many it has executed since it began, so that the last message is enough.
    """

    instance: int
    done: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance", whole("instance", self.instance, at_least=0))
        object.__setattr__(self, "done", whole("done", self.done, at_least=1))


class Acknowledger(Reporter):
    """Tells each sender how many of its tuples are done, after every few of them.

    >>> acknowledger = Acknowledger(4, senders=1, every=2)
    >>> [acknowledger.executed(0, 7, 1.0, 1.0, None) for _ in range(2)]
    [(), ((0, Acknowledgement(instance=4, done=2)),)]
    """

    def __init__(self, instance: int, *, senders: int, every: int) -> None:
        self._instance = instance
        self._done = [0] * senders
        self._every = every

    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Count a tuple, and return the messages to send back."""
        whole("sender", sender, at_least=0, at_most=len(self._done) - 1)
        self._done[sender] += 1
        if self._done[sender] % self._every:
            return ()
        return ((sender, Acknowledgement(self._instance, self._done[sender])),)


class SilentReporter(Reporter):
    """Sends nothing: for dispatchers that see the truth."""

    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Return nothing to be sent back."""
        return ()


class AcknowledgedDispatcher(Dispatcher):
    """Base of dispatchers that count the tuples they sent and that were not acknowledged."""

    def __init__(self, instances: int, *, sender: int) -> None:
        self._waiting = InstanceLoads([0] * instances, first=sender % instances)
        self._sent = [0] * instances
        self._done = [0] * instances

    @property
    def waiting(self) -> list[float]:
        """How many tuples of this sender each instance has not acknowledged."""
        return self._waiting.all

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple; nothing travels with it."""
        instance = self._choose()
        self._sent[instance] += 1
        self._waiting.give(instance, 1)
        return instance, None

    @abstractmethod
    def _choose(self) -> int:
        """Return the instance for the next tuple."""

    def receive(self, message: Message, now: float) -> None:
        """Take in an acknowledgement; those that were overtaken or come twice make no difference.

        Raises:
            InvalidValueError: no instance here can have sent that. The dispatcher is unchanged.
        """
        if not isinstance(message, Acknowledgement):
            raise InvalidValueError(
                f"{message!r} is not an acknowledgement; let dispatcher and reporter be of one "
                "grouping"
            )
        instance = whole("instance", message.instance, at_least=0, at_most=len(self._sent) - 1)
        if message.done > self._sent[instance]:
            raise InvalidValueError(
                f"done={message.done} tuples at instance {instance}, which was sent "
                f"{self._sent[instance]}; begin with new dispatchers and reporters together"
            )
        if message.done > self._done[instance]:
            self._waiting.change(instance, self._done[instance] - message.done)
            self._done[instance] = message.done


class ShortestQueueDispatcher(AcknowledgedDispatcher):
    """Sends each tuple to where the fewest of its sender's wait; of equals, in turn.

    >>> dispatcher = ShortestQueueDispatcher(2, sender=0)
    >>> [dispatcher.dispatch(7, 0.0)[0] for _ in range(3)]
    [0, 1, 0]
    >>> dispatcher.receive(Acknowledgement(0, done=2), 0.0)
    >>> dispatcher.dispatch(7, 0.0), dispatcher.waiting
    ((0, None), [1, 1])
    """

    def _choose(self) -> int:
        return self._waiting.least


class PairDraws:
    """Two instances drawn at random, again and again; different ones if there are two.

    >>> first, second = PairDraws(4, seed=0, sender=0).take(3)
    >>> bool((first != second).all())
    True

    Args:
        instances: how many there are to draw from.
        seed: the draws depend on it and on the sender only.
        sender: the sender.
    """

    def __init__(self, instances: int, *, seed: int, sender: int) -> None:
        self._instances = instances
        self._numbers = np.random.default_rng((seed, sender))

    def take(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the next pairs."""
        drawn = self._numbers.random((count, 2))
        first = (drawn[:, 0] * self._instances).astype(np.intp)
        second = (drawn[:, 1] * (self._instances - 1)).astype(np.intp)
        if self._instances > 1:
            second += second >= first
        return first, second

    def one_by_one(self) -> Iterator[tuple[int, int]]:
        """Yield the next pairs for ever."""
        while True:
            first, second = self.take(_PAIRS_AT_A_TIME)
            yield from zip(first.tolist(), second.tolist(), strict=True)


class TwoChoicesDispatcher(AcknowledgedDispatcher):
    """Sends each tuple to the one of two instances where fewer of its sender's wait."""

    def __init__(self, instances: int, draws: PairDraws, *, sender: int) -> None:
        super().__init__(instances, sender=sender)
        self._pairs = draws.one_by_one()

    def _choose(self) -> int:
        first, second = next(self._pairs)
        return second if self._waiting[second] < self._waiting[first] else first


class TwoChoicesRouter(Router):
    """Sends each tuple to the one of two instances that this router has sent less."""

    def __init__(self, instances: int, draws: PairDraws) -> None:
        super().__init__(instances)
        self._draws = draws
        self._loads = [0] * instances

    def route(self, rows: int, keys: object = None) -> Parts:
        """Return the instance of each tuple of the next batch."""
        first, second = self._draws.take(whole("rows", rows, at_least=0, at_most=LARGEST_PARTS))
        return np.array(less_loaded(self._loads, first.tolist(), second.tolist()), dtype=np.int32)


class LeastOfAll(Dispatcher):
    """Sends each tuple to the instance with the least of a load that it is shown; ties in turn.

    >>> dispatcher = LeastOfAll(3, [5.0, 2.0, 2.0].__getitem__)
    >>> [dispatcher.dispatch(7, 0.0)[0] for _ in range(3)]
    [1, 2, 1]

    Args:
        instances: how many there are.
        load: how much each has to do at this moment.
        sender: the number of the sender; it begins with another instance than its siblings.
    """

    def __init__(self, instances: int, load: Load, *, sender: int = 0) -> None:
        self._load = load
        self._turns = [(instance - sender) % instances for instance in range(instances)]
        self._next_turn = instances

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple; nothing travels with it.

        Raises:
            InvalidValueError: a load is not a number. Nothing was sent.
        """
        loads = list(map(self._load, range(len(self._turns))))
        _check(loads)
        least = min(loads)
        instance = loads.index(least)
        if loads.count(least) > 1:
            equals = [each for each, load in enumerate(loads) if load == least]
            instance = min(equals, key=self._turns.__getitem__)
        self._turns[instance] = self._next_turn
        self._next_turn += 1
        return instance, None


class LeastOfTwo(Dispatcher):
    """Sends each tuple to the one of two instances with the lesser of a load that it is shown."""

    def __init__(self, load: Load, draws: PairDraws) -> None:
        self._load = load
        self._pairs = draws.one_by_one()

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple; nothing travels with it.

        Raises:
            InvalidValueError: a load is not a number.
        """
        first, second = next(self._pairs)
        loads = [self._load(first), self._load(second)]
        _check(loads)
        return (second if loads[1] < loads[0] else first), None


def _check(loads: list[float]) -> None:
    """Refuse loads that are not numbers; if one is not, neither is their sum."""
    if min(loads) >= -_ROUNDING and sum(loads) < math.inf:
        return
    wrong = next(load for load in loads if not -_ROUNDING <= load < math.inf)
    raise InvalidValueError(
        f"load={wrong!r} of an instance is not a finite number from 0; let the truth tell seconds, "
        "backlog and waiting of every instance"
    )
