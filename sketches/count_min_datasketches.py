"""The counters of a `CountMin` in Apache DataSketches: the only module that imports it.

The limits here are those of its Python package (5.2):

* it counts 64-bit integers and text only, and silently skips the empty text;
* it reads its bytes back only if they were made with its default seed, so other seeds are refused
  at once, not when the counts are shipped;
* it reads past the end of bytes that lack the last eight, so the length is checked here first.

References:
    https://datasketches.apache.org/docs/CountMin/CountMin.html
"""

import struct
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sketches.errors import (
    CorruptDataError,
    InvalidKeyError,
    InvalidValueError,
    MissingPackageError,
)
from sketches.keys import KeyColumn, as_keys

try:
    from datasketches import count_min_sketch
except ImportError as error:
    raise MissingPackageError(
        "backend='datasketches' needs the package datasketches, which cannot be imported; "
        "pip install datasketches, or use backend='numpy'"
    ) from error

_SEED = 9001
_NARROWEST = 3
_COUNTED_KINDS = ("int", "str")

# Preamble length, serial version, family, flags, unused, width, depth, hash of the seed, unused;
# unless it is empty, the total and the cells, row by row, follow as doubles.
_PREAMBLE = struct.Struct("<BBBBIIBHB")
_PREAMBLE_START = (2, 1, 18)
_EMPTY_FLAG = 1
_DOUBLE = 8
_SEED_HASH = _PREAMBLE.unpack(count_min_sketch(1, _NARROWEST, _SEED).serialize())[7]


class Content(NamedTuple):
    """The parts of the library's bytes that are used here."""

    width: int
    depth: int
    total: float


class DatasketchesTable:
    """Counters kept by Apache DataSketches, key by key; slow for many keys, quick for one."""

    __slots__ = ("_engine",)

    default_seed: ClassVar[int] = _SEED

    def __init__(self, *, width: int, depth: int, seed: int) -> None:
        if width < _NARROWEST:
            raise InvalidValueError(
                f"width={width} is too narrow for backend='datasketches'; give at least "
                f"{_NARROWEST}, or use backend='numpy'"
            )
        if seed != _SEED:
            raise InvalidValueError(
                f"seed={seed} is not {_SEED}, the only one with which the Python package "
                "datasketches reads its bytes back; leave the seed out, or use backend='numpy'"
            )
        self._engine = count_min_sketch(depth, width, seed)

    def add(self, keys: KeyColumn, weights: NDArray[np.float64] | None) -> None:
        """Count each key by its weight, by one if there are no weights."""
        items = _items(keys)
        update = self._engine.update
        if weights is None:
            for item in items:
                update(item)
        else:
            for item, weight in zip(items, weights.tolist(), strict=True):
                update(item, weight)

    def add_one(self, key: int | str, weight: float) -> None:
        """Count a single key."""
        if key == "":
            _refuse_empty_text()
        try:
            self._engine.update(key, weight)
        except (TypeError, UnicodeEncodeError):
            as_keys([key])  # raises with what is wrong with it
            raise

    def estimate(self, keys: KeyColumn) -> NDArray[np.float64]:
        """Return the estimate of each key."""
        items = _items(keys)
        return np.fromiter(map(self._engine.get_estimate, items), np.float64, len(items))

    def merge(self, other: Self) -> None:
        """Add the counters of a table of the same shape and seed."""
        self._engine.merge(other._engine.__copy__())  # it refuses to be merged with itself

    def to_array(self) -> NDArray[np.uint8]:
        """Return the library's bytes."""
        return np.frombuffer(self._engine.serialize(), dtype=np.uint8)

    def load(self, array: NDArray[Any]) -> None:
        """Take on what `to_array` gave, if it has this shape and is sound."""
        data = array.tobytes()
        try:
            content = read(data)
        except CorruptDataError as error:
            raise InvalidValueError(str(error)) from error
        if content[:2] != (self._engine.num_buckets, self._engine.num_hashes):
            raise InvalidValueError(
                f"the table has width {content.width} and depth {content.depth}, "
                f"not {self._engine.num_buckets} and {self._engine.num_hashes}"
            )
        self._engine = count_min_sketch.deserialize(data)

    def to_datasketches(self) -> bytes:
        """Return the library's bytes."""
        return bytes(self._engine.serialize())


def read(data: bytes | bytearray | memoryview) -> Content:
    """Return the content of the library's bytes, after checking all of it.

    Raises:
        CorruptDataError: the library did not write it, or not with its default seed, or its
            length does not fit its shape, or a count in it is negative or not finite.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptDataError(
            f"a {type(data).__name__} is not bytes; pass what serialize() or toByteArray() returned"
        )
    data = bytes(data)
    if len(data) < _PREAMBLE.size:
        raise CorruptDataError(
            f"{len(data)} bytes are too few for an Apache DataSketches CountMinSketch"
        )
    *start, flags, _, width, depth, seed_hash, _ = _PREAMBLE.unpack_from(data)
    if tuple(start) != _PREAMBLE_START or width < _NARROWEST or depth < 1:
        raise CorruptDataError(
            f"bytes that begin with {data[: _PREAMBLE.size].hex()} are not those of an Apache "
            "DataSketches CountMinSketch; pass what its serialize() or toByteArray() returned"
        )
    if seed_hash != _SEED_HASH:
        raise CorruptDataError(
            f"the sketch was not made with seed {_SEED}, the only one with which the Python "
            "package datasketches reads; make it with that seed"
        )
    doubles = 0 if flags & _EMPTY_FLAG else 1 + width * depth
    expected = _PREAMBLE.size + doubles * _DOUBLE
    if len(data) != expected:
        raise CorruptDataError(
            f"a sketch of width {width} and depth {depth} has {expected} bytes, not {len(data)}; "
            "they were truncated or more was added"
        )
    amounts = np.frombuffer(data, dtype="<f8", offset=_PREAMBLE.size)
    if not ((amounts >= 0) & (amounts < np.inf)).all():
        raise CorruptDataError(
            "a count in the sketch is negative or not finite; it was damaged, or counted with "
            "negative weights, which CountMin has not"
        )
    return Content(width, depth, float(amounts[0]) if len(amounts) else 0.0)


def _items(keys: KeyColumn) -> list[Any]:
    """Return the keys as the library takes them."""
    if len(keys) and keys.kind not in _COUNTED_KINDS:
        raise InvalidKeyError(
            f"keys of kind {keys.kind} cannot be counted by backend='datasketches', only int and "
            "str; convert them, or use backend='numpy'"
        )
    items: list[Any] = keys.objects().tolist()
    if keys.kind == "str" and "" in items:
        _refuse_empty_text()
    return items


def _refuse_empty_text() -> NoReturn:
    raise InvalidKeyError(
        "the empty text '' cannot be counted by backend='datasketches', which skips it; "
        "give it a name of its own, or use backend='numpy'"
    )
