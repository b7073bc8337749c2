"""Matching rows of two tables, by their keys or by all columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.casting import cast
from optimizers.folds.key_codes import SOLID, row_numbers
from optimizers.folds.types import normal_key
from sketches.arrays import Floats

Rows = NDArray[np.int64]

_ROUGH = 1 << 16


@dataclass(frozen=True, slots=True)
class Pairing:
    """The matching rows of two tables.

    Attributes:
        expected: rows of the reference whose keys both tables have.
        found: the rows of the same keys, in the same order.
        missing: rows of the reference that the other table lacks.
        extra: rows of the other table that the reference lacks, or has once less.
    """

    expected: Rows
    found: Rows
    missing: Rows
    extra: Rows


def paired_by_key(expected: pa.Table, found: pa.Table, key: Sequence[str]) -> Pairing:
    """Pair the rows of equal keys."""
    groups = _key_groups(expected, found, key)
    return _paired(groups, (np.arange(len(expected)), np.arange(len(found))))


def first_of_each(table: pa.Table, key: Sequence[str]) -> Rows:
    """Return the first row of each key, in the order of the table."""
    numbers = row_numbers([_normal(table, name) for name in key], len(table)).rows
    return np.sort(np.unique(numbers, return_index=True)[1])


def paired_by_row(expected: pa.Table, found: pa.Table) -> Pairing:
    """Pair rows that are equal except for their floats, which may differ by rounding.

    Args:
        expected: the rows of the reference.
        found: other rows, of the same columns in the same order.
    """
    exact = [field.name for field in expected.schema if is_exact(field.type)]
    groups = _row_groups(expected.select(exact), found.select(exact))
    return _paired(groups, (_order(expected, exact), _order(found, exact)))


def is_exact(kind: pa.DataType) -> bool:
    """Return whether values of this type contain no float."""
    if pa.types.is_floating(kind):
        return False
    if pa.types.is_dictionary(kind):
        return is_exact(kind.value_type)
    return all(is_exact(kind.field(place).type) for place in range(kind.num_fields))


def _paired(groups: tuple[Rows, Rows], orders: tuple[Rows, Rows]) -> Pairing:
    """Pair rows of equal groups, in these orders: the first with the first, and so on."""
    counts = [_counted(group, order) for group, order in zip(groups, orders, strict=True)]
    most = 1 + max(int(count.max(initial=0)) for count in counts)
    here, there = (group * most + count for group, count in zip(groups, counts, strict=True))
    _, expected, found = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    in_order = np.argsort(expected)
    return Pairing(
        expected[in_order],
        found[in_order],
        np.flatnonzero(~np.isin(here, there)),
        np.flatnonzero(~np.isin(there, here)),
    )


def _counted(group: Rows, order: Rows) -> Rows:
    """Return for each row how many of its group come before it in this order."""
    order = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.empty(len(group), np.int64)
    found[order] = np.arange(len(group)) - starts
    return found


def _key_groups(expected: pa.Table, found: pa.Table, key: Sequence[str]) -> tuple[Rows, Rows]:
    """Number the keys of two tables; without rows, columns may have no type yet."""
    tables = [table for table in (expected, found) if len(table)]
    columns = [[_normal(table, name) for table in tables] for name in key]
    if any(len({column.type for column in parts}) > 1 for parts in columns):
        return np.zeros(len(expected), np.int64), np.ones(len(found), np.int64)  # none is equal
    whole = [
        pa.chunked_array([c for part in parts for c in part.chunks]) for parts in columns if parts
    ]
    numbers = row_numbers(whole, len(expected) + len(found)).rows
    return numbers[: len(expected)], numbers[len(expected) :]


def _normal(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column of keys in the form in which state keeps it."""
    column = table.column(name)
    return cast(column, normal_key(column.type))


def _row_groups(expected: pa.Table, found: pa.Table) -> tuple[Rows, Rows]:
    """Number the different rows of two tables of the same columns."""
    groups = np.zeros(len(expected) + len(found), np.int64)
    for name in expected.column_names:
        numbers = _numbers(pa.chunked_array(expected[name].chunks + found[name].chunks))
        groups = np.unique(groups * (numbers.max(initial=0) + 1) + numbers, return_inverse=True)[1]
    return groups[: len(expected)], groups[len(expected) :]


def _numbers(column: pa.ChunkedArray) -> Rows:
    """Number the different values of a column."""
    if column.type.num_fields or pa.types.is_dictionary(column.type):
        column = pa.chunked_array([pa.array(map(repr, column.to_pylist()), pa.string())])
    column = column.cast(SOLID.get(column.type, column.type))
    encoded = whole_array(column).dictionary_encode(null_encoding="encode")
    numbers: Rows = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _order(table: pa.Table, exact: Sequence[str]) -> Rows:
    """Return an order of rows that is the same if values change by rounding only."""
    others = [table.column(name) for name in table.column_names if name not in exact]
    if not others:
        return np.arange(len(table))
    # First roughly, since rounding in one column must not decide the order before the next column
    # does; then exactly, among those that are roughly equal.
    ranks = [np.asarray(column.is_valid()) for column in others]
    ranks += [_ranks(column, rough=rough) for rough in (True, False) for column in others]
    order: Rows = np.lexsort(ranks[::-1])
    return order


def _ranks(column: pa.ChunkedArray, *, rough: bool) -> NDArray[Any]:
    if pa.types.is_floating(column.type):
        array = whole_array(column).cast(pa.float64())
        values: Floats = array.to_numpy(zero_copy_only=False)
        return _roughly(values) if rough else values
    texts = [repr(_rounded(value) if rough else value) for value in column.to_pylist()]
    ranks: Rows = np.unique(np.array(texts, object), return_inverse=True)[1]
    return ranks


def _roughly(values: Floats) -> Floats:
    """Return floats with a few of their leading bits."""
    mantissas, exponents = np.frexp(values)
    with np.errstate(over="ignore"):  # the largest are rounded to infinity, all of them
        rough: Floats = np.ldexp(np.round(mantissas * _ROUGH) / _ROUGH, exponents)
    return rough


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | tuple):
        return [_rounded(member) for member in value]
    if isinstance(value, dict):
        return {name: _rounded(member) for name, member in value.items()}
    return value


def whole_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    array = column.combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
