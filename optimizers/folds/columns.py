"""Columns as folds read them: one array, without its nulls, checked by type."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.casting import cast, one_array
from optimizers.folds.key_codes import column_index
from optimizers.folds.types import normal, plain


class Filled(NamedTuple):
    """The values of a column that are not null, and the keys they belong to.

    Attributes:
        values: those that are not null, in their order.
        keys: for each, the number of its key.
    """

    values: pa.Array
    keys: NDArray[np.int64]


def type_of(schema: pa.Schema, name: str) -> pa.DataType:
    """Return the type of a column; that of the words where it is a dictionary.

    Raises:
        FoldError: no column has this name, or several have.
    """
    return plain(schema.field(column_index(schema, name)).type)


def normal_type_of(schema: pa.Schema, name: str) -> pa.DataType:
    """Return the type in which values of a column are kept; see `type_of`."""
    return normal(type_of(schema, name))


def array_of(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array of the normal form of its type."""
    column = table.column(column_index(table.schema, name))
    return one_array(cast(column, normal(column.type)))


def filled(values: pa.Array, keys: NDArray[np.int64]) -> Filled:
    """Drop the nulls of a column."""
    if not values.null_count:
        return Filled(values, keys)
    return Filled(values.drop_null(), keys[present(values)])


def present(values: pa.Array) -> NDArray[np.bool_]:
    """Return where a column is not null."""
    there: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return there


def numbers_of(state: pa.Table, name: str, otherwise: float = 0) -> NDArray[Any]:
    """Return a numeric column of state in memory of its own, nulls replaced."""
    column = one_array(state.column(name))
    if column.null_count:
        column = column.fill_null(otherwise)
    copy: NDArray[Any] = column.to_numpy().copy()
    return copy


def seen_in(values: pa.Array, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows of a column of state had a value, or have one of these keys."""
    seen = present(values)
    seen = seen.copy()
    seen[keys] = True
    return seen


def or_null(values: NDArray[Any], there: NDArray[np.bool_]) -> pa.Array:
    """Return values as a column, with nulls for missing ones."""
    return pa.array(values, mask=None if there.all() else ~there)
