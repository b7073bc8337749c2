"""The counters of a `CountMin`: plain ones, and conservative ones with smaller errors."""

from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.arrays import Codes
from sketches.errors import InvalidValueError
from sketches.keys import KeyColumn, as_keys
from sketches.row_hashes import RowHashes


class Table(Protocol):
    """Counters of keys, whose shape, seed and weights the `CountMin` around them has checked.

    A method that refuses its keys leaves the counters as they were.
    """

    default_seed: ClassVar[int]

    def __init__(self, *, width: int, depth: int, seed: int) -> None:
        """Start with every counter at zero."""

    def add(self, keys: KeyColumn, weights: NDArray[np.float64] | None) -> None:
        """Count each key by its weight, by one if there are no weights."""

    def add_one(self, key: int | str, weight: float) -> None:
        """Count a single key; must be quick."""

    def estimate(self, keys: KeyColumn) -> NDArray[np.float64]:
        """Return the estimate of each key."""

    def merge(self, other: Self) -> None:
        """Add the counters of a table of the same shape and seed."""

    def to_array(self) -> NDArray[Any]:
        """Return the content in a form for `load`."""

    def load(self, array: NDArray[Any]) -> None:
        """Load the content of `to_array`; an unfit one is refused by InvalidValueError."""

    def to_datasketches(self) -> bytes:
        """Return the content as Apache DataSketches writes it."""


class PlainTable:
    """A matrix of sums: each key adds to one cell of each row, and its estimate is the least."""

    __slots__ = ("_cells", "_hashes")

    default_seed: ClassVar[int] = 0

    def __init__(self, *, width: int, depth: int, seed: int) -> None:
        self._hashes = RowHashes(width=width, depth=depth, seed=seed)
        self._cells = np.zeros((depth, width))

    def add(self, keys: KeyColumn, weights: NDArray[np.float64] | None) -> None:
        """Count each key by its weight, by one if there are no weights."""
        self._hashes.scatter(keys.codes, (self._cells, 1.0 if weights is None else weights))

    def add_one(self, key: int | str, weight: float) -> None:
        """Count a single key."""
        self.add(as_keys([key]), np.array([weight], dtype=np.float64))

    def estimate(self, keys: KeyColumn) -> NDArray[np.float64]:
        """Return the least of each key's cells: its own count and those that share the cell."""
        return self._hashes.least(self._cells, keys.codes)

    def merge(self, other: Self) -> None:
        """Add the counters of a table of the same shape and seed."""
        self._cells += other._cells

    def to_array(self) -> NDArray[np.float64]:
        """Return the cells."""
        return self._cells

    def load(self, array: NDArray[Any]) -> None:
        """Load the cells of `to_array`, if they fit, are finite and not negative."""
        cells = checks.weights("table", array, self._cells.size)
        self._cells = cells.reshape(self._cells.shape)

    def to_datasketches(self) -> bytes:
        """Refuse: these hashes are not those of Apache DataSketches."""
        raise InvalidValueError(
            "backend='numpy' has other hashes than Apache DataSketches and cannot be written for "
            "it; count with CountMin(..., backend='datasketches')"
        )


class ConservativeTable(PlainTable):
    """Cells that are raised only as far as the counts of a batch's keys need.

    For each distinct key of a batch, no cell has to be above the key's estimate before the batch
    plus its count in it. Cells of a plain table rise by more whenever keys share them.
    """

    __slots__ = ()

    def add(self, keys: KeyColumn, weights: NDArray[np.float64] | None) -> None:
        """Raise the cells of each distinct key to what it needs."""
        codes, counts = _distinct(keys.codes, weights)
        # All estimates first: a cell raised for one key must not count against the next.
        needed = self._hashes.least(self._cells, codes) + counts
        for span, columns in self._hashes.columns(codes):
            for row, places in zip(self._cells, columns, strict=True):
                np.maximum.at(row, places, needed[span])


def _distinct(
    codes: Codes, weights: NDArray[np.float64] | None
) -> tuple[Codes, NDArray[np.float64]]:
    """Return the distinct codes and the sum of the weights of each."""
    if weights is None:
        distinct, counts = np.unique(codes, return_counts=True)
        return distinct, counts.astype(np.float64)
    distinct, places = np.unique(codes, return_inverse=True)
    return distinct, np.bincount(places, weights, len(distinct)).astype(np.float64, copy=False)
