"""A large migration in slices."""

from copy import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping import GroupTable, Shuffle
from grouping.errors import PlacementError
from grouping.placement.slices import next_slice
from optimizers import (
    Cluster,
    Deployment,
    GroupStatistics,
    Layout,
    Node,
    Plan,
    Statistics,
    Topology,
)
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.errors import InvalidValueError, PlanError, StrategyError
from optimizers.notes import Note
from optimizers.simulation import SimulationEngine, Stream, Work
from optimizers.strategies.in_slices import InSlices, digest_of
from optimizers.testing import OptimizerContract

GROUPS = 24
JOB = Topology.source("s").then("a", key="k", parallelism=3, key_groups=GROUPS)
CLUSTER = Cluster.uniform(4)
NODES = ("node-0", "node-1", "node-2")
TURNED = tuple((group // 8 + 1) % 3 for group in range(GROUPS))
TARGET = Plan(placement={"a": Deployment(NODES, TURNED)})


class TestInSlices(OptimizerContract):
    optimizer = InSlices(Plan())


def seen(state=None):
    state = np.arange(1.0, GROUPS + 1) * 10 if state is None else state
    return Statistics(groups={"a": GroupStatistics(cpu=state / 1000, state_bytes=state)})


def carried_out(target, budget, statistics, *, most=99):
    """Ask until nothing changes; return the plans in force and what moved each time."""
    strategy, current, moved, notes = InSlices(target, budget), Plan(), [], []
    for _ in range(most):
        plan = strategy.plan(JOB.under(current), CLUSTER.under(current), statistics, current)
        notes.append(plan.notes[0])
        if not plan:
            return current, moved, notes
        after = current.amended(plan, CLUSTER)
        moved.append(current.diff(after, JOB, CLUSTER, statistics))
        current = after
    raise AssertionError("it does not come to its end")


@given(
    st.lists(st.integers(0, 2), min_size=GROUPS, max_size=GROUPS),
    st.lists(st.floats(0, 100), min_size=GROUPS, max_size=GROUPS),
    st.floats(100, 900),
)
def test_all_is_moved_once_and_no_slice_costs_more_than_its_bound(groups, state, bound):
    statistics = seen(np.array(state))
    target = Plan(placement={"a": Deployment(NODES, tuple(groups))})
    now, moved, notes = carried_out(target, f"{bound:.3f} B", statistics)

    assert Layout.of(JOB, CLUSTER, now).homes["a"].groups == tuple(groups)
    assert all(each.bytes <= bound * (1 + 1e-6) for each in moved)
    whole = Plan().diff(target, JOB, CLUSTER, statistics)
    assert sorted(m.group for each in moved for m in each.groups) == sorted(
        m.group for m in whole.groups
    )
    left = [dict(note.figures).get("left") for note in notes[:-1]]
    done = np.cumsum([each.bytes for each in moved])
    assert left == pytest.approx([whole.bytes - each for each in done], abs=1e-6)
    assert "is carried out" in notes[-1].text


def test_what_gains_most_for_its_cost_comes_first():
    found = next_slice([4.0, 1.0, 1.0, 1.0], [9.0, 5.0, 0.0, 4.0], bound=4.0)
    assert found.moves.tolist() == [False, True, True, True]  # 5, 4 and at last 0 for its cost
    found = next_slice([4.0, 1.0, 1.0, 4.0], [9.0, 5.0, 4.0, 0.0], bound=5.0)
    assert found.moves.tolist() == [False, True, True, False]  # 9 for 4 is worth less than 4 for 1
    assert (found.cost, found.left, found.slices) == (2.0, 8.0, 3)


def test_shares_are_of_the_state_of_all_operators():
    other = GroupStatistics(state_bytes=np.full(GROUPS, 1000.0))
    statistics = Statistics(groups={**seen().groups, "other": other})
    plan = InSlices(TARGET, "5 %").plan(JOB, CLUSTER, statistics, Plan())

    whole = 24_000 + 3_000  # of which the operator that moves has a ninth
    moved = Plan().diff(plan, JOB, CLUSTER, seen()).bytes
    assert 0.04 * whole < moved <= 0.05 * whole


def test_a_move_that_no_slice_has_room_for_is_refused_with_what_it_takes():
    with pytest.raises(PlacementError, match="costs 9, and a slice may cost 5; allow 9 at least"):
        next_slice([1.0, 9.0], [1.0, 1.0], bound=5.0)
    answer = ask(InSlices(TARGET, "100 B"), Question(JOB, CLUSTER, seen(), Plan()))
    assert not answer.plan
    assert "allow 240 at least" in answer.refused


def test_instances_come_before_key_groups_go_to_them():
    groups = tuple(group % 4 for group in range(GROUPS))
    target = Plan(parallelism={"a": 4}, placement={"a": Deployment((*NODES, "node-3"), groups)})
    now, moved, _ = carried_out(target, "6 groups", seen())

    assert now.parallelism["a"] == 4
    assert now.placement["a"] == target.placement["a"]
    assert all(len(each.groups) <= 6 for each in moved)
    assert len(moved) > 2


def test_fewer_instances_once_nothing_is_on_them():
    groups = tuple(group % 2 for group in range(GROUPS))
    target = Plan(placement={"a": Deployment(("node-0", "node-2", "node-1"), groups)})
    with pytest.raises(PlanError, match="instance 1 has key groups and would leave node-1"):
        InSlices(target).plan(JOB, CLUSTER, seen(), Plan())


def test_a_reviewed_plan_is_carried_out_and_no_other(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(TARGET.to_json())
    agreed = digest_of(TARGET)

    strategy = InSlices.read(file, budget="50 %", digest=agreed)
    assert strategy.target == TARGET
    assert agreed in strategy.plan(JOB, CLUSTER, seen(), Plan()).notes[0].text
    file.write_text(Plan(placement={"a": Deployment(NODES, TURNED[::-1])}).to_json())
    with pytest.raises(PlanError, match=f"and {agreed} was agreed on"):
        InSlices.read(file, digest=agreed)
    assert digest_of(TARGET) == digest_of(replace(TARGET, notes=()))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"target": "plan"}, InvalidValueError, "target='plan' is not a Plan"),
        ({"target": Plan(batch={"s": 5})}, PlanError, "decides batch"),
        ({"target": Plan(), "budget": "fast"}, InvalidValueError, "is not a budget"),
    ],
)
def test_what_cannot_be_done_in_slices_is_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        InSlices(**wrong)


