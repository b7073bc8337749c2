import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.placement import PlacementProblem, least_distance, place_groups
from grouping.placement.descent import Descent, Units
from grouping.placement.matching import matched
from grouping.placement.narrowing import narrowed, within


@st.composite
def problems(draw):
    groups, nodes = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    numbers = st.lists(st.integers(0, 9), min_size=groups, max_size=groups)
    costs = draw(st.none() | st.lists(st.integers(0, 3), min_size=groups, max_size=groups))
    return PlacementProblem.of(
        draw(st.lists(numbers, min_size=1, max_size=2)),
        draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups)),
        nodes,
        budget=draw(st.integers(0, 4)),
        migration_cost=costs,
        capacities=draw(st.lists(st.integers(1, 2), min_size=nodes, max_size=nodes)),
    )


def least(problem):
    """The least distance of all that is affordable, by trying all assignments at once."""
    every = np.array(list(itertools.product(range(problem.nodes), repeat=problem.groups)))
    paid = (every != problem.current) @ problem.costs
    every = every[paid <= problem.budget]
    held = np.zeros((len(every), len(problem.loads), problem.nodes))
    for node in range(problem.nodes):
        held[:, :, node] = (every == node) @ problem.loads.T / problem.capacities[node]
    return float(np.abs(held - problem.mean[:, None]).max(axis=(1, 2)).min())


def planted(seed, pairs):
    """Even loads on all nodes, and then one group of each other node moved to the next."""
    drawn = np.random.default_rng(seed)
    nodes = 2 * pairs
    loads, current = drawn.gamma(2.0, 1.0, 8 * nodes), np.arange(8 * nodes) % nodes
    for node in range(nodes):  # the last group of each node makes up for the others
        mine = np.flatnonzero(current == node)
        loads[mine[-1]] = 0.0
        loads[mine[-1]] = 40.0 - loads[mine].sum()
    order = drawn.permutation(nodes)
    for one, other in order.reshape(-1, 2):
        moved = drawn.choice(np.flatnonzero(current == one)[:-1])
        current[moved] = other
    return loads, current, nodes


@settings(max_examples=60)
@given(problems())
def test_the_bound_is_never_above_the_least_of_all(problem):
    assert least_distance(problem) <= least(problem) * (1 + 1e-9) + 1e-12


@given(problems(), st.floats(0.0, 9.0), st.integers(1, 20))
def test_what_is_found_is_within_the_distance_and_the_budget(problem, distance, width):
    found = within(problem, Units.of(problem), distance, width)

    if found is not None:
        assert problem.distance(found[problem.sets]) <= distance * (1 + 1e-6)
        assert problem.affords(problem.cost(found[problem.sets]))


def test_no_distance_at_all_can_be_asked_for():
    uneven = PlacementProblem.of(np.array([0.0, 1.0, 1.0]), np.zeros(3, np.int32), 2, budget=0.0)
    free = PlacementProblem.of(
        np.array([0.0, 1.0, 1.0]),
        np.zeros(3, np.int32),
        2,
        budget=0.0,
        migration_cost=np.zeros(3),
    )

    assert within(uneven, Units.of(uneven), 0.0, 1) is None
    assert 0.0 == free.distance(within(free, Units.of(free), 0.0, 1))


@given(problems())
def test_what_is_narrowed_is_no_less_even(problem):
    units = Units.of(problem)
    start = Descent(problem, units).run()

    found = narrowed(problem, units, start, least_distance(problem), 16)

    assert problem.distance(found) <= problem.distance(start)
    assert problem.affords(problem.cost(found))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_of_nodes_are_found_that_one_move_each_puts_right(seed):
    loads, current, nodes = planted(seed, pairs=6)

    found = place_groups(loads, current, nodes, budget=6, rounds=2)

    assert found.moves == 6
    assert found.load_distance == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_few_ways_lead_there_as_those_with_the_fewest_nodes_to_mend_come_first(seed):
    loads, current, nodes = planted(seed, pairs=8)
    problem = PlacementProblem.of(loads, current, nodes, budget=8)

    assert within(problem, Units.of(problem), 0.3, width=4) is not None


def test_the_bound_is_all_of_the_distance_where_nothing_may_move():
    problem = PlacementProblem.of([9.0, 1, 1, 1], [0, 0, 1, 1], 2, budget=0)

    assert least_distance(problem) * (1 + 1e-9) >= problem.distance(problem.current)


def test_the_bound_knows_that_one_group_has_to_be_right_for_both_nodes():
    # Off by 2, 4, -3 and -3: there are groups of 2, 3 and 4, one right for each, and none for two.
    loads, current = [2.0, 3, 7, 4, 3, 7, 7, 7], [0, 0, 0, 1, 1, 1, 2, 3]
    problem = PlacementProblem.of(loads, current, 4, budget=2)

    assert least_distance(problem) == pytest.approx(1.0)
    assert least(problem) == pytest.approx(1.0)


def test_the_bound_counts_pairs_and_the_rest():
    # As before, and two nodes more, off by 2 and -2, for which one move is enough.
    loads, current = [2.0, 3, 7, 4, 3, 7, 7, 7, 2, 10, 8], [0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 5]
    problem = PlacementProblem.of(loads, current, 6, budget=3)

    assert least_distance(problem) == pytest.approx(1.0)
    assert place_groups(loads, current, 6, budget=3, rounds=2).load_distance == pytest.approx(1.0)


def test_the_bound_allows_two_moves_for_three_nodes_beside_one_for_a_pair():
    loads, current = [2.0, 2, 6, 4, 4, 1, 6, 5], [0, 0, 0, 1, 2, 3, 3, 4]
    problem = PlacementProblem.of(loads, current, 5, budget=3)

    assert place_groups(loads, current, 5, budget=3, rounds=2).load_distance == 0
    assert least_distance(problem) == 0


def test_the_most_pairs_are_formed_of_any_three_and_three():
    for cells in itertools.product([False, True], repeat=9):
        pairs = np.array(cells).reshape(3, 3)
        assert matched(pairs) == most_pairs(pairs)


@given(st.integers(0, 5), st.integers(0, 5), st.data())
def test_the_most_pairs_are_formed(left, right, data):
    row = st.lists(st.booleans(), min_size=right, max_size=right)
    rows = data.draw(st.lists(row, min_size=left, max_size=left))
    pairs = np.array(rows, dtype=np.bool_).reshape(left, right)

    assert matched(pairs) == most_pairs(pairs)


def most_pairs(pairs):
    """How many pairs there are at most, by trying all."""
    left, right = pairs.shape
    return max(
        (sum(pairs[one, other] for one, other in zip(rows, columns, strict=True)))
        for size in [min(left, right)]
        for rows in itertools.combinations(range(left), size)
        for columns in itertools.permutations(range(right), size)
    )


def test_nodes_that_drain_are_left_to_the_descent():
    loads, current = np.ones(8), [0, 0, 0, 1, 1, 1, 2, 2]
    problem = PlacementProblem.of(loads, current, 3, budget=2, draining=[2])
    units = Units.of(problem)
    start = Descent(problem, units).units_at

    assert narrowed(problem, units, start, 0.0, 8) is start
