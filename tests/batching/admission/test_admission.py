import math
from functools import partial

import numpy as np
import pytest
from arrivals import SHAPES, between, changes, run, spike, steady, step
from hypothesis import given
from hypothesis import strategies as st

from batching.admission import BatchReport, FixedPoint, Isotonic, Levels, NextBatch, PidRate
from batching.admission.isotonic import rising, shortest_stable
from batching.errors import OverloadError
from sketches.errors import InvalidValueError

FIXED, EACH, LONGEST = 0.15, 1e-5, 4.0
MOST = (LONGEST - FIXED) / EACH / LONGEST  # rows a second that batches of the longest time carry


def seconds_of(rows, factor=1.0):
    return factor * (FIXED + EACH * rows)


def levels(**changed):
    return Levels(**{"fixed": FIXED, "each": EACH, "longest": LONGEST, **changed})


LOADS = st.tuples(st.floats(0.01, 0.95), st.floats(0.01, 0.95)).map(
    lambda pair: tuple(sorted(share * MOST for share in pair))
)


@given(st.sampled_from(SHAPES), LOADS, st.sampled_from([0.0, 0.1]), st.integers(0, 99))
def test_the_backlog_is_bounded_whenever_the_load_can_be_carried(shape, loads, noise, seed):
    low, high = loads
    high /= (1 + noise) ** 2
    low = min(low, high)

    batches = run(
        levels(), partial(between, shape, low, high), seconds_of, until=120, noise=noise, seed=seed
    )

    # What comes in the longest time, and what was left of a batch that was full before.
    bound = high * (1 + noise) * LONGEST * (1 + noise) + MOST * LONGEST
    assert max(backlog for _, backlog, *_ in batches) <= bound
    assert batches[-1][1] == pytest.approx(batches[-1][2])  # in the end, none waits twice


@given(st.sampled_from(SHAPES), LOADS, st.integers(0, 99))
def test_no_batch_takes_longer_than_it_may(shape, loads, seed):
    rows_between = partial(between, shape, *loads)

    batches = run(levels(), rows_between, seconds_of, until=120, seed=seed)

    assert max(seconds for *_, seconds, _ in batches) <= LONGEST * (1 + 1e-9)


@given(LOADS, st.integers(0, 999), st.sampled_from([steady, step, spike]))
def test_there_is_one_change_for_a_level_also_under_noise(loads, seed, shape):
    # One change at the beginning, when the rate becomes known; one for a step; two for a spike.
    low, high = (0.8 * load for load in loads)

    for noise in (0.0, 0.1):
        rows_between = partial(between, shape, low, high)
        batches = run(levels(), rows_between, seconds_of, until=80, noise=noise, seed=seed)

        assert changes(batches) <= {steady: 1, step: 2, spike: 3}[shape]


@given(st.floats(0.01, 0.7), st.integers(0, 999))
def test_noise_of_ten_percent_changes_nothing(load, seed):
    rows_between = partial(between, steady, 0, load * MOST)
    known = levels(rate=load * MOST)

    batches = run(known, rows_between, seconds_of, until=60, noise=0.1, seed=seed)

    assert changes(batches) == 0
    assert all(state.factor == 1 for *_, state in batches)


@given(st.floats(0.01, 0.7))
def test_a_batch_takes_its_share_of_the_shortest_period(load):
    rate = load * MOST
    state = run(levels(), partial(between, steady, 0, rate), seconds_of, until=60)[-1][-1]

    period = state.admission.period

    assert seconds_of(rate * period) == pytest.approx(min(period / 1.25, LONGEST))


def test_a_job_that_is_slower_than_the_model_is_found_out():
    rows_between = partial(between, steady, 0, 0.2 * MOST)

    batches = run(levels(), rows_between, partial(seconds_of, factor=2.0), until=100)

    assert batches[-1][-1].factor == pytest.approx(2)
    assert changes(batches) == 1
    period = batches[-1][-1].admission.period
    assert batches[-1][3] == pytest.approx(period / 1.25)


def test_after_a_burst_batches_are_as_large_as_they_may_be_until_it_is_done():
    def rows_between(begin, end):
        return between(spike, 0.2 * MOST, 3 * MOST, begin, end)

    batches = run(levels(), rows_between, seconds_of, until=120)

    burst = [each for each in batches if each[1] > each[2]]
    assert burst
    assert all(each[2] == pytest.approx(MOST * LONGEST) for each in burst)
    drained = burst[-1][0] - 44
    # 4 seconds of 3 - 0.95 more than is carried, at 1 - 0.2 less than is: and one batch.
    assert drained <= 4 * (3 - 0.2) / (1 - 0.2) + 2 * LONGEST


def report(rows, seconds, *, period=1.0, waited=0.0, arrived=None):
    return BatchReport(rows, seconds, rows if arrived is None else arrived, period, waited)


def test_pid_limits_nothing_before_two_batches_were_measured():
    state = PidRate(period=1.0)

    assert state.admission == NextBatch(1.0, math.inf)
    once = state.after(report(1000, 0.5))
    assert once.admission.rows == math.inf
    assert once.after(report(0, 0.5)).admission.rows == math.inf  # an empty one says nothing
    assert once.after(report(1000, 0.5)).rate == 2000


