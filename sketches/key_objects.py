"""Keys out of plain Python sequences; the first says which kind all of them are."""

from collections.abc import Sequence, Sized
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from sketches.errors import InvalidKeyError
from sketches.key_columns import BYTES, DECIMAL, TEXT, IntegerKeys, KeyColumn
from sketches.key_decimals import written
from sketches.key_strings import StringKeys
from sketches.key_times import BOOLEAN, DATE, from_dates, from_datetimes

KINDS = (
    "a key is an int, str, bytes, bool, date, datetime or Decimal, or a pair of those "
    "(give missing keys a name of their own)"
)
FLOATS = "floats that print the same may differ: round them to int or decimal, or use their text"


def from_objects(  # one for each type
    keys: Sequence[Any], seed: int
) -> KeyColumn:
    """Read a plain sequence of keys that are no pairs."""
    if not len(keys):
        return IntegerKeys(np.empty(0, dtype=np.uint64), seed)
    first = keys[0]
    if isinstance(first, str):
        require(keys, str)
        return _from_texts(keys, seed)
    if isinstance(first, bytes):
        require(keys, bytes)
        return in_one_buffer(BYTES, b"".join(keys), keys, seed)
    if isinstance(first, bool | np.bool_):
        require(keys, bool, np.bool_)
        return IntegerKeys(np.array(keys, dtype=np.uint64), seed, BOOLEAN)
    if isinstance(first, datetime):
        require(keys, datetime)
        numbers, kind = from_datetimes(keys)
        return IntegerKeys(numbers, seed, kind)
    if isinstance(first, date):
        require(keys, date, but=datetime)
        return IntegerKeys(from_dates(keys), seed, DATE)
    if isinstance(first, Decimal):
        require(keys, Decimal)
        forms = [written(key, place) for place, key in enumerate(keys)]
        return in_one_buffer(DECIMAL, b"".join(forms), forms, seed)
    if isinstance(first, int | np.integer):
        require(keys, int, np.integer, but=bool)
        try:
            return IntegerKeys(np.array(keys, dtype=np.int64).view(np.uint64), seed)
        except OverflowError:
            for place, key in enumerate(keys):
                if not -(1 << 63) <= int(key) < 1 << 63:
                    raise too_wide(key, place) from None
            raise
    raise InvalidKeyError(
        f"key {first!r} of type {type(first).__name__} at 0 cannot be counted; "
        f"{FLOATS if isinstance(first, float) else KINDS}"
    )


def require(keys: Sequence[Any], *wanted: type, but: tuple[type, ...] | type = ()) -> None:
    """Refuse a key that is not of the wanted type; ``bool`` is an ``int`` only to Python."""
    if all(issubclass(kind, wanted) and not issubclass(kind, but) for kind in set(map(type, keys))):
        return
    for place, key in enumerate(keys):
        if not isinstance(key, wanted) or isinstance(key, but):
            raise InvalidKeyError(
                f"key {key!r} of type {type(key).__name__} at {place} is not of the kind of the "
                f"first, {keys[0]!r}; use one kind of key and give missing keys a name of their own"
            )


def _from_texts(keys: Sequence[str], seed: int) -> StringKeys:
    joined = "".join(keys)
    if joined.isascii():  # then each text is as long in bytes, and one call encodes them all
        return in_one_buffer(TEXT, joined.encode("ascii"), keys, seed)
    try:
        encoded = list(map(str.encode, keys))
    except UnicodeEncodeError as error:
        raise InvalidKeyError(
            f"text key {error.object!r} has no UTF-8 form; replace its lone surrogates first"
        ) from None
    return in_one_buffer(TEXT, b"".join(encoded), encoded, seed)


def in_one_buffer(kind: str, joined: bytes, keys: Sequence[Sized], seed: int) -> StringKeys:
    """Return keys that lie one after the other in the bytes that were joined of them."""
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    data = np.frombuffer(joined, dtype=np.uint8)
    return StringKeys(kind, data, np.cumsum(lengths) - lengths, lengths, seed=seed)


def too_wide(key: Any, place: int) -> InvalidKeyError:
    """Return what to say of an integer beyond 64 bits."""
    return InvalidKeyError(
        f"integer key {int(key)} at {place} does not fit 64 bits with a sign; "
        "map it into that range, or use its text"
    )
