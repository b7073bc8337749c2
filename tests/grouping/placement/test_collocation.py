import itertools
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.placement import PlacementProblem, Traffic, descent, place_groups
from grouping.placement.collocation import collocated
from grouping.placement.descent import Attraction, Descent, Units
from sketches.errors import InvalidValueError


@st.composite
def worlds(draw, *, groups=6, nodes=3):
    """A problem that is small enough to try all, and traffic between its groups."""
    number = draw(st.integers(2, groups))
    loads = draw(st.lists(st.integers(0, 9), min_size=number, max_size=number))
    current = draw(st.lists(st.integers(0, nodes - 1), min_size=number, max_size=number))
    group = st.integers(0, number - 1)
    rows = draw(st.lists(st.tuples(group, group, st.integers(0, 9)), max_size=10))
    problem = PlacementProblem.of(loads, current, nodes, budget=draw(st.integers(0, 6)))
    sources, targets, rates = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = np.array(sources, np.int64), np.array(targets, np.int64)
    return problem, Traffic(*arrays, np.array(rates, float), groups=number)


@contextmanager
def trying(swaps):
    """Try swaps of all units of a node, or, as where there are many, of some."""
    with pytest.MonkeyPatch.context() as patch:
        if swaps == "some swaps":
            patch.setattr(descent, "_SWAPS", 1)
            patch.setattr(descent, "_LEAST_TRIED", 1)
        yield


each_way = pytest.mark.parametrize("swaps", ["all swaps", "some swaps"])


@each_way
@given(worlds(), st.floats(0.1, 10), st.floats(0.5, 20))
def test_what_a_step_seems_to_gain_is_what_it_gains(swaps, world, weight, tolerance):
    problem, traffic = world
    attraction = Attraction(traffic.between(problem.sets), weight, tolerance)
    with trying(swaps):
        found = Descent(problem, Units.of(problem), attraction=attraction)

    def objective(assignment):
        apart = assignment[traffic.sources] != assignment[traffic.targets]
        uneven = ((problem.excess(assignment) / tolerance) ** 4).sum()
        return float(uneven) + weight * float(traffic.rates[apart].sum())

    before = objective(found.assignment)
    assert before == pytest.approx(found.energy)
    found.run()

    assert objective(found.assignment) == pytest.approx(found.energy, abs=1e-9)
    assert found.energy <= before * (1 + 1e-9)
    assert problem.cost(found.assignment) == pytest.approx(found.spent)


@each_way
@given(worlds(), st.integers(1, 20))
def test_nodes_stay_within_the_tolerance_or_come_nearer(swaps, world, tolerance):
    problem, traffic = world
    before = np.abs(problem.excess(problem.current)).max()

    with trying(swaps):
        found = place_groups(
            problem.loads,
            problem.current,
            problem.nodes,
            budget=problem.budget,
            traffic=traffic,
            max_load_distance=float(tolerance),
            worth=0,
        )

    after = np.abs(problem.excess(found.assignment)).max()
    assert problem.affords(found.cost)
    assert after <= max(before, tolerance) * (1 + 1e-9)
    if before <= tolerance:
        assert traffic.local(found.assignment) >= traffic.local(problem.current)


@pytest.mark.parametrize("seed", range(5))
def test_it_keeps_about_as_much_on_nodes_as_the_best_of_all(seed):
    drawn = np.random.default_rng(seed)
    loads, current = drawn.gamma(4.0, 1.0, 8), drawn.integers(0, 2, 8)
    traffic = Traffic(np.arange(4), np.arange(4, 8), drawn.gamma(2.0, 1.0, 4), groups=8)
    problem = PlacementProblem.of(loads, current, 2, budget=8)
    limit = 0.3 * problem.mean[0]
    best = max(
        traffic.local(assignment)
        for chosen in itertools.product(range(2), repeat=8)
        if problem.distance(assignment := np.array(chosen, np.int32)) <= limit
    )

    found = place_groups(
        loads, current, 2, budget=8, traffic=traffic, max_load_distance=limit, worth=0
    )

    assert found.load_distance <= limit
    assert traffic.local(found.assignment) >= 0.8 * best


