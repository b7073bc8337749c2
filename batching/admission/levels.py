"""Batch periods from a cost model, changed once for each level of the load."""

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Self

from batching.admission.controller import BatchReport, NextBatch, share
from batching.errors import OverloadError
from sketches.checks import amount, number, whole


@dataclass(frozen=True)
class Levels:
    """The shortest period in which a batch of the present level takes a share of it.

    A batch of ``b`` rows is known to take ``fixed + b * each`` seconds, but for a factor that is
    measured. Rate and factor are *levels*: they change only when all of the last batches were
    outside a band around them, to the median of these. So one batch that is late, or noise within
    the band, changes nothing; and as batches take ``1 / (1 + band)`` of their period at most,
    what is within the band is carried. After a burst batches have no more rows than they can
    process in the longest time, which carries the most that there is to carry in that time.

    Attributes:
        fixed: seconds for a batch without a row.
        each: seconds for a row.
        longest: the longest that a period, and a batch, may be.
        shortest: the shortest period.
        band: by what share rate and factor may be off; 25 % leaves noise of 10 % both ways.
        patience: how many batches in a row have to be outside the band.
        rate: the level of the rate, in rows a second; None before it is known.
        factor: the level of what batches take, as a multiple of what the model says.
        recent: rates and factors of the last batches.
    """

    fixed: float
    each: float
    longest: float
    shortest: float = 0.001
    band: float = 0.25
    patience: int = 3
    rate: float | None = None
    factor: float = 1.0
    recent: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("fixed", "each", "shortest"):
            number(name, getattr(self, name), above=0.0)
        share("band", self.band)
        whole("patience", self.patience, at_least=1)
        number("longest", self.longest, above=self.shortest)
        amount("factor", self.factor)
        if self.fixed >= self.longest:
            raise OverloadError(
                f"longest={self.longest}: a batch without a row takes {self.fixed:.3g} s; allow "
                "more"
            )

    @property
    def admission(self) -> NextBatch:
        """What holds for the next batch."""
        return NextBatch(self._period(), self.most)

    @property
    def most(self) -> float:
        """The rows that a batch takes the longest time for.

        At least as many as take half of a batch: with fewer, most of the time would be lost.
        """
        if not self.factor:
            return math.inf
        return max(self.fixed, self.longest / self.factor - self.fixed) / self.each

    def after(self, report: BatchReport) -> Self:
        """Return the controller that has heard of a batch."""
        factor = report.seconds / (self.fixed + self.each * report.rows)
        recent = (*self.recent, (report.rate, factor))[-self.patience :]
        if len(recent) < self.patience:
            return replace(self, recent=recent)
        rates, factors = zip(*recent, strict=True)
        rate = median(rates) if self.rate is None else self._level(self.rate, rates)
        return replace(self, recent=recent, rate=rate, factor=self._level(self.factor, factors))

    def _period(self) -> float:
        if self.rate is None:
            return self.shortest
        usage = 1 / (1 + self.band)
        left = usage - self.rate * self.each * self.factor
        # fixed + rate * period * each = usage * period, if there is such a period.
        found = self.fixed * self.factor / left if left > 0 else self.longest
        return min(self.longest, max(self.shortest, found))

    def _level(self, level: float, recent: tuple[float, ...]) -> float:
        above = min(recent) > level * (1 + self.band)
        below = max(recent) < level / (1 + self.band)
        return median(recent) if above or below else level
