"""Adding up many keys' numbers at once: integers and decimals exactly, floats in their order."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.casting import one_array
from optimizers.folds.columns import type_of
from optimizers.folds.decimals import added_decimals
from optimizers.folds.fold import Fold
from optimizers.folds.types import DIGITS, normal

_HALF = 32
_LOW_HALF = (1 << _HALF) - 1
_LIMIT = 1 << (_HALF - 1)


def sum_type(fold: Fold, column: str, tuples: pa.Schema) -> pa.DataType:
    """Return the type of sums of a column; refuse one that does not hold numbers."""
    kind = type_of(tuples, column)
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.bit_width <= 128:
        return normal(kind)
    if pa.types.is_decimal(kind):
        raise FoldError(
            f"{fold!r} cannot add up column {column!r} of type {kind}; cast it to "
            f"decimal128({DIGITS}, {min(kind.scale, DIGITS)})"
        )
    raise FoldError(
        f"{fold!r} cannot add up column {column!r} of type {kind}; cast it to int64, float64 or "
        "a decimal"
    )


def zeros(kind: pa.DataType, count: int) -> pa.Array:
    """Return sums of nothing."""
    return pa.array(np.zeros(count, dtype=np.int64)).cast(kind)


def sums_in(state: pa.Table, name: str) -> pa.Array:
    """Return a column of sums, 0 where there is none yet."""
    column = one_array(state.column(name))
    return pc.fill_null(column, 0) if column.null_count else column


def added(column: str, sums: pa.Array, values: pa.Array, keys: NDArray[np.int64]) -> pa.Array:
    """Add values to the sums of their keys, one after the other.

    Args:
        column: the name of the values, for messages.
        sums: one for each key, without nulls; of a type that `sum_type` gives.
        values: what is added, without nulls.
        keys: for each value, the number of its key.

    Raises:
        FoldError: a sum of whole numbers or decimals is too large for its type.
    """
    if pa.types.is_decimal(sums.type):
        return added_decimals(column, sums, values, keys)
    numbers = values.to_numpy()
    if pa.types.is_integer(sums.type):
        return pa.array(_whole_sums(column, sums.to_numpy(), numbers, keys))
    totals = sums.to_numpy().copy()
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are sums as well
        np.add.at(totals, keys, numbers.astype(np.float64, copy=False))
    return pa.array(totals)


def added_rows(column: str, one: pa.Array, other: pa.Array) -> pa.Array:
    """Add two columns of sums, row by row."""
    return added(column, one, other, np.arange(len(one)))


def null_unless(sums: pa.Array, there: NDArray[np.bool_]) -> pa.Array:
    """Return sums as a column, null where there is none."""
    if there.all():
        return sums
    return pc.if_else(pa.array(there), sums, pa.scalar(None, sums.type))


def _whole_sums(
    column: str, sums: NDArray[np.int64], values: NDArray[Any], keys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return sums of integers, or refuse one that is beyond 64 bits.

    Upper and lower halves are added up separately: neither can overflow with fewer than 2^31
    tuples, and a sum may be too large on the way if it fits in the end.
    """
    high, low = sums >> _HALF, sums & _LOW_HALF
    if values.dtype != np.uint64:
        values = values.astype(np.int64, copy=False)
    np.add.at(high, keys, (values >> values.dtype.type(_HALF)).astype(np.int64, copy=False))
    np.add.at(low, keys, (values & values.dtype.type(_LOW_HALF)).astype(np.int64, copy=False))
    high += low >> _HALF
    low &= _LOW_HALF
    too_large = int(np.count_nonzero((high < -_LIMIT) | (high >= _LIMIT)))
    if too_large:
        raise FoldError(
            f"the sum of column {column!r} does not fit 64 bits for {too_large} of {len(sums)} "
            "keys; cast it to float64, or add up something smaller"
        )
    return (high << _HALF) | low