def test_pairs_come_together_period_by_period_and_then_nothing_moves():
    drawn = np.random.default_rng(3)
    weights = drawn.gamma(4.0, 1.0, 40)
    current = np.concatenate([drawn.permutation(40) % 8, drawn.permutation(40) % 8])
    traffic = Traffic(np.arange(40), np.arange(40, 80), weights, groups=80)
    loads, shares = np.concatenate([weights, weights]), []

    for _ in range(12):
        found = place_groups(loads, current, 8, budget=6, traffic=traffic)
        assert found.cost <= 6
        current = found.assignment
        shares.append(traffic.local(current))

    assert shares == sorted(shares)
    assert shares[-1] > 0.97
    assert found.moves == 0
    assert found.load_distance <= 0.1 * loads.sum() / 8


def test_what_gains_too_little_for_what_moves_is_left():
    loads, current = [1.0] * 4, [0, 1, 0, 1]
    traffic = Traffic([0, 2, 0], [3, 1, 2], [1.0, 1.0, 98.0], groups=4)

    def placed(worth):
        return place_groups(
            loads, current, 2, budget=4, traffic=traffic, worth=worth, max_load_distance=1.0
        )

    assert traffic.local(np.array(current)) == 0.98
    assert placed(worth=0.5).moves == 0  # one group of four for one hundredth of the traffic
    assert traffic.local(placed(worth=0.01).assignment) >= 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [4], [1.0]), r"targets\[0\]=4 is no group; give a number from 0 to 3"),
        (([0, 1], [1], [1.0]), "give 2 group numbers"),
        (([0.5], [1], [1.0]), "give 1 group numbers"),
        (([0], [1], [-1.0]), r"rates\[0\]=-1.0"),
    ],
)
def test_bad_traffic_is_named(arguments, message):
    with pytest.raises(InvalidValueError, match=message):
        Traffic(*arguments, groups=4)


def test_where_nodes_hold_many_groups_trying_some_of_them_is_nearly_as_good(monkeypatch):
    drawn = np.random.default_rng(3)
    groups, nodes = 240, 4
    busy = drawn.gamma(2.0, 1.0, (2, groups))
    loads = np.zeros((2, 2 * groups))
    loads[0, :groups], loads[1, groups:] = nodes * busy / busy.sum(axis=1, keepdims=True)
    one, other = np.arange(groups), groups + drawn.permutation(groups)
    traffic = Traffic(one, other, busy[0] ** 2, groups=2 * groups)
    current = np.tile(one * nodes // groups, 2)
    local = []
    # All of the 120 of a node, 90, 16 and 4.
    for swaps, least in ((1 << 30, 16), (1 << 15, 16), (1, 16), (1, 4)):
        monkeypatch.setattr(descent, "_SWAPS", swaps)
        monkeypatch.setattr(descent, "_LEAST_TRIED", least)
        found = place_groups(
            loads, current, nodes, budget=40, traffic=traffic, max_load_distance=0.05
        )
        assert found.load_distance <= 0.05
        assert found.moves <= 40
        local.append(traffic.local(found.assignment))

    assert traffic.local(current) + 0.4 < local[0]
    assert all(some > 0.995 * local[0] for some in local)


@pytest.mark.parametrize("seed", range(20))
def test_it_ends_where_all_traffic_may_stay_on_nodes(monkeypatch, seed):
    """What rounding leaves of the traffic is no reason for a step to and fro."""
    drawn, taken, step = np.random.default_rng(seed), itertools.count(1), Descent._step  # noqa: SLF001
    groups = int(drawn.integers(6, 24))
    loads, current = 1e-3 * drawn.random(groups), drawn.integers(0, 2, groups)
    ends = drawn.integers(0, groups, (2, 30))
    traffic = Traffic(*ends, drawn.gamma(1.0, 1.0, 30), groups=groups)
    problem = PlacementProblem.of(loads, current, 2, budget=float(groups))

    def counted(self):
        assert next(taken) < 3_000  # some twenty descents of some ten steps each
        return step(self)

    monkeypatch.setattr(Descent, "_step", counted)
    found = collocated(problem, Units.of(problem), traffic, 1e3, 0.0)

    assert traffic.local(found) >= traffic.local(problem.current)
