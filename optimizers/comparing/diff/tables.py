"""Differences between results and a reference: tables compared by key, or as unordered rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from optimizers.comparing.diff.rows import (
    Pairing,
    first_of_each,
    paired_by_key,
    paired_by_row,
    whole_array,
)
from optimizers.comparing.diff.values import unequal
from optimizers.comparing.outcome import Difference
from optimizers.folds.key_codes import take_rows
from sketches.arrays import Marks

_SHOWN = 60  # characters of a value in a message


def state_difference(
    operator: str, key: Sequence[str], expected: pa.Table, found: pa.Table
) -> Difference | None:
    """Return where the state of an operator differs from the reference; None if it does not.

    The order of rows does not matter. Floats may differ by rounding, all else must be the same.

    >>> right, wrong = (pa.table({"user": ["ann", "bob"], "n": [2, n]}) for n in (1, 3))
    >>> print(state_difference("visits", ["user"], right, wrong))
    state of operator 'visits': user='bob': n is 3, where the reference has 1

    Args:
        operator: which operator.
        key: the columns of its key.
        expected: the table of the reference; each key once.
        found: the table to compare with it.
    """
    what = f"state of operator {operator!r}"
    rows = paired_by_key(expected, found, key)
    # Where one has no rows, it may have no columns but its key: no value showed them.
    if len(rows.expected) and (otherwise := _other_columns(what, expected, found)):
        return otherwise
    keyed = _Side(expected, tuple(key)), _Side(found, tuple(key))
    return _first(what, rows, *keyed)


def output_difference(
    operator: str, batch: int, expected: pa.Table | None, found: pa.Table | None
) -> Difference | None:
    """Return where the output of an operator in a batch differs; None if it does not.

    The order of rows does not matter; the number of equal rows does.

    Args:
        operator: which operator.
        batch: in which batch.
        expected: the output of the reference; None if there is none.
        found: the table to compare with it.
    """
    what = f"output of operator {operator!r} in batch {batch}"
    if expected is None or found is None:
        return _all_or_nothing(what, expected, found)
    if otherwise := _other_columns(what, expected, found):
        return otherwise
    found = found.select(expected.column_names)
    rows = paired_by_row(expected, found)
    return _first(what, rows, _Side(expected, ()), _Side(found, ()))


def parts_difference(
    operator: str,
    batch: int,
    key: Sequence[str],
    expected: pa.Table | None,
    found: pa.Table | None,
) -> Difference | None:
    """Return where the keys of emitted parts differ from the reference; None if they do not.

    Each instance of a ``partial`` operator emits its part of a key's result, where the reference
    emits the whole. Parts of one batch do not add up to it, as other instances have parts that did
    not change. So only the keys are compared; the sum of their parts is in the state, see
    `state_difference`.

    >>> whole = pa.table({"word": ["be", "to"], "count": [1, 7]})
    >>> parts = pa.table({"word": ["to", "be", "to"], "count": [3, 1, 2]})
    >>> parts_difference("count", 4, ["word"], whole, parts)
    >>> print(parts_difference("count", 4, ["word"], whole, parts.slice(0, 1)))
    keys in the output of operator 'count' in batch 4: word='be': there is nothing,
    where the reference has a row

    Args:
        operator: which operator.
        batch: in which batch.
        key: the columns of its key.
        expected: what the reference emitted: each key once; None for nothing at all.
        found: the parts, for a key one or several; None for nothing at all.
    """
    what = f"keys in the output of operator {operator!r} in batch {batch}"
    if expected is None or found is None:
        return _all_or_nothing(what, expected, found)
    if otherwise := _other_columns(what, expected, found):
        return otherwise
    right = expected.select(key)
    wrong = take_rows(found.select(key), first_of_each(found, key))
    rows = paired_by_key(right, wrong, key)
    return _first(what, rows, _Side(right, tuple(key)), _Side(wrong, tuple(key)))


@dataclass(frozen=True, slots=True)
class _Side:
    """A table whose rows are named by a key, or by all columns if there is none."""

    table: pa.Table
    key: tuple[str, ...]

    def name(self, row: int) -> str:
        """Return the name of a row in a message."""
        return _named(self.table.select(self.key or self.table.column_names), row)

    def rest(self, row: int) -> str:
        """Return the other columns of a row."""
        others = [name for name in self.table.column_names if name not in self.key]
        return _named(self.table.select(others), row) or "a row" if self.key else "such a row"


def _first(what: str, rows: Pairing, expected: _Side, found: _Side) -> Difference | None:
    """Return the first difference, and how many rows differ."""
    differing: dict[str, Marks] = {}
    if len(rows.expected):
        left = take_rows(expected.table, rows.expected)
        right = take_rows(found.table, rows.found)
        for name in left.column_names:
            marks = unequal(whole_array(left.column(name)), whole_array(right.column(name)))
            if marks.any():
                differing[name] = marks
    wrong = np.zeros(len(rows.expected), dtype=np.bool_)
    for marks in differing.values():
        wrong |= marks
    count = len(rows.missing) + len(rows.extra) + int(wrong.sum())
    if not count:
        return None
    if len(rows.missing):
        row = int(rows.missing[0])
        return Difference(what, expected.name(row), "", expected.rest(row), "nothing", count)
    if len(rows.extra):
        row = int(rows.extra[0])
        return Difference(what, found.name(row), "", "nothing", found.rest(row), count)
    place = int(np.flatnonzero(wrong)[0])
    column = next(name for name, marks in differing.items() if marks[place])
    row, other = int(rows.expected[place]), int(rows.found[place])
    return Difference(
        what,
        expected.name(row),
        column,
        _shown(expected.table.column(column)[row]),
        _shown(found.table.column(column)[other]),
        count,
    )


def _other_columns(what: str, expected: pa.Table, found: pa.Table) -> Difference | None:
    """Return a difference in the names or types of columns."""
    columns = [
        {field.name: str(field.type) for field in table.schema} for table in (expected, found)
    ]
    if columns[0] == columns[1]:
        return None
    right, wrong = (
        ", ".join(f"{name} {kind}" for name, kind in known.items()) for known in columns
    )
    return Difference(what, "its columns", "", right, wrong, max(len(expected), len(found)))


def _all_or_nothing(
    what: str, expected: pa.Table | None, found: pa.Table | None
) -> Difference | None:
    right, wrong = (0 if table is None else len(table) for table in (expected, found))
    if not right and not wrong:
        return None
    return Difference(what, "all of it", "", f"{right} rows", f"{wrong} rows", right + wrong)


def _named(table: pa.Table, row: int) -> str:
    return ", ".join(f"{name}={_shown(table.column(name)[row])}" for name in table.column_names)


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
