"""Batch intervals by fixed-point iteration.

References:
    Das, Zhong, Stoica, Shenker, "Adaptive stream processing using dynamic batch sizing", SoCC 2014.
"""

from dataclasses import dataclass, replace
from typing import Self

from batching.admission.controller import BatchReport, NextBatch, share
from sketches.checks import number

_ALIKE = 0.01  # intervals that differ by less say nothing of which is slower


@dataclass(frozen=True)
class FixedPoint:
    """The next interval is what the last batch took, over the share of it that a batch may take.

    If the longer of the last two intervals was relatively slower, and both were too short, there
    may be no such point above; then the interval shrinks.

    Attributes:
        period: the interval.
        usage: the share of an interval that its batch is to take (rho).
        reduction: by what share the interval shrinks (r).
        shortest: the shortest interval.
        longest: the longest interval; the paper has no bound.
        last: the last interval and what its batch took.
    """

    period: float
    usage: float = 0.8
    reduction: float = 0.25
    shortest: float = 0.001
    longest: float = 1e6
    last: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("period", "shortest"):
            number(name, getattr(self, name), above=0.0)
        number("longest", self.longest, above=self.shortest)
        share("usage", self.usage)
        share("reduction", self.reduction)

    @property
    def admission(self) -> NextBatch:
        """What holds for the next batch: all rows that have come."""
        return NextBatch(self.period)

    def after(self, report: BatchReport) -> Self:
        """Return the controller that has heard of a batch."""
        now = report.period, report.seconds
        found = report.seconds / self.usage
        if self.last is not None:
            (short, quick), (long, slow) = sorted((self.last, now))
            apart = long > (1 + _ALIKE) * short
            late = quick > self.usage * short and slow > self.usage * long
            if apart and late and quick / short < slow / long:
                found = (1 - self.reduction) * short
        found = min(self.longest, max(self.shortest, found))
        return replace(self, period=found, last=now)
