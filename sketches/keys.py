"""Keys as the sketches see them: one 64-bit code for each, the same in every process.

A key is an integer, a text or a byte string, or a pair of those. Whatever container the caller
has (a numpy array, an Arrow array, a list), `as_keys` turns it into a `KeyColumn`, whose `codes`
are what gets hashed, sorted and stored:

* an integer is its own code (its two's complement bits), so nothing can collide;
* text and bytes have a 64-bit fingerprint, computed on whole arrays at a time; equal content
  gives an equal fingerprint in every container;
* a pair has a fingerprint of its two codes.

A fingerprint is an address, not an identity: of n keys that are not chosen on purpose, some two
share one with probability of about n^2 / 2^65 (a billion: 2.7 %). What must not take one key for
another compares the keys themselves. Who knows the hash can choose keys that meet, so there is
one for each *seed*: seed 0 is the same everywhere, and others are known only where they are used.

Arrow arrays are read through their own methods and buffers; this module does not import pyarrow.
"""

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.fingerprints import Codes, fingerprints, mix, pair_codes
from sketches.key_columns import (
    BYTES,
    TEXT,
    Indices,
    IntegerKeys,
    KeyColumn,
    PairKeys,
    Pairs,
    StringKeys,
)
from sketches.mixing import checked_seed

__all__ = [
    "Codes",
    "Indices",
    "IntegerKeys",
    "KeyColumn",
    "PairKeys",
    "Pairs",
    "StringKeys",
    "as_keys",
    "fingerprints",
    "mix",
    "pair_codes",
]


def as_keys(keys: Any, *, copy: bool = True, seed: int | None = None) -> KeyColumn:
    """Read keys out of whatever holds them.

    Args:
        keys: integers, texts, byte strings or pairs of those, all of one kind, as a numpy array,
            an Arrow array or chunked array, or a plain sequence. Pairs are `Pairs`, a sequence of
            2-tuples (a row each), a tuple of two columns, or an integer array of shape (n, 2).
        copy: whether the column must own its memory. Without, it may look into the caller's
            array, and is good until the caller writes there.
        seed: of the hash; without, that of a column that was read before, and else 0.

    Raises:
        InvalidKeyError: a key is missing, of another type than these, or not of the type of the
            others; the message names it and its place.
    """
    if isinstance(keys, KeyColumn):
        return keys if seed is None else keys.seeded(checked_seed(seed))
    chosen = 0 if seed is None else checked_seed(seed)
    if isinstance(keys, Pairs):
        return _pair(keys.left, keys.right, chosen, copy=copy)
    if isinstance(keys, str | bytes | int | np.generic):
        raise InvalidKeyError(f"{keys!r} is one key, not a sequence of keys; write [{keys!r}]")
    if _is_arrow(keys):
        return _from_arrow(keys, chosen)
    if isinstance(keys, tuple) and len(keys) == 2 and all(map(_is_column, keys)):
        return _pair(*keys, chosen, copy=copy)
    if isinstance(keys, Sequence) and not isinstance(keys, bytearray | memoryview):
        return _from_objects(keys, chosen)
    if isinstance(keys, np.ndarray) or hasattr(keys, "__array__"):
        if np.ma.is_masked(keys):
            raise InvalidKeyError(
                f"{keys.mask.sum()} keys are masked; "
                "filter missing keys out, or fill them with a key of their own"
            )
        return _from_numpy(np.asarray(keys), chosen, copy=copy)
    raise InvalidKeyError(
        f"keys of type {type(keys).__name__} cannot be read; "
        "give a numpy array, an Arrow array or a sequence"
    )


def _pair(left: Any, right: Any, seed: int, *, copy: bool = True) -> PairKeys:
    first, second = (as_keys(side, copy=copy, seed=seed) for side in (left, right))
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


def _from_numpy(array: NDArray[Any], seed: int, *, copy: bool) -> KeyColumn:
    if array.ndim == 2 and array.shape[1] == 2:
        return _pair(array[:, 0], array[:, 1], seed, copy=copy)
    if array.ndim != 1:
        raise InvalidKeyError(
            f"keys of shape {array.shape} are not a column; give one dimension, or (n, 2) for pairs"
        )
    match array.dtype.kind:
        case "i":
            return IntegerKeys(array.astype(np.int64, copy=copy).view(np.uint64), seed)
        case "u":
            if array.size and array.max() > np.iinfo(np.int64).max:
                place = int(array.argmax())
                raise _too_wide(array[place], place)
            return IntegerKeys(array.astype(np.uint64, copy=copy), seed)
        case "S":
            cells = array.copy() if copy else np.ascontiguousarray(array)
            return _from_fixed_width(BYTES, array, cells.view(np.uint8), seed)
        case "U":
            # In the other byte order, all characters look like large ones.
            points = np.ascontiguousarray(array).view(np.uint32)
            if points.size == 0 or points.max() < 128:
                return _from_fixed_width(TEXT, array, points.astype(np.uint8), seed)
            return _from_objects(array.tolist(), seed)
        case "O" | "T":
            return _from_objects(array.tolist(), seed)
        case _:
            raise InvalidKeyError(
                f"keys of type {array.dtype} cannot be counted; "
                "convert them to integers, text or bytes"
            )


