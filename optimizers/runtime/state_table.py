"""Tables of state: one row a key, in the order of their places on the ring of hashes.

A table of state has the column ``place`` (uint64, ascending, each key once), the columns of the
key as ``key_0``, ``key_1``, ..., and what the operator keeps as ``value_...``. A table of changes
may have ``gone`` as well: true where a key has left. Nothing here changes a table; what can be
shared with the one before is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optimizers.errors import InvalidValueError, StateError
from sketches.checks import whole
from sketches.keys import Codes

PLACE = "place"
GONE = "gone"
KEY = "key_"
VALUE = "value_"

Rows = NDArray[np.int64]


def places_of(rows: pa.Table) -> Codes:
    """Return the places of the keys, without copying them where they lie in one piece."""
    places: Codes = _numbers(rows.column(PLACE))
    return places


def key_names(rows: pa.Table) -> list[str]:
    """Return the names of the columns that hold the key."""
    return [name for name in rows.column_names if name.startswith(KEY)]


def check_rows(rows: pa.Table) -> None:
    """Refuse a table that is not one of state.

    Raises:
        StateError: a column is missing or strange, or a place is out of order.
    """
    for name in rows.column_names:
        if name not in {PLACE, GONE} and not name.startswith((KEY, VALUE)):
            raise StateError(f"state has a column {name!r}; call it {KEY}0 or {VALUE}{name}")
    if len(set(rows.column_names)) < len(rows.column_names):
        raise StateError(f"columns {rows.column_names} of state are not told apart; rename one")
    for name, wanted in ((PLACE, pa.uint64()), (GONE, pa.bool_())):
        if name not in rows.column_names:
            if name == PLACE:
                raise StateError(f"state has no column {PLACE!r} to find its keys by; add it")
            continue
        column = rows.column(name)
        if column.type != wanted or column.null_count:
            raise StateError(
                f"column {name!r} of state is of type {column.type} with {column.null_count} "
                f"nulls; make it {wanted} without any"
            )
    places = places_of(rows)
    wrong = np.flatnonzero(places[1:] <= places[:-1])
    if len(wrong):
        first = int(wrong[0])
        raise StateError(
            f"place {places[first + 1]} comes after {places[first]} at row {first + 1}; "
            "sort the rows by place, each key once"
        )


def latest(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the state that these tables add up to.

    Args:
        tables: a table of state and those of changes to it, the oldest first. For each key, the
            newest row counts; where that is one of a key that is gone, there is none.

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
    base, gone = _present(plain[0], tables[0]), _gone(tables[1:])
    if len(plain) == 1:
        return base
    changes = pa.concat_tables(plain[1:])
    if len(plain) > 2:
        newest = _newest(plain[1:])
        changes, gone = _taken(changes, newest), gone[newest]
    return _merged(base, changes, gone)


def replaced(state: pa.Table, rows: pa.Table) -> pa.Table:
    """Return the state after these rows, ascending as well, took the place of those they replace.

    Keys that were not there are added.
    """
    return latest([state, rows])


def look_up(state: pa.Table, places: Codes) -> tuple[NDArray[np.bool_], Rows]:
    """Find keys by their places, which may come in any order.

    Returns:
        For each place whether it is in the state, and at which row; where it is not, the number
        means nothing.
    """
    known = places_of(state)
    rows: Rows = np.searchsorted(known, places).astype(np.int64, copy=False)
    if not len(known):
        return np.zeros(len(places), dtype=np.bool_), rows
    np.minimum(rows, len(known) - 1, out=rows)
    found: NDArray[np.bool_] = known[rows] == places
    return found, rows


def without(state: pa.Table, places: Codes) -> pa.Table:
    """Return the state without the keys at these places; those it does not have are ignored."""
    found, rows = look_up(state, places)
    if not found.any():
        return state
    kept = np.ones(state.num_rows, dtype=np.bool_)
    kept[rows[found]] = False
    return state.filter(pa.array(kept)).combine_chunks()


def slice_of(state: pa.Table, first_place: int, last_place: int) -> pa.Table:
    """Return the keys from the first place to the last, both included, without copying them."""
    ends = np.array([first_place, last_place], dtype=np.uint64)
    known = places_of(state)
    start = int(np.searchsorted(known, ends[0], side="left"))
    stop = int(np.searchsorted(known, ends[1], side="right"))
    return state.slice(start, max(0, stop - start))


def of_groups(state: pa.Table, groups: Any, key_groups: int) -> pa.Table:
    """Return the keys of these key groups, out of so many."""
    stretches = _stretches(state, groups, key_groups)
    if not stretches:
        return state.slice(0, 0)
    pieces = [state.slice(start, stop - start) for start, stop in stretches]
    return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces).combine_chunks()


def selected(
    state: pa.Table,
    *,
    places: Codes | None = None,
    groups: Any = None,
    key_groups: int | None = None,
) -> pa.Table:
    """Return a copy of the rows at these places and in these key groups; all without either.

    Args:
        state: the table; it may have a column ``gone``.
        places: places that are wanted, in any order, whether they are there or not.
        groups: key groups that are wanted.
        key_groups: how many key groups there are; goes with ``groups``.
    """
    if places is None and groups is None:
        return state
    wanted: list[Rows] = [np.empty(0, dtype=np.int64)]
    if places is not None:
        found, rows = look_up(state, places)
        wanted.append(rows[found])
    if groups is not None:
        if key_groups is None:
            raise InvalidValueError("groups without key_groups mean nothing; give their number")
        stretches = _stretches(state, groups, key_groups)
        wanted += [np.arange(start, stop) for start, stop in stretches]
    return _taken(state, np.unique(np.concatenate(wanted)))


def check_same_keys(state_rows: pa.Table, rows: pa.Table) -> None:
    """Refuse two keys that are different but have one place.

    Args:
        state_rows: rows of the state.
        rows: rows at the same places, in the same order.

    Raises:
        StateError: a key is not the one that the state has at its place, or is of another type.
    """
    for name in key_names(state_rows):
        known, given = state_rows.column(name), rows.column(name)
        if known.type != given.type:
            raise StateError(
                f"the state has keys of type {known.type} in {name!r} and these are of type "
                f"{given.type}; cast them to {known.type}, or begin with a new checkpoint"
            )
        same = pc.fill_null(pc.equal(known, given), fill_value=False)
        if not pc.all(same, min_count=0).as_py():
            row = same.index(pa.scalar(value=False)).as_py()
            raise StateError(
                f"keys {known[row].as_py()!r} and {given[row].as_py()!r} in {name!r} have one "
                f"place, {state_rows.column(PLACE)[row]}, and cannot be told apart; "
                "spell one of them differently"
            )


def first_place(group: int, key_groups: int) -> int:
    """Return the lowest place of a key group; of the one after the last, the end of the ring."""
    return -(-(group << 32) // key_groups) << 32


def _stretches(state: pa.Table, groups: Any, key_groups: int) -> list[tuple[int, int]]:
    """Return from which row to which each run of key groups is found."""
    count = whole("key_groups", key_groups, at_least=1)
    numbers = np.unique(np.asarray(groups, dtype=np.int64))
    if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < count:
        raise InvalidValueError(
            f"key groups from {numbers[0]} to {numbers[-1]} are not all among {count}; "
            f"give numbers from 0 to {count - 1}"
        )
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    known = places_of(state)
    found = []
    for run in runs:
        if len(run):
            start = np.searchsorted(known, np.uint64(first_place(int(run[0]), count)))
            end = first_place(int(run[-1]) + 1, count)
            stop = len(known) if end >> 64 else np.searchsorted(known, np.uint64(end))
            found.append((int(start), int(stop)))
    return found


def _newest(tables: Sequence[pa.Table]) -> Rows:
    """Return the rows that count, of all tables one after the other, in the order of places."""
    places = np.concatenate([places_of(table) for table in tables])
    # The tables are sorted already, which a stable sort finds and merely merges.
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    newest = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=newest[:-1])
    chosen: Rows = order[newest]
    return chosen


def _merged(base: pa.Table, changes: pa.Table, gone: NDArray[np.bool_]) -> pa.Table:
    """Return the base with one table of changes worked in; the base is not sorted again."""
    if not changes.num_rows:
        return base.combine_chunks()
    found, rows = look_up(base, places_of(changes))
    if found.all() and not gone.any():
        return _with_values_of(base, changes, rows)
    numbers = np.arange(base.num_rows, base.num_rows + changes.num_rows)
    chosen = np.arange(base.num_rows)
    chosen[rows[found]] = np.where(gone[found], -1, numbers[found])
    new = ~found & ~gone
    before = np.searchsorted(places_of(base), places_of(changes)[new])
    chosen = np.insert(chosen, before, numbers[new])
    everything = pa.concat_tables([base, changes])
    return _taken(everything, chosen[chosen >= 0] if gone.any() else chosen)


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
        numbers = np.array(_numbers(column))
        numbers[rows] = _numbers(cells)
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


def _present(plain: pa.Table, table: pa.Table) -> pa.Table:
    """Return the rows of a table without those of keys that are gone."""
    gone = _gone([table])
    return _taken(plain, np.flatnonzero(~gone)) if gone.any() else plain.combine_chunks()


def _gone(tables: Sequence[pa.Table]) -> NDArray[np.bool_]:
    """Return which rows, of all tables one after the other, say that a key is gone."""
    marks = [
        _numbers(table.column(GONE))
        if GONE in table.column_names
        else np.zeros(table.num_rows, dtype=np.bool_)
        for table in tables
    ]
    return np.concatenate([np.empty(0, dtype=np.bool_), *marks])


def _taken(rows: pa.Table, chosen: Rows) -> pa.Table:
    return rows.take(pa.array(chosen)).combine_chunks()


def _without_gone(table: pa.Table) -> pa.Table:
    return table.drop_columns([GONE]) if GONE in table.column_names else table


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    pieces = [piece.to_numpy(zero_copy_only=False) for piece in column.chunks]
    if len(pieces) == 1:
        return pieces[0]  # type: ignore[no-any-return]
    return np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *pieces])


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
