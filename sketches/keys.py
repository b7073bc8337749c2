"""Keys as the sketches see them: one 64-bit code for each, the same in every process.

A key is an integer, a text or a byte string, or a pair of those. Whatever container the caller
has (a numpy array, an Arrow array, a list), `as_keys` turns it into a `KeyColumn`, whose `codes`
are what gets hashed, sorted and stored:

* an integer is its own code (its two's complement bits), so nothing can collide;
* text and bytes have a 64-bit fingerprint, computed on whole arrays at a time; equal content
  gives an equal fingerprint in every container, and text never equals bytes. Two given keys
  share a fingerprint with probability of about 2^-64;
* a pair has a fingerprint of its two codes.

Arrow arrays are read through their own methods and buffers; this module does not import pyarrow.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidKeyError, InvalidValueError

Codes: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.intp]

_INTEGER = "int"
_TEXT = "str"
_BYTES = "bytes"

# Odd constants of the splitmix64 generator and its finaliser (Steele, Lea, Flood 2014).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SEEDS = {_TEXT: np.uint64(0x5D589B6A2F3C7E11), _BYTES: np.uint64(0xA3B195354A39B70D)}

# Longer texts are rare as keys; word by word over whole arrays would pay for the longest of them.
_LONGEST_VECTORISED = 256
_WORD = 8


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two columns of keys of the same length: row ``i`` is the pair ``(left[i], right[i])``."""

    left: Any
    right: Any


class KeyColumn(ABC):
    """Keys of one kind with their codes. Immutable: it shares no memory the caller can write."""

    __slots__ = ("codes", "kind")

    codes: Codes
    kind: str

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.codes)

    @abstractmethod
    def take(self, indices: Indices | slice) -> "KeyColumn":
        """Return the keys at these places."""

    @abstractmethod
    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects: ``int``, ``str``, ``bytes`` or a tuple of two."""


class IntegerKeys(KeyColumn):
    """Integers that fit 64 bits with a sign."""

    __slots__ = ()

    def __init__(self, codes: Codes) -> None:
        self.kind = _INTEGER
        self.codes = codes

    @property
    def values(self) -> NDArray[np.int64]:
        """The integers themselves."""
        return self.codes.view(np.int64)

    def take(self, indices: Indices | slice) -> "IntegerKeys":
        """Return the keys at these places."""
        return IntegerKeys(self.codes[indices])

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        return self.values.astype(object)


class StringKeys(KeyColumn):
    """Text or bytes, as places in one buffer of bytes."""

    __slots__ = ("_data", "_lengths", "_starts")

    def __init__(
        self,
        kind: str,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        codes: Codes | None = None,
    ) -> None:
        self.kind = kind
        self._data = data
        self._starts = starts
        self._lengths = lengths
        self.codes = fingerprints(kind, data, starts, lengths) if codes is None else codes

    def take(self, indices: Indices | slice) -> "StringKeys":
        """Return the keys at these places."""
        return StringKeys(
            self.kind,
            self._data,
            self._starts[indices],
            self._lengths[indices],
            self.codes[indices],
        )

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        keys = np.empty(len(self), dtype=object)
        data = np.ascontiguousarray(self._data).data
        spans = zip(self._starts.tolist(), self._lengths.tolist(), strict=True)
        if self.kind == _TEXT:
            keys[:] = [str(data[start : start + length], "utf-8") for start, length in spans]
        else:
            keys[:] = [bytes(data[start : start + length]) for start, length in spans]
        return keys


class PairKeys(KeyColumn):
    """Pairs of keys, each side of its own kind."""

    __slots__ = ("left", "right")

    def __init__(self, left: KeyColumn, right: KeyColumn, codes: Codes | None = None) -> None:
        self.kind = f"({left.kind}, {right.kind})"
        self.left = left
        self.right = right
        self.codes = pair_codes(left.codes, right.codes) if codes is None else codes

    def take(self, indices: Indices | slice) -> "PairKeys":
        """Return the keys at these places."""
        return PairKeys(self.left.take(indices), self.right.take(indices), self.codes[indices])

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        keys = np.empty(len(self), dtype=object)
        keys[:] = list(zip(self.left.objects(), self.right.objects(), strict=True))
        return keys


def as_keys(keys: Any) -> KeyColumn:
    """Read keys out of whatever holds them.

    Args:
        keys: integers, texts, byte strings or pairs of those, all of one kind, as a numpy array,
            an Arrow array or chunked array, or a plain sequence. Pairs are `Pairs`, a sequence of
            2-tuples (a row each), a tuple of two columns, or an integer array of shape (n, 2).

    Raises:
        InvalidKeyError: a key is missing, of another type than these, or not of the type of the
            others; the message names it and its place.
    """
    if isinstance(keys, KeyColumn):
        return keys
    if isinstance(keys, Pairs):
        return _pair(keys.left, keys.right)
    if isinstance(keys, str | bytes | int | np.generic):
        raise InvalidKeyError(f"{keys!r} is one key, not a sequence of keys; write [{keys!r}]")
    if _is_arrow(keys):
        return _from_arrow(keys)
    if isinstance(keys, tuple) and len(keys) == 2 and all(map(_is_column, keys)):
        return _pair(*keys)
    if isinstance(keys, Sequence):
        return _from_objects(keys)
    if isinstance(keys, np.ndarray) or hasattr(keys, "__array__"):
        return _from_numpy(np.asarray(keys))
    raise InvalidKeyError(
        f"keys of type {type(keys).__name__} cannot be read; "
        "give a numpy array, an Arrow array or a sequence"
    )


def mix(codes: Codes) -> Codes:
    """Scatter codes over all 64 bits; a bijection, so distinct codes stay distinct."""
    codes = (codes ^ (codes >> np.uint64(30))) * _MIX_1
    codes = (codes ^ (codes >> np.uint64(27))) * _MIX_2
    return codes ^ (codes >> np.uint64(31))


def pair_codes(left: Codes, right: Codes) -> Codes:
    """Return one code for each pair: with either side fixed, a bijection of the other."""
    return mix(mix(left + _GOLDEN) + right * _MIX_2)


def fingerprints(
    kind: str, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Codes:
    """Return the 64-bit fingerprint of each ``data[start : start + length]``.

    Strings are read eight bytes at a time, all of them at once; those that have ended drop out.
    Up to eight bytes and one length, different strings always have different fingerprints.
    """
    seed = _SEEDS[kind]
    codes = seed + lengths.astype(np.uint64) * _GOLDEN
    if not len(lengths):
        return codes
    longest = int(lengths.max())
    active = np.flatnonzero((lengths > 0) & (lengths <= _LONGEST_VECTORISED))
    if len(active):
        words = _unaligned_words(data)
        for offset in range(0, min(longest, _LONGEST_VECTORISED), _WORD):
            if offset:
                active = active[lengths[active] > offset]
                if not len(active):
                    break
            rest = np.minimum(lengths[active] - offset, _WORD).astype(np.uint64)
            word = words[starts[active] + offset]
            word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> ((np.uint64(_WORD) - rest) << np.uint64(3))
            word ^= codes[active]
            word *= _MIX_1
            codes[active] = word ^ (word >> np.uint64(32))
    for place in np.flatnonzero(lengths > _LONGEST_VECTORISED).tolist():
        text = data[starts[place] : starts[place] + lengths[place]].tobytes()
        digest = hashlib.blake2b(text, digest_size=_WORD, salt=int(seed).to_bytes(16, "little"))
        codes[place] = int.from_bytes(digest.digest(), "little")
    return mix(codes)


def _unaligned_words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a view: element ``i`` is the eight bytes from ``data[i]`` on, zeros after the end."""
    padded = np.zeros(len(data) + _WORD, dtype=np.uint8)
    padded[: len(data)] = data
    return np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))


