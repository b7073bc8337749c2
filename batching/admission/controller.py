"""What a controller of admission hears after each batch, and what it answers."""

import math
from dataclasses import dataclass
from typing import Protocol, Self

from sketches.checks import amount, number
from sketches.errors import InvalidValueError


@dataclass(frozen=True)
class BatchReport:
    """What was measured of a batch.

    Attributes:
        rows: how many rows it had.
        seconds: what it took.
        arrived: how many rows came in the time before it.
        period: how long that time was: since the batch before it began.
        waited: seconds that it began later than its period asked for.
    """

    rows: float
    seconds: float
    arrived: float
    period: float
    waited: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rows", "seconds", "arrived", "waited"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        object.__setattr__(self, "period", number("period", self.period, above=0.0))

    @property
    def rate(self) -> float:
        """The rows a second that came."""
        return self.arrived / self.period


@dataclass(frozen=True)
class NextBatch:
    """When the next batch begins, and what it has.

    Attributes:
        period: seconds from the beginning of one batch to that of the next, unless the batch takes
            longer: then the next begins when it ends.
        rows: how many rows it has at most; infinite for all that have come.
    """

    period: float
    rows: float = math.inf


class Controller(Protocol):
    """Decides admission; a value, so that its next state is another one."""

    @property
    def admission(self) -> NextBatch:
        """What holds for the next batch."""

    def after(self, report: BatchReport) -> Self:
        """Return the controller that has heard of a batch."""


def share(name: str, value: object) -> float:
    """Return a number above 0 and below 1, or say that it is not one."""
    found = number(name, value, above=0.0)
    if found >= 1:
        raise InvalidValueError(f"{name}={value!r} is out of range; it must be below 1")
    return found
