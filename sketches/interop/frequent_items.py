"""The frequent items of Spark's `approx_top_k` functions, kept by Apache DataSketches."""

import math
import re
import struct
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.arrays import Floats, Integers
from sketches.errors import (
    CorruptDataError,
    EmptySketchError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
    MissingPackageError,
)
from sketches.interop.whole_weights import whole_weights
from sketches.key_columns import INTEGER, TEXT
from sketches.key_identity import distinct
from sketches.keys import as_keys
from sketches.space_saving import HeavyHitter

try:
    import datasketches
except ImportError as error:
    raise MissingPackageError(
        "frequent items of other systems need the package datasketches, which cannot be imported; "
        "pip install datasketches"
    ) from error

_LARGEST = (1 << 63) - 1
_MOST_TRACKED = 1_000_000  # what Spark allows
_TYPES = {INTEGER: "bigint", TEXT: "string"}
_ITEM = re.compile(r"item (\w+)(?:\(.*\))? not null", re.IGNORECASE)

# Preamble length, serial version, family, sizes of the map at most and now (log2), flags; unless
# it is empty, the number of items, the total and the error follow, then counts, then items.
_HEAD = struct.Struct("<BBBBBBH")
_COUNTS = struct.Struct("<IIQQ")
_EMPTY, _FULL = (1, 1, 10), (4, 1, 10)
_EMPTY_FLAGS = 5
_FULLEST = 0.75  # share of the map that is used
_SMALLEST_MAP, _LARGEST_MAP = 3, 26
_NULLS = struct.Struct(">q")  # after the sketch, from Spark