def _pair(left: Any, right: Any) -> PairKeys:
    first, second = as_keys(left), as_keys(right)
    for side in (first, second):
        if isinstance(side, PairKeys):
            raise InvalidKeyError(f"a pair of {side.kind} is too deep; pair plain keys only")
    if len(first) != len(second):
        raise InvalidValueError(
            f"{len(first)} left keys do not pair with {len(second)} right keys; "
            "the two columns must have the same length"
        )
    return PairKeys(first, second)


def _is_column(value: Any) -> bool:
    return isinstance(value, list | np.ndarray) or _is_arrow(value)


def _is_arrow(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pyarrow"


def _from_numpy(array: NDArray[Any]) -> KeyColumn:
    if array.ndim == 2 and array.shape[1] == 2:
        return _pair(array[:, 0], array[:, 1])
    if array.ndim != 1:
        raise InvalidKeyError(
            f"keys of shape {array.shape} are not a column; give one dimension, or (n, 2) for pairs"
        )
    match array.dtype.kind:
        case "i":
            return IntegerKeys(array.astype(np.int64).view(np.uint64))
        case "u":
            if array.size and array.max() > np.iinfo(np.int64).max:
                place = int(array.argmax())
                raise _too_wide(array[place], place)
            return IntegerKeys(array.astype(np.uint64))
        case "S":
            return _from_fixed_width(_BYTES, array, np.ascontiguousarray(array).view(np.uint8))
        case "U":
            native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
            points = native.view(np.uint32)
            if points.size == 0 or points.max() < 128:
                return _from_fixed_width(_TEXT, array, points.astype(np.uint8))
            return _from_objects(array.tolist())
        case "O" | "T":
            return _from_objects(array.tolist())
        case _:
            raise InvalidKeyError(
                f"keys of type {array.dtype} cannot be counted; "
                "convert them to integers, text or bytes"
            )


def _from_fixed_width(kind: str, array: NDArray[Any], data: NDArray[np.uint8]) -> StringKeys:
    """Read cells of one width; like numpy, take the zeros at a cell's end for padding."""
    width = data.size // len(array) if len(array) else 0
    starts = np.arange(len(array), dtype=np.int64) * width
    lengths = np.char.str_len(array).astype(np.int64)
    # astype and view may have handed the caller's own memory through.
    return StringKeys(kind, data.reshape(-1).copy(), starts, lengths)


def _from_objects(keys: Sequence[Any]) -> KeyColumn:
    """Read a plain sequence; its first key says which kind all of them are."""
    if not len(keys):
        return IntegerKeys(np.empty(0, dtype=np.uint64))
    first = keys[0]
    if isinstance(first, str):
        _require(keys, str)
        try:
            return _from_encoded(_TEXT, list(map(str.encode, keys)))
        except UnicodeEncodeError as error:
            raise InvalidKeyError(
                f"text key {error.object!r} has no UTF-8 form; replace its lone surrogates first"
            ) from None
    if isinstance(first, bytes):
        _require(keys, bytes)
        return _from_encoded(_BYTES, keys)
    if isinstance(first, tuple):
        for place, key in enumerate(keys):
            if not isinstance(key, tuple) or len(key) != 2:
                raise InvalidKeyError(
                    f"key {key!r} at {place} is not a pair; if one key is a tuple, "
                    "all must be tuples of two fields"
                )
        return _pair([key[0] for key in keys], [key[1] for key in keys])
    if isinstance(first, int | np.integer) and not isinstance(first, bool):
        _require(keys, int, np.integer)
        try:
            return IntegerKeys(np.array(keys, dtype=np.int64).view(np.uint64))
        except OverflowError:
            for place, key in enumerate(keys):
                if not -(1 << 63) <= int(key) < 1 << 63:
                    raise _too_wide(key, place) from None
            raise
    raise InvalidKeyError(
        f"key {first!r} of type {type(first).__name__} at 0 cannot be counted; "
        "a key is an int, str or bytes, or a pair of those (give missing keys a name of their own)"
    )


def _require(keys: Sequence[Any], *wanted: type) -> None:
    """Refuse a key that is not of the wanted type; ``bool`` is an ``int`` only to Python."""
    if all(issubclass(kind, wanted) and kind is not bool for kind in set(map(type, keys))):
        return
    for place, key in enumerate(keys):
        if not isinstance(key, wanted) or isinstance(key, bool):
            raise InvalidKeyError(
                f"key {key!r} of type {type(key).__name__} at {place} is not of the kind of the "
                f"first, {keys[0]!r}; use one kind of key and give missing keys a name of their own"
            )


def _from_encoded(kind: str, encoded: Sequence[bytes]) -> StringKeys:
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return StringKeys(kind, data, np.cumsum(lengths) - lengths, lengths)


def _too_wide(key: Any, place: int) -> InvalidKeyError:
    return InvalidKeyError(
        f"integer key {int(key)} at {place} does not fit 64 bits with a sign; "
        "map it into that range, or use its text"
    )


def _from_arrow(keys: Any) -> KeyColumn:
    """Read an Arrow array or chunked array through its own methods and buffers."""
    if hasattr(keys, "chunks"):
        keys = keys.combine_chunks()
        if hasattr(keys, "chunks"):  # pyarrow before 13 keeps one chunk
            keys = keys.chunk(0)
    if not hasattr(keys, "null_count"):
        raise InvalidKeyError(
            f"{type(keys).__name__} is not a column of keys; pass one of its columns"
        )
    if keys.null_count:
        place = keys.is_null().index(True).as_py()
        raise InvalidKeyError(
            f"key at {place} is null ({keys.null_count} of {len(keys)} are); "
            "filter missing keys out, or fill them with a key of their own"
        )
    kind = str(keys.type)
    if kind.startswith("dictionary"):
        return _from_arrow(keys.dictionary).take(keys.indices.to_numpy(zero_copy_only=False))
    if kind.startswith(("int", "uint")):
        return _from_numpy(keys.to_numpy(zero_copy_only=False))
    if kind in {"string", "large_string", "string_view"}:
        return _from_arrow_strings(_TEXT, keys.cast("large_string"))
    if kind in {"binary", "large_binary", "binary_view"} or kind.startswith("fixed_size_binary"):
        return _from_arrow_strings(_BYTES, keys.cast("large_binary"))
    raise InvalidKeyError(
        f"Arrow keys of type {kind} cannot be counted; cast them to int64, string or binary"
    )


def _from_arrow_strings(kind: str, keys: Any) -> StringKeys:
    _, offset_buffer, data_buffer = keys.buffers()
    if not len(keys):
        return _from_encoded(kind, [])
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return StringKeys(kind, data[first:last], offsets[:-1] - first, np.diff(offsets))
