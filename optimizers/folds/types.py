"""Normal forms of types: what state keeps, so that a column may change between forms of one type.

A stream may hold the same values as int in one batch and as bigint in the next, as a dictionary
or not, under one session time zone or another. State has one type for all of them. Its texts and
lists have offsets of 64 bits, so that an instance may keep more than 2 GiB of them.
"""

import pyarrow as pa

SOLID = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""The types that views are cast to where Arrow needs it."""

DIGITS = 38
"""The digits of a decimal in state: the most that fit 128 bits."""


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that values have once they are out of dictionaries and views."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return SOLID.get(kind, kind)


def normal(kind: pa.DataType) -> pa.DataType:
    """Return the type in which state keeps values of a type.

    >>> print(normal(pa.int32()), normal(pa.string()), normal(pa.timestamp("us", "Asia/Tokyo")))
    int64 large_string timestamp[us, tz=UTC]
    >>> print(normal(pa.decimal128(10, 2)), normal(pa.list_(pa.int8())))
    decimal128(38, 2) large_list<item: int64>
    """
    types = pa.types
    kind = plain(kind)
    if types.is_integer(kind):
        return kind if kind == pa.uint64() else pa.int64()
    if types.is_string(kind) or types.is_large_string(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if types.is_decimal(kind) and kind.bit_width <= 128:
        return pa.decimal128(DIGITS, kind.scale)
    return _normal_nested(kind)


def normal_key(kind: pa.DataType) -> pa.DataType:
    """Return the type in which state keeps keys of a type: integers have a sign, all of them."""
    found = normal(kind)
    return pa.int64() if found == pa.uint64() else found


def _normal_nested(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(normal(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(normal(kind.value_type), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([(field.name, normal(field.type)) for field in kind])
    return kind
