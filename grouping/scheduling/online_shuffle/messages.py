"""What schedulers and instances tell each other in online shuffle grouping."""

from dataclasses import dataclass

from sketches.checks import number, weights, whole
from sketches.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class LoadQuestion:
    """Asks how far an estimate is off. Travels with a tuple, from a scheduler to an instance.

    Attributes:
        epoch: which synchronisation it belongs to; they are counted from 1.
        estimate: the seconds of work that the scheduler believes to have given to the instance,
            this tuple included.
    """

    epoch: int
    estimate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", whole("epoch", self.epoch, at_least=1))
        object.__setattr__(self, "estimate", number("estimate", self.estimate))


@dataclass(frozen=True, slots=True)
class LoadAnswer:
    """Says by how much the estimate is off. From an instance to the scheduler that asked.

    Attributes:
        instance: the one that answers.
        epoch: that of the question.
        delta: the seconds to be added to the estimate.
    """

    instance: int
    epoch: int
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance", whole("instance", self.instance, at_least=0))
        object.__setattr__(self, "epoch", whole("epoch", self.epoch, at_least=1))
        object.__setattr__(self, "delta", number("delta", self.delta))


@dataclass(frozen=True, slots=True)
class Matrices:
    """What tuples cost at an instance: its F and W. From an instance to all schedulers.

    Attributes:
        instance: whose they are.
        number: how many the instance has sent, with these; of two, the larger number is newer.
        counts: F, the number of tuples in each cell, row after row.
        costs: W, the seconds of those tuples, likewise.
        mean: the mean seconds of all tuples.
    """

    instance: int
    number: int
    counts: tuple[float, ...]
    costs: tuple[float, ...]
    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance", whole("instance", self.instance, at_least=0))
        object.__setattr__(self, "number", whole("number", self.number, at_least=1))
        counts = weights("counts", self.counts, len(self.counts))
        costs = weights("costs", self.costs, len(counts))
        object.__setattr__(self, "counts", tuple(counts.tolist()))
        object.__setattr__(self, "costs", tuple(costs.tolist()))
        mean = number("mean", self.mean)
        if mean < 0:
            raise InvalidValueError(f"mean={mean!r} is negative; no tuple takes less than no time")
        object.__setattr__(self, "mean", mean)
