"""Costs measured by several instances: together, by pace, and how much they predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from sketches.arrays import Codes, Floats
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError

_SURE = 4.0  # standard errors above which an instance counts as faster or slower
_LEAST = 0.05  # by how much at least
_ENOUGH = 64  # tuples that this must have been measured on


@dataclass(frozen=True, eq=False)
class CostEvidence:
    """The costs of an operator's tuples, as some of its instances have measured them.

    >>> measured = [CostSketch(width=16, depth=2, exact=8) for _ in range(2)]
    >>> for sketch in measured:
    ...     sketch.update(["cheap", "costly"] * 50, [1.0, 9.0] * 50)
    >>> evidence = CostEvidence.of(measured)
    >>> evidence.explained, evidence.spread, evidence.paces
    (1.0, 0.8, (1.0, 1.0))

    Attributes:
        costs: the sum of all measurements.
        paces: for each instance, how many times as long as usual it takes; 1 unless that is sure.
        explained: how much of the differences between the mean costs of keys is predicted by other
            instances' measurements of the same keys: 1 if all, 0 or less if nothing. Also 1 if that
            cannot be tested.
        spread: the standard deviation of the mean costs of keys, as a share of their mean.
    """

    costs: CostSketch
    paces: tuple[float, ...]
    explained: float
    spread: float

    @classmethod
    def of(cls, measured: Sequence[CostSketch]) -> "CostEvidence":
        """Compare the measurements of instances."""
        if not measured:
            raise InvalidValueError("measured=[] is of no instance; give a CostSketch for each")
        costs = _added(measured)
        estimates = _Means.of(costs)
        paces = tuple(_pace(_Means.of(sketch), estimates) for sketch in measured)
        halves = [_Means.of(_added(measured[place::2])) for place in range(min(2, len(measured)))]
        explained = _explained(halves)
        if explained is None:
            # Costs are assumed to depend on the named key, until there is evidence.
            explained = 1.0 if estimates.spread else 0.0
        return cls(costs, paces, explained, estimates.spread)

    @property
    def uniform(self) -> bool:
        """Whether all instances are taken for equal."""
        return all(pace == 1.0 for pace in self.paces)


@dataclass(frozen=True, eq=False)
class _Means:
    """The mean costs of some keys, by code, in ascending order."""

    codes: Codes
    counts: Floats
    costs: Floats

    @classmethod
    def of(cls, sketch: CostSketch) -> "_Means":
        codes, counts, costs = sketch.heaviest()
        return cls(codes, counts, costs / np.maximum(counts, np.finfo(float).tiny))

    @property
    def mean(self) -> float:
        total = float(self.counts.sum())
        return float(self.counts @ self.costs) / total if total else 0.0

    @property
    def spread(self) -> float:
        total, mean = float(self.counts.sum()), self.mean
        if not mean:
            return 0.0
        return float(np.sqrt(self.counts @ (self.costs - mean) ** 2 / total)) / mean

    def known_to(self, other: "_Means") -> tuple["_Means", Floats]:
        """Return these, as far as another has them too, and its mean costs of the same keys."""
        codes, mine, theirs = np.intersect1d(
            self.codes, other.codes, assume_unique=True, return_indices=True
        )
        return _Means(codes, self.counts[mine], self.costs[mine]), other.costs[theirs]


def _added(sketches: Sequence[CostSketch]) -> CostSketch:
    total = sketches[0].copy()
    for sketch in sketches[1:]:
        total |= sketch
    return total


def _pace(own: _Means, usual: _Means) -> float:
    """Return how many times as long as usual an instance takes; 1 unless it is sure to differ."""
    seen, expected = own.known_to(usual)
    work = float(seen.counts @ expected)
    if seen.counts.sum() < _ENOUGH or not work:
        return 1.0
    pace = float(seen.counts @ seen.costs) / work
    # A key's mean cost varies about what was expected; so does the sum over all, by this much.
    errors = seen.counts * (seen.costs - pace * expected)
    unsure = float(np.sqrt((errors**2).sum())) / work
    return pace if abs(pace - 1.0) > max(_LEAST, _SURE * unsure) else 1.0


def _explained(halves: Sequence[_Means]) -> float | None:
    """Return how much of the differences between keys at one half the other half predicts.

    None where there is nothing to compare with: one instance alone, or hardly any key that both
    halves have seen.
    """
    shares = []
    for taught, tested in permutations(halves, 2):
        seen, expected = tested.known_to(taught)
        if seen.counts.sum() < _ENOUGH:
            return None
        around_mean = float(seen.counts @ (seen.costs - seen.mean) ** 2)
        around_expected = float(seen.counts @ (seen.costs - expected) ** 2)
        shares.append(1.0 - around_expected / around_mean if around_mean else 0.0)
    return float(np.mean(shares)) if shares else None
