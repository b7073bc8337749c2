"""What LeastWork knows of costs: by key, by instance, and what it makes of noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.scheduling.least_work.costs import CostTable, InstanceCosts
from sketches.cost_sketch import CostSketch

CODES = st.integers(0, 9)
SECONDS = st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0])


@given(st.lists(st.tuples(CODES, SECONDS), min_size=1, max_size=60))
def test_a_table_knows_the_mean_of_keys_with_few_tuples(seen):
    table = CostTable(keys=10)
    costs = {}
    for code, seconds in seen:
        table.learn(code, 1, seconds)
        costs.setdefault(code, []).append(seconds)
    for code, each in costs.items():
        if len(each) <= 16 and table.informed:
            assert np.mean(each) == pytest.approx(table.estimate(code))
    assert np.mean([seconds for _, seconds in seen]) == pytest.approx(table.mean)


def test_a_key_that_changes_its_cost_is_followed_within_a_window():
    table = CostTable(keys=10)
    for _ in range(1_000):
        table.learn(1, 1, 1.0)
    for _ in range(64):
        table.learn(1, 1, 5.0)
    assert pytest.approx(5.0, rel=0.02) == table.estimate(1)


@given(st.lists(st.tuples(st.integers(0, 99), SECONDS), min_size=30, max_size=100))
@settings(max_examples=30)
def test_a_table_stays_within_its_bounds_and_forgets_nothing(seen):
    table = CostTable(keys=10, width=4_096)
    for code, seconds in seen:
        table.learn(code, 1, seconds)
        assert len(table) <= 20
    if not table.informed:
        return  # then it answers with the mean
    costs = {}
    for code, seconds in seen:
        costs.setdefault(code, []).append(seconds)
    once = [code for code, each in costs.items() if len(each) == 1]
    # In so wide a sketch hardly anything collides: what was moved there is still known.
    exact = [costs[code][0] == pytest.approx(table.estimate(code)) for code in once]
    assert sum(exact) >= 0.9 * len(exact)


def test_frequent_keys_stay_by_themselves_when_room_is_made():
    table = CostTable(keys=4, width=4)
    for _ in range(5):
        for code in range(4):
            table.learn(code, 1, 1.0 + code)
    for code in range(100, 160):
        table.learn(code, 1, 50.0)
    assert [1.0, 2.0, 3.0, 4.0] == [pytest.approx(table.estimate(code)) for code in range(4)]


def test_a_rare_key_is_known_by_all_that_was_learned_of_it():
    table = CostTable(keys=2, width=4_096)
    others = iter(range(100, 1_000))

    def make_room():
        for _ in range(4):
            for code in (1, 2):
                table.learn(code, 1, 1.0)
            table.learn(next(others), 1, 1.0)

    table.learn(7, 1, 2.0)
    make_room()
    assert 2.0 == table.estimate(7)
    table.learn(7, 1, 6.0)
    make_room()
    assert 4.0 == table.estimate(7)


def test_an_unknown_key_costs_what_others_did_when_they_were_new():
    table = CostTable(keys=1_000)
    for code in range(100):
        table.learn(code, 1, 9.0)
    for _ in range(10_000):
        table.learn(0, 1, 1.0)
    assert table.mean < 1.1
    assert table.estimate(999_999) > 8.0


def test_where_costs_do_not_follow_keys_the_mean_is_the_answer():
    random = np.random.default_rng(1)
    table = CostTable(keys=1_000)
    for code, seconds in zip(random.integers(0, 2_000, 4_000), random.random(4_000), strict=True):
        table.learn(int(code), 1, float(seconds))
    assert not table.informed
    assert {table.mean} == {table.estimate(code) for code in range(200)}


def test_a_table_begins_with_what_a_sketch_knows():
    sketch = CostSketch(width=8, depth=2, exact=2)
    sketch.update([7, 7, 8, 8, 9], [1.0, 1.0, 4.0, 4.0, 25.0])
    table = CostTable.knowing(sketch, keys=10)
    assert (1.0, 4.0) == (table.estimate(7), table.estimate(8))
    assert pytest.approx((25.0 + 4 * 7.0) / 5) == table.estimate(9)


def test_paces_of_instances_are_learned_and_equal_ones_are_taken_for_equal():
    random = np.random.default_rng(2)
    truth = [1.0, 1.0, 2.0, 1.0]
    costs = InstanceCosts(4, keys=100)
    for _ in range(4_000):
        instance, code = int(random.integers(4)), int(random.integers(20))
        noise = random.uniform(0.9, 1.1)
        costs.learn(instance, [(code, 1, (1 + code) * truth[instance] * noise)])
    assert pytest.approx([1.0, 1.0, 1.0], rel=0.05) == [
        costs.paces[place] / costs.paces[0] for place in (0, 1, 3)
    ]
    assert pytest.approx(2.0, rel=0.1) == costs.paces[2] / costs.paces[0]
    assert not costs.apart


def test_what_a_slow_instance_measures_is_told_of_others_as_it_would_be_there():
    costs = InstanceCosts(2, keys=100)
    for turn in range(2_000):
        costs.learn(turn % 2, [(turn % 7, 1, (1.0 + turn % 7) * (1 + 2 * (turn % 2)))])
    for turn in range(300):
        costs.learn(1, [(turn % 7, 1, (1.0 + turn % 7) * 3)])
    for code in range(7):
        assert pytest.approx(1.0 + code, rel=0.1) == costs.estimate(code, 0)
        assert pytest.approx(3.0 + 3 * code, rel=0.1) == costs.estimate(code, 1)


def test_rounding_makes_no_instance_different():
    random = np.random.default_rng(6)
    of_code = random.uniform(0.001, 0.064, 50)
    costs = InstanceCosts(5, keys=100)
    for _ in range(20_000):
        instance, code = int(random.integers(5)), int(random.integers(50))
        count = int(random.integers(1, 9))
        costs.learn(instance, [(code, count, sum([float(of_code[code])] * count))])
        assert costs.uniform


def test_equal_instances_are_never_taken_for_different_ones_by_noise():
    random = np.random.default_rng(3)
    costs = InstanceCosts(5, keys=100)
    for _ in range(20_000):
        instance, code = int(random.integers(5)), int(random.zipf(1.5)) % 50
        costs.learn(instance, [(code, 1, float(random.exponential()))])
        assert costs.uniform


def test_an_instance_with_costs_of_its_own_is_estimated_by_itself():
    random = np.random.default_rng(4)
    costs = InstanceCosts(3, keys=300)
    for _ in range(3_000):
        instance, code = int(random.integers(3)), int(random.integers(20))
        cost = 10.0 if (code % 2) == (instance == 0) else 1.0
        costs.learn(instance, [(code, 1, cost)])
    assert 0 in costs.apart
    assert (1.0, 10.0) == (costs.estimate(4, 0), costs.estimate(5, 0))
