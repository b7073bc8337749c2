import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.placement import PlacementProblem, Traffic
from grouping.placement.baselines import cola, flux, longest_first, readjusted


@st.composite
def problems(draw):
    groups, nodes = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    loads = draw(st.lists(st.integers(0, 9), min_size=groups, max_size=groups))
    current = draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    draining = draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 1))
    return PlacementProblem.of(
        loads,
        current,
        nodes,
        budget=draw(st.integers(0, 6)),
        capacities=draw(st.lists(st.integers(1, 3), min_size=nodes, max_size=nodes)),
        draining=sorted(draining),
    )


@given(problems(), st.sampled_from([flux, readjusted]))
def test_those_with_a_budget_keep_it_and_send_nothing_to_nodes_that_drain(problem, place):
    found = place(problem)

    assert problem.affords(problem.cost(found))
    moved = found != problem.current
    assert not problem.draining[found[moved]].any()


def test_flux_pairs_the_fullest_with_the_emptiest():
    #           node 0: 4 4 4      node 1: 3 3    node 2: 2 2  node 3: 1
    problem = PlacementProblem.of([4, 4, 4, 3, 3, 2, 2, 1], [0, 0, 0, 1, 1, 2, 2, 3], 4, budget=1)

    assert flux(problem).tolist() == [3, 0, 0, 1, 1, 2, 2, 3]


def test_readjusting_swaps_where_no_single_move_helps():
    problem = PlacementProblem.of([6, 5, 4, 3], [0, 0, 1, 1], 2, budget=2)

    found = readjusted(problem)

    assert problem.distance(problem.current) == 2
    assert problem.distance(found) == 0


def test_longest_first_comes_to_what_is_known_of_its_worst_case():
    problem = PlacementProblem.of([5, 5, 4, 4, 3, 3, 3], [0] * 7, 3, budget=0)

    usage = problem.excess(longest_first(problem))[0] + problem.mean[0]

    assert usage.max() == pytest.approx((4 / 3 - 1 / 9) * 9)  # where 9 is the best


def test_cola_keeps_communities_on_nodes_whatever_it_moves():
    drawn = np.random.default_rng(0)
    home = np.repeat(np.arange(4), 10)
    pairs = np.array([(a, b) for a in range(40) for b in range(40) if a < b])
    same = home[pairs[:, 0]] == home[pairs[:, 1]]
    traffic = Traffic(pairs[:, 0], pairs[:, 1], np.where(same, 10.0, 0.1), groups=40)
    problem = PlacementProblem.of(np.ones(40), drawn.integers(0, 4, 40), 4, budget=0)

    found = cola(problem, traffic)

    assert traffic.local(found) > 0.95
    assert problem.distance(found) <= 0.3
    assert problem.cost(found) > problem.budget  # it has none


def test_cola_leaves_nodes_that_drain():
    problem = PlacementProblem.of(np.ones(9), [0] * 9, 3, budget=0, draining=[0])

    found = cola(problem, Traffic([0], [1], [1.0], groups=9))

    assert set(found.tolist()) == {1, 2}
    assert problem.distance(found) == pytest.approx(0.5)
