"""What calls take: found where calls differ, and uncertain where they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.call_sums import FACTORS, SUMS, CallModel, call_sums

RATES = np.array([1e-3, 2e-6, 5e-6, 1e-9])
AMOUNTS = st.tuples(st.integers(1, 10_000), st.integers(1, 500), st.integers(0, 1 << 20))


def calls_of(amounts, rates=RATES, noise=0.0, seed=0):
    factors = np.random.default_rng(seed).lognormal(0, noise, len(amounts))
    rows = np.array([(1, *row) for row in amounts], dtype=float)
    return [(*row, took) for row, took in zip(amounts, rows @ rates * factors, strict=True)]


@given(st.lists(AMOUNTS, min_size=8, max_size=20, unique=True))
def test_what_is_told_as_certain_is_true(amounts):
    model = CallModel.of(call_sums(calls_of(amounts)))

    wanted = np.array([(0, 100, 5, 1000), (0, 5000, 1, 0), (1, 0, 0, 0)], dtype=float)
    for row, seconds, error in zip(
        wanted, model.seconds(wanted), model.uncertainty(wanted), strict=True
    ):
        if error < 0.05 * seconds:
            assert seconds == pytest.approx(row @ RATES, rel=0.1)


def test_calls_that_differ_in_all_ways_tell_all():
    random = np.random.default_rng(3)
    amounts = [(int(n), int(k), int(h)) for n, k, h in random.integers(1, 9999, (30, 3))]

    model = CallModel.of(call_sums(calls_of(amounts)))

    assert model.rates.tolist() == pytest.approx(RATES.tolist(), rel=1e-3)
    tuples = np.array([[0, 1, 0, 0.0]])
    assert model.uncertainty(tuples)[0] < 0.05 * RATES[1]


@pytest.mark.parametrize("seed", range(5))
def test_noise_makes_uncertain_by_as_much_as_it_misleads(seed):
    random = np.random.default_rng(seed)
    amounts = [(int(n), int(n) // 10, 0) for n in random.integers(100, 20_000, 40)]
    ratio = np.array([[0.0, 1000.0, 100.0, 0.0]])
    truth = float(ratio[0] @ RATES)

    model = CallModel.of(call_sums(calls_of(amounts, noise=0.05, seed=seed)))

    off = abs(float(model.seconds(ratio)[0]) - truth)
    assert off < 0.05 * truth
    assert off < 4 * float(model.uncertainty(ratio)[0])


def test_calls_of_one_size_do_not_tell_the_call_from_what_is_in_it():
    model = CallModel.of(call_sums(calls_of([(1000, 0, 0)] * 20, noise=0.05)))

    assert model is not None
    fixed = np.eye(1, FACTORS)
    assert model.uncertainty(fixed)[0] > 10 * RATES[0]


def test_what_always_goes_together_is_told_together_and_not_apart():
    amounts = [(100 * n, 10 * n, 0) for n in range(1, 20)]

    model = CallModel.of(call_sums(calls_of(amounts, noise=0.02)))

    together, apart = np.array([[0, 100, 10, 0.0]]), np.array([[0, 100, 0, 0.0]])
    assert model.seconds(together)[0] == pytest.approx(float(together[0] @ RATES), rel=0.05)
    assert model.uncertainty(together)[0] < 0.05 * model.seconds(together)[0]
    assert model.uncertainty(apart)[0] > model.seconds(apart)[0]


def test_few_calls_tell_nothing():
    assert CallModel.of(np.zeros(SUMS)) is None
    assert CallModel.of(call_sums([])) is None
    assert CallModel.of(call_sums(calls_of([(10, 1, 0), (20, 2, 0), (70, 3, 0)]))) is None


@given(st.lists(AMOUNTS, min_size=1, max_size=12), st.integers(0, 12))
def test_sums_of_calls_are_added_up(amounts, cut):
    calls = calls_of(amounts, noise=0.3)

    together = call_sums(calls[:cut]) + call_sums(calls[cut:])

    assert call_sums(calls).tolist() == pytest.approx(together.tolist())


def test_one_call_that_was_held_up_hardly_counts():
    amounts = [(1000 * n, 0, 0) for n in range(1, 30)]
    calls = calls_of(amounts)
    calls[7] = (*calls[7][:3], 100 * calls[7][3])

    model = CallModel.of(call_sums(calls))

    assert model.rates[1] == pytest.approx(RATES[1], rel=0.1)
