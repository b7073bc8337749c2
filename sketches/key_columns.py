"""Columns of keys of one kind: integers, text, bytes, or pairs of those.

A column gives its keys as 64-bit ``codes`` (what is hashed) and ``ids`` (what is sorted and
matched; the codes, unless something cheaper tells the keys apart as well), and back as objects.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Codes, Indices
from sketches.fingerprints import pair_codes
from sketches.key_times import BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, in_python

INTEGER = "int"
TEXT = "str"
BYTES = "bytes"
DECIMAL = "decimal"
PLAIN_KINDS = (INTEGER, TEXT, BYTES, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, DECIMAL)

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two columns of keys of the same length: row ``i`` is the pair ``(left[i], right[i])``."""

    left: Any
    right: Any


class KeyColumn(ABC):
    """Keys of one kind with their codes; never changed.

    Attributes:
        kind: the kind of the keys.
        seed: of the hash that the codes were made by, and that places are to be found by.
    """

    __slots__ = ()

    kind: str
    seed: int

    @property
    @abstractmethod
    def codes(self) -> Codes:
        """One code for each key, the same for equal keys in every container and process."""

    @abstractmethod
    def seeded(self, seed: int) -> Self:
        """Return the same keys with the codes of another seed."""

    @property
    def ids(self) -> Codes:
        """Numbers that are equal for equal keys, within columns of this class only."""
        return self.codes

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.codes)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the keys, in bytes."""

    @abstractmethod
    def take(self, indices: Indices | slice) -> Self:
        """Return the keys at these places."""

    @abstractmethod
    def same(self, places: Indices, other: Self, others: Indices) -> NDArray[np.bool_]:
        """Return for each two places, here and in the other column, whether the keys are equal.

        Compared by the keys themselves, not by codes. Keys of two kinds are never equal.
        """

    @abstractmethod
    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory of their own."""

    @abstractmethod
    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects: ``int``, ``str``, ``date``... or a tuple of two."""

    @property
    @abstractmethod
    def values(self) -> Any:
        """The keys as an array: int64, objects, or `Pairs` of such arrays."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that makes up the keys, as arrays that can be stored."""


class InvertibleKeys(KeyColumn):
    """Keys that can be read back from their ids, so that nothing else need be kept of them."""

    __slots__ = ()

    @abstractmethod
    def of(self, ids: Codes) -> Self:
        """Return the keys that have these ids."""

    @property
    def nbytes(self) -> int:
        """Memory of the keys, in bytes."""
        return self.ids.nbytes

    def take(self, indices: Indices | slice) -> Self:
        """Return the keys at these places."""
        return self.of(self.ids[indices])

    def same(self, places: Indices, other: Self, others: Indices) -> NDArray[np.bool_]:
        """Return for each two places, here and in the other column, whether the keys are equal."""
        if self.kind != other.kind:
            return np.zeros(len(places), dtype=np.bool_)
        equal: NDArray[np.bool_] = self.ids[places] == other.ids[others]
        return equal

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory of their own."""
        return self.of(np.concatenate([self.ids, *(other.ids for other in others)]))


class IntegerKeys(InvertibleKeys):
    """Integers that fit 64 bits with a sign, or what is counted by such: days, microseconds."""

    __slots__ = ("codes", "kind", "seed")

    codes: Codes

    def __init__(self, codes: Codes, seed: int = 0, kind: str = INTEGER) -> None:
        self.kind = kind
        self.codes = codes
        self.seed = seed

    def of(self, ids: Codes) -> Self:
        """Return the integers that have these bits."""
        return type(self)(ids, self.seed, self.kind)

    def seeded(self, seed: int) -> Self:
        """Return the same integers; their codes are the integers themselves by every seed."""
        return self if seed == self.seed else type(self)(self.codes, seed, self.kind)

    @property
    def values(self) -> NDArray[Any]:
        """The integers themselves; keys of another kind as objects."""
        return self.codes.view(np.int64) if self.kind == INTEGER else self.objects()

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        numbers = self.codes.view(np.int64)
        return numbers.astype(object) if self.kind == INTEGER else in_python(self.kind, numbers)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the integers."""
        return {"values": self.codes.view(np.int64)}


