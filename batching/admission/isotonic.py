"""Batch intervals by what batches of other sizes took: DyBBS without its block sizes.

The paper fits, for what it has seen, processing time as a function that only rises, and takes the
shortest interval that is stable by it. Its heuristics of sampling are not repeated here: the last
batches count, and where none is stable the interval follows the fixed point.

References:
    Zhang, Song, Routray, Shi, "Adaptive block and batch sizing for batched stream processing
    system", ICAC 2016.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from batching.admission.controller import BatchReport, NextBatch, share
from sketches.arrays import Floats, Integers
from sketches.checks import number, whole


@dataclass(frozen=True)
class Isotonic:
    """The shortest interval whose batch, as those seen tell, takes no more than a share of it.

    Attributes:
        period: the interval.
        usage: the share of an interval that its batch is to take.
        remembered: how many batches count.
        shortest: the shortest interval.
        longest: the longest interval.
        seen: rows and seconds of the last batches.
    """

    period: float
    usage: float = 0.8
    remembered: int = 50
    shortest: float = 0.001
    longest: float = 1e6
    seen: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("period", "shortest"):
            number(name, getattr(self, name), above=0.0)
        number("longest", self.longest, above=self.shortest)
        share("usage", self.usage)
        whole("remembered", self.remembered, at_least=1)

    @property
    def admission(self) -> NextBatch:
        """What holds for the next batch: all rows that have come."""
        return NextBatch(self.period)

    def after(self, report: BatchReport) -> Self:
        """Return the controller that has heard of a batch."""
        seen = (*self.seen, (report.rows, report.seconds))[-self.remembered :]
        rows, places = np.unique([each for each, _ in seen], return_inverse=True)
        count = np.bincount(places).astype(np.int64)
        mean = np.bincount(places, [taken for _, taken in seen]) / count
        found = shortest_stable(rows, rising(mean, count), report.rate, self.usage)
        if found is None:
            found = report.seconds / self.usage
        found = min(self.longest, max(self.shortest, found))
        return replace(self, period=found, seen=seen)


def rising(values: Floats, weights: Integers) -> Floats:
    """Return the values that never fall and are closest to others: isotonic regression.

    Neighbours in the wrong order are pooled to their mean until none are left.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, float(weight), 1)
        while pools and pools[-1][0] > pool[0]:
            before = pools.pop()
            total = before[1] + pool[1]
            mean = (before[0] * before[1] + pool[0] * pool[1]) / total
            pool = (mean, total, before[2] + pool[2])
        pools.append(pool)
    return np.repeat([value for value, _, _ in pools], [length for _, _, length in pools])


def shortest_stable(rows: Floats, seconds: Floats, rate: float, usage: float) -> float | None:
    """Return the shortest interval whose rows take no more than a share of it, as far as is known.

    Fewer rows than were seen take as long as the fewest; between two sizes, time is on the line.
    """
    first = float(seconds[0]) / usage
    if rate * first <= rows[0]:
        return first
    spare = usage * rows / rate - seconds  # rate > 0, or the first would have been stable
    stable = np.flatnonzero(spare >= 0)
    if not len(stable):
        return None
    after = int(stable[0])
    if after == 0:
        return float(rows[0]) / rate
    before = after - 1
    part = -spare[before] / (spare[after] - spare[before])
    return float(rows[before] + part * (rows[after] - rows[before])) / rate
