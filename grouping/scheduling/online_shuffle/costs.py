"""The two matrices of online shuffle grouping: filled by an instance, read by a scheduler."""

from collections.abc import Sequence

import numpy as np

from grouping.scheduling.online_shuffle.messages import Matrices
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError
from sketches.keys import IntegerKeys
from sketches.row_hashes import checked_shape, splitmix64

_HALF_BITS = 32
_LOW_HALF = (1 << _HALF_BITS) - 1
LARGEST_CODE = (1 << 64) - 1

# How many keys are remembered. All that is forgotten can be worked out again.
_MOST_KEYS = 1 << 16


def checked_code(code: object) -> int:
    """Return ``code`` if it is the code of a key."""
    if isinstance(code, int) and 0 <= code <= LARGEST_CODE:
        return code
    raise InvalidValueError(
        f"code={code!r} is not the code of a key, an int of 64 bits without a sign; "
        "take it from sketches.keys.as_keys(...).codes.tolist()"
    )


class MeasuredCosts(CostSketch):
    """F and W of an instance: a cost sketch that is fed codes, and whose cells can be sent.

    >>> costs = MeasuredCosts(width=2, depth=1)
    >>> costs.measure([7, 8, 7], [1.0, 2.0, 3.0])
    >>> costs.matrices(instance=0, number=1)
    Matrices(instance=0, number=1, counts=(3.0, 0.0), costs=(6.0, 0.0), mean=2.0)
    """

    __slots__ = ()

    def measure(self, codes: Sequence[int], seconds: Sequence[float]) -> None:
        """Count tuples, given the codes of their keys and how long they took."""
        self.update(IntegerKeys(np.array(codes, dtype=np.uint64)), seconds)

    def matrices(self, *, instance: int, number: int) -> Matrices:
        """Return what is to be sent of them."""
        counts, costs = (tuple(cells.ravel().tolist()) for cells in (self._counts, self._costs))
        return Matrices(instance, number, counts, costs, self.mean)


class KeyPlaces(dict[int, tuple[int, ...]]):
    """Where the key of each code has its cells, in matrices that are laid out row after row.

    The cells are those of `sketches.row_hashes.RowHashes`, worked out for one key in plain numbers:
    a call of numpy takes as long for one key as for hundreds.

    >>> KeyPlaces(width=55, depth=2, seed=7)[1]
    (15, 100)
    """

    __slots__ = ("_rows", "_width", "size")

    def __init__(self, *, width: int, depth: int, seed: int) -> None:
        super().__init__()
        self._width, rows = checked_shape(width, depth)
        self.size = self._width * rows
        numbers = splitmix64(seed)
        self._rows = [
            (next(numbers), next(numbers), next(numbers), row * self._width) for row in range(rows)
        ]

    def __missing__(self, code: int) -> tuple[int, ...]:
        low, high = checked_code(code) & _LOW_HALF, code >> _HALF_BITS
        width = self._width
        places = tuple(
            first
            + ((((for_low * low + for_high * high + constant) & LARGEST_CODE) >> 32) * width >> 32)
            for for_low, for_high, constant, first in self._rows
        )
        if len(self) >= _MOST_KEYS:
            self.clear()
        self[code] = places
        return places


class EstimatedCosts(dict[int, float]):
    """How many seconds a tuple is expected to take at one instance, by the code of its key.

    What `CostSketch.estimate` says, worked out for one key at a time and then remembered: the
    mean in the cell that the fewest tuples share, and that of all tuples for a key without any.

    >>> sent = Matrices(instance=0, number=1, counts=(3.0, 0.0), costs=(6.0, 0.0), mean=2.0)
    >>> EstimatedCosts(sent, KeyPlaces(width=2, depth=1, seed=0))[7]
    2.0

    Args:
        matrices: what the instance has sent.
        places: where keys have their cells.
    """

    __slots__ = ("_costs", "_counts", "_mean", "_places")

    def __init__(self, matrices: Matrices, places: KeyPlaces) -> None:
        super().__init__()
        if len(matrices.counts) != places.size:
            raise InvalidValueError(
                f"matrices of {len(matrices.counts)} cells came where there are {places.size}; "
                "give schedulers and instances the same width and depth"
            )
        self._counts, self._costs, self._mean = matrices.counts, matrices.costs, matrices.mean
        self._places = places

    def __missing__(self, code: int) -> float:
        places = self._places[code]
        place = min(places, key=self._counts.__getitem__)  # the first row of equals
        count = self._counts[place]
        seconds = self._costs[place] / count if count else self._mean
        if len(self) >= _MOST_KEYS:
            self.clear()
        self[code] = seconds
        return seconds
