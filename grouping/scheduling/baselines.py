"""Groupings to compare with: the shortest queue, two choices, and full knowledge.

They show how good a grouping with full knowledge can be, and the price of knowledge. Those that use
acknowledgements could run on a real cluster, with a message for every tuple or every few; the
others need the truth, which only a simulation has.
"""

from dataclasses import asdict, dataclass
from typing import Any

from grouping.feedback import Dispatcher, Reporter, Truth
from grouping.grouping import Grouping
from grouping.routers import RoundRobinRouter, Router
from grouping.scheduling.baseline_dispatchers import (
    Acknowledger,
    LeastOfAll,
    LeastOfTwo,
    PairDraws,
    ShortestQueueDispatcher,
    SilentReporter,
    TwoChoicesDispatcher,
    TwoChoicesRouter,
)
from sketches import checks
from sketches.errors import InvalidValueError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestQueue(Grouping):
    """Send each tuple to the instance where the fewest tuples wait; of equals, in turn.

    A sender knows only its own tuples, and learns from acknowledgements which of them are done.
    Batches that are routed without hearing any are dealt out in turn, as every
    tuple would seem to wait for ever.

    >>> grouping = ShortestQueue()
    >>> sender, instance = grouping.dispatcher(2), grouping.reporter(0, instances=2)
    >>> [sender.dispatch(7, 0.0)[0] for _ in range(2)]
    [0, 1]
    >>> [(_, message)] = instance.executed(0, 7, seconds=1.0, now=1.0, carried=None)
    >>> sender.receive(message, 1.0)
    >>> sender.dispatch(7, 1.0)[0]
    0

    Attributes:
        acknowledge: after how many executed tuples of a sender it gets an acknowledgement: with 1,
            every tuple causes a message.
        instant: whether senders know at any moment how many tuples wait or are on their way, of
            all senders, without a message. That needs the truth.
    """

    acknowledge: int = 1
    instant: bool = False
    kind = "shortest_queue"
    listens = True

    def __post_init__(self) -> None:
        _check_knowledge(self)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return asdict(self)

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        if self.instant:
            raise _unknowable(self)
        return RoundRobinRouter(instances, among=range(instances), start=sender)

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        if self.instant:
            return LeastOfAll(instances, _known(self, truth).waiting, sender=sender)
        return ShortestQueueDispatcher(instances, sender=sender)

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        return _reporter(self, instance, senders)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoChoices(Grouping):
    """Send each tuple to the less loaded of two instances that are drawn at random.

    The load is how many tuples of the sender wait there, by acknowledgements as with
    `ShortestQueue`. Batches are routed by how many the router itself has sent.

    >>> sender = TwoChoices(seed=3).dispatcher(2)
    >>> sorted(sender.dispatch(7, 0.0)[0] for _ in range(4))
    [0, 0, 1, 1]

    Attributes:
        seed: what the instances are drawn from; each sender has draws of its own.
        acknowledge: after how many executed tuples of a sender it gets an acknowledgement.
        instant: whether senders know at any moment how many seconds of work the two instances
            have before them, of all senders, without a message. That needs the truth.

    References:
        M. Mitzenmacher, "The power of two choices in randomized load balancing", IEEE
        Transactions on Parallel and Distributed Systems 12(10), 2001.
    """

    seed: int = 0
    acknowledge: int = 1
    instant: bool = False
    kind = "two_choices"
    listens = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", checks.seed(self.seed))
        _check_knowledge(self)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return asdict(self)

    def _draws(self, instances: int, sender: int) -> PairDraws:
        return PairDraws(instances, seed=self.seed, sender=sender)

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        if self.instant:
            raise _unknowable(self)
        return TwoChoicesRouter(instances, self._draws(instances, sender))

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        draws = self._draws(instances, sender)
        if self.instant:
            return LeastOfTwo(_known(self, truth).backlog, draws)
        return TwoChoicesDispatcher(instances, draws, sender=sender)

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        return _reporter(self, instance, senders)


@dataclass(frozen=True, slots=True)
class FullKnowledge(Grouping):
    """Send each tuple to where it will be done first, knowing all work that there is.

    Greedy online scheduling with the true costs: what `OnlineShuffle` would do if its estimates
    were perfect. On instances of one speed, this is the instance with the least unfinished
    work; where they differ in speed, what the tuple takes there counts as well. Ties in turn.

    It needs the truth, which only a simulation has, and routes no batches.
    """

    kind = "full_knowledge"
    listens = True

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        raise _unknowable(self)

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        known = _known(self, truth)

        def until_done(instance: int) -> float:
            return known.backlog(instance) + known.seconds(instance)

        return LeastOfAll(instances, until_done, sender=sender)

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        return SilentReporter()


def _check_knowledge(grouping: ShortestQueue | TwoChoices) -> None:
    """Check what the two that go by acknowledgements or by the truth have in common."""
    every = checks.whole("acknowledge", grouping.acknowledge, at_least=1)
    object.__setattr__(grouping, "acknowledge", every)
    if not isinstance(grouping.instant, bool):
        raise InvalidValueError(
            f"instant={grouping.instant!r} is neither True nor False; say which"
        )
    if grouping.instant and every != 1:
        raise InvalidValueError(
            f"acknowledge={every} and instant=True, which has no acknowledgements; give one"
        )


def _reporter(grouping: ShortestQueue | TwoChoices, instance: int, senders: int) -> Reporter:
    if grouping.instant:
        return SilentReporter()
    return Acknowledger(instance, senders=senders, every=grouping.acknowledge)


def _known(grouping: Grouping, truth: Truth | None) -> Truth:
    if truth is None:
        raise InvalidValueError(
            f"truth=None, but {grouping!r} goes by it; give it in a simulation, and elsewhere use "
            "a grouping that needs none, such as ShortestQueue() or OnlineShuffle()"
        )
    return truth


def _unknowable(grouping: Grouping) -> InvalidValueError:
    return InvalidValueError(
        f"{grouping!r} needs the truth, and batches are routed without; ask for its dispatcher() "
        "in a simulation, and elsewhere use OnlineShuffle() or Shuffle()"
    )
