"""Keys in the columns of tuples, as those who route and count want them."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds.types import plain
from sketches.key_decimals import LARGEST_SCALE, written
from sketches.key_times import unfit_times
from sketches.keys import PairKeys, as_keys

_LARGEST = (1 << 63) - 1
_FAR = "is not from year 1 to 9999"


def key_batch(tuples: pa.Table, columns: Sequence[str], where: str, seed: int = 0) -> KeyBatch:
    """Read the keys of tuples, by the hash of a seed.

    A key of one column is what is in it, one of two is a pair. One of more is a pair of those
    before and the last; no table can name it.

    Raises:
        FoldError: a column is not there, or holds what is no key.
    """
    for name in columns:
        times = tuples.column_names.count(name)
        if times != 1:
            raise FoldError(
                f"{where}: tuples have {times or 'no'} column{'s' * (times > 1)} {name!r} to take "
                f"the key from; they have {', '.join(map(repr, tuples.column_names)) or 'none'}"
            )
    try:
        if len(columns) == 1:
            return KeyBatch.read(tuples.column(columns[0]), seed)
        sides = [as_keys(tuples.column(name), copy=False, seed=seed) for name in columns]
        return KeyBatch(reduce(PairKeys, sides))
    except InvalidKeyError as error:
        raise FoldError(f"{where}: key column {', '.join(columns)}: {error}") from error


def unfit_keys(column: pa.ChunkedArray) -> list[tuple[NDArray[np.bool_], str]]:
    """Return which values of a key column cannot be keys though others of its type can, and why.

    Args:
        column: the values; missing ones are for others to refuse.

    Returns:
        A mask and words for each reason there is; none where all of them can be keys, and none
        for a column of a type that has no keys.

    >>> unfit_keys(pa.chunked_array([pa.array([1, 2**63], pa.uint64())]))
    [(array([False,  True]), 'does not fit 64 bits with a sign')]
    """
    types = pa.types
    kind = plain(column.type)
    found: list[tuple[NDArray[np.bool_], str]] = []
    if types.is_timestamp(kind) or types.is_date(kind):
        times = column.cast(kind).to_numpy()
        # NumPy takes the smallest number for no time at all.
        found = [(np.isnat(times), _FAR), *unfit_times(times, as_dates=types.is_date(kind))]
    elif types.is_uint64(kind):
        large = pc.greater(column.cast(kind).fill_null(0), pa.scalar(_LARGEST, kind))
        found = [(large.to_numpy(), "does not fit 64 bits with a sign")]
    elif types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision <= LARGEST_SCALE:
        long = [_is_long(number) for number in column.cast(kind).to_pylist()]
        found = [(np.array(long, dtype=np.bool_), f"does not fit {LARGEST_SCALE} digits")]
    return [(wrong, why) for wrong, why in found if wrong.any()]


def namable_keys(tuples: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Return which tuples have a key that can be told to others: one that Python can hold.

    Texts in Arrow may hold other bytes than those of UTF-8. State tells them apart as it does
    all others, but what is told of keys by name goes without them.
    """
    there = np.ones(len(tuples), dtype=np.bool_)
    for name in columns:
        column = tuples.column(name)
        if column.null_count:
            there &= column.is_valid().to_numpy()
        for wrong, _ in unfit_keys(column):
            there &= ~wrong
        if pa.types.is_string(plain(column.type)) or pa.types.is_large_string(plain(column.type)):
            there &= _valid_texts(column)
    return there


def reworded(tuples: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Return tuples whose dictionaries of these columns list only the words that are in use."""
    for name in columns:
        column = tuples[name]
        if pa.types.is_dictionary(column.type):
            words = column.cast(column.type.value_type).dictionary_encode().cast(column.type)
            tuples = tuples.set_column(tuples.column_names.index(name), name, words)
    return tuples


def _valid_texts(column: pa.ChunkedArray) -> NDArray[np.bool_] | np.bool_:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        texts = column.cast(plain(column.type))
        return np.array([_is_text(text) for chunk in texts.chunks for text in chunk])
    return np.True_


def _is_text(text: pa.Scalar) -> bool:
    try:
        text.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _is_long(number: Decimal | None) -> bool:
    if number is None:
        return False
    try:
        written(number, 0)
    except InvalidKeyError:
        return True
    return False