def test_pid_corrects_by_what_it_missed_and_by_what_waited():
    state = PidRate(period=2.0, proportional=0.5, integral=0.2, derivative=0.1)
    state = state.after(report(1000, 0.5, period=2.0))

    state = state.after(report(0, 0.0, period=1.0))
    state = state.after(report(1000, 1.0, period=3.0, waited=0.5))

    # error 2000 - 1000; missed 0.5 * 1000 / 2; the error changed by 1000 in 4 seconds,
    # of which one had no rows
    assert state.rate == 2000 - 0.5 * 1000 - 0.2 * 250 - 0.1 * 250
    assert state.admission.rows == state.rate * 2
    assert state.after(report(1000, 1e4, period=2.0, waited=1e9)).rate == 100  # and no less


def test_pid_starves_a_job_whose_batches_have_a_fixed_cost():
    # 40 % of what ours carries comes; PID takes the speed of a small batch for the limit.
    rows_between = partial(between, steady, 0, 0.4 * MOST)

    pid = run(PidRate(period=0.2), rows_between, seconds_of, until=300)
    ours = run(levels(), rows_between, seconds_of, until=300)

    assert pid[-1][1] > 0.25 * (0.4 * MOST * 300)  # more than a quarter of what came waits
    assert ours[-1][1] < MOST * LONGEST


@given(st.floats(0.05, 0.75))
def test_the_fixed_point_is_where_a_batch_takes_its_share(load):
    rate = load / EACH
    state = FixedPoint(period=0.5)
    for _ in range(400):
        state = state.after(
            report(rate * state.period, seconds_of(rate * state.period), period=state.period)
        )

    assert state.period == pytest.approx(FIXED / (0.8 - rate * EACH), rel=1e-6)


def test_the_fixed_point_shrinks_where_longer_is_relatively_slower():
    state = FixedPoint(period=1.0).after(report(1, 0.9, period=1.0))
    assert state.period == pytest.approx(0.9 / 0.8)

    state = state.after(report(1, 1.5, period=1.2))

    assert state.period == pytest.approx(0.75)  # a quarter less than the shorter one
    bounded = FixedPoint(period=1.0, shortest=0.5, longest=2.0)
    assert bounded.after(report(1, 9, period=1.0)).period == 2.0
    assert bounded.after(report(1, 0.01, period=1.0)).period == 0.5


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 3)), min_size=1, max_size=8))
def test_isotonic_regression_is_its_closed_form(points):
    values = np.array([float(value) for value, _ in points])
    weights = np.array([weight for _, weight in points])

    def mean(first, last):
        chosen = slice(first, last + 1)
        return np.average(values[chosen], weights=weights[chosen])

    count = len(points)
    expected = [
        max(min(mean(first, last) for last in range(place, count)) for first in range(place + 1))
        for place in range(count)
    ]
    assert rising(values, weights).tolist() == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(1, 20),
)
def test_the_shortest_stable_interval_is_that_of_a_fine_scan(points, rate):
    rows = np.unique([float(row) for row, _ in points])
    seconds = np.sort([taken / 10 for _, taken in points])[: len(rows)]

    found = shortest_stable(rows, seconds, rate, 0.8)

    scan = np.linspace(0, rows[-1] / rate, 4001)[1:]
    spare = 0.8 * scan - np.interp(rate * scan, rows, seconds)
    if found is None:
        assert (spare < 1e-9).all()
        return
    assert found <= rows[-1] / rate * (1 + 1e-9)  # what was not seen is not known to be stable
    assert np.interp(rate * found, rows, seconds) == pytest.approx(0.8 * found)
    assert (spare[scan < found * (1 - 1e-9)] < 1e-9).all()


@given(st.floats(0.05, 0.7))
def test_isotonic_finds_the_shortest_stable_period_of_a_steady_load(load):
    rate = load / EACH

    states = run(Isotonic(period=2.0), partial(between, steady, 0, rate), seconds_of, until=80)

    assert states[-1][-1].period == pytest.approx(FIXED / (0.8 - rate * EACH), rel=0.02)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BatchReport(-1, 1, 1, 1), "rows=-1"),
        (lambda: BatchReport(1, 1, 1, 0), "period=0"),
        (lambda: PidRate(period=0), "period=0"),
        (lambda: PidRate(period=1, integral=-1), "integral=-1"),
        (lambda: FixedPoint(period=1, usage=1.0), "usage=1.0 is out of range"),
        (lambda: Isotonic(period=1, remembered=0), "remembered=0"),
        (lambda: levels(band=0), "band=0"),
        (lambda: levels(longest=float("nan")), "longest=nan"),
    ],
)
def test_what_is_out_of_range_is_named(build, message):
    with pytest.raises(InvalidValueError, match=message):
        build()


def test_a_longest_time_that_no_batch_keeps_to_is_refused():
    with pytest.raises(OverloadError, match=r"a batch without a row takes 0\.15 s"):
        levels(longest=0.1)


def test_a_job_that_takes_no_time_has_no_limit_and_finds_back():
    state = levels()
    for _ in range(3):
        state = state.after(report(10, 0.0))
    assert state.admission.rows == math.inf

    for _ in range(3):
        state = state.after(report(1000, seconds_of(1000)))
    assert state.factor == pytest.approx(1)