class FrequentItems:
    """The frequent items of a column, as Spark's ``approx_top_k_accumulate`` keeps them.

    Spark writes a state that ``approx_top_k_estimate`` and ``approx_top_k_combine`` read. It can be
    read here as well, extended and added up, and be written for Spark again. Counting is done by
    Apache DataSketches (Misra and Gries's algorithm): no item is counted more than `error` too low,
    and one that came more often than `error` is kept.

    Columns of BIGINT and STRING can be read; cast others first.

    >>> items = FrequentItems(tracked=100)
    >>> items.update(["tea", "coffee", "tea"], nulls=1)
    >>> FrequentItems.from_spark(items.to_spark()).top(1)
    [HeavyHitter(key='tea', estimate=2.0, error=0.0)]

    Args:
        tracked: how many items are kept, Spark's ``maxItemsTracked``.
    """

    __slots__ = ("_engine", "_kind", "_nulls", "_tracked")

    def __init__(self, tracked: int = 10_000) -> None:
        self._tracked = checks.whole("tracked", tracked, at_least=1, at_most=_MOST_TRACKED)
        self._kind = ""
        self._nulls = 0
        self._engine: Any = None

    @property
    def tracked(self) -> int:
        """How many items are kept."""
        return self._tracked

    @property
    def nulls(self) -> int:
        """How many rows had no item."""
        return self._nulls

    @property
    def total(self) -> int:
        """The total count, without rows that had no item."""
        return 0 if self._engine is None else int(self._engine.total_weight)

    @property
    def error(self) -> int:
        """By how much an item may have been counted too low; those not kept came no more often."""
        if self._engine is None:
            return 0
        kept = self._found("NO_FALSE_NEGATIVES")
        # If none is kept, this holds for any item.
        lost = 0 if self._kind == INTEGER else ""
        return int(kept[0].error if kept else self._engine.get_upper_bound(lost))

    def update(self, items: Any, weights: Any = None, *, nulls: int = 0) -> None:
        """Count items, each by its weight, and rows that have none.

        Raises:
            InvalidKeyError: these are not integers or texts, or of another kind than before.
            InvalidValueError: weights are not whole numbers, or too large.
        """
        column = as_keys(items)
        missing = checks.whole("nulls", nulls, at_least=0, at_most=_LARGEST - self._nulls)
        amounts = whole_weights(weights, len(column), most=_LARGEST - self.total)
        if len(column):
            self._settle(column.kind)
            numbers, firsts = distinct(column)
            sums = np.zeros(len(firsts), dtype=np.int64)
            np.add.at(sums, numbers, amounts)
            words = column.take(firsts).objects().tolist()
            for word, count in zip(words, sums.tolist(), strict=True):
                self._engine.update(word, count)
        self._nulls += missing

    def arrays(self) -> tuple[NDArray[Any], Floats, Floats]:
        """Return the items that are kept, their estimates and errors, the heaviest first.

        The truth is at most an estimate and at least that less its error. Items that are not kept
        came no more than `error` times.
        """
        hitters = self._found("NO_FALSE_NEGATIVES")
        keys: NDArray[Any] = np.array(
            [hitter.key for hitter in hitters],
            dtype=np.int64 if self._kind == INTEGER else np.object_,
        )
        estimates = np.array([hitter.estimate for hitter in hitters], dtype=np.float64)
        return keys, estimates, np.array([hitter.error for hitter in hitters], dtype=np.float64)

    def top(self, k: int) -> list[HeavyHitter]:
        """Return the heaviest items that are certain to have come often, as Spark estimates them.

        Of equals the smaller item comes first. Rows without an item are not among them.
        """
        return self._found("NO_FALSE_POSITIVES")[: checks.whole("k", k, at_least=0)]

    def __or__(self, other: Self) -> Self:
        """Return the items of both.

        Raises:
            MergeError: they track different numbers of items, or items of different types.
            EmptySketchError: one has counted items and keeps none.
        """
        if not isinstance(other, FrequentItems):
            return NotImplemented
        if self._tracked != other._tracked or (
            self._kind and other._kind and self._kind != other._kind
        ):
            raise MergeError(
                f"{self!r} and {other!r} cannot be added; make both of one type, with one `tracked`"
            )
        for one in (self, other):
            one._refuse_forgotten("added up")
        whole_weights([other.total], 1, most=_LARGEST - self.total)
        both = type(self)(self._tracked)
        both._nulls = self._nulls + other._nulls
        for one in (self, other):
            if one._engine is not None:
                both._settle(one._kind)
                both._engine.merge(one._engine.__copy__())
        return both

    def __repr__(self) -> str:
        kind = _TYPES.get(self._kind, "nothing")
        return f"FrequentItems(tracked={self._tracked}, {self.total} of {kind})"

    def to_spark(self) -> dict[str, Any]:
        """Return the state for Spark, as a row with the columns of `spark_schema`.

        Raises:
            EmptySketchError: nothing was counted, so the type of the column is not known, or no
                item is kept.
        """
        kind = _TYPES[self._known_kind()]
        self._refuse_forgotten("written")
        sketch = (
            self._engine.serialize(datasketches.PyLongsSerDe())
            if self._kind == INTEGER
            else self._engine.serialize()
        )
        return {
            "sketch": bytes(sketch) + _NULLS.pack(self._nulls),
            "maxItemsTracked": self._tracked,
            "itemDataType": None,
            "itemDataTypeDDL": f"item {kind} not null",
        }

    @property
    def spark_schema(self) -> str:
        """The columns of the state, to make a DataFrame of it."""
        kind = _TYPES[self._known_kind()]
        return f"sketch binary, maxItemsTracked int, itemDataType {kind}, itemDataTypeDDL string"

    @classmethod
    def from_spark(cls, state: Mapping[str, Any] | Any) -> Self:
        """Read what ``approx_top_k_accumulate``, ``..._combine`` or `to_spark` returned.

        Args:
            state: the struct: a ``Row`` of Spark, or a mapping of its fields.

        Raises:
            CorruptDataError: it is not such a struct, or its bytes are truncated or damaged.
            InvalidKeyError: the items are of another type than BIGINT and STRING.
        """
        try:
            data, tracked, ddl = (
                state[name] for name in ("sketch", "maxItemsTracked", "itemDataTypeDDL")
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CorruptDataError(
                f"a {type(state).__name__} is not a state of approx_top_k_accumulate: it lacks "
                f"{error}"
            ) from error
        kind = _kind_of(ddl)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CorruptDataError(f"sketch is a {type(data).__name__}, not bytes")
        data = bytes(data)
        end = _end_of(data, kind)
        if len(data) - end not in (0, _NULLS.size):
            raise CorruptDataError(
                f"the sketch has {end} bytes and {len(data) - end} follow; they were truncated or "
                "more was added"
            )
        try:
            items: Self = cls(tracked)
        except InvalidValueError as error:
            raise CorruptDataError(f"maxItemsTracked: {error}") from error
        items._kind, items._engine = kind, _read(data[:end], kind)
        if len(data) > end:  # absent in versions before Spark counted rows without an item
            (items._nulls,) = _NULLS.unpack_from(data, end)
        if items._nulls < 0:
            raise CorruptDataError(f"{items._nulls} rows without an item; the state was damaged")
        return items

    def _known_kind(self) -> str:
        if not self._kind:
            raise EmptySketchError("no item was counted, so their type is not known; update it")
        return self._kind

    def _refuse_forgotten(self, what: str) -> None:
        """Refuse operations that the library would do as if nothing had been counted."""
        if _is_forgotten(self._engine):
            raise EmptySketchError(
                f"{self!r} keeps none of its items, of which each came at most {self.error} times, "
                f"and cannot be {what} by Apache DataSketches; track more, or count more first"
            )

    def _settle(self, kind: str) -> None:
        """Make the counter of items of this kind."""
        if kind not in _TYPES or self._kind not in ("", kind):
            raise InvalidKeyError(
                f"items of kind {kind} cannot be counted "
                f"{f'with those of kind {self._kind}' if self._kind else 'for Spark here'}; "
                "give integers only, or texts only"
            )
        if self._engine is None:
            size = math.ceil(math.log2(math.ceil(self._tracked / 0.75)))
            self._engine = _sketch_of(kind)(max(size, _SMALLEST_MAP))
            self._kind = kind

    def _found(self, certainty: str) -> list[HeavyHitter]:
        if self._engine is None:
            return []
        wanted = getattr(datasketches.frequent_items_error_type, certainty)
        found = self._engine.get_frequent_items(wanted, 0)
        return [
            HeavyHitter(key, float(upper), float(upper - lower))
            for key, _, lower, upper in sorted(found, key=lambda item: (-item[3], item[0]))
        ]


def _sketch_of(kind: str) -> Any:
    if kind == INTEGER:
        return datasketches.frequent_items_sketch
    return datasketches.frequent_strings_sketch


def _read(data: bytes, kind: str) -> Any:
    """Return the library's sketch from checked bytes."""
    if kind == INTEGER:
        return datasketches.frequent_items_sketch.deserialize(data, datasketches.PyLongsSerDe())
    return datasketches.frequent_strings_sketch.deserialize(data)


def _is_forgotten(engine: Any) -> bool:
    """Return whether a sketch has counted something and keeps no item, as if it were new.

    That is so right after it has made room where all items came equally often.
    """
    return engine is not None and engine.total_weight > 0 and engine.num_active_items == 0


def _kind_of(ddl: object) -> str:
    """Return the kind of a state's items, by Spark."""
    match = _ITEM.fullmatch(ddl) if isinstance(ddl, str) else None
    if match is None:
        raise CorruptDataError(f"itemDataTypeDDL={ddl!r} does not say what the items are")
    for kind, name in _TYPES.items():
        if match[1].lower() == name:
            return kind
    raise InvalidKeyError(
        f"items of type {match[1]} cannot be read; cast the column to BIGINT or STRING before "
        "approx_top_k_accumulate"
    )


def _end_of(data: bytes, kind: str) -> int:
    """Return where the sketch ends, after checking all that the library relies on."""
    if len(data) < _HEAD.size:
        raise CorruptDataError(f"{len(data)} bytes are too few for a sketch of frequent items")
    *start, largest, size, flags, _ = _HEAD.unpack_from(data)
    wanted = _EMPTY if flags & _EMPTY_FLAGS else _FULL
    if tuple(start) != wanted or not _SMALLEST_MAP <= size <= largest <= _LARGEST_MAP:
        raise CorruptDataError(
            f"bytes that begin with {data[: _HEAD.size].hex()} are not those of a sketch of "
            "frequent items; pass what approx_top_k_accumulate(...) returned"
        )
    if wanted == _EMPTY:
        return _HEAD.size
    if len(data) < _HEAD.size + _COUNTS.size:
        raise CorruptDataError(f"{len(data)} bytes are too few for a sketch with items")
    number, _, total, error = _COUNTS.unpack_from(data, _HEAD.size)
    end = _HEAD.size + _COUNTS.size + 8 * number
    if end > len(data) or not 0 < number <= _FULLEST * (1 << size):
        raise CorruptDataError(
            f"{len(data)} bytes and a map of {1 << size} places are too few for {number} items; "
            "they were truncated, or damaged"
        )
    counts: Integers = np.frombuffer(data, "<i8", number, offset=_HEAD.size + _COUNTS.size).astype(
        np.int64
    )
    if (counts <= 0).any() or sum(counts.tolist()) > total or max(total, error) > _LARGEST:
        raise CorruptDataError(
            f"{number} counts of items do not fit a total of {total}; the sketch was damaged"
        )
    return _end_of_items(data, end, number, kind)


def _end_of_items(data: bytes, start: int, number: int, kind: str) -> int:
    """Return where the items end that begin here."""
    if kind == INTEGER:
        end = start + 8 * number
    else:
        end = start
        for place in range(number):
            if end + 4 > len(data):
                raise CorruptDataError(f"item {place} of {number} is missing; bytes were truncated")
            text_start = end + 4
            end = text_start + int.from_bytes(data[end:text_start], "little")
            try:
                data[text_start:end].decode()
            except UnicodeDecodeError as error:
                raise CorruptDataError(f"item {place} of {number} is not text: {error}") from error
    if end > len(data):
        raise CorruptDataError(
            f"{len(data)} bytes are too few for {number} items; they were truncated"
        )
    return end
