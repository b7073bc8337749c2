"""A table from keys' codes to numbers that is asked for whole arrays of codes at once."""

import numpy as np
from numpy.typing import NDArray

from grouping.hashing import BLOCK, Parts
from sketches.keys import Codes, mix

ABSENT = -1


class CodeSlots:
    """Codes and their parts, each in the first free slot from its home on.

    An open-addressing table, filled in one pass: with the codes in the order of their homes, each
    moves up just as far as those before it need. There are two to four slots for each code, so a
    search ends after a step or two; binary search takes log2(n) of them, each a cache miss.

    >>> slots = CodeSlots(np.array([3, 5], dtype=np.uint64), np.array([1, 0], dtype=np.int32))
    >>> slots.find(np.array([5, 4, 3], dtype=np.uint64)).tolist()
    [0, -1, 1]

    Args:
        codes: distinct codes.
        parts: the part of each, not negative.
    """

    __slots__ = ("_codes", "_parts", "_shift")

    def __init__(self, codes: Codes, parts: Parts) -> None:
        bits = max(1, (2 * len(codes)).bit_length())
        self._shift = np.uint64(64 - bits)
        homes = self._homes(codes)
        order = np.argsort(homes, kind="stable")
        slots = _first_free(homes[order])
        # One slot more than are used, so that every search meets an empty one and none wraps.
        size = max(1 << bits, int(slots[-1]) + 1 if len(slots) else 0) + 1
        # Empty slots are known by their part: code 0 is a code like any other.
        self._codes = np.zeros(size, dtype=np.uint64)
        self._parts = np.full(size, ABSENT, dtype=np.int32)
        self._codes[slots] = codes[order]
        self._parts[slots] = parts[order]

    def find(self, codes: Codes) -> Parts:
        """Return the part of each code, `ABSENT` for those that are not there."""
        found = np.empty(len(codes), dtype=np.int32)
        for start in range(0, len(codes), BLOCK):
            span = slice(start, start + BLOCK)
            found[span] = self._find(codes[span])
        return found

    def _find(self, codes: Codes) -> Parts:
        """Look for all codes in their homes, then for the rest in the next slot, and so on."""
        slots = self._homes(codes)
        parts: Parts = self._parts[slots]
        rest = np.flatnonzero((self._codes[slots] != codes) & (parts != ABSENT))
        codes, slots = codes[rest], slots[rest]
        while len(rest):
            slots += 1
            found = self._parts[slots]
            parts[rest] = found
            on = np.flatnonzero((self._codes[slots] != codes) & (found != ABSENT))
            rest, codes, slots = rest[on], codes[on], slots[on]
        return parts

    def _homes(self, codes: Codes) -> NDArray[np.int64]:
        return (mix(codes) >> self._shift).view(np.int64)


def _first_free(homes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slot of each code, given their homes in order.

    Code ``i`` goes to the slot after that of code ``i - 1``, or to its home if that is further:
    ``slot[i] = max(slot[i - 1] + 1, home[i])``, so ``slot[i] - i`` is a running maximum.
    """
    ranks = np.arange(len(homes))
    return ranks + np.maximum.accumulate(homes - ranks)
