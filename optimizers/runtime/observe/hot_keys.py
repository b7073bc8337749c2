"""The hottest key of an operator: told by each instance of its own few, found by the driver.

A key that is hot in one batch need not be so in the next. So what counts is known of a key is
added up over batches, and of those in which it was not told, how many tuples it had at most. Where
these two are far apart for the keys that may be the hottest, it is not known how hot that is.
"""

import numpy as np
from numpy.typing import NDArray

from optimizers.runtime.observe.table_sums import heaviest
from optimizers.runtime.task.fact_columns import Ragged
from sketches.arrays import Codes, Floats

TOLD = 16
"""Of how many keys an instance tells in a batch: those with the most tuples."""

_SURE = 0.1  # how far apart what is known and what may be are at most


def hot_keys(codes: Codes, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return the codes of the most frequent keys, and how many tuples each had.

    Args:
        codes: of the distinct keys.
        counts: how many tuples each had.
    """
    chosen = heaviest(counts, TOLD)
    return codes[chosen].view(np.int64), counts[chosen]


class HotKeys:
    """Adds up what instances of one operator tell of their hottest keys, batch by batch.

    >>> hot = HotKeys(one_owner=True)
    >>> one, other = np.array([5, 6]), np.array([7])
    >>> told = Ragged.of([one, other], np.int64)
    >>> hot.add(told, Ragged.of([np.array([9, 1]), np.array([4])], np.int64))
    >>> hot.add(told, Ragged.of([np.array([1, 1]), np.array([8])], np.int64))
    >>> hot.tuples()
    12.0

    Args:
        one_owner: whether all tuples of a key go to one instance.
    """

    def __init__(self, *, one_owner: bool) -> None:
        self._one_owner = one_owner
        self._codes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._known: Floats = np.empty(0)  # tuples, by key
        self._told: Floats = np.empty(0)  # what it might have had where it was not told, but was
        self._untold = 0.0  # what a key may have had that was never told

    def add(self, codes: Ragged, counts: Ragged) -> None:
        """Add the hottest keys of each instance in a batch, and their tuples."""
        # 1. What a key may have that an instance does not tell of: no more than any that it tells.
        most = np.full(len(counts.lengths), np.iinfo(np.int64).max)
        np.minimum.at(most, counts.rows, counts.values)
        most[counts.lengths < TOLD] = 0  # it has told of all its keys
        untold = most.max(initial=0) if self._one_owner else most.sum()
        # 2. Each key that was told of has what is known, in place of that.
        spared = np.full(len(codes.values), untold) if self._one_owner else most[codes.rows]
        every, where = np.unique(np.concatenate([self._codes, codes.values]), return_inverse=True)
        self._known, self._told = (
            np.bincount(where, np.concatenate(parts), len(every)).astype(np.float64)
            for parts in ((self._known, counts.values), (self._told, spared))
        )
        self._codes = every
        self._untold += float(untold)

    def tuples(self) -> float | None:
        """Return how many tuples the hottest key had, within a twentieth; None if unknown."""
        least = float(self._known.max(initial=0.0))
        most = float((self._known + self._untold - self._told).max(initial=self._untold))
        return (least + most) / 2 if most - least <= _SURE * most else None
