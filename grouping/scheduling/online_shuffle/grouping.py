"""Online shuffle grouping as published: tuples go to the instance with the least estimated work.

Instances measure what tuples cost; schedulers add up what they have given to each, and give the
next tuple to the least. The parts: `online_shuffle_messages` is what they say to each other,
`online_shuffle_instance` and `online_shuffle_scheduler` are the two state machines,
`online_shuffle_costs` their matrices.

An instance counts the tuples of each key and adds up their seconds, in two Count-Min matrices F
and W. After a window of tuples it takes a snapshot of W/F; after the next it compares. Once the
sum of changes is at most ``tolerance`` of the sum of the snapshot, it sends F and W to the
schedulers and starts again from zero.

A scheduler deals tuples out in turn (ROUND_ROBIN) until it has matrices of every instance. Then
each tuple goes to the least of its estimates, which grows by what the tuple is expected to cost
there (RUN). Whenever new matrices come, it first sends one tuple to each instance with the
estimate and the number of the epoch (SEND_ALL), and goes on by its estimates until all have
answered how far those are off (WAIT_ALL); then it corrects all at once.

What the paper does not say, and what is done here:

1. *Lost answers.* Answers that come while others are still being asked are kept. If an answer is
   missing after ``window`` tuples for each instance, those that owe one are asked again. The epoch
   stays: its first answer of each instance counts, whichever question it is to, as both say how
   far one and the same sum was off. So asking again never makes an answer void that is on its way.
2. *Lost, late and doubled matrices.* They are numbered by instance, and only newer ones are taken.
   Lost ones are replaced by the next. Those that come during an epoch begin another, as in the
   authors' program: where they come faster than answers, tuples still go to the least estimate,
   but that is corrected only later.
3. *Keys without an estimate* are expected to cost what tuples cost on average at that instance.
   In the authors' program they are free.
4. *Equals.* Of equal estimates, the instance is taken whose turn is longest ago.
5. *Answers* go by the work that an instance has done, as in the paper. In the authors' program
   they go by the time since it began, idle or not: ``wall_clock=True``.
6. *Synchronising without new matrices,* after ``resync`` tuples for each instance, is in the
   authors' program with ``resync=window``, and not in the paper.
7. *Several schedulers.* Each has estimates of its own, of what it has given itself, and is
   answered by the work that was done for it alone: the sum of balanced loads is balanced. If all
   heard of all work, all would turn to the same instance at once: four schedulers then took
   six times as long. A wall clock does not separate such parts, so ``wall_clock`` is for one
   scheduler only. Matrices go to all.

An instance that restarts has forgotten how much it has done: give it a new reporter, and all
schedulers new dispatchers.

References:
    N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for shuffle
    grouping in distributed stream processing systems", Middleware 2016; in short in "Ordonnancement
    dynamique pour un équilibrage de charge quasi-optimal", AlgoTel 2017.
"""

from dataclasses import asdict, dataclass
from typing import Any

from grouping.feedback import Dispatcher, Reporter, Truth
from grouping.grouping import Grouping
from grouping.routers import RoundRobinRouter, Router
from grouping.scheduling.online_shuffle.costs import KeyPlaces, MeasuredCosts
from grouping.scheduling.online_shuffle.instance import CostWatch, OnlineShuffleReporter
from grouping.scheduling.online_shuffle.scheduler import OnlineShuffleDispatcher
from sketches import checks
from sketches.errors import InvalidValueError
from sketches.row_hashes import checked_shape

_LARGEST_WINDOW = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineShuffle(Grouping):
    """Send each tuple to the instance with the least estimated work, by its key's measured cost.

    Batches that are routed without hearing from the instances are dealt out in turn, as a
    scheduler without matrices does.

    >>> grouping = OnlineShuffle(window=1)
    >>> scheduler, instance = grouping.dispatcher(1), grouping.reporter(0, instances=1)
    >>> scheduler.dispatch(7, now=0.0)
    (0, None)
    >>> [instance.executed(0, 7, seconds=2.0, now=2.0, carried=None) for _ in range(2)][-1]
    [(0, Matrices(instance=0, number=1, ...

    Attributes:
        window: how many tuples an instance executes between two looks at its costs.
        tolerance: how much of the mean costs may have changed where they count as settled.
        width: how many cells a row of the matrices has: e / ε of the paper.
        depth: how many rows they have: log2(1 / δ).
        seed: what their hashes are drawn from.
        resync: after how many tuples for each instance estimates are synchronised though costs
            have not changed; None for never.
        wall_clock: whether instances answer by the time that has passed and not by their work;
            of use to a single scheduler only.

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for
        shuffle grouping in distributed stream processing systems", Middleware 2016.
    """

    window: int = 1024
    tolerance: float = 0.05
    width: int = 55
    depth: int = 4
    seed: int = 0
    resync: int | None = None
    wall_clock: bool = False
    kind = "online_shuffle"
    needs_key = True
    listens = True

    def __post_init__(self) -> None:
        window = checks.whole("window", self.window, at_least=1, at_most=_LARGEST_WINDOW)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "tolerance", checks.amount("tolerance", self.tolerance))
        width, depth = checked_shape(self.width, self.depth)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "seed", checks.seed(self.seed))
        if self.resync is not None:
            object.__setattr__(self, "resync", checks.whole("resync", self.resync, at_least=1))
        if not isinstance(self.wall_clock, bool):
            raise InvalidValueError(
                f"wall_clock={self.wall_clock!r} is neither True nor False; say which"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return asdict(self)

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return RoundRobinRouter(instances, among=range(instances), start=sender)

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        places = KeyPlaces(width=self.width, depth=self.depth, seed=self.seed)
        return OnlineShuffleDispatcher(
            instances, places, sender=sender, window=self.window, resync=self.resync
        )

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        costs = MeasuredCosts(self.width, self.depth, self.seed)
        watch = CostWatch(costs, window=self.window, tolerance=self.tolerance)
        return OnlineShuffleReporter(instance, watch, senders=senders, wall_clock=self.wall_clock)
