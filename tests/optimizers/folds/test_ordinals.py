"""Values as numbers in the same order."""

from math import isnan

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from optimizers.folds.ordinals import is_ordered, ordinals, ranks


@given(st.lists(st.floats()))
def test_floats_keep_their_order_and_come_back(values):
    numbers, back = ordinals(pa.array(values, pa.float64()))

    for one, its in zip(values, numbers.tolist(), strict=True):
        for other, others in zip(values, numbers.tolist(), strict=True):
            # NaN is after all others, and equal to itself.
            assert (its < others) == (one < other or (isnan(other) and not isnan(one)))
    assert [repr(value + 0.0).lstrip("-" if isnan(value) else "") for value in values] == [
        repr(value) for value in back(numbers).to_pylist()
    ]


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_unsigned_numbers_keep_their_order_and_come_back(values):
    numbers, back = ordinals(pa.array(values, pa.uint64()))

    assert sorted(values) == back(np.sort(numbers)).to_pylist()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_are_in_the_order_of_code_points(values):
    numbers, back = ordinals(pa.array(values, pa.string()))

    assert sorted(values) == back(np.sort(numbers)).to_pylist()


@given(st.lists(st.integers(-3, 3) | st.sampled_from((-(2**63), 2**63 - 1))))
def test_ranks_are_places_among_the_distinct_numbers(values):
    places, distinct = ranks(np.array(values, dtype=np.int64))

    assert sorted(set(values)) == distinct.tolist()
    assert values == distinct[places].tolist()


def test_what_has_parts_or_no_values_has_no_order():
    kinds = [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()]

    assert not any(map(is_ordered, kinds))
