"""Samples of tuples: one of each few, and no key is overlooked because keys come in turns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.sampling import Sampler


@given(st.integers(0, 400), st.integers(1, 50), st.integers(0, 1 << 64))
def test_one_of_each_few_stands_for_them(length, step, seed):
    rows, weights = Sampler(seed, 3).of(length, step)

    stretches = [range(length)[first : first + step] for first in range(0, length, step)]
    assert len(stretches) == len(rows) == len(weights)
    assert all(row in stretch for row, stretch in zip(rows.tolist(), stretches, strict=True))
    assert list(map(len, stretches)) == weights.tolist()


@pytest.mark.parametrize("length", [12, 10])
def test_each_tuple_stands_for_itself_on_average(length):
    sampler, told = Sampler(7), np.zeros(length)
    for _ in range(4_000):
        rows, weights = sampler.of(length, 4)
        told[rows] += weights

    # Of one of four, 4 or 0: a deviation of the mean of sqrt(3 / 4000), .027.
    assert told / 4_000 == pytest.approx(np.ones(length), abs=5 * 0.027)


def test_the_choice_goes_on_and_is_the_same_in_each_process():
    sampler = Sampler(1, 2)
    first, second = (sampler.of(20, 5).rows.tolist() for _ in range(2))

    assert ([3, 7, 14, 17], [0, 7, 10, 16]) == (first, second)
    assert first == Sampler(1, 2).of(20, 5).rows.tolist()
    assert first != Sampler(2, 1).of(20, 5).rows.tolist()


@pytest.mark.parametrize("cycle", [2, 10, 97, 100, 1_000])
def test_of_keys_that_come_in_turns_each_is_seen(cycle):
    keys = np.arange(200_000) % cycle
    rows, weights = Sampler(0).of(len(keys), 10)

    told = np.bincount(keys[rows], weights, cycle)
    of_each = len(keys) / cycle
    assert told == pytest.approx(np.full(cycle, of_each), abs=6 * np.sqrt(10 * of_each))
