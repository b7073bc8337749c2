import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.placement import PlacementProblem, Traffic
from grouping.placement.albic_published import (
    albic,
    collocated_sets,
    divided,
    next_pair,
    scored,
    target_of,
)
from sketches.errors import InvalidValueError

# Two operators of four groups each: group k of the first sends mostly to group 4 + k.
SOURCES = np.repeat(np.arange(4), 4)
TARGETS = np.tile(np.arange(4, 8), 4)
RATES = np.where(SOURCES + 4 == TARGETS, 9.0 + SOURCES, 1.0)
TRAFFIC = Traffic(SOURCES, TARGETS, RATES, groups=8)
DOWNSTREAM = np.array([4] * 4 + [0] * 4)


def problem(current, *, budget=4.0, loads=None, **more):
    return PlacementProblem.of(
        [1.0] * 8 if loads is None else loads, current, 4, budget=budget, **more
    )


def test_step_1_chooses_pairs_that_send_more_than_the_average_of_their_sender():
    chosen = scored(TRAFFIC, DOWNSTREAM, 1.5)

    # Group 0 sends 9 + 1 + 1 + 1 to four groups: 3 on average.
    assert [(0, 4), (1, 5), (2, 6), (3, 7)] == list(
        zip(SOURCES[chosen].tolist(), TARGETS[chosen].tolist(), strict=True)
    )
    assert not scored(TRAFFIC, DOWNSTREAM, 4.0).any()


def test_rows_of_one_pair_add_up():
    rows = Traffic([0, 0, 0], [1, 1, 2], [2.0, 2.0, 3.0], groups=3)
    at = PlacementProblem.of([1.0] * 3, [0, 1, 2], 3, budget=3)

    # Group 0 sends 4 to group 1 and 3 to group 2: 3.5 on average.
    assert scored(rows, np.array([2, 0, 0]), 1.1).tolist() == [True, True, False]
    assert next_pair(at, rows, np.ones(3, np.bool_)) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), min_size=1))
def test_it_makes_no_difference_in_how_many_rows_a_pair_is(given):
    summed = {}
    for source, target, rate in given:
        summed[source, target] = summed.get((source, target), 0) + rate
    rows = Traffic(*zip(*given, strict=True), groups=8)
    pairs = Traffic(*zip(*summed, strict=True), list(summed.values()), groups=8)

    def chosen(traffic):
        marks = scored(traffic, DOWNSTREAM, 1.5)
        return set(
            zip(traffic.sources[marks].tolist(), traffic.targets[marks].tolist(), strict=True)
        )

    assert chosen(rows) == chosen(pairs)


def test_step_2_joins_pairs_that_share_a_group():
    traffic = Traffic([0, 1, 1, 3], [4, 4, 5, 7], [5.0, 5, 5, 5], groups=8)
    chosen = np.ones(4, np.bool_)

    sets = collocated_sets(problem([0, 0, 1, 2, 0, 0, 1, 3]), traffic, chosen)

    assert sets == [[0, 1, 4, 5]]  # 3 and 7 are on two nodes


@given(st.integers(0, 2**32), st.floats(0.5, 4), st.floats(0.5, 9))
def test_step_2_divides_sets_into_parts_within_both_limits(seed, max_load, budget):
    drawn = np.random.default_rng(seed)
    given_ = PlacementProblem.of(
        drawn.gamma(1.0, 1.0, 12),
        [0] * 12,
        2,
        budget=budget,
        migration_cost=drawn.gamma(1.0, 1.0, 12),
    )
    rows = drawn.integers(0, 12, (2, 30))
    traffic = Traffic(*rows, drawn.gamma(1.0, 1.0, 30), groups=12)

    parts = list(divided(given_, traffic, list(range(12)), max_load))

    assert sorted(group for part in parts for group in part) == list(range(12))
    for part in parts:
        if len(part) > 1:
            assert given_.loads[0, part].sum() <= max_load * (1 + 1e-9)
            assert given_.costs[part].sum() <= budget * (1 + 1e-9)


@pytest.mark.parametrize("scarce", ["cost", "load"])
def test_step_2_evens_out_what_exceeds_its_limit_more(scarce):
    # Three groups have as much of what is scarce as the nine others; of the rest all have the same.
    uneven, even = np.array([3.0] * 3 + [1.0] * 9), np.full(12, 1.0)
    loads, costs = (even, uneven) if scarce == "cost" else (uneven, even)
    given_ = PlacementProblem.of(loads, [0] * 12, 2, budget=10, migration_cost=costs)
    traffic = Traffic(np.arange(11), np.arange(1, 12), np.full(11, 5.0), groups=12)

    parts = list(divided(given_, traffic, list(range(12)), 10.0))

    # Two are enough. Cut evenly by the other, one of two would have 12, and be cut again.
    assert len(parts) == 2
    assert {9.0} == {float(uneven[part].sum()) for part in parts}


def test_step_2_leaves_a_set_whole_that_is_within_both_limits():
    given_ = problem([0] * 8, budget=8)
    whole = list(range(8))

    assert list(divided(given_, TRAFFIC, whole, 8.0)) == [whole]
    assert len(list(divided(given_, TRAFFIC, whole, 7.9))) > 1


