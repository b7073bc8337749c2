"""Folding as an engine does it, a part of a stream after the other, for tests of folds."""

import pyarrow as pa

from optimizers.folds import (
    key_numbers,
)
from optimizers.folds.fold import nothing
from optimizers.folds.key_codes import take_rows


def run(fold, parts, key):
    """Fold one part after the other, as an engine does; return the state by key."""
    kept = {}
    for part in parts:
        keys, firsts, _ = key_numbers(part, key)
        key_rows = take_rows(part.select(key), firsts)
        names = [tuple(row.values()) for row in key_rows.to_pylist()]
        schema = fold.state(part.schema)
        # A row at a time, so that no state can be mixed up by the fold's own means.
        rows = [kept.get(name, nothing(schema, 1)) for name in names]
        before = pa.concat_tables([schema.empty_table(), *rows])
        as_it_was = exactly(before.to_pylist())
        after = fold.step(part, keys, before, key_rows).state
        assert as_it_was == exactly(before.to_pylist())
        assert after.schema == before.schema
        kept.update({name: after.slice(row, 1) for row, name in enumerate(names)})
    return kept


def seen(fold, kept):
    """What readers see of each key."""
    return {name: fold.results(state).to_pylist()[0] for name, state in kept.items()}


def exactly(value):
    """A value such that NaN equals itself, and nothing else than what is bit by bit the same."""
    return repr(value)
