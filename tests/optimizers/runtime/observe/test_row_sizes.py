"""Sizes of rows: together they are what Arrow says, and apart they are what each row would be."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.row_sizes import row_sizes, sizes_before

KINDS = {
    "int": (pa.int32(), st.integers(0, 9)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=9)),
    "large text": (pa.large_string(), st.text(max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "list": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=3)),
    "nested": (
        pa.list_(pa.list_(pa.int64())),
        st.lists(st.lists(st.integers(0, 3), max_size=2), max_size=2),
    ),
    "pair": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.text(max_size=3)}),
    ),
    "two": (pa.list_(pa.int16(), 2), st.lists(st.integers(0, 3), min_size=2, max_size=2)),
    "map": (
        pa.map_(pa.string(), pa.int8()),
        st.lists(st.tuples(st.text(), st.integers(0, 3)), max_size=2),
    ),
    "day": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(5, 2), st.decimals(0, 9, places=2)),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def tables(draw):
    """Some columns, of which rows were cut off at both ends, in one piece or several."""
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(0, 12))
    columns = {}
    for name in names:
        kind, values = KINDS[name]
        columns[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
    table = pa.table(columns)
    start = draw(st.integers(0, count))
    table = table.slice(start, draw(st.integers(0, count - start)))
    cut = draw(st.integers(0, len(table)))
    return (
        pa.concat_tables([table.slice(0, cut), table.slice(cut)]) if draw(st.booleans()) else table
    )


@given(tables())
def test_all_rows_are_as_large_as_arrow_says(table):
    # Arrow counts each byte that holds a bit of booleans, in each piece, also of an empty one.
    sizes = [
        len(column) / 8 if pa.types.is_boolean(column.type) else column.nbytes
        for column in table.columns
    ]
    assert row_sizes(table).sum() == pytest.approx(sum(sizes))


@given(tables())
def test_each_row_is_as_large_as_if_it_were_alone(table):
    alone = [table.slice(row, 1).combine_chunks().nbytes for row in range(len(table))]

    assert row_sizes(table).tolist() == pytest.approx(alone, abs=1)


@given(tables(), st.data())
def test_what_is_before_a_place_is_the_sum_of_those_rows(table, data):
    places = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=5)))

    found = sizes_before(table, np.array(places, dtype=np.int64))

    assert found.tolist() == pytest.approx([row_sizes(table)[:place].sum() for place in places])


def test_words_of_a_dictionary_are_shared_by_all_rows():
    words = pa.table({"k": pa.array(["long word", "b"] * 8).dictionary_encode()})

    assert row_sizes(words).sum() == pytest.approx(words.nbytes)
    assert 1 == len(set(row_sizes(words).tolist()))
