"""The best matching of rows and columns, against all there are."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.keygraph.matching import best_matching


@st.composite
def squares(draw, values):
    size = draw(st.integers(0, 6))
    row = st.lists(values, min_size=size, max_size=size)
    return np.array(draw(st.lists(row, min_size=size, max_size=size)), dtype=float).reshape(
        size, size
    )


def total(gains, columns):
    return sum(gains[row, column] for row, column in enumerate(columns))


# Whole numbers add up exactly; a few values make many equal gains, also negative ones.
@settings(max_examples=75)
@given(squares(st.integers(-3, 3) | st.integers(-(1 << 40), 1 << 40)))
def test_no_other_matching_gains_more(gains):
    columns = best_matching(gains).tolist()

    assert list(range(len(gains))) == sorted(columns)
    best = max(total(gains, other) for other in permutations(range(len(gains))))
    assert best == total(gains, columns)


@given(squares(st.floats(-1e6, 1e6)))
def test_fractions_are_matched_as_well_as_they_can_be_added(gains):
    columns = best_matching(gains).tolist()

    best = max(total(gains, other) for other in permutations(range(len(gains))))
    # Prices are sums of a dozen gains of up to 1e6, each good to 16 digits.
    assert total(gains, columns) == pytest.approx(best, abs=1e-7)


def test_what_is_never_worth_it_is_never_matched_where_another_matching_exists():
    gains = np.array([[-1e12, 5.0, 0.0], [3.0, -1e12, 1.0], [9.0, 9.0, -1e12]])

    assert all(gains[row, column] >= 0 for row, column in enumerate(best_matching(gains)))


def test_the_gains_are_left_as_they_are():
    gains = np.array([[1.0, 2.0], [3.0, 5.0]])

    best_matching(gains)

    assert [[1.0, 2.0], [3.0, 5.0]] == gains.tolist()
