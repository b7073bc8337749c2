"""CostSketch: the mean cost of a tuple of each key, in a fixed amount of memory."""

import math
import sys
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.arrays import Codes
from sketches.cost_sketch_table import Tallies
from sketches.errors import EmptySketchError, InvalidValueError
from sketches.hashed_sketch import (
    HashedSketch,
    grown,
    stored_array,
    stored_cells,
    stored_field,
    stored_total,
    sum_of,
)
from sketches.row_hashes import Cells, RowHashes

_LARGEST_TABLE = 1 << 24

_WORTH_SORTING = 1 << 12  # keys above which equal ones are merged before the look-up

# The least double with all its digits. Only decay makes counts smaller: then they mean nothing.
_LEAST_COUNT = sys.float_info.min


class CostSketch(HashedSketch):
    """The mean cost of a tuple of each key, in two tables of fixed size.

    This is the pair of matrices of online shuffle grouping: one counts the tuples of each key,
    the other adds up their costs, with the same hashes. A key's estimate is its costs divided by
    its count in the row where the count is least, that is where the fewest other keys share its
    cell (the first such row). It is not the least of the ratios: a cell shared with cheap keys
    has a small ratio and tells least about this key. A key that was never seen is estimated at
    the mean of all.

    With ``exact=n``, about the ``n`` most frequent keys are kept beside the matrices, each with a
    count and a cost of its own from the moment it is taken in. They no longer share cells, so the
    keys that stay in the matrices are estimated better as well. Nothing is lost on the way: a key
    that has to make room goes into the matrices with all that was counted of it.

    Sketches of the same parameters add up: ``a | b`` is the sketch of both streams. With
    ``exact`` that holds for the sums of each row; which keys are exact may differ.

    >>> costs = CostSketch(width=55, depth=4)
    >>> costs.update(["small", "large", "small"], [1.0, 30.0, 2.0])
    >>> costs.estimate(["small", "large", "unseen"]).tolist()
    [1.5, 30.0, 11.0]

    Args:
        width: how many cells a row has.
        depth: how many rows each matrix has.
        seed: sketches with the same seed have the same hashes.
        exact: how many keys may be kept beside the matrices. They are known by their codes, so
            that two texts that share one are one key here as well; see `sketches.keys`.

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for
        shuffle grouping in distributed stream processing systems", Middleware 2016.
    """

    __slots__ = ("_costs", "_counts", "_exact", "_hashes", "_heavy", "_total", "_total_cost")

    _counts: Cells
    _costs: Cells
    _heavy: Tallies
    _total: float
    _total_cost: float

    def __init__(self, width: int, depth: int, seed: int = 0, *, exact: int = 0) -> None:
        super().__init__(width, depth, seed)
        self._hashes = RowHashes(width=self._width, depth=self._depth, seed=self._seed)
        self._exact = checks.whole("exact", exact, at_least=0, at_most=_LARGEST_TABLE)
        self.reset()

    @property
    def exact(self) -> int:
        """How many keys may be kept beside the matrices."""
        return self._exact

    @property
    def total(self) -> float:
        """How many tuples were counted (less, if they have decayed)."""
        return self._total

    @property
    def total_cost(self) -> float:
        """The sum of all costs."""
        return self._total_cost

    @property
    def mean(self) -> float:
        """The mean cost of all tuples.

        Raises:
            EmptySketchError: there are none.
        """
        if self._total < _LEAST_COUNT:
            raise EmptySketchError(
                f"total={self._total!r}: no tuple was counted (or all have decayed), so nothing is "
                "known of costs; update first, or look at .total"
            )
        return self._total_cost / self._total

    def update(self, keys: Any, costs: Any, counts: Any = None) -> None:
        """Count a batch of tuples and their costs.

        Args:
            keys: what `sketches.keys.as_keys` reads, of the kind of those before.
            costs: a finite, non-negative number for each key.
            counts: of how many tuples each cost is the sum, above 0; of one if left out. It is
                the same as to give each of them, and all their costs, in one batch.

        Raises:
            InvalidKeyError: a key cannot be counted, or is of another kind.
            InvalidValueError: a cost or count cannot be counted, or there are more or fewer than
                keys.
        """
        column = self._read(keys)
        costs = checks.weights("costs", costs, len(column))
        numbers = None if counts is None else _checked_counts(counts, len(column))
        added = float(len(column)) if numbers is None else sum_of(numbers)
        total = grown("total", self._total, added)
        total_cost = grown("total_cost", self._total_cost, sum_of(costs))
        if self._exact:
            self._update_exact(_tallies(column.codes, costs, numbers))
        else:
            more = 1.0 if numbers is None else numbers
            self._hashes.scatter(column.codes, (self._counts, more), (self._costs, costs))
        self._total, self._total_cost = total, total_cost
        self._remember_kind(column)

    def spread(self, count: float, cost: float) -> None:
        """Count tuples whose keys are not known: evenly, as hashing spreads rare keys.

        Args:
            count: how many tuples they are.
            cost: the sum of their costs.
        """
        count, cost = checks.amount("count", count), checks.amount("cost", cost)
        if cost and not count:
            raise InvalidValueError(f"cost={cost!r} of no tuples; say of how many it is the sum")
        total = grown("total", self._total, count)
        total_cost = grown("total_cost", self._total_cost, cost)
        self._counts += count / self.width
        self._costs += cost / self.width
        self._total, self._total_cost = total, total_cost

    def add(self, key: Any, cost: float) -> None:
        """Count one tuple. To count many, `update` is much faster."""
        self.update([key], [cost])

    def estimate(self, keys: Any) -> NDArray[np.float64]:
        """Return for each key the mean cost of its tuples; that of all tuples if it is unseen.

        Raises:
            EmptySketchError: nothing was counted.
            InvalidKeyError: a key could not have been counted, or is of another kind.
        """
        codes = self._read(keys).codes
        mean = self.mean
        if len(codes) < _WORTH_SORTING:
            return self._estimated(codes, mean)
        # Keys repeat; merging equal ones costs a fraction of looking them up.
        distinct, places = np.unique(codes, return_inverse=True)
        return self._estimated(distinct, mean)[places]

    def frequency(self, keys: Any) -> NDArray[np.float64]:
        """Return for each key at least how many tuples of it were counted.

        Raises:
            InvalidKeyError: a key could not have been counted, or is of another kind.
        """
        codes = self._read(keys).codes
        counts = self._hashes.least(self._counts, codes)
        known, places = self._heavy.find(codes)
        counts[known] = self._heavy.ranks[places]
        return counts

    def heaviest(self) -> tuple[Codes, NDArray[np.float64], NDArray[np.float64]]:
        """Return the codes of the exact keys, their numbers of tuples, and their costs.

        Each from the moment it was taken in; the codes ascend.
        """
        heavy = self._heavy
        return heavy.codes.copy(), heavy.counts.copy(), heavy.costs.copy()

    def decay(self, factor: float) -> None:
        """Let the past count less: multiply all counts and costs; the mean costs stay.

        Args:
            factor: above 0; at 1 nothing changes.
        """
        factor = checks.number("factor", factor, above=0.0, up_to=1.0)
        self._counts *= factor
        self._costs *= factor
        self._heavy = self._heavy.scaled(factor)
        self._total *= factor
        self._total_cost *= factor

    def reset(self) -> None:
        """Forget everything, the kind of key too."""
        self._counts = np.zeros((self.depth, self.width))
        self._costs = np.zeros((self.depth, self.width))
        self._heavy = Tallies.none()
        self._total = 0.0
        self._total_cost = 0.0
        self._kind = None

    def averages(self) -> Cells:
        """Return the mean cost in each cell, of shape (depth, width); zero in empty ones.

        The exact keys are counted into their cells, so ``exact`` makes no difference here.
        """
        counts, costs = self._counts.copy(), self._costs.copy()
        heavy = self._heavy
        self._hashes.scatter(heavy.codes, (counts, heavy.counts), (costs, heavy.costs))
        return _ratios(costs, counts, otherwise=0.0)

    def relative_change(self, previous: Any) -> float:
        """Return how far the averages have moved: the sum of changes, over the sum of before.

        Online shuffle grouping counts costs as stable once this is small. It divides by the earlier
        averages as in the paper; the authors' code divides by the current ones.

        Args:
            previous: what `averages` returned earlier, here or in a sketch of the same shape.

        Returns:
            Zero if nothing changed; infinity if all was zero before and is not now.
        """
        current = self.averages()
        before = np.asarray(previous)
        if before.shape != current.shape:
            raise InvalidValueError(
                f"previous of shape {before.shape} does not fit averages of shape {current.shape}; "
                "pass what averages() returned for a sketch of this shape"
            )
        before = checks.weights("previous", before.reshape(-1), before.size).reshape(before.shape)
        # Shifted so that the largest is below 1 and no sum can overflow; no digit is lost.
        _, exponent = math.frexp(max(float(before.max()), float(current.max())))
        before, current = np.ldexp(before, -exponent), np.ldexp(current, -exponent)
        change, norm = float(np.abs(before - current).sum()), float(before.sum())
        if not norm:
            return math.inf if change else 0.0
        return change / norm

    def _estimated(self, codes: Codes, mean: float) -> NDArray[np.float64]:
        """Return the mean cost of each key, or the mean of all."""
        counts, costs = self._least_shared(codes)
        known, places = self._heavy.find(codes)
        counts[known], costs[known] = self._heavy.counts[places], self._heavy.costs[places]
        return _ratios(costs, counts, otherwise=mean)

    def _update_exact(self, batch: Tallies) -> None:
        """Share a batch between the exact keys and the matrices."""
        known, places = self._heavy.find(batch.codes)
        heavy = self._heavy.with_more(places, batch.take(known))
        rest = batch.take(~known)
        rest = rest.counted_before(self._hashes.least(self._counts, rest.codes))
        if len(heavy) == self._exact and len(rest):
            contends = rest.ranks > heavy.ranks.min()
            self._count(rest.take(~contends))
            rest = rest.take(contends)
        self._heavy, dropped = heavy.union(rest).heaviest(self._exact, preferred=heavy)
        self._count(dropped)

    def _with_own_cells(self, theirs: Tallies) -> Tallies:
        """Return the exact keys of another sketch, after what the cells here may hold of them.

        Of keys that are exact here too, that is known already.
        """
        shared, _ = self._heavy.find(theirs.codes)
        in_cells = self._hashes.least(self._counts, theirs.codes)
        return theirs.counted_before(np.where(shared, 0.0, in_cells))

    def _count(self, tallies: Tallies) -> None:
        """Count keys in the matrices."""
        self._hashes.scatter(
            tallies.codes, (self._counts, tallies.counts), (self._costs, tallies.costs)
        )

    def _least_shared(self, codes: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return count and costs of each key in the first row in which its count is least."""
        counts, costs = np.empty(len(codes)), np.empty(len(codes))
        for span, columns in self._hashes.columns(codes):
            least, its_costs = counts[span], costs[span]
            least[:] = self._counts[0].take(columns[0])
            its_costs[:] = self._costs[0].take(columns[0])
            for row in range(1, self.depth):
                in_row = self._counts[row].take(columns[row])
                less = in_row < least
                np.copyto(least, in_row, where=less)
                np.copyto(its_costs, self._costs[row].take(columns[row]), where=less)
        return counts, costs

    def _parameters(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "depth": self.depth,
            "seed": self.seed,
            "exact": self._exact,
        }

    def _totals(self) -> dict[str, float]:
        return {"total": self._total, "total_cost": self._total_cost}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "counts": self._counts,
            "costs": self._costs,
            "heavy_codes": self._heavy.codes,
            "heavy_counts": self._heavy.counts,
            "heavy_costs": self._heavy.costs,
            "heavy_before": self._heavy.before,
        }

    @classmethod
    def _restore(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        names = ("width", "depth", "seed", "exact")
        sketch: Self = cls(**{name: stored_field(fields, name) for name in names})
        shape = (sketch.depth, sketch.width)
        sketch._counts = stored_cells(arrays, "counts", shape)
        sketch._costs = stored_cells(arrays, "costs", shape)
        sketch._heavy = _stored_tallies(arrays, sketch.exact)
        sketch._total = stored_total(fields, "total")
        sketch._total_cost = stored_total(fields, "total_cost")
        return sketch

    def _absorb(self, other: Self, totals: Mapping[str, float]) -> None:
        mine = other._with_own_cells(self._heavy)
        theirs = self._with_own_cells(other._heavy)
        self._counts += other._counts
        self._costs += other._costs
        both = mine.union(theirs)
        self._heavy, dropped = both.heaviest(self._exact, preferred=Tallies.none())
        self._count(dropped)
        self._total, self._total_cost = totals["total"], totals["total_cost"]


def _checked_counts(counts: Any, length: int) -> NDArray[np.float64]:
    """Return how many tuples each cost is the sum of: none of them zero."""
    numbers = checks.weights("counts", counts, length)
    none = np.flatnonzero(numbers == 0)
    if len(none):
        raise InvalidValueError(
            f"counts[{none[0]}]=0 tuples have no cost; leave out keys that did not come"
        )
    return numbers


def _tallies(
    codes: Codes, costs: NDArray[np.float64], counts: NDArray[np.float64] | None
) -> Tallies:
    """Return each key of a batch once, with the sums of its counts and of its costs."""
    if counts is None:
        return Tallies.of_batch(codes, costs)
    return Tallies(codes, counts, costs, np.zeros(len(codes))).union(Tallies.none())


def _ratios(
    costs: NDArray[np.float64], counts: NDArray[np.float64], *, otherwise: float
) -> NDArray[np.float64]:
    """Return costs over counts, and a default where the count is too small."""
    ratios = np.full(counts.shape, otherwise)
    np.divide(costs, counts, out=ratios, where=counts >= _LEAST_COUNT)
    return ratios


def _stored_tallies(arrays: Mapping[str, NDArray[Any]], limit: int) -> Tallies:
    """Return the exact keys that were read from bytes: distinct, sorted and not too many."""
    codes = stored_array(arrays, "heavy_codes")
    if codes.dtype != np.uint64 or len(codes) > limit or not (codes[1:] > codes[:-1]).all():
        raise InvalidValueError(
            f"the {len(codes)} exact keys are not at most {limit} sorted, distinct codes"
        )
    counts, costs, before = (
        stored_cells(arrays, name, (len(codes),))
        for name in ("heavy_counts", "heavy_costs", "heavy_before")
    )
    return Tallies(codes, counts, costs, before)