class PairKeys(KeyColumn):
    """Pairs of keys, each side of its own kind."""

    __slots__ = ("_codes", "kind", "left", "right", "seed")

    def __init__(self, left: KeyColumn, right: KeyColumn, codes: Codes | None = None) -> None:
        self.kind = f"({left.kind}, {right.kind})"
        self.seed = left.seed
        self.left = left
        self.right = right.seeded(left.seed)
        self._codes = codes

    def seeded(self, seed: int) -> Self:
        """Return the same pairs with the codes of another seed."""
        if seed == self.seed:
            return self
        return type(self)(self.left.seeded(seed), self.right.seeded(seed))

    @property
    def codes(self) -> Codes:
        """One code for each pair; computed when first asked for, as packed pairs need none."""
        if self._codes is None:
            self._codes = pair_codes(self.left.codes, self.right.codes, self.seed)
        return self._codes

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.left)

    @property
    def nbytes(self) -> int:
        """Memory of the keys, in bytes."""
        return self.left.nbytes + self.right.nbytes + self.codes.nbytes

    def take(self, indices: Indices | slice) -> Self:
        """Return the keys at these places."""
        codes = None if self._codes is None else self._codes[indices]
        return type(self)(self.left.take(indices), self.right.take(indices), codes)

    def same(self, places: Indices, other: Self, others: Indices) -> NDArray[np.bool_]:
        """Return for each two places, here and in the other column, whether the pairs are equal."""
        if self.kind != other.kind:
            return np.zeros(len(places), dtype=np.bool_)
        equal: NDArray[np.bool_] = self.left.same(places, other.left, others)
        equal &= self.right.same(places, other.right, others)
        return equal

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory of their own."""
        return type(self)(
            self.left.joined(*(other.left for other in others)),
            self.right.joined(*(other.right for other in others)),
        )

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        keys = np.empty(len(self), dtype=object)
        keys[:] = list(zip(self.left.objects(), self.right.objects(), strict=True))
        return keys

    @property
    def values(self) -> Pairs:
        """The two sides, each as an array."""
        return Pairs(self.left.values, self.right.values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of both sides."""
        sides = {"left": self.left.arrays(), "right": self.right.arrays()}
        return {f"{side}.{name}": a for side, arrays in sides.items() for name, a in arrays.items()}


class PackedPairs(InvertibleKeys):
    """Pairs of integers from 0 to 2^32 - 1, each in one 64-bit number: 8 bytes instead of 24."""

    __slots__ = ("_ids", "kind", "seed")

    def __init__(self, ids: Codes, seed: int = 0) -> None:
        self.kind = f"({INTEGER}, {INTEGER})"
        self._ids = ids
        self.seed = seed

    def of(self, ids: Codes) -> Self:
        """Return the pairs that are packed in these numbers."""
        return type(self)(ids, self.seed)

    def seeded(self, seed: int) -> Self:
        """Return the same pairs with the codes of another seed."""
        return self if seed == self.seed else type(self)(self._ids, seed)

    @property
    def ids(self) -> Codes:
        """The left number in the upper half, the right one in the lower."""
        return self._ids

    @property
    def codes(self) -> Codes:
        """The codes that the same pairs have when they are not packed."""
        return self.unpacked().codes

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self._ids)

    def unpacked(self) -> PairKeys:
        """Return the same pairs as two columns."""
        left, right = self._ids >> _HALF, self._ids & _LOW_HALF
        return PairKeys(IntegerKeys(left, self.seed), IntegerKeys(right, self.seed))

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        return self.unpacked().objects()

    @property
    def values(self) -> Pairs:
        """The two sides, each as an array."""
        return self.unpacked().values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of both sides, as when they are not packed."""
        return self.unpacked().arrays()


def packed(column: KeyColumn) -> KeyColumn:
    """Return the column in its smallest form: pairs of small integers packed, others as given."""
    if not isinstance(column, PairKeys):
        return column
    left, right = column.left, column.right
    if not (isinstance(left, IntegerKeys) and isinstance(right, IntegerKeys)):
        return column
    if not left.kind == right.kind == INTEGER:
        return column
    # A negative number has its upper bits set as well.
    if len(column) and max(left.codes.max(), right.codes.max()) > _LOW_HALF:
        return column
    ids = left.codes << _HALF
    ids |= right.codes
    return PackedPairs(ids, column.seed)


def unified(first: KeyColumn, second: KeyColumn) -> tuple[Any, Any]:
    """Return two columns of one kind as the same class, so that ids and `joined` fit."""
    if type(first) is type(second):
        return first, second
    return unpacked(first), unpacked(second)


def unpacked(column: KeyColumn) -> KeyColumn:
    """Return pairs as two columns, and other keys as given."""
    return column.unpacked() if isinstance(column, PackedPairs) else column
