import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batching.capped import greatest_scale
from batching.least import least_instances, least_where
from batching.tuple_costs import FULL, MOST_INSTANCES


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from([0.0, 0.01, 0.1, 0.5])),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 9),
)
def test_no_division_of_the_workers_carries_more(operators, spare):
    loads = np.array([load / 10 for load, _ in operators])
    hottest = np.array([share for _, share in operators])
    workers = len(loads) + spare

    scale, limit = greatest_scale(loads, hottest, workers)

    best = 0.0
    for chosen in itertools.product(range(1, spare + 2), repeat=len(loads)):
        if sum(chosen) <= workers:
            work = loads * np.maximum(hottest, 1 / np.array(chosen))
            best = max(best, min(1.0, 1 / work.max() if work.max() else 1.0))
    assert scale == pytest.approx(best, rel=1e-8)
    assert (limit is None) == (scale == 1.0)
    assert least_instances(loads * scale, hottest).sum() <= workers


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.integers(0, 4000))
@example([103, 126, 252, 770, 630], 912)  # 374 / 770 is 306 / 630
def test_it_is_what_giving_one_by_one_ends_with(loads, spare):
    # One operator that is large among many that are small: dividing the workers in proportion and
    # rounding down leaves too few for the small ones, where this is exact.
    loads = np.array(loads, dtype=np.float64)
    instances = np.ones(len(loads))
    for _ in range(spare):
        lowest = (instances / loads).argmin()
        instances[lowest] += 1

    scale, limit = greatest_scale(loads, np.zeros(len(loads)), len(loads) + spare)

    expected = float((instances / loads).min())
    assert scale == pytest.approx(min(1.0, expected), rel=1e-8)
    if expected < 1:
        # Where several limit it, one is named: one that just has enough, however many there are.
        enough = least_instances(loads * scale, np.zeros(len(loads)))
        assert enough[limit] / loads[limit] == pytest.approx(expected)


def test_proportions_rounded_down_would_be_too_few():
    loads = np.array([100.0, *[1.3] * 10])

    scale, _ = greatest_scale(loads, np.zeros(11), 113)

    assert scale == pytest.approx(0.93)  # rounded down from 100 and 1.3: 0.77


def test_without_operators_or_work_all_is_carried():
    assert greatest_scale(np.empty(0), np.empty(0), 0) == (1.0, None)
    assert greatest_scale(np.zeros(2), np.ones(2), 2) == (1.0, None)


@given(st.lists(st.integers(0, 30), max_size=5))
def test_the_least_is_found_where_a_test_begins_to_hold(bounds):
    bounds = np.array(bounds, dtype=np.int64)
    low, high = np.full(len(bounds), 3), np.full(len(bounds), 20)

    found = least_where(lambda values: values >= bounds, low, high)

    assert found.tolist() == [
        next((value for value in range(3, 21) if value >= bound), 21) for bound in bounds.tolist()
    ]


def test_a_load_that_no_number_carries_is_one_above_the_most():
    found = least_instances(np.array([FULL, 1.0, 2.0, 1e12]), np.array([1.0, 0.0, 0.5, 0.0]))

    assert found.tolist() == [1, 2, MOST_INSTANCES + 1, MOST_INSTANCES + 1]
