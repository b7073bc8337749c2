"""Longest processing time first: against going through tuples one by one, and the best division."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.scheduling import longest_first as module
from grouping.scheduling.longest_first import longest_first
from sketches.errors import InvalidValueError

SPEEDS = st.sampled_from([0.5, 1.0, 2.0, 4.0])  # halving and doubling round nothing


def slow(costs, instances, loads=None, speeds=None):
    """The definition; tuples that cost nothing in turn."""
    loads = list(loads or [0.0] * instances)
    speeds = speeds or [1.0] * instances
    parts, free = [0] * len(costs), 0
    for place in sorted(range(len(costs)), key=lambda place: -costs[place]):
        if not costs[place]:
            parts[place], free = free % instances, free + 1
            continue
        done = [load + costs[place] / speed for load, speed in zip(loads, speeds, strict=True)]
        parts[place] = done.index(min(done))
        loads[parts[place]] = min(done)
    return parts


@st.composite
def machines(draw):
    count = draw(st.integers(1, 12))
    speeds = st.lists(SPEEDS, min_size=count, max_size=count)
    loads = st.lists(st.integers(0, 60), min_size=count, max_size=count)
    return count, draw(st.none() | loads), draw(st.none() | speeds)


def ways(monkeypatch, *, run, heaps):
    """Let runs of this length be worked out at once, and speeds of this number have heaps."""
    monkeypatch.setattr(module, "_LONG_RUN", run)
    monkeypatch.setattr(module, "_MOST_HEAPS", heaps)


@pytest.mark.parametrize("run", [1, 4, 1_000])
@pytest.mark.parametrize("heaps", [0, 8])
@given(st.data())
def test_each_tuple_goes_to_where_it_is_done_first(run, heaps, data):
    count, loads, speeds = data.draw(machines())
    costs = data.draw(st.lists(st.integers(0, 5) | st.integers(0, 99), max_size=80))

    with pytest.MonkeyPatch.context() as monkeypatch:
        ways(monkeypatch, run=run, heaps=heaps)
        parts = longest_first(costs, count, loads=loads, speeds=speeds)

    assert slow(costs, count, loads, speeds) == parts.tolist()
    assert np.int32 == parts.dtype


@pytest.mark.parametrize("distinct", [1, 7, 5_000])
@pytest.mark.parametrize("speeds", [None, [1.0, 2.0, 0.5] * 11, [1 + n / 64 for n in range(33)]])
def test_many_tuples_go_where_they_would_one_by_one(distinct, speeds):
    rng = np.random.default_rng(4)
    costs = rng.integers(1, distinct + 1, 5_000) * 64.0
    loads = rng.integers(0, 5_000, 33).tolist()
    parts = longest_first(costs, 33, loads=loads, speeds=speeds)

    if speeds is None or len(set(speeds)) < 9:
        assert slow(costs.tolist(), 33, loads, speeds) == parts.tolist()
    # Quotients that were rounded may decide ties otherwise, and so who is done last by one tuple.
    pace = np.array(speeds or [1.0])
    ends = [
        (loads + np.bincount(each, costs, 33) / pace).max()
        for each in (parts, slow(costs.tolist(), 33, loads, speeds))
    ]
    assert ends[1] == pytest.approx(ends[0], abs=64 / pace.min())


def done_first(loads, steps, count):
    """Where the first of some equal tuples are done, listing each tuple at each instance."""
    done = (
        (load + number * step, instance)
        for instance, (load, step) in enumerate(zip(loads, steps, strict=True))
        for number in range(1, count + 1)
    )
    return [instance for _, instance in sorted(done)[:count]]


@pytest.mark.parametrize("seed", range(30))
def test_many_tuples_of_one_cost_go_where_each_is_done_first_to_the_last_digit(seed):
    rng = np.random.default_rng(seed)
    loads, speeds, cost = rng.random(4), rng.integers(1, 4, 4) / 10, rng.integers(1, 9) / 10
    loads *= seed % 2  # every other time from nothing, where many are done at the same time

    parts = longest_first([cost] * 100, 4, loads=loads, speeds=speeds)

    assert done_first(loads, cost / speeds, 100) == parts.tolist()


def test_a_quotient_that_is_rounded_down_leaves_nobody_out():
    parts = longest_first([0.3] * 48, 2, loads=[1.7, 0.2])

    assert done_first([1.7, 0.2], [0.3, 0.3], 48) == parts.tolist()


def test_what_is_given_one_by_one_is_a_load_to_what_is_given_at_once():
    costs = [100.0, *[1.0] * 80]

    for speeds in (None, [1.0, 1.0], [1.125, 1.0]):
        assert [0, *[1] * 80] == longest_first(costs, 2, speeds=speeds).tolist()


def best(costs, instances, speeds):
    """When the last is done in the best division, looking at them all."""
    costs, pace = np.array(costs), np.array(speeds)
    return min(
        (np.bincount(division, costs, instances) / pace).max()
        for division in itertools.product(range(instances), repeat=len(costs))
    )


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 3))
def test_on_instances_alike_it_is_no_worse_than_graham_says(costs, instances):
    ends = np.bincount(longest_first(costs, instances), costs, instances).max()

    assert ends <= (4 / 3 - 1 / (3 * instances)) * best(costs, instances, [1] * instances) + 1e-9


def test_the_bound_is_reached():
    costs = [5, 5, 4, 4, 3, 3, 3]

    assert 11 == np.bincount(longest_first(costs, 3), costs, 3).max()
    assert 9 == best(costs, 3, [1] * 3)
    assert 11 / 9 == pytest.approx(4 / 3 - 1 / 9)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=7),
    st.lists(SPEEDS, min_size=1, max_size=3),
)
def test_on_instances_of_different_speed_it_is_less_than_twice_the_best(costs, speeds):
    count = len(speeds)
    parts = longest_first(costs, count, speeds=speeds)
    ends = (np.bincount(parts, costs, count) / np.array(speeds)).max()

    assert ends <= 2 * count / (count + 1) * best(costs, count, speeds) + 1e-9


@given(st.permutations([3.0, 1.0, 2.5, 7.25, 0.5, 4.0]), st.integers(1, 4))
def test_distinct_costs_go_to_the_same_instances_in_any_order(costs, instances):
    given_in_order = dict(zip(sorted(costs), longest_first(sorted(costs), instances), strict=True))

    assert [given_in_order[cost] for cost in costs] == longest_first(costs, instances).tolist()


def test_tuples_that_cost_nothing_are_dealt_out_in_turn():
    assert [0, 1, 2, 0] == longest_first([0, 0, 0, 0], 3).tolist()
    assert [2, 1, 0] * 50 == longest_first([0.0] * 150, 3).tolist()[::-1]


def test_costs_may_be_left_out_and_are_not_written_to():
    costs, loads, speeds = np.array([1.0, 2.0]), np.array([3.0, 0.0]), np.array([1.0, 2.0])
    for each in (costs, loads, speeds):
        each.setflags(write=False)

    assert [] == longest_first([], 3).tolist()
    assert [1, 1] == longest_first(costs, 2, loads=loads, speeds=speeds).tolist()
    assert [3.0, 0.0] == loads.tolist()


@pytest.mark.parametrize(
    ("loads", "costs"),
    [
        ([1e17, 0.0, 1e17], [1.0] * 200),  # adding one changes nothing
        ([1e17, 1e17, 1e17], [1.0] * 200),
        ([0.0, 0.0, 0.0], [5e-324] * 200),
        ([1.0, 1.0, 1.0], [5e-324] * 200),
        ([1e300, 0.0, 0.0], [1e-300] * 200),
    ],
)
def test_costs_that_are_lost_in_rounding_are_given_out_all_the_same(loads, costs):
    parts = longest_first(costs, 3, loads=loads)

    assert len(costs) == len(parts)
    assert {*parts.tolist()} <= {0, 1, 2}
    if min(loads) < max(loads):
        assert loads.index(max(loads)) not in parts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"instances": 0}, "instances=0"),
        ({"instances": 2.0}, "instances=2.0"),
        ({"costs": [1.0, math.nan]}, r"costs\[1\]=nan cannot be counted"),
        ({"costs": [-1.0]}, r"costs\[0\]=-1.0"),
        ({"costs": [[1.0]]}, "costs of shape"),
        ({"costs": 1.0}, "costs of shape"),
        ({"costs": ["a"]}, "costs of type"),
        ({"loads": [1.0]}, "loads of shape"),
        ({"loads": [1.0, math.inf]}, r"loads\[1\]=inf"),
        ({"speeds": [1.0, 0.0]}, r"speeds\[1\]=0.0: that instance is never done"),
        ({"speeds": [1.0, -2.0]}, r"speeds\[1\]=-2.0"),
        ({"speeds": [1.0] * 3}, "speeds of shape"),
        ({"costs": [1e308] * 2}, "leave the range of a double; measure in a larger unit"),
        ({"speeds": [1.0, 5e-324]}, "leave the range of a double"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(arguments, words):
    with pytest.raises(InvalidValueError, match=words):
        longest_first(**{"costs": [1.0, 2.0], "instances": 2, **arguments})
