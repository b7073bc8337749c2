"""Rows of state on their way from one batch to the next: what was, what changed, what came."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from optimizers.folds.columns import plain
from optimizers.folds.fold import Fold
from optimizers.folds.keys import take_rows
from optimizers.runtime.state_table import (
    GONE,
    KEY,
    PLACE,
    VALUE,
    check_same_keys,
    look_up,
    places_of,
)
from sketches.keys import Codes


def solid(rows: pa.Table) -> pa.Table:
    """Return the same rows with columns of plain types: out of views and dictionaries.

    Arrow cannot take from views. And the same words come in a dictionary in one batch, and without
    one in the next; state has one type for them.
    """
    for number, field in enumerate(rows.schema):
        kind = plain(field.type)
        if field.type != kind:
            rows = rows.set_column(number, field.name, rows.column(number).cast(kind))
    return rows


def rows_of(places: Codes, key_rows: pa.Table, values: pa.Table) -> pa.Table:
    """Return rows of state, from keys in the order of their places."""
    names = [f"{KEY}{number}" for number in range(key_rows.num_columns)]
    names += [f"{VALUE}{name}" for name in values.column_names]
    columns = [pa.array(places), *key_rows.columns, *values.columns]
    return pa.table(columns, [PLACE, *names])


def before_of(
    schema: pa.Schema, state: pa.Table | None, places: Codes, key_rows: pa.Table
) -> pa.Table:
    """Return the state of these keys so far, null where a key is new."""
    if state is None:
        return pa.table([pa.nulls(len(places), kept.type) for kept in schema], schema=schema)
    found, rows = look_up(state, places)
    names = [f"{KEY}{number}" for number in range(key_rows.num_columns)]
    known = take_rows(state.select([PLACE, *names]), rows[found])
    mine = pa.table([pa.array(places), *key_rows.columns], [PLACE, *names])
    check_same_keys(known, mine.filter(pa.array(found)))
    values = [name for name in state.column_names if name.startswith(VALUE)]
    kept = state.select(values).rename_columns([name.removeprefix(VALUE) for name in values])
    return kept.combine_chunks().take(pa.array(rows, mask=~found))


def merged(fold: Fold, state: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows of others, joined with the parts of the same keys that are here."""
    found, rows = look_up(state, places_of(others))
    if not found.any():
        return others
    both = pa.array(found)
    names = [name for name in others.column_names if name.startswith(VALUE)]
    here = take_rows(state, rows[found])
    theirs = others.filter(both)
    check_same_keys(here, theirs)
    plain = [name.removeprefix(VALUE) for name in names]
    joined = fold.merge(*(t.select(names).rename_columns(plain) for t in (here, theirs)))
    keys = theirs.drop_columns(names)
    rest = others.filter(pa.array(~found))
    whole = pa.table([*keys.columns, *joined.columns], [*keys.column_names, *names])
    return in_order(pa.concat_tables([whole, rest]))


def marked(rows: pa.Table, *, gone: bool) -> pa.Table:
    """Return rows as changes: of keys that are here, or that are gone."""
    return rows.add_column(1, GONE, pa.array(np.full(len(rows), gone)))


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows of different keys in the order of their places."""
    return take_rows(rows, np.argsort(places_of(rows.combine_chunks())))


def last_of_each(changes: Sequence[pa.Table]) -> pa.Table:
    """Return the last change of each key, in the order of places."""
    if len(changes) == 1:
        return changes[0]
    rows = pa.concat_tables(changes).combine_chunks()
    places = places_of(rows)
    order = np.argsort(places, kind="stable")
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = places[order][1:] != places[order][:-1]
    return take_rows(rows, order[last])
