"""Columns of nothing but nulls, whose type is not known: they get that of the values before.

A function that says no types has them taken from its values, and where a batch has none in some
column, the column is of Arrow's type null. What an operator keeps tells what the type was before.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from optimizers.errors import FoldError
from optimizers.folds.fold import Fold

_COMMON = (pa.int64(), pa.float64(), pa.large_string())


def with_types(tuples: pa.Table, fold: Fold, kept: pa.Schema | None, where: str) -> pa.Table:
    """Return tuples, columns of nulls being of the type that they had when state was kept.

    Args:
        tuples: the tuples.
        fold: what is done with them.
        kept: the columns that the fold has kept of tuples before; None if it has none.
        where: says in messages whose tuples they are.

    Raises:
        FoldError: the fold needs the type, and there were no values so far to tell it.
    """
    untyped = [field.name for field in tuples.schema if pa.types.is_null(field.type)]
    if not untyped or _reads(fold, tuples.schema, kept):
        return tuples
    if kept is None:
        raise FoldError(
            f"{where}: of {', '.join(map(repr, untyped))} there was nothing but nulls so far, so "
            "no type is known; say it where tuples are made: each_row(..., output=pa.schema(...))"
        )
    names = tuples.column_names
    schema = tuples.schema
    for name in untyped:
        schema = _with(schema, names.index(name), pa.int64())  # which any fold can read
    for name in untyped:
        options = [
            _with(schema, names.index(name), kind)
            for kind in dict.fromkeys([*_COMMON, *(k for field in kept for k in _within(field))])
        ]
        schema = max(options, key=lambda option: _matches(fold, option, kept))
    return tuples.cast(schema)


def _reads(fold: Fold, schema: pa.Schema, kept: pa.Schema | None) -> bool:
    """Return whether a fold can do with tuples as they are."""
    try:
        wanted = fold.state(schema)
    except FoldError:
        return False
    known = wanted if kept is None else kept
    return bool(wanted.equals(known)) and not any(
        pa.types.is_null(kind) for field in wanted for kind in _within(field)
    )


def _matches(fold: Fold, schema: pa.Schema, kept: pa.Schema) -> int:
    """Return how many types a fold would keep of such tuples that it has kept so far.

    Those inside of lists and structs count apart: they may come from several columns.
    """
    try:
        wanted = fold.state(schema)
    except FoldError:
        return -1
    pairs = zip(wanted, kept, strict=True)
    return sum(
        one == other for fields in pairs for one, other in zip(*map(_within, fields), strict=False)
    )


def _with(schema: pa.Schema, place: int, kind: pa.DataType) -> pa.Schema:
    return schema.set(place, pa.field(schema.names[place], kind))


def _within(field: pa.Field) -> Iterator[pa.DataType]:
    """Return the type of a column and those inside of it."""
    waiting: Sequence[pa.DataType] = [field.type]
    while waiting:
        kind, *rest = waiting
        yield kind
        waiting = [*rest, *(kind.field(place).type for place in range(kind.num_fields))]