def _from_fixed_width(
    kind: str, array: NDArray[Any], data: NDArray[np.uint8], seed: int
) -> StringKeys:
    """Read cells of one width; like numpy, take the zeros at a cell's end for padding."""
    width = data.size // len(array) if len(array) else 0
    starts = np.arange(len(array), dtype=np.int64) * width
    lengths = np.char.str_len(array).astype(np.int64)
    return StringKeys(kind, data, starts, lengths, seed=seed)


def _from_objects(keys: Sequence[Any], seed: int) -> KeyColumn:
    """Read a plain sequence; its first key says which kind all of them are."""
    if not len(keys):
        return IntegerKeys(np.empty(0, dtype=np.uint64), seed)
    first = keys[0]
    if isinstance(first, str):
        _require(keys, str)
        return _from_texts(keys, seed)
    if isinstance(first, bytes):
        _require(keys, bytes)
        return _in_one_buffer(BYTES, b"".join(keys), keys, seed)
    if isinstance(first, tuple):
        for place, key in enumerate(keys):
            if not isinstance(key, tuple) or len(key) != 2:
                raise InvalidKeyError(
                    f"key {key!r} at {place} is not a pair; if one key is a tuple, "
                    "all must be tuples of two fields"
                )
        return _pair([key[0] for key in keys], [key[1] for key in keys], seed)
    if isinstance(first, int | np.integer) and not isinstance(first, bool):
        _require(keys, int, np.integer)
        try:
            return IntegerKeys(np.array(keys, dtype=np.int64).view(np.uint64), seed)
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


def _from_texts(keys: Sequence[str], seed: int) -> StringKeys:
    joined = "".join(keys)
    if joined.isascii():  # then each text is as long in bytes, and one call encodes them all
        return _in_one_buffer(TEXT, joined.encode("ascii"), keys, seed)
    try:
        encoded = list(map(str.encode, keys))
    except UnicodeEncodeError as error:
        raise InvalidKeyError(
            f"text key {error.object!r} has no UTF-8 form; replace its lone surrogates first"
        ) from None
    return _in_one_buffer(TEXT, b"".join(encoded), encoded, seed)


def _in_one_buffer(kind: str, joined: bytes, keys: Sequence[Sized], seed: int) -> StringKeys:
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    data = np.frombuffer(joined, dtype=np.uint8)
    return StringKeys(kind, data, np.cumsum(lengths) - lengths, lengths, seed=seed)


def _too_wide(key: Any, place: int) -> InvalidKeyError:
    return InvalidKeyError(
        f"integer key {int(key)} at {place} does not fit 64 bits with a sign; "
        "map it into that range, or use its text"
    )


def _from_arrow(keys: Any, seed: int) -> KeyColumn:
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
        if keys.dictionary.null_count:  # a missing key can hide among the words as well
            return _from_arrow(keys.dictionary_decode(), seed)
        words = _from_arrow(keys.dictionary, seed)
        return words.take(keys.indices.to_numpy(zero_copy_only=False))
    if kind.startswith(("int", "uint")):
        return _from_numpy(keys.to_numpy(zero_copy_only=False), seed, copy=False)
    if kind in {"string", "large_string", "string_view"}:
        return _from_arrow_strings(TEXT, keys.cast("large_string"), seed)
    if kind in {"binary", "large_binary", "binary_view"} or kind.startswith("fixed_size_binary"):
        return _from_arrow_strings(BYTES, keys.cast("large_binary"), seed)
    raise InvalidKeyError(
        f"Arrow keys of type {kind} cannot be counted; cast them to int64, string or binary"
    )


def _from_arrow_strings(kind: str, keys: Any, seed: int) -> StringKeys:
    _, offset_buffer, data_buffer = keys.buffers()
    if not len(keys):
        return _in_one_buffer(kind, b"", [], seed)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return StringKeys(kind, data[first:last], offsets[:-1] - first, np.diff(offsets), seed=seed)
