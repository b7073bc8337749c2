"""Tables of state: one row a key, in the order of their places on the ring of hashes.

A table of state has the column ``place`` (uint64, ascending), the columns of the key as ``key_0``,
``key_1``, ..., and the kept values as ``value_...``. Each key is there once; different keys may
have one place, see `keys.py`. A table of changes may have ``gone`` as well: true where a key has
left or was deleted. Functions here do not change tables; new tables share columns with old ones
where they can.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import InvalidValueError
from sketches.arrays import Codes
from sketches.checks import whole

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
        places: places that are wanted, in any order, present or not. All keys at these places are
            returned.
        groups: key groups that are wanted.
        key_groups: how many key groups there are; goes with ``groups``.
    """
    if places is None and groups is None:
        return state
    return taken(state, rows_of_part(state, places=places, groups=groups, key_groups=key_groups))


def rows_of_part(
    state: pa.Table, *, places: Codes | None, groups: Any, key_groups: int | None
) -> Rows:
    """Return which rows are at these places or in these key groups; see `selected`."""
    wanted: list[Rows] = [np.empty(0, dtype=np.int64)]
    if places is not None:
        wanted.append(rows_at(places_of(state), np.unique(places)))
    if groups is not None:
        if key_groups is None:
            raise InvalidValueError("groups without key_groups mean nothing; give their number")
        wanted.append(rows_between(*_stretches(state, groups, key_groups)))
    return np.unique(np.concatenate(wanted))


def rows_at(places: Codes, wanted: Codes) -> Rows:
    """Return the rows that stand at any of the wanted places; both rise."""
    starts, ends = (np.searchsorted(places, wanted, side=side) for side in ("left", "right"))
    return rows_between(starts, ends)


def rows_between(starts: Rows, ends: Rows) -> Rows:
    """Return the rows of some stretches: each begins with its start and stops before its end."""
    counts = ends - starts
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    rows: Rows = np.arange(len(shift)) + shift
    return rows


def first_place(group: int, key_groups: int) -> int:
    """Return the lowest place of a key group; the end of the ring for the one after the last."""
    return -(-(group << 32) // key_groups) << 32


def _stretches(state: pa.Table, groups: Any, key_groups: int) -> tuple[Rows, Rows]:
    """Return where each run of key groups starts, and before which row it ends."""
    count = whole("key_groups", key_groups, at_least=1)
    numbers = np.unique(np.asarray(groups, dtype=np.int64))
    if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < count:
        raise InvalidValueError(
            f"key groups from {numbers[0]} to {numbers[-1]} are not all among {count}; "
            f"give numbers from 0 to {count - 1}"
        )
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    known = places_of(state)
    starts, ends = [], []
    for run in runs:
        if len(run):
            starts.append(np.searchsorted(known, np.uint64(first_place(int(run[0]), count))))
            end = first_place(int(run[-1]) + 1, count)
            ends.append(len(known) if end >> 64 else np.searchsorted(known, np.uint64(end)))
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def taken(rows: pa.Table, chosen: Rows) -> pa.Table:
    """Return these rows of a table, in this order, in one piece."""
    return rows.take(pa.array(chosen)).combine_chunks()


def numbers_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers, without copying it where it lies in one piece."""
    pieces = [piece.to_numpy(zero_copy_only=False) for piece in column.chunks]
    if len(pieces) == 1:
        return pieces[0]  # type: ignore[no-any-return]
    return np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *pieces])
