"""Many rows of one dataclass, kept as columns: a tenth of the memory of the objects."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload

import numpy as np

Row = TypeVar("Row")

_FEW = 32  # fewer rows take no more memory as objects


class PackedRows(Sequence[Row], Generic[Row]):
    """A sequence of rows that are built again each time that they are read.

    It is equal to the tuple of the same rows. Numbers, texts and all else come back as they were.

    Args:
        rows: at least one, all of one dataclass whose fields are what it is made of.
    """

    __slots__ = ("_columns", "_kind", "_length")

    def __init__(self, rows: Sequence[Row]) -> None:
        self._kind: Callable[..., Row] = type(rows[0])
        self._length = len(rows)
        names = [each.name for each in fields(rows[0])]  # type: ignore[arg-type]
        self._columns = [_packed([getattr(row, name) for row in rows]) for name in names]

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        """Return one row, or a tuple of some."""
        if isinstance(place, slice):
            return tuple(self[number] for number in range(*place.indices(self._length)))
        if not -self._length <= place < self._length:
            raise IndexError(f"row {place} of {self._length}")
        number = place % self._length
        (row,) = self._rows(slice(number, number + 1))
        return row

    def __iter__(self) -> Iterator[Row]:
        """Make all rows, one after the other."""
        return self._rows(slice(None))

    def __len__(self) -> int:
        """How many rows there are."""
        return self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | PackedRows):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _rows(self, which: slice) -> Iterator[Row]:
        return map(self._kind, *(_values(column, which) for column in self._columns))


def packed(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows as they are if they are few, else packed."""
    if isinstance(rows, PackedRows):
        return rows
    return PackedRows(rows) if len(rows) > _FEW else tuple(rows)


_Column = tuple[Any, tuple[Any, ...] | None]
"""Values; or their numbers among some words, and these."""


def _packed(values: list[Any]) -> _Column:
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values), None
    if kinds == {int}:
        low, high = min(values), max(values)
        if low >= -(1 << 63) and high < 1 << 63:
            return np.array(values, dtype=_narrowest(low, high)), None
    if kinds <= {str, type(None)}:
        words = tuple(dict.fromkeys(values))
        numbers = {word: number for number, word in enumerate(words)}
        places = [numbers[value] for value in values]
        return np.array(places, dtype=_narrowest(0, len(words))), words
    return tuple(values), None


def _narrowest(low: int, high: int) -> np.dtype[Any]:
    kinds = (np.uint8, np.uint16, np.uint32, np.int64) if low >= 0 else (np.int32, np.int64)
    fits = (kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return np.dtype(next(fits))


def _values(column: _Column, which: slice) -> Sequence[Any]:
    values, words = column
    some = values[which]
    if words is not None:
        return [words[number] for number in some.tolist()]
    return list(some.tolist()) if isinstance(some, np.ndarray) else some
