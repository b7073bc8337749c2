"""Keys as the sketches see them: one 64-bit code for each, the same in every process.

A key is an integer, a text, a byte string, a boolean, a date, a timestamp or a decimal, or a pair
of those. From any container (a numpy array, an Arrow array, a list), `as_keys`
turns it into a `KeyColumn`, whose `codes` are what gets hashed, sorted and stored:

* an integer is its own code (its two's complement bits), so nothing can collide; so is a boolean,
  a date (in days) and a timestamp (in microseconds, in UTC if it has a zone). They are kinds of
  their own: a table of integers knows no dates;
* text, bytes and decimals (equal ones are one key, however many zeros they end in) have a 64-bit
  fingerprint, computed on whole arrays at a time; equal content gives an equal fingerprint in
  every container;
* a pair has a fingerprint of its two codes.

A fingerprint is an address, not an identity: of n keys that are not chosen on purpose, some two
share one with probability of about n^2 / 2^65 (a billion: 2.7 %). Exact code compares the keys
themselves. Keys can be crafted to collide under a known hash, so there is one for each *seed*: seed
0 is the same everywhere, and others are known only where they are used.

Arrow arrays are read through their own methods and buffers; this module does not import pyarrow.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.fingerprints import fingerprints, mix, pair_codes
from sketches.key_columns import BYTES, DECIMAL, TEXT, IntegerKeys, KeyColumn, PairKeys, Pairs
from sketches.key_decimals import WIDTH, written, written_words
from sketches.key_objects import FLOATS, KINDS, from_objects, in_one_buffer, require, too_wide
from sketches.key_strings import StringKeys
from sketches.key_times import (
    BOOLEAN,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    from_times,
)
from sketches.mixing import checked_seed

__all__ = [
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
    """Read keys out of any container.

    Args:
        keys: integers, texts, byte strings, booleans, dates, timestamps, decimals, or pairs of
            those, all of one kind, as a numpy array, an Arrow array or chunked array, or a plain
            sequence. Timestamps with a zone are of another kind than those without. Pairs are
            `Pairs`, a sequence of 2-tuples (a row each), a tuple of two columns, or an integer
            array of shape (n, 2).
        copy: whether the column must own its memory. If not, it may share the caller's array, and
            is valid until the caller writes there.
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
    if isinstance(keys, str | bytes | int | np.generic | date | Decimal):
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


def _from_numpy(  # noqa: PLR0911  # one for each type
    array: NDArray[Any], seed: int, *, copy: bool
) -> KeyColumn:
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
                raise too_wide(array[place], place)
            return IntegerKeys(array.astype(np.uint64, copy=copy), seed)
        case "b":
            return IntegerKeys(array.astype(np.uint64), seed, BOOLEAN)
        case "M":
            numbers, kind = from_times(array)
            return IntegerKeys(numbers, seed, kind)
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
                f"{FLOATS if array.dtype.kind == 'f' else KINDS}"
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
    if len(keys) and isinstance(keys[0], tuple):
        for place, key in enumerate(keys):
            if not isinstance(key, tuple) or len(key) != 2:
                raise InvalidKeyError(
                    f"key {key!r} at {place} is not a pair; if one key is a tuple, "
                    "all must be tuples of two fields"
                )
        return _pair([key[0] for key in keys], [key[1] for key in keys], seed)
    if len(keys) and isinstance(keys[0], np.datetime64):
        require(keys, np.datetime64)
        return _from_numpy(np.array(keys), seed, copy=False)
    return from_objects(keys, seed)


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
    if kind.startswith(("int", "uint", "bool")):
        return _from_numpy(keys.to_numpy(zero_copy_only=False), seed, copy=False)
    if kind in {"string", "large_string", "string_view"}:
        return _from_arrow_strings(TEXT, keys.cast("large_string"), seed)
    if kind in {"binary", "large_binary", "binary_view"} or kind.startswith("fixed_size_binary"):
        return _from_arrow_strings(BYTES, keys.cast("large_binary"), seed)
    return _from_arrow_times(kind, keys, seed)


def _from_arrow_times(kind: str, keys: Any, seed: int) -> KeyColumn:
    if kind.startswith("date"):
        numbers, found = from_times(keys.to_numpy(zero_copy_only=False), DATE)
        return IntegerKeys(numbers, seed, found)
    if kind.startswith("timestamp"):
        zoned = TIMESTAMP if "tz=" in kind else TIMESTAMP_NTZ
        numbers, found = from_times(keys.to_numpy(zero_copy_only=False), zoned)
        return IntegerKeys(numbers, seed, found)
    if kind.startswith("decimal"):
        return _from_arrow_decimals(keys, seed)
    floats = kind in {"float", "double", "halffloat"}
    raise InvalidKeyError(
        f"Arrow keys of type {kind} cannot be counted; {FLOATS if floats else KINDS}"
    )


def _from_arrow_decimals(keys: Any, seed: int) -> KeyColumn:
    """Read decimals by their bytes where all of them fit 64 bits, else one by one."""
    _, data = keys.buffers()
    scale, width = keys.type.scale, keys.type.bit_width // 64
    if width == 2 and scale >= 0 and len(keys):
        words = np.frombuffer(data, dtype="<i8").reshape(-1, width)
        words = words[keys.offset : keys.offset + len(keys)]
        if (words[:, 1] == words[:, 0] >> 63).all():
            lengths = np.full(len(keys), WIDTH, dtype=np.int64)
            starts = np.cumsum(lengths) - WIDTH
            return StringKeys(
                DECIMAL, written_words(words[:, 0], scale), starts, lengths, seed=seed
            )
    forms = [written(key, place) for place, key in enumerate(keys.to_pylist())]
    return in_one_buffer(DECIMAL, b"".join(forms), forms, seed)


def _from_arrow_strings(kind: str, keys: Any, seed: int) -> StringKeys:
    _, offset_buffer, data_buffer = keys.buffers()
    if not len(keys):
        return in_one_buffer(kind, b"", [], seed)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return StringKeys(kind, data[first:last], offsets[:-1] - first, np.diff(offsets), seed=seed)
