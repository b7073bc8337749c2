"""Tables of state: one row a key, in the order of their places on the ring of hashes.

A table of state has the column ``place`` (uint64, ascending, each key once), the columns of the
key as ``key_0``, ``key_1``, ..., and what the operator keeps as ``value_...``. A table of changes
may have ``gone`` as well: true where a key has left. Nothing here changes a table; what can be
shared with the one before is.
"""

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
    places: Codes = numbers_of(rows.column(PLACE))
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
    return taken(state, np.unique(np.concatenate(wanted)))


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


def taken(rows: pa.Table, chosen: Rows) -> pa.Table:
    """Return these rows of a table, in this order, in one piece."""
    return rows.take(pa.array(chosen)).combine_chunks()


def numbers_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers, without copying it where it lies in one piece."""
    pieces = [piece.to_numpy(zero_copy_only=False) for piece in column.chunks]
    if len(pieces) == 1:
        return pieces[0]  # type: ignore[no-any-return]
    return np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *pieces])
