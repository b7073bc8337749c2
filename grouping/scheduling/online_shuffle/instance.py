"""The instance's half of online shuffle grouping: it measures, and says when costs have settled."""

from grouping.feedback import Letters, Message, Reporter
from grouping.scheduling.online_shuffle.costs import MeasuredCosts, checked_code
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion, Matrices
from sketches.checks import amount, number, whole
from sketches.errors import InvalidValueError
from sketches.row_hashes import Cells

# Longer than anything was ever computed; so no sum of such times leaves the range of a double.
_LONGEST = 1e12


class CostWatch:
    """Measures what tuples cost, and notices when that has settled.

    It begins without a snapshot (START). The mean costs after a window of tuples are one, with
    which those after the next window are compared (STABILIZING): costs have settled if they have
    changed little, else they are the next snapshot.

    >>> watch = CostWatch(MeasuredCosts(2, 1), window=1)
    >>> watch.settled_with(7, 2.0), watch.snapshot.tolist()
    (False, [[2.0, 0.0]])
    >>> watch.settled_with(7, 2.0)
    True

    Args:
        costs: empty matrices.
        window: how many tuples there are between two looks at the costs.
        tolerance: how much of the mean costs may have changed where they count as settled.
    """

    def __init__(self, costs: MeasuredCosts, *, window: int, tolerance: float = 0.05) -> None:
        self.snapshot: Cells | None = None
        self._costs = costs
        self._window = window
        self._tolerance = tolerance
        # The tuples of this window; counting them all at once is much faster than one by one.
        self._codes: list[int] = []
        self._seconds: list[float] = []

    def settled_with(self, code: int, seconds: float) -> bool:
        """Count a tuple, and tell whether a window ends with it after which costs have settled."""
        self._codes.append(code)
        self._seconds.append(seconds)
        if len(self._codes) < self._window:
            return False
        self._costs.measure(self._codes, self._seconds)
        self._codes.clear()
        self._seconds.clear()
        before = self.snapshot
        if before is not None and self._costs.relative_change(before) <= self._tolerance:
            return True
        self.snapshot = self._costs.averages()
        return False

    def hand_over(self, *, instance: int, number: int) -> Matrices:
        """Return the matrices of all windows so far, and start again from zero."""
        matrices = self._costs.matrices(instance=instance, number=number)
        self._costs.reset()
        self.snapshot = None
        return matrices


class OnlineShuffleReporter(Reporter):
    """Measures the tuples of one instance, and answers the questions that come with them.

    >>> watch = CostWatch(MeasuredCosts(2, 1), window=1)
    >>> instance = OnlineShuffleReporter(0, watch)
    >>> instance.executed(0, 7, 2.0, 10.0, None)
    []
    >>> instance.executed(0, 7, 2.0, 12.0, LoadQuestion(epoch=1, estimate=5.0))
    [(0, LoadAnswer(instance=0, epoch=1, delta=-1.0)),
     (0, Matrices(instance=0, number=1, counts=(2.0, 0.0), costs=(4.0, 0.0), mean=2.0))]

    Args:
        instance: its number.
        watch: what looks after its costs.
        senders: how many schedulers there are.
        wall_clock: whether answers go by the time that has passed, as in the authors' program,
            and not by the work that was done.
    """

    def __init__(
        self, instance: int, watch: CostWatch, *, senders: int = 1, wall_clock: bool = False
    ) -> None:
        self._instance = instance
        self._watch = watch
        self._worked = [0.0] * senders
        self._wall_clock = wall_clock
        self._started: float | None = None
        self._sent = 0

    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Take in that a tuple was executed, and return what is to be sent back.

        Raises:
            InvalidValueError: no tuple can have this code, take so long, come from this sender or
                carry that. Nothing was taken in.
        """
        whole("sender", sender, at_least=0, at_most=len(self._worked) - 1)
        checked_code(code)
        amount("seconds", seconds, up_to=_LONGEST)
        if carried is not None and not isinstance(carried, LoadQuestion):
            raise InvalidValueError(
                f"carried={carried!r} is not a question of this grouping; let dispatcher and "
                "reporter be of one grouping"
            )
        if self._wall_clock:
            number("now", now)
            if self._started is None:
                self._started = now - seconds
        self._worked[sender] += seconds
        letters: list[tuple[int, Message]] = []
        if carried is not None:
            passed = self._worked[sender] if self._started is None else now - self._started
            answer = LoadAnswer(self._instance, carried.epoch, passed - carried.estimate)
            letters.append((sender, answer))
        if self._watch.settled_with(code, seconds):
            self._sent += 1
            matrices = self._watch.hand_over(instance=self._instance, number=self._sent)
            letters.extend((each, matrices) for each in range(len(self._worked)))
        return letters
