"""Finding keys in state: looked up by place, confirmed by the key itself.

A place is an address. Different keys may have the same one, and are then neighbours, in no
particular order. So a look-up compares all keys at once with the rows that their places lead to;
only where another key is there, it searches the rows of that place.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optimizers.errors import StateError
from optimizers.folds.casting import cast
from optimizers.folds.key_codes import row_numbers
from optimizers.folds.types import normal_key
from optimizers.runtime.state.table import GONE, KEY, PLACE, VALUE, Rows, key_names, places_of
from sketches.arrays import Codes


class Match(NamedTuple):
    """The rows of a state that have the keys of other rows.

    Attributes:
        found: for each row, whether its key is there.
        rows: for each row, its row in the state; without a meaning where it is not found.
    """

    found: NDArray[np.bool_]
    rows: Rows


def keys_at(places: Codes, key_rows: pa.Table) -> pa.Table:
    """Return keys as state has them: their places, and their columns in normal form."""
    names = [f"{KEY}{number}" for number in range(key_rows.num_columns)]
    columns = [cast(column, normal_key(column.type)) for column in key_rows.columns]
    return pa.table([pa.array(places), *columns], [PLACE, *names])


def match(state: pa.Table, rows: pa.Table) -> Match:
    """Find the keys of rows, which may come in any order, in a state.

    Raises:
        StateError: the keys are of other types than those of the state.
    """
    _check_types(state, rows)
    known, places = places_of(state), places_of(rows)
    if not len(known):
        return Match(np.zeros(len(places), dtype=np.bool_), np.zeros(len(places), dtype=np.int64))
    at: Rows = np.searchsorted(known, places).astype(np.int64, copy=False)
    np.minimum(at, len(known) - 1, out=at)
    there = known[at] == places
    found = there.copy()
    if there.all():
        found = _same_keys(state, at, rows)
    elif there.any():
        found[there] = _same_keys(state, at[there], rows.filter(pa.array(there)))
    others = np.flatnonzero(there & ~found)
    if len(others):
        right = np.searchsorted(known, places[others], side="right")
        crowd = _union(at[others], right)
        found[others], at[others] = _found_in(state, crowd, rows, others)
    return Match(found, at)


def repeats(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows, in the order of places, have a key that a later row has as well."""
    places = places_of(rows)
    met = places[1:] == places[:-1]
    found = np.zeros(len(places), dtype=np.bool_)
    if not met.any():
        return found
    pairs = np.flatnonzero(met)
    same = _equal(rows, pairs, rows, pairs + 1)
    found[pairs] = same
    if same.all():
        return found
    # Different keys share a place, so equal ones need not be neighbours.
    crowd = np.union1d(pairs, pairs + 1)
    numbered = row_numbers(_key_columns(rows, crowd), len(crowd))
    last = np.zeros(numbered.size, dtype=np.int64)
    last[numbered.rows] = np.arange(len(crowd))
    found[crowd] = last[numbered.rows] != np.arange(len(crowd))
    return found


def check_rows(rows: pa.Table) -> None:
    """Refuse a table that is not one of state.

    Raises:
        StateError: a column is missing or strange, a place out of order, or a key there twice.
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
    wrong = np.flatnonzero(places[1:] < places[:-1])
    if len(wrong):
        first = int(wrong[0])
        raise StateError(
            f"place {places[first + 1]} comes after {places[first]} at row {first + 1}; "
            "sort the rows by place"
        )
    twice = np.flatnonzero(repeats(rows))
    if len(twice):
        raise StateError(
            f"key {key_of(rows, int(twice[0]))} at place {places[twice[0]]} is there twice; keep "
            "one row of it"
        )


def key_of(rows: pa.Table, row: int) -> list[Any]:
    """Return the key of a row, for messages."""
    return [rows.column(name)[row].as_py() for name in key_names(rows)]


def _found_in(state: pa.Table, crowd: Rows, rows: pa.Table, wanted: Rows) -> Match:
    """Look for some rows' keys among those rows of a state that share their places."""
    here, there = _key_columns(state, crowd), _key_columns(rows, wanted)
    columns = [
        pa.chunked_array([*ours.chunks, *theirs.chunks], ours.type)
        for ours, theirs in zip(here, there, strict=True)
    ]
    numbered = row_numbers(columns, len(crowd) + len(wanted))
    row_of = np.full(numbered.size, -1, dtype=np.int64)
    row_of[numbered.rows[: len(crowd)]] = crowd
    rows_found = row_of[numbered.rows[len(crowd) :]]
    return Match(rows_found >= 0, np.maximum(rows_found, 0))


def _union(starts: Rows, stops: Rows) -> Rows:
    """Return the numbers that are in any of these ranges, ascending."""
    starts, places = np.unique(starts, return_index=True)
    lengths = stops[places] - starts
    shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    found: Rows = shifts + np.arange(int(lengths.sum()))
    return found


def _same_keys(state: pa.Table, at: Rows, rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows have the key of the matching row of the state."""
    return _equal(state, at, rows, None)


def _equal(one: pa.Table, first: Rows, other: pa.Table, second: Rows | None) -> NDArray[np.bool_]:
    """Return whether the keys of rows of two tables are equal, pair by pair."""
    same = np.ones(len(first), dtype=np.bool_)
    for name in key_names(one):
        ours = one.column(name).take(pa.array(first))
        theirs = other.column(name)
        theirs = theirs if second is None else theirs.take(pa.array(second))
        same &= pc.fill_null(pc.equal(ours, theirs), fill_value=False).to_numpy()
    return same


def _key_columns(rows: pa.Table, chosen: Rows) -> list[pa.ChunkedArray]:
    return [rows.column(name).take(pa.array(chosen)) for name in key_names(rows)]


def _check_types(state: pa.Table, rows: pa.Table) -> None:
    for name in key_names(state):
        known, given = state.column(name).type, rows.column(name).type
        if known != given:
            raise StateError(
                f"the state has keys of type {known} in {name!r} and these are of type {given}; "
                f"cast them to {known}, or begin with a new checkpoint"
            )
