"""Rows of state from one batch to the next: earlier ones, changed ones, new ones."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.casting import take_rows
from optimizers.folds.fold import Fold
from optimizers.runtime.state.keys import Match, match
from optimizers.runtime.state.table import GONE, VALUE, places_of


def rows_of(keys: pa.Table, values: pa.Table) -> pa.Table:
    """Return rows of state, from keys in the order of their places and their values."""
    names = [f"{VALUE}{name}" for name in values.column_names]
    return pa.table([*keys.columns, *values.columns], [*keys.column_names, *names])


def before_of(state: pa.Table, known: Match) -> pa.Table:
    """Return the state of some keys so far, null where a key is new."""
    values = [name for name in state.column_names if name.startswith(VALUE)]
    kept = state.select(values).rename_columns([name.removeprefix(VALUE) for name in values])
    return kept.combine_chunks().take(pa.array(known.rows, mask=~known.found))


def merged(fold: Fold, state: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows of others, joined with the parts of the same keys that are here."""
    found, rows = match(state, others)
    if not found.any():
        return others
    both = pa.array(found)
    names = [name for name in others.column_names if name.startswith(VALUE)]
    here = take_rows(state, rows[found])
    theirs = others.filter(both)
    plain = [name.removeprefix(VALUE) for name in names]
    joined = fold.merge(*(t.select(names).rename_columns(plain) for t in (here, theirs)))
    keys = theirs.drop_columns(names)
    rest = others.filter(pa.array(~found))
    whole = pa.table([*keys.columns, *joined.columns], [*keys.column_names, *names])
    return in_order(pa.concat_tables([whole, rest]))


def marked(rows: pa.Table, *, gone: bool | NDArray[np.bool_]) -> pa.Table:
    """Return rows as changes: of keys that are present, or that are gone."""
    return rows.add_column(1, GONE, pa.array(np.broadcast_to(gone, len(rows))))


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows of different keys in the order of their places."""
    return take_rows(rows, np.argsort(places_of(rows.combine_chunks()), kind="stable"))
