"""Adding up the numbers of many keys at once: whole numbers exactly, floats in their order."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.columns import type_of
from optimizers.folds.fold import Fold

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
    raise FoldError(
        f"{fold!r} cannot add up column {column!r} of type {kind}; cast it to int64 or float64"
    )


def added(
    column: str, sums: NDArray[Any], values: NDArray[Any], keys: NDArray[np.int64]
) -> NDArray[Any]:
    """Add values to the sums of their keys, one after the other; may do so in place.

    Args:
        column: what the values are called in the message.
        sums: one for each key; int64 or float64.
        values: what is added.
        keys: for each value, the number of its key.

    Raises:
        FoldError: a sum of whole numbers does not fit 64 bits.
    """
    if sums.dtype.kind != "f":
        return _whole_sums(column, sums, values, keys)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are sums as well
        np.add.at(sums, keys, values.astype(np.float64, copy=False))
    return sums


def added_rows(column: str, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Add two columns of sums, row by row."""
    return added(column, one, other, np.arange(len(one)))


def _whole_sums(
    column: str, sums: NDArray[np.int64], values: NDArray[Any], keys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return sums of integers, or say that one of them is beyond 64 bits.

    Upper and lower halves are added up apart: neither can overflow with fewer than 2^31 tuples,
    and a sum that was too large on the way but is not in the end is no mistake.
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
