"""Columns in another form of their type, and columns of more text than Arrow counts in 32 bits.

Text, bytes and lists have offsets of 32 bits in most tables, so one array holds at most 2 GiB of
them. A column in several pieces may hold more; in one piece it needs offsets of 64 bits.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from optimizers.errors import FoldError
from optimizers.folds.types import plain

MOST_BYTES = (1 << 31) - 1
"""How many bytes an array with offsets of 32 bits may safely have."""


def bytes_in(rows: pa.Table | pa.ChunkedArray | pa.Array) -> int:
    """Return how much memory rows take; where Arrow cannot tell, the size of their buffers."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:  # of text views, before Arrow 24
        return int(rows.get_total_buffer_size())


def cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in another form of its type, in pieces small enough for the form.

    Raises:
        pa.ArrowInvalid: a value does not fit.
    """
    if column.type == kind:
        return column
    wide = roomy(kind)
    if column.type != wide != kind and (
        pa.types.is_dictionary(column.type) or _is_view(column.type)
    ):
        column = cast(column, wide)  # words written out may take more room than they do
    pieces = [part for piece in column.chunks for part in _parts(piece, kind)]
    return pa.chunked_array([_cast(piece, kind) for piece in pieces], kind)


def cast_back(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    """Return a column of normal form in the type that the tuples have.

    Raises:
        FoldError: a kept value is too large for it.
    """
    try:
        return cast(column, kind)
    except pa.ArrowInvalid as error:
        raise FoldError(
            f"a value of {name!r} was kept of tuples with a wider type than {kind} and does not "
            f"fit it ({error}); cast the column to its former type"
        ) from error


def solid(rows: pa.Table) -> pa.Table:
    """Return the same rows with columns of plain types: out of views and dictionaries.

    Arrow cannot take from views. And the same words come in a dictionary in one batch, and
    without one in the next.
    """
    for number, field in enumerate(rows.schema):
        kind = plain(field.type)
        if field.type != kind:
            rows = rows.set_column(number, field.name, cast(rows.column(number), kind))
    return rows


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; of text beyond 2 GiB, as one with offsets of 64 bits."""
    column = with_room(column)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def with_room(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose pieces can be joined: as it is, or with wide offsets."""
    kind = roomy(column.type)
    if kind == column.type or bytes_in(column) <= MOST_BYTES:
        return column
    return cast(column, kind)


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """Return these rows of a table, in this order.

    Each column is in one chunk, unless it is of text beyond 2 GiB.
    """
    places = pa.array(rows)
    columns = [_taken(column, places) for column in table.columns]
    return pa.table(columns, schema=table.schema)


def roomy(kind: pa.DataType) -> pa.DataType:
    """Return a type whose arrays have room for more than 2 GiB of the same values.

    >>> print(roomy(pa.string()), roomy(pa.list_(pa.int8())), roomy(pa.int8()))
    large_string large_list<item: int8> int8
    """
    types = pa.types
    kind = plain(kind)
    if types.is_string(kind):
        return pa.large_string()
    if types.is_binary(kind):
        return pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        field = kind.value_field
        return pa.large_list(field.with_type(roomy(field.type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field
        return pa.list_(field.with_type(roomy(field.type)), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([field.with_type(roomy(field.type)) for field in kind])
    return kind


def _taken(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    kind = column.type
    whole = one_array(cast(column, plain(kind)) if _is_view(kind) else column)
    taken = pa.chunked_array([whole.take(places)])
    return cast(taken, kind)


def _is_view(kind: pa.DataType) -> bool:
    return kind in {pa.string_view(), pa.binary_view()}  # Arrow cannot take from views


def _parts(piece: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Return an array in parts small enough for a type."""
    if roomy(kind) == kind or len(piece) < 2 or bytes_in(piece) <= MOST_BYTES:
        return [piece]
    half = len(piece) // 2
    return [
        part
        for side in (piece.slice(0, half), piece.slice(half))
        # A mere slice would keep offsets that are too large for the type.
        for part in _parts(side.take(pa.array(np.arange(len(side)))), kind)
    ]


def _cast(piece: pa.Array, kind: pa.DataType) -> pa.Array:
    if not isinstance(piece, pa.DictionaryArray) or pa.types.is_dictionary(kind):
        return piece.cast(kind)
    return _cast(piece.dictionary, kind).take(piece.indices)