# A decision for each field of a plan but those that are carried out; any other will do for fields
# that are not here.
DECISIONS = {
    "admit": {"s": 5},
    "batch": {"s": 5},
    "routing": {"a": GroupTable(["x"], [1], GROUPS)},
    "adopt": ("a",),
    "scheduling": {("s", "a"): Shuffle()},
    "add": (Node("node-9"),),
    "drain": ("node-3",),
    "nodes": 5,
}
OTHERS = [x.name for x in fields(Plan) if x.name not in {"parallelism", "placement", "notes"}]


def deciding(name):
    """The target with one decision more, without the checks of plans."""
    plan = copy(TARGET)
    object.__setattr__(plan, name, DECISIONS.get(name, 7))
    return plan


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_a_plan_decides_is_refused(name):
    with pytest.raises(PlanError, match=f"decides {name}, which"):
        InSlices(deciding(name))


@pytest.mark.parametrize("name", sorted({*DECISIONS} - {"adopt"}))
def test_another_decision_is_another_digest_and_so_is_not_agreed_on(name):
    plan = replace(TARGET, **{name: DECISIONS[name]})

    assert digest_of(plan) != digest_of(TARGET)
    assert digest_of(plan) == digest_of(replace(plan, notes=(Note("a", "b", "c"),)))


def test_the_digest_of_what_is_carried_out_is_of_all_of_it():
    wider = replace(TARGET, parallelism={"a": 4})

    assert digest_of(wider) != digest_of(TARGET) != digest_of(Plan())
    with pytest.raises(PlanError, match="was agreed on"):
        InSlices(wider, digest=digest_of(TARGET))


def test_it_waits_for_sizes_unless_groups_are_counted():
    unsized = Statistics(groups={"a": GroupStatistics(cpu=np.ones(GROUPS))})
    assert "was not observed" in str(InSlices(TARGET).plan(JOB, CLUSTER, unsized, Plan()).notes)
    assert not InSlices(TARGET).plan(JOB, CLUSTER, Statistics(), Plan())
    assert InSlices(TARGET, "4 groups").plan(JOB, CLUSTER, unsized, Plan())
    with pytest.raises(PlanError, match="no operator of that name"):
        InSlices(Plan(placement={"z": Deployment(("n",))})).plan(JOB, CLUSTER, seen(), Plan())
    assert StrategyError


def test_while_it_moves_no_pause_is_longer_than_its_bound():
    """State of 24 groups would take .6 s at once; in slices no batch waits for more than .1 s."""
    keys = np.arange(48_000) % 2_400
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=4_800)
    work = {"a": Work(1e-6, state_bytes=1_000.0)}

    def pauses(strategy):
        run = engine.run(JOB, Stream.steady({"k": keys}, rate=4_800.0), strategy, work=work)
        return [batch.moved.bytes for batch in run.batches], run.plan.placement["a"].groups

    whole = 2_400_000.0
    sliced, there = pauses(InSlices(TARGET, "15 %"))
    assert there == TURNED
    assert 0 < max(sliced) <= 0.15 * whole
    assert sum(sliced) == pytest.approx(whole)
