"""The Count-Min sketch of Spark's `count_min_sketch`, which SQL can build but not query."""

import math
import struct
from typing import Any, Self

import numpy as np

from sketches import checks
from sketches.arrays import Integers
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError, MergeError
from sketches.interop.murmur import hashes_of
from sketches.interop.whole_weights import whole_weights
from sketches.key_columns import BYTES, INTEGER, TEXT, KeyColumn
from sketches.keys import as_keys

_HEAD = struct.Struct(">iqii")  # version, total, depth, width; then factors and cells as longs
_VERSION = 1
_LONG = 8
_PRIME = (1 << 31) - 1
_LARGEST = (1 << 63) - 1
_MOST_CELLS = 1 << 28


class SparkCountMin:
    """How often each key came, never too low, as Spark's ``count_min_sketch`` counts it.

    Spark makes such sketches in SQL (``count_min_sketch(column, eps, confidence, seed)``) and
    returns them as bytes that SQL cannot query. Here they can be queried, merged and extended, and
    `to_spark` returns the bytes that Spark would have made of the same stream.

    With probability ``confidence`` an estimate exceeds the truth by no more than ``epsilon`` times
    the total. Keys are integers, texts or bytes. The bytes do not say which; query with keys of the
    column's type. For anything but exchange with Spark `CountMin` is the better sketch.

    >>> counts = SparkCountMin(epsilon=0.1, confidence=0.9, seed=1)
    >>> counts.update(["tea", "coffee", "tea"])
    >>> SparkCountMin.from_spark(counts.to_spark()).estimate(["tea", "milk"]).tolist()
    [2, 0]

    Args:
        epsilon: the error, as a share of the total.
        confidence: the probability that an estimate keeps to it; above 0 and below 1.
        seed: of the hashes of integers; from -2^31 to 2^31 - 1.
    """

    __slots__ = ("_factors", "_table")

    def __init__(self, epsilon: float, confidence: float, seed: int) -> None:
        error = checks.number("epsilon", epsilon, above=0)
        sure = checks.number("confidence", confidence, above=0, up_to=math.nextafter(1.0, 0.0))
        width = math.ceil(2 / error)
        depth = math.ceil(-math.log(1 - sure) / math.log(2))
        if width * depth > _MOST_CELLS:
            raise InvalidValueError(
                f"epsilon={epsilon!r} and confidence={confidence!r} ask for {depth} rows of "
                f"{width} cells; give a larger epsilon"
            )
        self._factors = _drawn(
            checks.whole("seed", seed, at_least=-_PRIME - 1, at_most=_PRIME), depth
        )
        self._table: Integers = np.zeros((depth, width), dtype=np.int64)

    @property
    def depth(self) -> int:
        """How many rows there are."""
        return int(self._table.shape[0])

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return int(self._table.shape[1])

    @property
    def total(self) -> int:
        """The total count."""
        return int(self._table[0].sum())

    def update(self, keys: Any, weights: Any = None) -> None:
        """Count keys, each by its weight.

        Args:
            keys: integers, texts or bytes, in any container that `sketches.keys.as_keys` reads.
            weights: a whole number for each key; 1 without.

        Raises:
            InvalidKeyError: these are not such keys.
            InvalidValueError: these are not such weights, or their sum is beyond 2^63 - 1.
        """
        column = as_keys(keys)
        amounts = whole_weights(weights, len(column), most=_LARGEST - self.total)
        for row, cells in zip(self._table, self._cells(column), strict=True):
            np.add.at(row, cells, amounts)

    def estimate(self, keys: Any) -> Integers:
        """Return the estimate of each key: at least how much it was counted.

        Raises:
            InvalidKeyError: these are not integers, texts or bytes.
        """
        cells = self._cells(as_keys(keys))
        found: Integers = np.take_along_axis(self._table, cells, axis=1).min(axis=0)
        return found

    def __or__(self, other: Self) -> Self:
        """Return the sketch of both streams.

        Raises:
            MergeError: they were made with other settings.
        """
        if not isinstance(other, SparkCountMin):
            return NotImplemented
        if self._table.shape != other._table.shape or (self._factors != other._factors).any():
            raise MergeError(
                f"a sketch of {self.depth} rows of {self.width} cells and one of {other.depth} of "
                f"{other.width}, or of another seed, cannot be added; make both with equal settings"
            )
        whole_weights([other.total], 1, most=_LARGEST - self.total)
        return self._of(self._factors, self._table + other._table)

    def to_spark(self) -> bytes:
        """Return the sketch as Spark writes it."""
        head = _HEAD.pack(_VERSION, self.total, self.depth, self.width)
        return head + self._factors.astype(">i8").tobytes() + self._table.astype(">i8").tobytes()

    @classmethod
    def from_spark(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read what Spark's ``count_min_sketch`` or `to_spark` returned.

        Raises:
            CorruptDataError: the bytes are truncated, damaged, or not those of such a sketch.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CorruptDataError(f"a {type(data).__name__} is not bytes; pass the whole column")
        data = bytes(data)
        if len(data) < _HEAD.size:
            raise CorruptDataError(f"{len(data)} bytes are too few for a Count-Min sketch of Spark")
        version, total, depth, width = _HEAD.unpack_from(data)
        if version != _VERSION or depth < 1 or width < 1:
            raise CorruptDataError(
                f"bytes that begin with {data[: _HEAD.size].hex()} are not those of a Count-Min "
                "sketch of Spark; pass what count_min_sketch(...) returned"
            )
        expected = _HEAD.size + _LONG * depth * (1 + width)
        if len(data) != expected:
            raise CorruptDataError(
                f"a sketch of {depth} rows of {width} cells has {expected} bytes, not {len(data)}; "
                "they were truncated or more was added"
            )
        longs = np.frombuffer(data, dtype=">i8", offset=_HEAD.size).astype(np.int64)
        factors, table = longs[:depth], longs[depth:].reshape(depth, width)
        sums = [sum(row.tolist()) for row in table]
        if (table < 0).any() or any(found != total for found in sums):
            raise CorruptDataError(
                f"the rows of the sketch add up to {sums} and not to its total of {total}; it was "
                "damaged"
            )
        if (factors < 0).any() or (factors >= _PRIME).any():
            raise CorruptDataError("a factor of the sketch's hash is out of range; it was damaged")
        return cls._of(factors, table)

    @classmethod
    def _of(cls, factors: Integers, table: Integers) -> Self:
        sketch: Self = cls.__new__(cls)
        sketch._factors, sketch._table = factors, table
        return sketch

    def _cells(self, column: KeyColumn) -> Integers:
        """Return the cell of each key in each row."""
        if column.kind == INTEGER:
            products = self._factors[:, None] * column.values  # wraps, as in Java
            places = products + (products >> 32) & _PRIME
            cells: Integers = places % self.width
            return cells
        if not len(column):
            return np.empty((self.depth, 0), dtype=np.int64)
        if column.kind not in (TEXT, BYTES):
            raise InvalidKeyError(
                f"keys of kind {column.kind} are not counted by Spark's count_min_sketch; give "
                "integers, texts or bytes"
            )
        objects = column.objects().tolist()
        texts = [key.encode() for key in objects] if column.kind == TEXT else objects
        first = hashes_of(texts, np.zeros(len(texts), dtype=np.uint32))
        second = hashes_of(texts, first)
        steps = np.arange(self.depth)[:, None] * second.view(np.int32).astype(np.int64)
        sums = (first.view(np.int32) + steps).astype(np.int32)  # wraps, as in Java
        buckets: Integers = np.abs(np.fmod(sums.astype(np.int64), self.width))
        return buckets


def _drawn(seed: int, count: int) -> Integers:
    """Return what Java's ``Random(seed).nextInt(2^31 - 1)`` returns, the first ``count`` times."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    state = (seed ^ multiplier) & mask
    found: list[int] = []
    while len(found) < count:
        state = (state * multiplier + 0xB) & mask
        drawn = state >> 17
        if drawn < _PRIME:  # else Java draws again
            found.append(drawn)
    return np.array(found, dtype=np.int64)
