"""Tables of what was observed, joined and added up, so that many tell no more than one would."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.key_codes import take_rows
from optimizers.runtime.observe.observation import Observation, Seen
from sketches.key_identity import distinct
from sketches.keys import Pairs, as_keys

_COUNTED_BY = {
    Seen.PAIRS: (("left", "right"), "count"),
    Seen.KEYS: (("key",), "count"),
    Seen.TRAFFIC: (("source", "target"), "tuples"),
}
"""The columns that rows are counted by, and the column of counts."""

_SHORT = 1 << 16


def added_up(seen: Observation, table: pa.Table) -> pa.Table:
    """Return a table with each pair, key or cell once; a table of anything else as it is.

    >>> table = pa.table({"source": [3, 1, 3], "target": [0, 0, 0], "tuples": [5, 2, 6]})
    >>> added_up(Observation.of("traffic", "a", "b"), table).to_pylist()
    [{'source': 3, 'target': 0, 'tuples': 11}, {'source': 1, 'target': 0, 'tuples': 2}]
    """
    if seen.kind not in _COUNTED_BY or not len(table):
        return table
    names, counted = _COUNTED_BY[seen.kind]
    columns = [table.column(name) for name in names]
    keys = as_keys(Pairs(*columns) if len(columns) == 2 else columns[0], copy=False)
    numbers, firsts = distinct(keys)
    counts = np.zeros(len(firsts), dtype=np.int64)
    np.add.at(counts, numbers, table.column(counted).to_numpy())
    kept = take_rows(table.select(list(names)), firsts)
    return pa.table([*kept.columns, pa.array(counts)], [*names, counted])


def joined(tables: Iterable[pa.Table]) -> tuple[pa.Table, ...]:
    """Return one table in place of several, or one for each kind of columns."""
    given = list(tables)
    if len(given) <= 1:
        return tuple(given)
    whole = _as_one(given)
    if whole is not None:
        return (whole,)
    kinds: list[pa.Table] = []
    for table in given:
        for place, known in enumerate(kinds):
            both = _as_one([known, table])
            if both is not None:
                kinds[place] = both
                break
        else:
            kinds.append(table)
    return tuple(kinds)


def _as_one(tables: list[pa.Table]) -> pa.Table | None:
    """Return tables as one; None if their columns do not go together, as numbers and texts."""
    try:
        # Streams that meet may have keys of one kind in columns of different types.
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def heaviest(counts: NDArray[np.int64] | NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return the numbers of the keys that came most often, the heaviest first."""
    if counts.dtype.kind in "iu" and len(counts):
        top = int(counts.max())
        if int(counts.min()) >= 0 and top < _SHORT:  # which NumPy sorts by radix
            lightness = (top - counts).astype(np.uint16)
            return np.argsort(lightness, kind="stable")[:most]
    chosen = np.arange(len(counts))
    if len(counts) > most:
        least = np.partition(counts, len(counts) - most)[len(counts) - most]
        above, equal = np.flatnonzero(counts > least), np.flatnonzero(counts == least)
        chosen = np.sort(np.concatenate([above, equal[: most - len(above)]]))
    return chosen[np.argsort(-counts[chosen], kind="stable")]