def test_step_3_takes_the_pair_that_sends_most_of_those_apart():
    chosen = scored(TRAFFIC, DOWNSTREAM, 1.5)

    assert next_pair(problem([0, 1, 2, 3, 1, 2, 3, 0]), TRAFFIC, chosen) == (3, 7)
    assert next_pair(problem([0, 1, 2, 3, 1, 2, 3, 3]), TRAFFIC, chosen) == (2, 6)
    assert next_pair(problem([0, 1, 2, 3, 0, 1, 2, 3]), TRAFFIC, chosen) is None


def test_step_3_has_three_cases():
    at = problem([0, 1, 2, 3, 1, 1, 2, 3], loads=[3, 1, 1, 1, 1, 1, 1, 1])  # 3, 3, 2, 2
    usage = at.excess(at.current)[0] + at.mean[0]
    assert usage.tolist() == [3, 3, 2, 2]

    assert target_of(at, [], (0, 7)) == 3  # 1: neither is in a set, node 3 has less load
    assert target_of(at, [[0, 1]], (0, 7)) == 0  # 2: one is
    assert target_of(at, [[0, 1], [3, 7]], (0, 7)) == 3  # 3: both are, as in 1


def test_pairs_come_together_one_each_period():
    current, shares = np.array([0, 1, 2, 3, 1, 2, 3, 0]), []
    for _ in range(6):
        at = problem(current)
        current = albic(at, TRAFFIC, DOWNSTREAM, max_load_distance=1.0)
        assert at.affords(at.cost(current))
        shares.append(TRAFFIC.local(current))

    assert shares == sorted(shares)
    best = RATES[SOURCES + 4 == TARGETS].sum() / RATES.sum()
    assert shares[-1] == pytest.approx(best)


@given(st.integers(0, 2**32), st.integers(0, 6))
def test_it_keeps_the_budget_and_never_raises(seed, budget):
    drawn = np.random.default_rng(seed)
    at = problem(drawn.integers(0, 4, 8), budget=budget, loads=drawn.gamma(1.0, 1.0, 8))

    found = albic(at, TRAFFIC, DOWNSTREAM, max_load_distance=0.5, seed=seed % 7)

    assert at.affords(at.cost(found))


def chained(max_load_distance, **more):
    """Eight groups on one node, each of which sends to the next: all of them are one set."""
    at = problem([0] * 8, budget=8)
    traffic = Traffic(np.arange(7), np.arange(1, 8), np.full(7, 5.0), groups=8)
    chosen = scored(traffic, np.ones(8, int), 0.5)
    assert collocated_sets(at, traffic, chosen) == [list(range(8))]
    return at, albic(
        at,
        traffic,
        np.ones(8, int),
        max_load_distance=max_load_distance,
        max_partition_load=100.0,
        score_factor=0.5,
        **more,
    )


def test_step_4_divides_sets_until_the_load_distance_is_met():
    # Kept whole, nothing could ever be balanced.
    at, found = chained(0.5)
    assert at.distance(found) <= 0.5
    at, whole = chained(9.0)
    assert len(set(whole.tolist())) == 1
    assert at.distance(whole) == 6.0


def test_step_4_divides_no_further_than_it_has_to():
    at, found = chained(2.0)  # pieces of four, on two nodes of four, are 2 from the mean

    assert sorted(np.bincount(found, minlength=4).tolist()) == [0, 0, 4, 4]
    assert at.distance(found) == 2.0


def test_with_a_time_limit_the_printed_program_places_what_the_descent_had_placed():
    better = 0
    for seed in range(3):
        drawn = np.random.default_rng(seed)
        loads, current = drawn.gamma(2.0, 1.0, 8), drawn.integers(0, 4, 8)
        at = problem(current, budget=3, loads=loads * 200 / loads.sum())  # the mean is 50, as such
        settings = {"max_load_distance": 99.0, "score_factor": 9.0}
        descent = albic(at, TRAFFIC, DOWNSTREAM, **settings)
        solved = albic(at, TRAFFIC, DOWNSTREAM, **settings, time_limit=20.0)
        assert at.affords(at.cost(solved))
        assert at.distance(solved) <= at.distance(descent) * (1 + 1e-9)
        better += at.distance(solved) < 0.9 * at.distance(descent)

    assert better == 2  # moves and swaps one by one do not come to the best


def test_the_descents_answer_remains_where_the_solver_finds_nothing(monkeypatch):
    seen = []

    def nothing(program, *args, **settings):
        seen.append(program.lines()[0])
        return None, 0.0

    monkeypatch.setattr("grouping.placement.milp.PlacementProgram.solve", nothing)
    at = problem([0, 1, 2, 3, 1, 2, 3, 0])
    settings = {"max_load_distance": 1.0}
    solved = albic(at, TRAFFIC, DOWNSTREAM, **settings, time_limit=1.0)

    assert solved.tolist() == albic(at, TRAFFIC, DOWNSTREAM, **settings).tolist()
    assert {"d - 0.001*d_l - 0.001*d_u"} == set(seen)


def test_a_solver_that_is_not_known_is_refused():
    with pytest.raises(InvalidValueError, match="solver='Excel' is not known"):
        albic(problem([0] * 8), TRAFFIC, DOWNSTREAM, max_load_distance=1.0, solver="Excel")
