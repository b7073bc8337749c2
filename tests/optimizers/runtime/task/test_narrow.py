"""Narrow tables: fewer bytes, and not a bit lost."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.task.narrow import narrowed

BITS = st.sampled_from((8, 16, 32, 64))


@st.composite
def integer_columns(draw):
    """A column of integers of any type, perhaps with nulls, perhaps in pieces."""
    bits, signed = draw(BITS), draw(st.booleans())
    kind = pa.type_for_alias(f"{'' if signed else 'u'}int{bits}")
    used = draw(st.integers(0, bits - signed))  # most numbers fit much less
    low = -(1 << used) if signed else 0
    number = st.none() | st.integers(low, (1 << used) - 1)
    return pa.chunked_array(draw(st.lists(st.lists(number, max_size=4), max_size=3)), kind)


@given(integer_columns())
def test_the_numbers_stay_what_they_are(column):
    table = pa.table({"n": column})

    assert table.to_pylist() == narrowed(table).to_pylist()


@given(integer_columns())
def test_no_narrower_type_would_do(column):
    kind = narrowed(pa.table({"n": column})).schema.field("n").type

    numbers = [number for number in column.to_pylist() if number is not None] or [0]
    fit = [
        width
        for width in (8, 16, 32, 64)
        for limits in [np.iinfo(f"{'int' if min(numbers) < 0 else 'uint'}{width}")]
        if limits.min <= min(numbers) and max(numbers) <= limits.max
    ]
    assert min(column.type.bit_width, fit[0]) == kind.bit_width


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_limits_of_each_type_stay_in_it(bits):
    lowest = -(1 << bits - 1)
    for numbers in ([0, (1 << bits) - 1], [lowest, (1 << bits - 1) - 1], [lowest]):
        table = pa.table({"n": numbers})

        assert bits == narrowed(table).schema.field("n").type.bit_width
        assert numbers == narrowed(table).column("n").to_pylist()


def test_other_columns_are_left_alone():
    table = pa.table({"a": ["x", None], "b": [1.5, 2.0], "c": pa.array([1, 2], pa.int8())})

    assert table.equals(narrowed(table), check_metadata=True)
