"""Tables from keys, or from their codes, to numbers, for whole arrays of keys at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.hashing import BLOCK
from sketches.arrays import Codes, Parts
from sketches.key_columns import IntegerKeys, KeyColumn
from sketches.keys import mix

ABSENT = -1

# Keys looked for at a time where they are compared: few, as in `sketches.key_strings`.
_COMPARED = 1 << 14


class CodeSlots:
    """Codes and their parts, each in the first free slot from its home on.

    An open-addressing table, filled in one pass: with the codes in the order of their homes, each
    moves up only as far as those before it need. There are two to four slots for each code, so a
    search ends after a step or two; binary search takes log2(n) of them, each a cache miss.

    >>> slots = CodeSlots(np.array([3, 5], dtype=np.uint64), np.array([1, 0], dtype=np.int32))
    >>> slots.find(np.array([5, 4, 3], dtype=np.uint64)).tolist()
    [0, -1, 1]

    Args:
        codes: distinct codes.
        parts: the part of each, not negative.
        seed: of the hash that gives codes their homes.
    """

    __slots__ = ("_codes", "_seed", "_shift", "parts")

    def __init__(self, codes: Codes, parts: Parts, seed: int = 0) -> None:
        self._seed = seed
        bits = max(1, (2 * len(codes)).bit_length())
        self._shift = np.uint64(64 - bits)
        homes = self.homes(codes)
        order = np.argsort(homes, kind="stable")
        slots = _first_free(homes[order])
        # One slot more than are used, so that every search meets an empty one and none wraps.
        size = max(1 << bits, int(slots[-1]) + 1 if len(slots) else 0) + 1
        # Empty slots are known by their part: code 0 is a code like any other.
        self._codes = np.zeros(size, dtype=np.uint64)
        self.parts = np.full(size, ABSENT, dtype=np.int32)
        self._codes[slots] = codes[order]
        self.parts[slots] = parts[order]

    def find(self, codes: Codes) -> Parts:
        """Return the part of each code, `ABSENT` for those that are not there."""
        found = np.empty(len(codes), dtype=np.int32)
        for start in range(0, len(codes), BLOCK):
            span = slice(start, start + BLOCK)
            found[span] = self._find(codes[span])
        return found

    def _find(self, codes: Codes) -> Parts:
        found: Parts = self.parts[self.search(codes, self.homes(codes))]
        return found

    def search(self, codes: Codes, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slot at which the search for each code ends: one of its own, or an empty one.

        Args:
            codes: the codes.
            slots: from where on to look for each; the result is written here.
        """
        rest = self._going_on(codes, slots)
        while len(rest):
            slots[rest] += 1
            rest = rest[self._going_on(codes[rest], slots[rest])]
        return slots

    def _going_on(self, codes: Codes, slots: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return which searches have come neither to their code nor to an empty slot."""
        rest = np.flatnonzero(self._codes[slots] != codes)
        on: NDArray[np.intp] = rest[self.parts[slots[rest]] != ABSENT]
        return on

    def homes(self, codes: Codes) -> NDArray[np.int64]:
        """Return the slot from which on to look for each code."""
        return (mix(codes, self._seed) >> self._shift).view(np.int64)


class KeySlots:
    """Keys and their parts: as `CodeSlots`, but exact for keys with equal codes.

    >>> from sketches.keys import as_keys
    >>> slots = KeySlots(as_keys(["Asia", "Europe"]), np.array([1, 0], dtype=np.int32))
    >>> slots.find(as_keys(["Europe", "Oceania"])).tolist()
    [0, -1]

    Args:
        column: distinct keys.
        parts: the part of each, not negative; without, its place in the column.
    """

    __slots__ = ("_column", "_parts", "_slots")

    def __init__(self, column: KeyColumn, parts: Parts | None = None) -> None:
        rows = np.arange(len(column), dtype=np.int32)
        parts = rows if parts is None else parts
        self._column = column
        # Integers are their own codes. For other keys a slot gives the row, and the row the key.
        held = parts if isinstance(column, IntegerKeys) else rows
        self._slots = CodeSlots(column.codes, held, column.seed)
        self._parts = np.append(parts, np.int32(ABSENT))  # where no row is found, at -1

    def find(self, keys: KeyColumn) -> Parts:
        """Return the part of each key, `ABSENT` for those that are not there."""
        if keys.kind != self._column.kind:
            return np.full(len(keys), ABSENT, dtype=np.int32)
        keys = keys.seeded(self._column.seed)
        if isinstance(keys, IntegerKeys):
            return self._slots.find(keys.codes)
        found = np.empty(len(keys), dtype=np.int32)
        for start in range(0, len(keys), _COMPARED):
            span = slice(start, start + _COMPARED)
            found[span] = self._find(keys.take(span))
        return found

    def _find(self, keys: KeyColumn) -> Parts:
        """Look for codes; where another key has the code, look on behind it."""
        slots, codes = self._slots, keys.codes
        ends = slots.search(codes, slots.homes(codes))
        rows: Any = slots.parts[ends].astype(np.intp)  # several gathers want it so
        asked = np.flatnonzero(rows != ABSENT)
        while len(asked):
            asked = asked[~self._column.same(rows[asked], keys, asked)]
            ends[asked] = slots.search(codes[asked], ends[asked] + 1)
            rows[asked] = slots.parts[ends[asked]]
            asked = asked[rows[asked] != ABSENT]
        parts: Parts = self._parts[rows]
        return parts


def _first_free(homes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slot of each code, given their homes in order.

    Code ``i`` goes to the slot after that of code ``i - 1``, or to its home if that is further:
    ``slot[i] = max(slot[i - 1] + 1, home[i])``, so ``slot[i] - i`` is a running maximum.
    """
    ranks = np.arange(len(homes))
    return ranks + np.maximum.accumulate(homes - ranks)
