"""Sums and means of decimals, exactly: as whole numbers of 128 bits, many of them at once."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.types import DIGITS
from sketches.arrays import Integers

_QUARTER = 32
_QUARTERS = 4
_LOW = (1 << _QUARTER) - 1
_LIMIT = 1 << (_QUARTER - 1)
_END = 10**DIGITS
_END_HIGH, _END_LOW = np.int64(_END >> 64), np.uint64(_END & ((1 << 64) - 1))
_MORE_DIGITS = 4  # that a mean has after the point, as Spark gives it


def added_decimals(column: str, sums: pa.Array, values: pa.Array, keys: Integers) -> pa.Array:
    """Add decimals to the sums of their keys.

    Args:
        column: the name of the values, for messages.
        sums: one for each key, without nulls; decimal128 of all digits.
        values: what is added; of the same scale.
        keys: for each value, the number of its key.

    Raises:
        FoldError: a sum has more digits than fit.
    """
    totals = _quarters(sums)
    for total, part in zip(totals, _quarters(values), strict=True):
        np.add.at(total, keys, part)
    # Fewer than 2^31 tuples leave room for all that is carried.
    for place in range(_QUARTERS - 1):
        totals[place + 1] += totals[place] >> _QUARTER
        totals[place] &= _LOW
    low = (totals[1].view(np.uint64) << np.uint64(_QUARTER)) | totals[0].view(np.uint64)
    high = (totals[3] << _QUARTER) | totals[2]
    too_large = (totals[3] < -_LIMIT) | (totals[3] >= _LIMIT) | _is_beyond(high, low)
    if too_large.any():
        raise FoldError(
            f"the sum of column {column!r} has more than {DIGITS} digits for "
            f"{np.count_nonzero(too_large)} of {len(sums)} keys; cast it to a decimal of fewer "
            "digits after the point, or to float64"
        )
    return _decimals(high, low, sums.type)


def mean_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of means of decimals: with four digits more after the point, as in Spark."""
    return pa.decimal128(DIGITS, min(kind.scale + _MORE_DIGITS, DIGITS))


def mean_decimals(sums: pa.Array, counts: Integers) -> pa.Array:
    """Return sums divided by numbers other than 0, rounded half away from zero.

    Raises:
        FoldError: a mean has more digits than fit.
    """
    kind = mean_type(sums.type)
    whole = _integers(sums)
    scaled = abs(whole) * 10 ** (kind.scale - sums.type.scale)
    divisors = counts.astype(object)
    means = (2 * scaled + divisors) // (2 * divisors)
    if (means >= _END).any():
        raise FoldError(
            f"a mean of decimals of type {sums.type} has more than {DIGITS} digits with the "
            f"{kind.scale} after the point; cast the column to fewer of them, or to float64"
        )
    means = np.where(whole < 0, -means, means)
    high = (means >> 64).astype(np.int64)
    low = (means & ((1 << 64) - 1)).astype(np.uint64)
    return _decimals(high, low, kind)


def _integers(values: pa.Array) -> NDArray[np.object_]:
    """Return decimals without nulls as whole numbers of their last digit, of any size."""
    words = _words(values)
    low, high = words[:, 0].view(np.uint64).astype(object), words[:, 1].astype(object)
    found: NDArray[np.object_] = high * (1 << 64) + low
    return found


def _words(values: pa.Array) -> Integers:
    """Return the lower and the upper half of each decimal, as they are in memory."""
    if not len(values):
        return np.empty((0, 2), dtype=np.int64)
    words = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def _quarters(values: pa.Array) -> list[Integers]:
    """Return decimals as four numbers of 32 bits each, the lowest first; the last has the sign."""
    words = _words(values)
    low, high = words[:, 0], words[:, 1]
    return [low & _LOW, (low >> _QUARTER) & _LOW, high & _LOW, high >> _QUARTER]


def _is_beyond(high: Integers, low: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which numbers of 128 bits have more digits than fit."""
    above = (high > _END_HIGH) | ((high == _END_HIGH) & (low >= _END_LOW))
    # The bits of minus n - 1 are those of n turned round.
    beneath = ~high > _END_HIGH
    beneath |= (~high == _END_HIGH) & (~low >= _END_LOW - np.uint64(1))
    found: NDArray[np.bool_] = above | ((high < 0) & beneath)
    return found


def _decimals(high: Integers, low: NDArray[np.uint64], kind: pa.DataType) -> pa.Array:
    words = np.empty((len(high), 2), dtype=np.int64)
    words[:, 0], words[:, 1] = low.view(np.int64), high
    return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words.reshape(-1))])
