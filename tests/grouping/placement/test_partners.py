import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.placement import PlacementProblem, Traffic, place_groups
from grouping.placement.partners import Partners


def airline(seed, nodes):
    """Two operators that correspond group by group, and a third that gets a little of all."""
    drawn = np.random.default_rng(seed)
    count = 5 * nodes
    planes, routes = drawn.gamma(4.0, 1.0, count), drawn.gamma(4.0, 1.0, count)
    spread = 0.1 * np.outer(planes, routes / routes.sum())
    first = np.arange(count)
    traffic = Traffic(
        np.concatenate([first, np.repeat(first + count, count)]),
        np.concatenate([first + count, np.tile(first + 2 * count, count)]),
        np.concatenate([planes, spread.ravel()]),
        groups=3 * count,
    )
    work = np.concatenate([planes, planes, spread.sum(axis=0)])
    return work, traffic, drawn.permutation(3 * count) % nodes


@given(st.integers(0, 2**32), st.floats(0.0, 12.0))
def test_partners_on_one_node_are_sets_that_are_light_and_can_be_paid_for(seed, budget):
    drawn = np.random.default_rng(seed)
    groups, nodes = 12, 3
    at = drawn.integers(0, nodes, groups)
    problem = PlacementProblem.of(
        drawn.gamma(1.0, 1.0, groups),
        at,
        nodes,
        budget=budget,
        migration_cost=drawn.gamma(1.0, 1.0, groups),
        pinned={0: int(at[0])},
    )
    ends = drawn.integers(0, groups, (2, 8))
    traffic = Traffic(*ends, drawn.gamma(1.0, 1.0, 8), groups=groups)

    found = Partners.of(problem, traffic)

    assert found.joined.whole(at)
    assert found.joined.pins.tolist() == problem.pins.tolist()
    for number in range(found.joined.sets.max() + 1):
        chosen = found.joined.sets == number
        if chosen.sum() > 1:
            assert problem.loads[0, chosen].sum() <= 0.5 * problem.mean[0] * (1 + 1e-9)
            assert problem.affords(problem.costs[chosen].sum())
    talk = {}
    for one, other, rate in zip(*ends.tolist(), traffic.rates.tolist(), strict=True):
        if one != other:
            pair = min(one, other), max(one, other)
            talk[pair] = talk.get(pair, 0.0) + rate
    all_of = {
        group: sum(rate for pair, rate in talk.items() if group in pair) for group in range(groups)
    }
    partners = [p for p, rate in talk.items() if rate > 0.5 * min(all_of[p[0]], all_of[p[1]])]
    far = [pair for pair in partners if at[pair[0]] != at[pair[1]]]
    assert sorted(far) == sorted(found.apart)
    rates = [talk[pair] for pair in found.apart]
    assert rates == sorted(rates, reverse=True)


def test_a_pair_is_pinned_unless_it_is_pinned_elsewhere():
    problem = PlacementProblem.of([1.0] * 4, [0, 1, 0, 1], 2, budget=2, pinned={0: 0})
    partners = Partners.of(problem, Traffic([0, 2], [1, 3], [2.0, 1.0], groups=4))

    assert partners.apart == ((0, 1), (2, 3))
    assert partners.with_pair((0, 1), 1) is None
    tied = partners.with_pair((2, 3), 1)
    assert tied.pins.tolist() == [0, -1, 1, -1]
    assert tied.sets[2] == tied.sets[3]


def test_a_pair_comes_together_though_each_single_step_makes_nodes_uneven():
    # 12 on each node: the first and the third talk, and only two groups of 2 make up for one of 4.
    loads, current = [4.0, 8, 4, 2, 2, 2, 2], [0, 0, 1, 1, 1, 1, 1]
    traffic = Traffic([0], [2], [1.0], groups=7)

    found = place_groups(
        loads, current, 2, budget=3, traffic=traffic, max_load_distance=1.0, worth=0
    )

    assert found.assignment[0] == found.assignment[2] == 1
    assert found.load_distance == 0
    assert found.moves == 3


@pytest.mark.parametrize("seed", range(2))
def test_all_partners_come_together_however_full_nodes_are(seed):
    work, traffic, at = airline(seed, nodes=4)
    most = traffic.rates[:20].sum() / traffic.total
    for _ in range(12):
        found = place_groups(
            work, at, 4, budget=5, traffic=traffic, max_load_distance=0.1 * work.sum() / 4, worth=0
        )
        assert found.moves <= 5
        at = found.assignment

    assert traffic.local(at) >= 0.98 * most
    assert found.load_distance <= 0.1 * work.sum() / 4


@pytest.mark.parametrize(("part", "sets"), [(0.5, 4), (0.7, 3)])
def test_partners_move_as_one_as_long_as_they_are_light_enough(part, sets):
    """The first two have .6 of the mean load of a node."""
    problem = PlacementProblem.of([3.0, 3.0, 4.0, 10.0], [0, 0, 0, 1], 2, budget=4)
    traffic = Traffic([0], [1], [5.0], groups=4)
    assert len(set(Partners.of(problem, traffic, part).joined.sets.tolist())) == sets
