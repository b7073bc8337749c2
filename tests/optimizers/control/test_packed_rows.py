"""Packed rows: a tuple of rows in all but memory."""

import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.control.packed_rows import PackedRows, packed


@dataclass(frozen=True)
class Row:
    name: object
    number: object


VALUES = (
    st.text(max_size=3),
    st.integers(0, 300),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none() | st.integers(0, 9),
)
ROWS = st.sampled_from(VALUES).flatmap(
    lambda values: st.lists(st.builds(Row, st.text(max_size=2), values), min_size=1, max_size=40)
)


def typed(rows):
    return [(row.name, type(row.number), row.number) for row in rows]


@given(ROWS)
def test_rows_come_back_as_they_were(rows):
    made = PackedRows(rows)

    assert typed(rows) == typed(made) == typed(made[n] for n in range(len(rows)))
    assert made == tuple(rows)
    assert tuple(rows) == made
    assert hash(made) == hash(tuple(rows))
    assert made == pickle.loads(pickle.dumps(made))  # noqa: S301  # our own
    assert repr(tuple(rows)) == repr(made)


@given(ROWS, st.slices(40), st.integers(-45, 45))
def test_places_and_slices_are_those_of_a_tuple(rows, some, place):
    made = PackedRows(rows)

    assert tuple(rows)[some] == made[some]
    if -len(rows) <= place < len(rows):
        assert rows[place] == made[place]
    else:
        with pytest.raises(IndexError, match=f"row {place} of {len(rows)}"):
            made[place]


@given(ROWS, ROWS)
def test_other_rows_are_not_equal(one, other):
    assert (tuple(one) == tuple(other)) == (PackedRows(one) == PackedRows(other))
    assert PackedRows(one) != list(one)
    assert PackedRows(one) != (*one, one[0])


def test_few_rows_stay_a_tuple():
    rows = [Row("a", n) for n in range(100)]

    assert () == packed([])
    assert isinstance(packed(rows[:9]), tuple)
    assert isinstance(packed(rows), PackedRows)
    assert packed(packed(rows)) == tuple(rows)
