"""Columns of facts: one fact of many tasks, as vectors that are joined and sent as they are.

A fact of a task is a number, a text, a vector, or a document, which travels as text. The same fact
of many tasks is a column. Columns are joined without looking at what is in them, so that a thousand
reports cost hardly more than one.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sketches.arrays import Indices


class Ragged(NamedTuple):
    """Vectors of different lengths, one after the other.

    >>> ragged = Ragged.of([np.array([5, 6]), np.array([], int), np.array([7])], np.int64)
    >>> ragged.taken(np.array([2, 0])).values.tolist(), ragged.rows.tolist()
    ([7, 5, 6], [0, 0, 2])

    Attributes:
        lengths: how long each is.
        values: what is in them.
    """

    lengths: NDArray[np.int64]
    values: NDArray[Any]

    @classmethod
    def of(cls, vectors: Sequence[NDArray[Any]], kind: DTypeLike) -> "Ragged":
        """Put vectors one after the other."""
        lengths = np.array([len(vector) for vector in vectors], dtype=np.int64)
        values = [np.asarray(vector, dtype=kind) for vector in vectors]
        return cls(lengths, np.concatenate(values) if values else np.empty(0, dtype=kind))

    @property
    def rows(self) -> Indices:
        """For each value, in which of the vectors it is."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where each vector ends."""
        return np.cumsum(self.lengths)

    def taken(self, rows: Indices) -> "Ragged":
        """Return some of the vectors."""
        lengths = self.lengths[rows]
        shift = (self.ends - self.lengths)[rows] - (np.cumsum(lengths) - lengths)
        return Ragged(lengths, self.values[np.repeat(shift, lengths) + np.arange(lengths.sum())])

    def apart(self) -> list[NDArray[Any]]:
        """Return the vectors."""
        return np.split(self.values, self.ends[:-1]) if len(self.lengths) else []


class ColumnKind(ABC):
    """A kind of facts: how a column of them is built, and taken apart into buffers."""

    @abstractmethod
    def column(self, values: Sequence[Any]) -> Any:
        """Return the column of the values of some tasks."""

    @abstractmethod
    def values(self, column: Any) -> list[Any]:
        """Return the value of each task."""

    @abstractmethod
    def joined(self, columns: Sequence[Any]) -> Any:
        """Return one column in place of several."""

    @abstractmethod
    def taken(self, column: Any, rows: Indices) -> Any:
        """Return the column of some of the tasks."""

    @abstractmethod
    def buffers(self, column: Any) -> tuple[NDArray[Any], ...]:
        """Return the arrays that a column consists of."""

    @abstractmethod
    def read(self, buffers: Iterator[memoryview]) -> Any:
        """Return the column of which these are the next buffers."""


@dataclass(frozen=True)
class Number(ColumnKind):
    """One number of each task."""

    kind: Any

    def column(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return an array."""
        return np.array(values, dtype=self.kind)

    def values(self, column: NDArray[Any]) -> list[Any]:
        """Return the numbers as those of Python."""
        return list(column.tolist())

    def joined(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return one array."""
        return np.concatenate(columns)

    def taken(self, column: NDArray[Any], rows: Indices) -> NDArray[Any]:
        """Return some of the numbers."""
        taken: NDArray[Any] = column[rows]
        return taken

    def buffers(self, column: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the array itself."""
        return (column,)

    def read(self, buffers: Iterator[memoryview]) -> NDArray[Any]:
        """Return the array."""
        return np.frombuffer(next(buffers), dtype=self.kind)


@dataclass(frozen=True)
class Vector(ColumnKind):
    """A vector of each task, as long as it likes."""

    kind: Any

    def column(self, values: Sequence[Any]) -> Ragged:
        """Return the vectors one after the other."""
        return Ragged.of(values, self.kind)

    def values(self, column: Ragged) -> list[Any]:
        """Return the vectors."""
        return column.apart()

    def joined(self, columns: Sequence[Ragged]) -> Ragged:
        """Return all vectors one after the other."""
        lengths, values = zip(*columns, strict=True)
        return Ragged(np.concatenate(lengths), np.concatenate(values))

    def taken(self, column: Ragged, rows: Indices) -> Ragged:
        """Return some of the vectors."""
        return column.taken(rows)

    def buffers(self, column: Ragged) -> tuple[NDArray[Any], ...]:
        """Return the lengths and what is in the vectors."""
        return tuple(column)

    def read(self, buffers: Iterator[memoryview]) -> Ragged:
        """Return the vectors."""
        lengths = np.frombuffer(next(buffers), dtype=np.int64)
        return Ragged(lengths, np.frombuffer(next(buffers), dtype=self.kind))


@dataclass(frozen=True)
class Text(Vector):
    """A text of each task."""

    kind: Any = field(default=np.uint8, init=False)

    def column(self, values: Sequence[str]) -> Ragged:
        """Return the texts one after the other."""
        texts = [value.encode() for value in values]
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        return Ragged(lengths, np.frombuffer(b"".join(texts), dtype=np.uint8))

    def values(self, column: Ragged) -> list[str]:
        """Return the texts."""
        data, ends = column.values.tobytes(), [0, *column.ends.tolist()]
        return [data[start:end].decode() for start, end in pairwise(ends)]


@dataclass(frozen=True)
class Document(Text):
    """Anything that can be written as JSON; what a task does not have takes no room.

    Attributes:
        write: returns a value as JSON types.
        parse: reads them again.
        nothing: returns the value of tasks that have none.
    """

    write: Callable[[Any], Any] = lambda value: value
    parse: Callable[[Any], Any] = lambda value: value
    nothing: Callable[[], Any] = lambda: None

    def column(self, values: Sequence[Any]) -> Ragged:
        """Return the documents one after the other."""
        none = self.nothing()
        texts = ["" if value == none else json.dumps(self.write(value)) for value in values]
        return super().column(texts)

    def values(self, column: Ragged) -> list[Any]:
        """Return what was written down."""
        texts = super().values(column)
        return [self.parse(json.loads(text)) if text else self.nothing() for text in texts]


def kinds_of(report: type) -> dict[str, ColumnKind]:
    """Return the kind of each fact of a report: of its fields that are annotated with one."""
    hints = get_type_hints(report, include_extras=True)
    return {
        name: kind
        for name, hint in hints.items()
        for kind in getattr(hint, "__metadata__", ())
        if isinstance(kind, ColumnKind)
    }


Whole: TypeAlias = Annotated[int, Number(np.int64)]
Real: TypeAlias = Annotated[float, Number(np.float64)]
Word: TypeAlias = Annotated[str, Text()]
Wholes: TypeAlias = Annotated[NDArray[np.int64], Vector(np.int64)]
Reals: TypeAlias = Annotated[NDArray[np.float64], Vector(np.float64)]


def no_wholes() -> NDArray[np.int64]:
    """Return the vector of a task of which nothing is known."""
    return np.empty(0, dtype=np.int64)


def no_reals() -> NDArray[np.float64]:
    """Return the vector of a task of which nothing is known."""
    return np.empty(0, dtype=np.float64)
