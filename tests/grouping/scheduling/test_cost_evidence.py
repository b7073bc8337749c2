"""Cost evidence: what several instances have measured, against what was made up for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.scheduling.cost_evidence import CostEvidence
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError


def measured(each, *, exact=64):
    """A sketch for each instance, of what it has executed."""
    sketches = []
    for keys, costs in each:
        sketch = CostSketch(width=64, depth=4, exact=exact)
        sketch.update(np.asarray(keys, dtype=np.int64), np.asarray(costs, dtype=np.float64))
        sketches.append(sketch)
    return sketches


def drawn(seed, *, instances=4, tuples=500, keys=20, paces=None, noise=0.0, informed=True):
    random = np.random.default_rng(seed)
    of_key = random.uniform(1.0, 10.0, keys)
    each = []
    for place in range(instances):
        chosen = random.integers(0, keys, tuples)
        costs = of_key[chosen] if informed else random.uniform(1.0, 10.0, tuples)
        costs = costs * random.uniform(1 - noise, 1 + noise, tuples)
        each.append((chosen, costs * (paces or [1.0] * instances)[place]))
    return each


@given(st.integers(0, 999), st.integers(1, 6))
def test_all_that_was_measured_is_added_up(seed, instances):
    each = drawn(seed, instances=instances)
    evidence = CostEvidence.of(measured(each))
    keys = np.concatenate([chosen for chosen, _ in each])
    costs = np.concatenate([cost for _, cost in each])
    for key in np.unique(keys):
        exact = costs[keys == key].mean()
        assert [pytest.approx(exact)] == evidence.costs.estimate([key]).tolist()
    means = np.array([costs[keys == key].mean() for key in keys])
    assert pytest.approx(means.std() / means.mean()) == evidence.spread


@given(st.integers(0, 999), st.floats(0.0, 0.5))
def test_costs_that_follow_keys_are_foretold(seed, noise):
    evidence = CostEvidence.of(measured(drawn(seed, noise=noise)))
    assert evidence.explained > 0.9
    assert evidence.uniform


@given(st.integers(0, 999))
def test_costs_that_do_not_follow_keys_are_not_foretold(seed):
    # It is above 0.05 where the means of both halves correlate by more than .525. By chance a
    # correlation has a standard deviation of 1 / sqrt(keys): with 200 keys, .525 is seven of them.
    each = drawn(seed, informed=False, keys=200, tuples=2_000)
    evidence = CostEvidence.of(measured(each, exact=256))
    assert evidence.explained < 0.05
    assert evidence.uniform


@given(st.integers(0, 999), st.sampled_from([0.5, 1.3, 3.0]))
def test_a_slow_instance_is_found_by_how_slow_it_is(seed, pace):
    evidence = CostEvidence.of(measured(drawn(seed, paces=[1.0, 1.0, pace, 1.0], noise=0.2)))
    others = np.mean([evidence.paces[place] for place in (0, 1, 3)])
    assert pytest.approx(pace, rel=0.05) == evidence.paces[2] / others
    assert not evidence.uniform


def test_few_tuples_say_nothing_of_paces():
    evidence = CostEvidence.of(measured([([1] * 60, [1.0] * 60), ([1] * 60, [9.0] * 60)]))
    assert (1.0, 1.0) == evidence.paces


def test_one_instance_alone_is_believed_if_its_keys_differ():
    assert CostEvidence.of(measured([([1, 2], [1.0, 5.0])])).explained == 1.0
    assert CostEvidence.of(measured([([1, 2], [3.0, 3.0])])).explained == 0.0


def test_instances_that_share_no_key_are_believed():
    evidence = CostEvidence.of(measured([([1] * 80, [9.0] * 80), ([2] * 80, [1.0] * 80)]))
    assert (1.0, (1.0, 1.0)) == (evidence.explained, evidence.paces)


def test_instances_that_have_seen_nothing_foretell_nothing():
    evidence = CostEvidence.of(measured([([], []), ([], [])]))
    assert (0.0, 0.0, (1.0, 1.0)) == (evidence.explained, evidence.spread, evidence.paces)


def test_what_was_measured_stays_as_it_is():
    sketches = measured(drawn(1))
    before = [sketch.copy() for sketch in sketches]
    CostEvidence.of(sketches)
    assert before == sketches


def test_evidence_of_nobody_is_refused():
    with pytest.raises(InvalidValueError, match=r"measured=\[\]"):
        CostEvidence.of([])
