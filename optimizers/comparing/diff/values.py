"""Finding values of two Arrow arrays that differ by more than rounding."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches.arrays import Marks

ROUNDING = 1e-9
"""How far floats may be apart, relative to the larger: rounding depends on the order of a sum."""


def unequal(expected: pa.Array, found: pa.Array) -> Marks:
    """Return which values differ, of two arrays of the same type and length.

    A null is equal to a null, NaN to NaN, and floats, also those inside of lists and structs, to
    floats that differ by no more than rounding.
    """
    kind = expected.type
    if pa.types.is_dictionary(kind):
        return unequal(expected.dictionary_decode(), found.dictionary_decode())
    here, there = (np.asarray(array.is_valid()) for array in (expected, found))
    both = here & there
    differ: Marks = here != there
    rows = np.flatnonzero(both)
    first, second = (array.take(pa.array(rows)) for array in (expected, found))
    differ[rows] = _values_differ(kind, first, second)
    return differ


def _values_differ(kind: pa.DataType, expected: pa.Array, found: pa.Array) -> Marks:
    """Compare arrays without nulls at their top."""
    if pa.types.is_floating(kind):
        return _floats_differ(expected, found)
    if pa.types.is_struct(kind):
        differ = np.zeros(len(expected), dtype=np.bool_)
        for place in range(kind.num_fields):
            parts = (pc.struct_field(array, [place]) for array in (expected, found))
            differ |= unequal(*parts)
        return differ
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        return _lists_differ(expected.cast(entries), found.cast(entries))
    if _is_list(kind):
        return _lists_differ(expected, found)
    if pa.types.is_null(kind):
        return np.zeros(len(expected), dtype=np.bool_)
    return np.asarray(pc.not_equal(expected, found))


def _floats_differ(expected: pa.Array, found: pa.Array) -> Marks:
    first, second = (np.asarray(array, dtype=np.float64) for array in (expected, found))
    with np.errstate(invalid="ignore"):  # infinity less infinity; equal ones are found before
        close = np.abs(first - second) <= ROUNDING * np.maximum(np.abs(first), np.abs(second))
    close &= np.isfinite(first) & np.isfinite(second)
    same = (first == second) | close | (np.isnan(first) & np.isnan(second))
    differ: Marks = ~same
    return differ


def _lists_differ(expected: pa.Array, found: pa.Array) -> Marks:
    lengths, others = (
        np.asarray(pc.list_value_length(array), dtype=np.int64) for array in (expected, found)
    )
    differ: Marks = lengths != others
    rows = np.flatnonzero(~differ)
    first, second = (pc.list_flatten(array.take(pa.array(rows))) for array in (expected, found))
    owners = np.repeat(rows, lengths[rows])
    differ[owners[unequal(first, second)]] = True
    return differ


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
