"""The exact part of a `CostSketch`: its heaviest keys, each with a count and a cost of its own."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Codes, Floats, Indices
from sketches.keys import mix


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """Some distinct keys, each with its count and cost. Immutable; in the order of codes.

    >>> tallies = Tallies.of_batch(np.array([7, 5, 7], np.uint64), np.array([1.0, 2.0, 4.0]))
    >>> tallies.codes.tolist(), tallies.counts.tolist(), tallies.costs.tolist()
    ([5, 7], [1.0, 2.0], [2.0, 5.0])

    Attributes:
        codes: the keys.
        counts: how often each key was counted here.
        costs: the sum of the costs that came with these.
        before: at most how often each key was counted in the matrices, before it came here.
    """

    codes: Codes
    counts: Floats
    costs: Floats
    before: Floats

    @classmethod
    def none(cls) -> Self:
        """Return no keys."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0), np.empty(0), np.empty(0))

    @classmethod
    def of_batch(cls, codes: Codes, costs: Floats) -> Self:
        """Count the keys of a batch and sum up their costs."""
        distinct, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
        sums = np.bincount(places, costs, len(distinct)).astype(np.float64, copy=False)
        return cls(distinct, counts.astype(np.float64), sums, np.zeros(len(distinct)))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ranks(self) -> Floats:
        """Upper bounds of how often each key has come: they decide which keys stay."""
        return self.counts + self.before

    def take(self, which: Indices | NDArray[np.bool_]) -> "Tallies":
        """Return some of the keys; the places must ascend."""
        return Tallies(self.codes[which], self.counts[which], self.costs[which], self.before[which])

    def find(self, codes: Codes) -> tuple[NDArray[np.bool_], Indices]:
        """Return which of the codes are here, and the places of those."""
        if not len(self):
            return np.zeros(len(codes), dtype=np.bool_), np.empty(0, dtype=np.intp)
        places = np.searchsorted(self.codes, codes)
        places[places == len(self)] = 0
        found = self.codes[places] == codes
        return found, places[found]

    def with_more(self, places: Indices, more: "Tallies") -> "Tallies":
        """Return the same keys, with more counted of those at the places."""
        counts, costs = self.counts.copy(), self.costs.copy()
        counts[places] += more.counts
        costs[places] += more.costs
        return Tallies(self.codes, counts, costs, self.before)

    def counted_before(self, more: Floats) -> "Tallies":
        """Return the same, with more counted in the matrices before."""
        return Tallies(self.codes, self.counts, self.costs, self.before + more)

    def scaled(self, factor: float) -> "Tallies":
        """Return the same keys with everything multiplied."""
        return Tallies(self.codes, self.counts * factor, self.costs * factor, self.before * factor)

    def union(self, other: "Tallies") -> "Tallies":
        """Return the keys of both, added up."""
        codes, places = np.unique(np.concatenate([self.codes, other.codes]), return_inverse=True)

        def summed(mine: Floats, theirs: Floats) -> Floats:
            both = np.concatenate([mine, theirs])
            return np.bincount(places, both, len(codes)).astype(np.float64, copy=False)

        return Tallies(
            codes,
            summed(self.counts, other.counts),
            summed(self.costs, other.costs),
            summed(self.before, other.before),
        )

    def heaviest(self, limit: int, *, preferred: "Tallies") -> tuple["Tallies", "Tallies"]:
        """Return the keys of highest rank, and the others.

        Args:
            limit: how many to keep.
            preferred: among keys of one rank, these stay before the others. Beyond that the
                scattered code decides, so that small numbers are not favoured.
        """
        if len(self) <= limit:
            return self, Tallies.none()
        settled, _ = preferred.find(self.codes)
        order = np.lexsort((mix(self.codes), ~settled, -self.ranks))
        return self.take(np.sort(order[:limit])), self.take(np.sort(order[limit:]))
