"""Columns of keys of one kind: integers, text, bytes, or pairs of those.

A column gives its keys as 64-bit ``codes`` (what is hashed) and ``ids`` (what is sorted and
matched; the codes, unless something cheaper tells the keys apart as well), and back as objects.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches.fingerprints import Codes, fingerprints, pair_codes

Indices: TypeAlias = NDArray[np.intp]

INTEGER = "int"
TEXT = "str"
BYTES = "bytes"

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
        kind: what sort of keys these are.
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
    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory that nobody else holds."""

    @abstractmethod
    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects: ``int``, ``str``, ``bytes`` or a tuple of two."""

    @property
    @abstractmethod
    def values(self) -> Any:
        """The keys as an array: int64, objects, or `Pairs` of such arrays."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that makes up the keys, as arrays that can be stored."""


class InvertibleKeys(KeyColumn):
    """Keys that can be told from their ids alone, so that nothing else need be kept of them."""

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

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory that nobody else holds."""
        return self.of(np.concatenate([self.ids, *(other.ids for other in others)]))


class IntegerKeys(InvertibleKeys):
    """Integers that fit 64 bits with a sign."""

    __slots__ = ("codes", "kind", "seed")

    codes: Codes

    def __init__(self, codes: Codes, seed: int = 0) -> None:
        self.kind = INTEGER
        self.codes = codes
        self.seed = seed

    def of(self, ids: Codes) -> Self:
        """Return the integers that have these bits."""
        return type(self)(ids, self.seed)

    def seeded(self, seed: int) -> Self:
        """Return the same integers; their codes are the integers themselves by every seed."""
        return self if seed == self.seed else type(self)(self.codes, seed)

    @property
    def values(self) -> NDArray[np.int64]:
        """The integers themselves."""
        return self.codes.view(np.int64)

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        return self.values.astype(object)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the integers."""
        return {"values": self.values}


class StringKeys(KeyColumn):
    """Text or bytes, as places in one buffer of bytes."""

    __slots__ = ("_data", "_starts", "codes", "kind", "lengths", "seed")

    codes: Codes

    def __init__(  # noqa: PLR0913
        self,
        kind: str,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        codes: Codes | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.kind = kind
        self._data = data
        self._starts = starts
        self.lengths = lengths
        self.seed = seed
        self.codes = fingerprints(kind, data, starts, lengths, seed) if codes is None else codes

    def seeded(self, seed: int) -> Self:
        """Return the same keys with the codes of another seed."""
        if seed == self.seed:
            return self
        return type(self)(self.kind, self._data, self._starts, self.lengths, seed=seed)

    @property
    def nbytes(self) -> int:
        """Memory of the keys, in bytes."""
        arrays = (self._data, self._starts, self.lengths, self.codes)
        return sum(array.nbytes for array in arrays)

    def take(self, indices: Indices | slice) -> Self:
        """Return the keys at these places."""
        return type(self)(
            self.kind,
            self._data,
            self._starts[indices],
            self.lengths[indices],
            self.codes[indices],
            seed=self.seed,
        )

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory that nobody else holds."""
        columns = [self, *(other.seeded(self.seed) for other in others)]
        lengths = np.concatenate([column.lengths for column in columns])
        return type(self)(
            self.kind,
            np.concatenate([column.content() for column in columns]),
            np.cumsum(lengths) - lengths,
            lengths,
            np.concatenate([column.codes for column in columns]),
            seed=self.seed,
        )

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        keys = np.empty(len(self), dtype=object)
        data = np.ascontiguousarray(self._data).data
        spans = zip(self._starts.tolist(), self.lengths.tolist(), strict=True)
        if self.kind == TEXT:
            keys[:] = [str(data[start : start + length], "utf-8") for start, length in spans]
        else:
            keys[:] = [bytes(data[start : start + length]) for start, length in spans]
        return keys

    @property
    def values(self) -> NDArray[np.object_]:
        """The keys as an array of objects."""
        return self.objects()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the bytes of all keys, one key after the other, and their lengths."""
        return {"data": self.content(), "lengths": self.lengths}

    def content(self) -> NDArray[np.uint8]:
        """Return the bytes of these keys only, one key after the other."""
        ends = self._starts + self.lengths
        if np.array_equal(ends[:-1], self._starts[1:]):
            first = int(self._starts[0]) if len(ends) else 0
            span = slice(first, first + int(self.lengths.sum()))
            return self._data[span]
        shifts = self._starts - (np.cumsum(self.lengths) - self.lengths)
        places = np.repeat(shifts, self.lengths)
        places += np.arange(len(places))
        content: NDArray[np.uint8] = self._data[places]
        return content


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

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory that nobody else holds."""
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
    # A negative number has its upper bits set as well.
    if len(column) and max(left.codes.max(), right.codes.max()) > _LOW_HALF:
        return column
    ids = left.codes << _HALF
    ids |= right.codes
    return PackedPairs(ids, column.seed)


def alike(first: KeyColumn, second: KeyColumn) -> tuple[Any, Any]:
    """Return two columns of one kind as the same class, so that ids and `joined` fit."""
    if type(first) is type(second):
        return first, second
    return _unpacked(first), _unpacked(second)


def _unpacked(column: KeyColumn) -> KeyColumn:
    return column.unpacked() if isinstance(column, PackedPairs) else column
