"""Merging tables of state with their changes; see `table.py`."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import StateError
from optimizers.runtime.state.keys import Match, match, repeats
from optimizers.runtime.state.table import GONE, VALUE, Rows, numbers_of, places_of, taken

Gone: TypeAlias = NDArray[np.bool_]
"""Marks of the rows whose key is gone."""


def latest(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the state of a base and its changes.

    Args:
        tables: a table of state and tables of changes to it, the oldest first. For each key, the
            newest row counts; if that says that the key is gone, it has none.

    >>> import pyarrow as pa
    >>> old = pa.table({"place": pa.array([1, 5], pa.uint64()), "value_count": [10, 50]})
    >>> new = pa.table({"place": pa.array([2, 5], pa.uint64()), "value_count": [20, 51]})
    >>> latest([old, new]).to_pydict()
    {'place': [1, 2, 5], 'value_count': [10, 20, 51]}
    """
    if not tables:
        raise StateError("no tables add up to no state; give at least one, be it empty")
    plain = [_without_gone(table) for table in tables]
    _check_columns(plain)
    base, gone = _present(plain[0], _gone(tables[:1])), _gone(tables[1:])
    if len(plain) == 1:
        return base
    changes = pa.concat_tables(plain[1:])
    if len(plain) > 2:
        newest = _newest(plain[1:])
        changes, gone = taken(changes, newest), gone[newest]
    return _merged(base, changes, gone)


def replaced(
    state: pa.Table, rows: pa.Table, *, gone: Gone | None = None, known: Match | None = None
) -> pa.Table:
    """Return the state with these rows, ascending as well, instead of those they replace.

    Keys that were not there are added.

    Args:
        state: the state.
        rows: other rows of it, each key once.
        gone: which of the rows say only that their key is gone; by default none.
        known: where the keys of the rows are in the state, if that is known already.
    """
    _check_columns([state, rows])
    if gone is None:
        gone = np.zeros(len(rows), dtype=np.bool_)
    return _merged(state, rows, gone, known)


def last_of_each(changes: Sequence[pa.Table]) -> pa.Table:
    """Return the last change of each key, in the order of places."""
    if len(changes) == 1:
        return changes[0]
    return taken(pa.concat_tables(changes), _newest(changes))


def _newest(tables: Sequence[pa.Table]) -> Rows:
    """Return the rows that count, of all tables one after the other, in the order of places."""
    everything = pa.concat_tables([table.drop_columns(_others(table)) for table in tables])
    # The tables are sorted already, which a stable sort finds and merely merges.
    order = np.argsort(places_of(everything), kind="stable")
    chosen: Rows = order[~repeats(taken(everything, order))]
    return chosen


def _others(table: pa.Table) -> list[str]:
    """Return the columns that are not part of the key."""
    return [name for name in table.column_names if name == GONE or name.startswith(VALUE)]


def _merged(base: pa.Table, changes: pa.Table, gone: Gone, known: Match | None = None) -> pa.Table:
    """Return the base with one table of changes worked in; the base is not sorted again."""
    if not changes.num_rows:
        return base.combine_chunks()
    if not base.num_rows:
        return _present(changes, gone)
    found, rows = match(base, changes) if known is None else known
    if found.all() and not gone.any():
        return _with_values_of(base, changes, rows)
    numbers = np.arange(base.num_rows, base.num_rows + changes.num_rows)
    chosen = np.arange(base.num_rows)
    chosen[rows[found]] = np.where(gone[found], -1, numbers[found])
    new = ~found & ~gone
    before = np.searchsorted(places_of(base), places_of(changes)[new])
    chosen = np.insert(chosen, before, numbers[new])
    everything = pa.concat_tables([base, changes])
    return taken(everything, chosen[chosen >= 0] if gone.any() else chosen)


def _with_values_of(base: pa.Table, changes: pa.Table, rows: Rows) -> pa.Table:
    """Return the base with other values at these rows; places and keys are not copied."""
    columns = [
        _with_cells(base.column(name), changes.column(name), rows)
        if name.startswith(VALUE)
        else base.column(name)
        for name in base.column_names
    ]
    return pa.table(columns, schema=base.schema).combine_chunks()


def _with_cells(column: pa.ChunkedArray, cells: pa.ChunkedArray, rows: Rows) -> Any:
    """Return the column with other cells at these rows."""
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if plain and not column.null_count and not cells.null_count:
        numbers = np.array(numbers_of(column))
        numbers[rows] = numbers_of(cells)
        return pa.array(numbers, kind)
    chosen = np.arange(len(column))
    chosen[rows] = np.arange(len(column), len(column) + len(cells))
    return pa.chunked_array([*column.chunks, *cells.chunks], kind).take(pa.array(chosen))


def _check_columns(tables: Sequence[pa.Table]) -> None:
    schema = tables[0].schema
    for table in tables[1:]:
        if not table.schema.equals(schema):
            raise StateError(
                f"state of columns {_shown(schema)} does not add up with state of columns "
                f"{_shown(table.schema)}; begin with a new checkpoint if the operator has changed"
            )


def _present(rows: pa.Table, gone: Gone) -> pa.Table:
    """Return the rows of keys that are not gone."""
    return taken(rows, np.flatnonzero(~gone)) if gone.any() else rows.combine_chunks()


def _gone(tables: Sequence[pa.Table]) -> Gone:
    """Return which rows, of all tables one after the other, say that a key is gone."""
    marks = [
        numbers_of(table.column(GONE))
        if GONE in table.column_names
        else np.zeros(table.num_rows, dtype=np.bool_)
        for table in tables
    ]
    return np.concatenate([np.empty(0, dtype=np.bool_), *marks])


def _without_gone(table: pa.Table) -> pa.Table:
    return table.drop_columns([GONE]) if GONE in table.column_names else table


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
