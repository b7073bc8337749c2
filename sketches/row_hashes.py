"""Which column a key falls in, in each row of a matrix: the hashes under the sketches.

Each row hashes a 64-bit code, taken as two halves of 32 bits, by *vector multiply-shift*::

    ((a * low + b * high + c) mod 2^64) >> 32

With independent ``a``, ``b`` and ``c`` for each row this is strongly universal: any two keys
meet in a given row with probability 2^-32, for any keys. Scaling the 32 bits to ``width`` columns
makes some columns likelier than others, by a factor of at most ``1 + width / 2^32``.

References:
    M. Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer
    arithmetic without primes", STACS 1996.
    M. Thorup, "High speed hashing for integers and strings", arXiv:1504.06804, 2015, section 3.4.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.arrays import Codes
from sketches.errors import InvalidValueError

Columns: TypeAlias = NDArray[np.int64]
Cells: TypeAlias = NDArray[np.float64]

# Above this a column could be likelier than another by more than a sixteenth.
LARGEST_WIDTH = 1 << 28
LARGEST_DEPTH = 255
LARGEST_MATRIX = 1 << 28  # cells; 2 GiB of float64

# Cells whose columns are worked out at a time. Much larger and the buffer falls out of the cache,
# much smaller and numpy's cost for each call shows (a quarter of this takes 15 % longer).
_CELLS_AT_A_TIME = 1 << 18

_HALF_BITS = 32
_LOW_HALF = (1 << _HALF_BITS) - 1
_ALL_BITS = (1 << 64) - 1


def splitmix64(seed: int) -> Iterator[int]:
    """Yield pseudo-random 64-bit numbers for ever, the same ones in every version of anything.

    References:
        G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _ALL_BITS
        number = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _ALL_BITS
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _ALL_BITS
        yield number ^ (number >> 31)


def checked_shape(width: object, depth: object) -> tuple[int, int]:
    """Return the size of a matrix, or say what is wrong with it."""
    columns = checks.whole("width", width, at_least=1, at_most=LARGEST_WIDTH)
    rows = checks.whole("depth", depth, at_least=1, at_most=LARGEST_DEPTH)
    if columns * rows > LARGEST_MATRIX:
        raise InvalidValueError(
            f"width={columns} times depth={rows} is more than {LARGEST_MATRIX} cells (2 GiB); "
            "make the sketch narrower or shallower"
        )
    return columns, rows


class RowHashes:
    """One hash function for each row of a matrix. Immutable.

    Equal width and seed give equal rows, so a shorter matrix has the first rows of a taller one.

    >>> hashes = RowHashes(width=55, depth=2, seed=7)
    >>> [columns.tolist() for _, columns in hashes.columns(np.array([1, 2, 3], dtype=np.uint64))]
    [[[15, 37, 3], [45, 22, 54]]]
    """

    __slots__ = ("_constant", "_for_high", "_for_low", "depth", "seed", "width")

    def __init__(self, *, width: int, depth: int, seed: int) -> None:
        self.width, self.depth = checked_shape(width, depth)
        self.seed = checks.seed(seed)
        numbers = splitmix64(self.seed)
        drawn = [[next(numbers) for _ in range(3)] for _ in range(self.depth)]
        # Columns of shape (depth, 1): one call of numpy then serves all rows.
        factors = np.array(drawn, dtype=np.uint64)[:, :, np.newaxis]
        self._for_low, self._for_high, self._constant = factors.swapaxes(0, 1)

    def columns(self, codes: Codes) -> Iterator[tuple[slice, Columns]]:
        """Yield where the keys fall, some keys at a time.

        Yields:
            A slice of ``codes`` and, of shape (depth, keys in the slice), the column of each key
            in each row. The array is overwritten by the next step: use it at once.
        """
        if not len(codes):
            return
        # Integers are mostly small: without high halves their term is zero and need not be added.
        has_high = bool(codes.max() > _LOW_HALF)
        step = max(1, _CELLS_AT_A_TIME // self.depth)
        hashed = np.empty((self.depth, min(step, len(codes))), dtype=np.uint64)
        scratch = np.empty_like(hashed) if has_high else None
        for start in range(0, len(codes), step):
            span = slice(start, min(start + step, len(codes)))
            size = span.stop - start
            rows = hashed[:, :size]
            if scratch is None:
                np.multiply(codes[span], self._for_low, out=rows)
            else:
                high_term = scratch[:, :size]
                np.multiply(codes[span] & _LOW_HALF, self._for_low, out=rows)
                np.multiply(codes[span] >> _HALF_BITS, self._for_high, out=high_term)
                rows += high_term
            rows += self._constant
            rows >>= _HALF_BITS
            rows *= self.width
            rows >>= _HALF_BITS
            yield span, rows.view(np.int64)

    def scatter(self, codes: Codes, *targets: tuple[Cells, float | NDArray[np.float64]]) -> None:
        """Add to the cells of each key.

        Args:
            codes: the keys.
            targets: each a matrix, and what to add: one amount for all keys or one for each.
        """
        for span, columns in self.columns(codes):
            for cells, amounts in targets:
                part = amounts if isinstance(amounts, float) else amounts[span]
                for row, places in zip(cells, columns, strict=True):
                    np.add.at(row, places, part)

    def least(self, cells: Cells, codes: Codes) -> NDArray[np.float64]:
        """Return for each key the least of its cells, one in each row of ``cells``."""
        least = np.empty(len(codes))
        for span, columns in self.columns(codes):
            smallest = least[span]
            # Every column is in range, so nothing is clipped; but "raise" would copy to be able to.
            cells[0].take(columns[0], out=smallest, mode="clip")
            in_row = np.empty_like(smallest)
            for row in range(1, self.depth):
                cells[row].take(columns[row], out=in_row, mode="clip")
                np.minimum(smallest, in_row, out=smallest)
        return least
