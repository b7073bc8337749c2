"""Tables with narrow integers: what was observed travels in as few bytes as its numbers need."""

import pyarrow as pa

_KINDS = (
    (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
)


def narrowed(table: pa.Table) -> pa.Table:
    """Return the same table with each column of integers in the narrowest type that holds them.

    >>> narrowed(pa.table({"key": [7, 70_000], "count": [1, -1]})).schema.types
    [DataType(uint32), DataType(int8)]
    """
    fields = list(table.schema)
    columns = table.columns
    for place, (field, column) in enumerate(zip(fields, columns, strict=True)):
        if pa.types.is_integer(field.type):
            narrow = _narrowest(column)
            if narrow.bit_width < field.type.bit_width:
                fields[place] = pa.field(field.name, narrow)
                columns[place] = column.cast(narrow)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _narrowest(column: pa.ChunkedArray) -> pa.DataType:
    known = column.drop_null() if column.null_count else column
    # One piece is looked at where it is; a column of several would be copied.
    numbers = known.chunk(0).to_numpy() if known.num_chunks == 1 else known.to_numpy()
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    signed = low < 0
    bits = max(max(high, 0).bit_length(), (~low).bit_length() if signed else 0) + signed
    return next(kind for kind in _KINDS[signed] if kind.bit_width >= bits)
