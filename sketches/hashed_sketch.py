"""The base of `CountMin` and `CostSketch`: one kind of key, the rules of merging, and bytes."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches import checks, wire
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError, MergeError
from sketches.key_columns import PLAIN_KINDS
from sketches.keys import KeyColumn, as_keys
from sketches.row_hashes import checked_shape

_VERSION = 2
_KINDS = (*PLAIN_KINDS, *(f"({left}, {right})" for left in PLAIN_KINDS for right in PLAIN_KINDS))

# A hair below the largest double: a cell adds up the same numbers as the total, but in another
# order, and so with another rounding; this much room keeps it from overflowing on its own.
LARGEST_TOTAL = sys.float_info.max * (1 - 2.0**-20)


def grown(name: str, total: float, amount: float) -> float:
    """Return ``total + amount``; refuse a sum that leaves the range of a double."""
    result = total + amount
    if not result <= LARGEST_TOTAL:
        raise InvalidValueError(
            f"{name} {total!r} cannot grow by {amount!r}, it would leave the range of a double; "
            "count in a larger unit"
        )
    return result


def sum_of(amounts: NDArray[np.float64]) -> float:
    """Return the sum, infinite if it overflows; `grown` has the words for that."""
    with np.errstate(over="ignore"):
        return float(amounts.sum())


class HashedSketch(ABC):
    """A sketch whose cells are found by hashing: counts keys of one kind, merges, becomes bytes.

    The first batch with a key in it settles the kind; an empty batch has none.
    """

    __slots__ = ("_depth", "_kind", "_seed", "_width")

    def __init__(self, width: int, depth: int, seed: int) -> None:
        self._width, self._depth = checked_shape(width, depth)
        self._seed = checks.seed(seed)
        self._kind: str | None = None

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return self._width

    @property
    def depth(self) -> int:
        """How many rows there are."""
        return self._depth

    @property
    def seed(self) -> int:
        """The seed of the hashes."""
        return self._seed

    @property
    def kind(self) -> str | None:
        """The kind of the keys: "int", "date"..., a pair as "(int, str)"; None before any."""
        return self._kind

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor, which sketches share if they can merge."""

    @abstractmethod
    def _totals(self) -> dict[str, float]:
        """Return the sums over the whole stream, by name."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the rest of the state, by name."""

    @classmethod
    @abstractmethod
    def _restore(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Build a sketch from the results of the three methods above, after checking them.

        Raises:
            InvalidValueError: something is missing or cannot be the state of a sketch.
        """

    @abstractmethod
    def _absorb(self, other: Self, totals: Mapping[str, float]) -> None:
        """Add the content of a sketch that is known to fit, and set the new totals."""

    def copy(self) -> Self:
        """Return a sketch of its own with the same content."""
        twin: Self = type(self)(**self._parameters())
        twin |= self
        return twin

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes, for `from_bytes` in any process on any machine."""
        fields = {**self._parameters(), "kind": self._kind, **self._totals()}
        return wire.pack(type(self).__name__, _VERSION, fields, self._arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the sketch that `to_bytes` wrote.

        Raises:
            CorruptDataError: the bytes are truncated, damaged or not those of such a sketch.
        """
        fields, arrays = wire.unpack(data, cls.__name__, _VERSION)
        try:
            kind = stored_field(fields, "kind")
            if kind is not None and kind not in _KINDS:
                raise InvalidValueError(f"kind={kind!r} is not a kind of key")  # noqa: TRY301
            sketch: Self = cls._restore(fields, arrays)
        except InvalidValueError as error:
            raise CorruptDataError(
                f"the bytes are whole but hold no valid {cls.__name__}: {error}; write them again"
            ) from error
        sketch._kind = kind
        return sketch

    def __or__(self, other: object) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        merged = self.copy()
        merged |= other
        return merged

    def __ior__(self, other: object) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        _check_same(type(self).__name__, self._parameters(), other._parameters())
        if self._kind is not None and other._kind is not None:
            _check_same(type(self).__name__, {"kind": self._kind}, {"kind": other._kind})
        more = other._totals()
        totals = {name: grown(name, value, more[name]) for name, value in self._totals().items()}
        self._absorb(other, totals)
        self._kind = self._kind or other._kind
        return self

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._arrays(), other._arrays()
        return (
            self._parameters() == other._parameters()
            and self._kind == other._kind
            and self._totals() == other._totals()
            and all(np.array_equal(array, theirs[name]) for name, array in mine.items())
        )

    __hash__ = None  # type: ignore[assignment]  # it changes with every key

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        shown = {**self._parameters(), "kind": self._kind, **self._totals()}
        described = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"<{type(self).__name__} {described}>"

    def _read(self, keys: Any) -> KeyColumn:
        """Return the keys, which must be of the kind of those before."""
        column = as_keys(keys, copy=False, seed=0)  # hashed or listed at once, never kept
        if len(column) and self._kind is not None and column.kind != self._kind:
            raise InvalidKeyError(
                f"keys of kind {column.kind} do not go with the {self._kind} keys counted so far; "
                f"convert them to {self._kind}, or count them in a sketch of their own"
            )
        return column

    def _remember_kind(self, column: KeyColumn) -> None:
        if len(column):
            self._kind = column.kind


def stored_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field that was read from bytes."""
    if name not in fields:
        raise InvalidValueError(f"there is no field {name!r}")
    return fields[name]


def stored_total(fields: Mapping[str, Any], name: str) -> float:
    """Return a sum that was read from bytes: in the range of sums, and not negative."""
    total = checks.number(name, stored_field(fields, name), up_to=LARGEST_TOTAL)
    if total < 0:
        raise InvalidValueError(f"{name}={total!r} is negative")
    return total


def stored_array(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """Return an array that was read from bytes."""
    if name not in arrays:
        raise InvalidValueError(f"there is no array {name!r}")
    return arrays[name]


def stored_cells(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return counters that were read from bytes: of this shape, finite and not negative."""
    length = int(np.prod(shape, dtype=np.int64))
    return checks.weights(name, stored_array(arrays, name), length).reshape(shape)


def _check_same(sketch: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name, value in mine.items():
        if theirs[name] != value:
            raise MergeError(
                f"a {sketch} with {name}={value!r} cannot be merged with one with "
                f"{name}={theirs[name]!r}; give all sketches of one stream the same {name}"
            )
