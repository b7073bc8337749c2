"""The true state of instances, for groupings that may know what no sender could."""

from grouping.feedback import Truth
from sketches.arrays import Floats


class QueueBacklog:
    """What is left to do at each instance, where that is known as soon as a tuple arrives.

    Attributes:
        now: the time.
        taken: how long the present tuple takes at rate 1.
        rates: the factor of that time at each instance.
        free: when each instance is done with all it has.
        ends: for each instance when each of its tuples is done, in order.
        work: how many seconds of work, at rate 1, are on their way to each instance.
        counts: how many tuples are.
    """

    def __init__(self, rates: Floats, free: Floats) -> None:
        self.now = 0.0
        self.taken = 0.0
        self.rates: list[float] = rates.tolist()
        self.free: list[float] = free.tolist()
        self.ends: list[list[float]] = [[] for _ in self.free]
        self.work = [0.0] * len(self.free)
        self.counts = [0] * len(self.free)
        self._passed = [0] * len(self.free)

    def sent(self, instance: int, seconds: float) -> None:
        """Count a tuple that is on its way to an instance, by its seconds at rate 1."""
        self.work[instance] += seconds
        self.counts[instance] += 1

    def landed(self, instance: int, seconds: float) -> None:
        """Let a tuple arrive that was counted."""
        self.counts[instance] -= 1
        left = self.work[instance] - seconds
        # What is left of adding and taking away must not look like work.
        self.work[instance] = left if self.counts[instance] else 0.0

    def seconds(self, instance: int) -> float:
        """Return how long the present tuple will take at an instance."""
        return self.taken * self.rates[instance]

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it."""
        coming = self.work[instance] * self.rates[instance]
        return coming + max(0.0, self.free[instance] - self.now)

    def waiting(self, instance: int) -> int:
        """Return how many tuples are at an instance or on their way to it."""
        ends, passed = self.ends[instance], self._passed[instance]
        while passed < len(ends) and ends[passed] <= self.now:
            passed += 1
        self._passed[instance] = passed
        return len(ends) - passed + self.counts[instance]


class EventBacklog:
    """What is left to do at each instance, where that is counted event by event.

    Attributes:
        now: the time.
        taken: how long the present tuple takes at rate 1.
        rates: the factor of that time at each instance.
        work: how many seconds of work, at rate 1, each instance has before it and has not begun.
        counts: how many tuples each has before it, with the one it is at.
        ends: when each is done with the tuple it is at.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.taken = 0.0
        self.rates: list[float] = []
        self.work: list[float] = []
        self.counts: list[int] = []
        self.ends: list[float] = []

    def fit(self, rates: Floats) -> None:
        """Make room for as many instances as there are rates."""
        self.rates = rates.tolist()
        more = len(rates) - len(self.work)
        self.work += [0.0] * more
        self.counts += [0] * more
        self.ends += [0.0] * more

    def sent(self, instance: int, seconds: float) -> None:
        """Count a tuple that is sent to an instance, by its seconds at rate 1."""
        self.work[instance] += seconds
        self.counts[instance] += 1

    def begun(self, instance: int, seconds: float, end: float) -> None:
        """Let an instance begin with a tuple that was counted."""
        left = self.work[instance] - seconds
        # What is left of adding and taking away must not look like work.
        self.work[instance] = left if self.counts[instance] > 1 else 0.0
        self.ends[instance] = end

    def ended(self, instance: int) -> None:
        """Let an instance be done with a tuple."""
        self.counts[instance] -= 1

    def seconds(self, instance: int) -> float:
        """Return how long the present tuple will take at an instance."""
        return self.taken * self.rates[instance]

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it."""
        to_do = self.work[instance] * self.rates[instance]
        return to_do + max(0.0, self.ends[instance] - self.now)

    def waiting(self, instance: int) -> int:
        """Return how many tuples are at an instance or on their way to it."""
        return self.counts[instance]


class CurrentTruth:
    """The truth that dispatchers keep: asks the part of the simulation that knows it at the moment.

    Attributes:
        by: the part that knows it.
    """

    def __init__(self) -> None:
        self.by: Truth = EventBacklog()

    def seconds(self, instance: int) -> float:
        """Return how long the present tuple will take at an instance."""
        return self.by.seconds(instance)

    def backlog(self, instance: int) -> float:
        """Return how many seconds of work an instance has before it."""
        return self.by.backlog(instance)

    def waiting(self, instance: int) -> int:
        """Return how many tuples are at an instance or on their way to it."""
        return self.by.waiting(instance)
