"""Albic: what it decides, and its settings."""

from dataclasses import replace

import numpy as np
import pytest
from albic_questions import GROUPS, JOB, figures, seen_of, text

from grouping.groupings import DistributionAware, PartialKey
from grouping.routing_table import RoutingTable
from optimizers import (
    Albic,
    Cluster,
    Deployment,
    GroupStatistics,
    GroupTraffic,
    Layout,
    Node,
    Operator,
    Plan,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError
from optimizers.past import Past, PastEpoch, PastGroups
from optimizers.plugins import create
from optimizers.strategies.parts.migration_budget import USUAL_PACE, MigrationBudget, pace
from optimizers.testing import OptimizerContract

CLUSTER = Cluster.uniform(3)


class TestAlbic(OptimizerContract):
    optimizer = Albic(budget="10 %", max_load_distance=0.02)


class TestPublishedAlbic(OptimizerContract):
    optimizer = Albic.published(budget="10 %", max_load_distance=0.02)


UNEVEN = np.array([9.0, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1])
EVEN = np.ones(GROUPS)


# --- what it decides ---------------------------------------------------------------------------


def test_it_moves_what_evens_the_load_out_and_says_what_comes_of_it():
    plan = Albic(budget="100 %").plan(JOB, CLUSTER, seen_of(UNEVEN, EVEN), Plan())

    assert set(plan.placement) == {"a"}
    home = plan.placement["a"]
    held = np.bincount(home.groups, UNEVEN, 3)
    assert held.max() <= 9  # the heaviest group, alone
    said = figures(plan, "a")
    assert said["imbalance then"] == pytest.approx(12 / 8)
    assert said["imbalance now"] == pytest.approx(held.max() / 8)
    assert "load is uneven, by cpu" in [note.text for note in plan.notes]


def test_stages_are_each_made_even_unless_they_run_at_the_same_time():
    """The sum of both stages is even, and neither of them is: on Spark each has to be."""
    first = np.repeat([3.0, 2.0, 1.0], 4)
    seen = seen_of(first, first[::-1])

    each = Albic(budget="100 %").plan(JOB, CLUSTER, seen, Plan())
    together = Albic(budget="100 %", by_stage=False).plan(JOB, CLUSTER, seen, Plan())

    assert not together
    assert text(together) == "left as it is: nodes are even enough"
    for name, loads in (("a", first), ("b", first[::-1])):
        held = np.bincount(each.placement[name].groups, loads, 3)
        assert held.max() <= 9  # where it was 12, and 8 is the mean


@pytest.mark.parametrize(
    ("seen", "changes", "words"),
    [
        (seen_of(EVEN, EVEN), {}, "nodes are even enough"),
        (seen_of(0 * EVEN, 0 * EVEN), {}, "no load was seen"),
        (seen_of(UNEVEN, EVEN), {"budget": "0 %"}, "no placement within the budget"),
        (seen_of(UNEVEN), {}, "the loads of b were not observed"),
        (
            seen_of(UNEVEN, EVEN, tuples=EVEN),
            {},
            "nodes are even enough",  # so few tuples may as well be uneven by chance
        ),
    ],
)
def test_it_stays_silent_with_a_reason(seen, changes, words):
    plan = Albic(**{"budget": "50 %", **changes}).plan(JOB, CLUSTER, seen, Plan())

    assert not plan
    assert words in text(plan)


def test_it_takes_no_more_moves_than_being_well_within_the_limit_takes():
    drawn = np.random.default_rng(4)
    loads = drawn.gamma(1.0, 1.0, GROUPS)
    few, many = (
        figures(
            Albic(budget="100 %", max_load_distance=limit).plan(
                JOB, CLUSTER, seen_of(loads, EVEN), Plan()
            )
        )
        for limit in (0.25, 0.02)
    )

    assert 0 < few["groups"] < many["groups"]
    assert few["distance now"] <= 0.125
    assert many["distance now"] < few["distance now"]


def test_groups_that_talk_to_each_other_come_together():
    pairs = np.arange(GROUPS), np.roll(np.arange(GROUPS), 4)  # each to one on another node
    seen = seen_of(EVEN, EVEN, traffic={("a", "b"): GroupTraffic(*pairs, np.full(GROUPS, 9.0))})

    plan = Albic(budget="100 %").plan(JOB, CLUSTER, seen, Plan())

    assert figures(plan)["local then"] == 0
    assert figures(plan)["local now"] == 1
    assert figures(plan)["distance now"] <= 0.1
    assert not Albic(budget="100 %", worth=3.0).plan(JOB, CLUSTER, seen, Plan())


def test_only_pairs_that_send_more_than_usual_count_where_that_is_asked_for():
    """Each group sends a tenth of its tuples aside, and the rest to a partner elsewhere."""
    ends = np.arange(GROUPS)
    sources = np.concatenate([ends, ends])
    targets = np.concatenate([np.roll(ends, 4), np.roll(ends, 8)])
    flow = GroupTraffic(sources, targets, np.repeat([9.0, 1.0], GROUPS))
    seen = seen_of(EVEN, EVEN, traffic={("a", "b"): flow})

    asked = [Albic(budget="100 %", score_factor=factor) for factor in (None, 1.5, 11.0)]
    plans = [strategy.plan(JOB, CLUSTER, seen, Plan()) for strategy in asked]

    # The average pair has 10 / 12, of which 9 is less than eleven times.
    assert figures(plans[1])["local now"] == pytest.approx(0.9)
    assert figures(plans[0])["local now"] >= 0.9
    assert not plans[2]


def test_a_solver_is_asked_where_there_is_time_for_it():
    drawn = np.random.default_rng(6)
    seen = seen_of(drawn.gamma(1.0, 1.0, GROUPS), drawn.gamma(1.0, 1.0, GROUPS))
    for solver in ("CBC", "HiGHS"):
        plain, solved = (
            Albic(budget="2 groups", **more).plan(JOB, CLUSTER, seen, Plan())
            for more in ({}, {"time_limit": 20, "solver": solver})
        )
        without, found = figures(plain), figures(solved)
        assert found["distance now"] <= without["distance now"] + 1e-9
        assert found["least"] >= without["least"] - 1e-9
        assert without["least"] < without["distance now"] - 1e-3
        assert found["least"] == pytest.approx(found["distance now"], abs=1e-3)  # proven


def test_what_earlier_epochs_saw_counts():
    now = np.repeat([3.0, 1.5], [4, 8])
    past = Past((PastEpoch(0),), {"a": PastGroups(cpu=10 * (4.0 - now))})  # of a busier time
    seen = replace(seen_of(now, 2 * EVEN), past=past)

    assert Albic(resource="cpu", lasting=0.0).plan(JOB, CLUSTER, seen, Plan())
    assert not Albic(resource="cpu", lasting=0.5).plan(JOB, CLUSTER, seen, Plan())


def test_the_resource_of_which_most_is_used_counts_unless_it_is_said():
    load = GroupStatistics(EVEN / 100, UNEVEN / 50, EVEN / 200, EVEN)
    seen = Statistics(groups={"a": load, "b": load})

    assert "by memory" in Albic(budget="100 %").plan(JOB, CLUSTER, seen, Plan()).notes[-1].text
    assert not Albic(budget="100 %", resource="cpu").plan(JOB, CLUSTER, seen, Plan())


def test_where_no_resource_is_known_tuples_are_the_load():
    """On Spark, work may be too light to be measured, and memory and links of unknown size."""
    groups = {
        name: GroupStatistics(state_bytes=EVEN, tuples=tuples * 1e6)
        for name, tuples in (("a", UNEVEN), ("b", EVEN))
    }
    plan = Albic(budget="100 %").plan(JOB, CLUSTER, Statistics(groups=groups), Plan())

    assert np.bincount(plan.placement["a"].groups, UNEVEN, 3).max() <= 9
    assert "load is uneven, by tuples" in [note.text for note in plan.notes]
    scaling = Albic(nodes=(1, 9)).plan(JOB, CLUSTER, Statistics(groups=groups), Plan())
    assert scaling.nodes is None
    assert "not observed what share of a node" in str(scaling.notes)


@pytest.mark.parametrize(("memory", "by"), [(0.01, "tuples"), (0.5, "tuples"), (0.9, "memory")])
def test_memory_is_no_bottleneck_where_cpu_is_not_known_unless_a_node_is_nearly_full(memory, by):
    """It was: of what was known, most was used, though the processors were busy all the time."""
    state = np.roll(UNEVEN, 4)
    share = state * memory / 12  # the fullest node has groups of 12
    groups = {
        name: GroupStatistics(
            memory=share / 2, network=EVEN * 1e-3, state_bytes=state, tuples=tuples * 1e6
        )
        for name, tuples in (("a", UNEVEN), ("b", EVEN))
    }

    plan = Albic(budget="100 %").plan(JOB, CLUSTER, Statistics(groups=groups), Plan())

    assert f"load is uneven, by {by}" in [note.text for note in plan.notes]
    loads = UNEVEN if by == "tuples" else state
    assert np.bincount(plan.placement["a"].groups, loads, 3).max() <= 9


def test_cpu_known_of_one_operator_only_is_not_compared_with_memory_of_both():
    a = GroupStatistics(cpu=UNEVEN, memory=EVEN / 99, state_bytes=EVEN, tuples=UNEVEN * 1e6)
    b = GroupStatistics(memory=EVEN / 99, state_bytes=EVEN, tuples=EVEN * 1e6)

    plan = Albic(budget="100 %").plan(JOB, CLUSTER, Statistics(groups={"a": a, "b": b}), Plan())

    assert "load is uneven, by tuples" in [note.text for note in plan.notes]


def test_operators_whose_keys_do_not_go_with_their_groups_are_left_out():
    for routing in (
        RoutingTable([1, 2], [0, 1], 3),
        DistributionAware(RoutingTable([1], [0], 3), [0, 1, 2]),
    ):
        current = Plan(routing={"a": routing})
        plan = Albic(budget="100 %").plan(
            JOB.under(current), CLUSTER, seen_of(UNEVEN, UNEVEN), current
        )
        assert set(plan.placement) == {"b"}


@pytest.mark.parametrize(
    "job",
    [
        Topology.source("s").then("a", parallelism=2),
        Topology.source("s").then(Operator("a", "k", 2, partial=True), grouping=PartialKey()),
    ],
)
def test_it_says_where_it_can_do_nothing(job):
    plan = Albic().plan(job, CLUSTER, Statistics(), Plan())

    assert not plan
    assert plan.notes[0].idle
    assert Albic.published().plan(job, CLUSTER, Statistics(), Plan()).notes[0].idle


# --- nodes -------------------------------------------------------------------------------------


def test_a_node_has_load_by_its_capacity():
    cluster = Cluster((Node("node-0", 2.0), Node("node-1"), Node("node-2")))
    plan = Albic(budget="100 %").plan(JOB, cluster, seen_of(EVEN, EVEN), Plan())

    for name in "ab":
        assert np.bincount(plan.placement[name].groups).tolist() == [6, 3, 3]


def test_nodes_are_full_of_state_by_their_memory_and_not_by_their_cores():
    """Nodes of one capacity, of which the second has a third of the memory of the others."""
    cluster = Cluster(
        tuple(Node(f"node-{n}", memory=size) for n, size in enumerate((3e4, 1e4, 3e4)))
    )
    layout = Layout.of(JOB, cluster, Plan())
    seen, state = {}, EVEN * 1000
    for name in "ab":
        home = layout.homes[name]
        nodes = [home.nodes[instance] for instance in home.groups]
        seen[name] = GroupStatistics.of(cluster, nodes, 1.0, state_bytes=state)
        assert seen[name].memory.max() == pytest.approx(0.1)

    plan = Albic(budget="100 %", resource="memory").plan(
        JOB, cluster, Statistics(groups=seen), Plan()
    )

    for name in "ab":
        held = np.bincount(plan.placement[name].groups, state, 3)
        assert held[1] < held[[0, 2]].min() / 2
    # By what is done, they are alike.
    busy = {name: GroupStatistics(cpu=EVEN, state_bytes=state) for name in "ab"}
    assert not Albic(budget="100 %").plan(JOB, cluster, Statistics(groups=busy), Plan())


def test_nodes_that_drain_are_left_over_some_decisions_and_instances_go_last():
    homes = ("node-0", "node-1", "node-2")
    dealt = tuple(np.repeat([0, 1, 2], 4).tolist())
    placed = {name: Deployment(homes, dealt) for name in ("a", "b")}
    placed["s"] = Deployment(("node-2",))
    current = Plan(drain=("node-2",), placement=placed)
    cluster, left = CLUSTER.under(current), []
    for _ in range(20):
        plan = Albic(budget="10 %").plan(JOB, cluster, seen_of(EVEN, EVEN), current)
        if not plan:
            break
        moved = current.diff(current.amended(plan, CLUSTER), JOB, CLUSTER, seen_of(EVEN, EVEN))
        assert moved.bytes <= 0.1 * 24_000
        current = current.amended(plan, CLUSTER)
        layout = Layout.of(JOB, CLUSTER, current)
        left.append(
            sum(
                home.nodes[instance] == "node-2"
                for home in (layout.homes[name] for name in ("a", "b"))
                for instance in home.groups
            )
        )
    assert left[0] > 0
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    nodes = {node for home in layout.homes.values() for node in home.nodes}
    assert nodes == {"node-0", "node-1"}


def test_nodes_that_stay_are_evened_out_though_a_drain_cannot_be_paid():
    """A group of most of the state kept them as far apart as the node is full that drains."""
    job = Topology.source("s").then("a", key="k", parallelism=3, key_groups=GROUPS)
    cluster = replace(CLUSTER, draining=("node-2",))
    cpu = np.array([0.1] * 4 + [0.02] * 4 + [0.25, 0, 0, 0])
    state = np.full(GROUPS, 100.0)
    state[8] = 5000
    owners = (0,) * 4 + (1,) * 4 + (2,) + (1,) * 3
    current = Plan(placement={"a": Deployment(("node-0", "node-1", "node-2"), owners)})
    seen = Statistics(groups={"a": GroupStatistics(cpu=cpu, state_bytes=state)})
    said = []
    for _ in range(5):
        plan = Albic(budget="10 %").plan(job, cluster, seen, current)
        (note,) = [note for note in plan.notes if note.about == "the job"]
        said.append(note.text)
        if not plan:
            break
        current = current.amended(plan, cluster)

    held = np.bincount(current.placement["a"].groups, cpu, 3)
    assert abs(held[0] - held[1]) <= 0.1
    assert held[2] == 0.25
    assert not plan
    lacks = "to move them takes 0.8197 of the state, the largest alone 0.8197 of the state, and"
    assert all(f"{lacks} the budget is 0.1 of the state" in text for text in said)
    assert dict(note.figures)["left to drain"] == 1
    paid = Albic(budget="82 %").plan(job, cluster, seen, current)
    assert "node-2" not in paid.placement["a"].nodes
    assert "nodes that drain keep" not in str(paid.notes)


def test_groups_go_only_where_their_operator_has_an_instance():
    placed = {
        "a": Deployment(("node-0", "node-1", "node-1"), (0,) * 8 + (1,) * 4),
        "b": Deployment(("node-2", "node-2", "node-0"), (0, 1) * 6),
    }
    current = Plan(placement=placed)
    plan = Albic(budget="100 %").plan(JOB, CLUSTER, seen_of(EVEN, EVEN), current)

    after = current.amended(plan, CLUSTER)
    after.check(JOB, CLUSTER)
    for name in "ab":
        home = after.placement[name]
        assert home.nodes == placed[name].nodes
        held = dict.fromkeys(home.nodes, 0)
        for instance in home.groups:
            held[home.nodes[instance]] += 1
        assert set(held.values()) == {6}  # even on the two nodes that it is on


# --- instances ---------------------------------------------------------------------------------


def uneven_instances(cores=None):
    """Two nodes that are even, each with an instance that has seven groups and one that has one."""
    job = Topology.source("s").then("a", key="k", parallelism=4, key_groups=16)
    home = Deployment(("node-0", "node-0", "node-1", "node-1"), (0,) * 7 + (1,) + (2,) * 7 + (3,))
    cluster = Cluster(tuple(Node(f"node-{number}", cores=cores) for number in range(2)))
    return job, cluster, Plan(placement={"a": home})


@pytest.mark.parametrize(
    ("budget", "held"),
    [("100 %", [4, 4, 4, 4]), ("13 %", [5, 3, 7, 1]), ("4 groups", [4, 4, 6, 2]), ("0 %", None)],
)
def test_instances_on_one_node_are_made_even_within_the_budget(budget, held):
    """A stage lasts as long as its busiest instance; nodes alone were balanced."""
    job, cluster, current = uneven_instances()
    seen = Statistics(groups={"a": GroupStatistics(cpu=np.ones(16), state_bytes=np.ones(16))})

    plan = Albic(budget=budget).plan(job, cluster, seen, current)

    if held is None:
        assert not plan
        return
    home = plan.placement["a"]
    assert home.nodes == current.placement["a"].nodes
    assert sorted(np.bincount(home.groups).tolist()) == sorted(held)
    assert "instances of one node are uneven, by cpu" in [note.text for note in plan.notes]
    said, moved = figures(plan), current.diff(current.amended(plan, cluster), job, cluster, seen)
    assert said["groups"] == len(moved.groups)
    assert said["distance now"] == 0
    assert not moved.groups or all(not move.crosses_nodes for move in moved.groups)


def test_instances_that_are_uneven_by_chance_or_in_a_light_operator_stay():
    job, cluster, current = uneven_instances()
    few = GroupStatistics(cpu=np.ones(16), state_bytes=np.ones(16), tuples=np.full(16, 3.0))
    assert not Albic(budget="100 %").plan(job, cluster, Statistics(groups={"a": few}), current)
    job = job.then("b", key="l", parallelism=4, key_groups=16)
    light = {
        name: GroupStatistics(cpu=np.full(16, load), state_bytes=np.ones(16))
        for name, load in (("a", 0.01), ("b", 1.0))
    }
    assert not Albic(budget="100 %").plan(job, cluster, Statistics(groups=light), current)


def test_all_instances_have_groups_where_more_of_them_come_to_fewer_nodes():
    """Groups were dealt before the instances came, of which three of four were idle for good."""
    job = Topology.source("s").then("a", key="k", parallelism=4, key_groups=40)
    cluster = replace(Cluster.uniform(4), draining=("node-0", "node-1", "node-2"))
    current = Plan(
        placement={
            "a": Deployment(
                tuple(f"node-{number}" for number in range(4)),
                tuple(np.repeat(np.arange(4), 10).tolist()),
            )
        }
    )
    seen = Statistics(groups={"a": GroupStatistics(cpu=np.ones(40), state_bytes=np.ones(40))})

    plan = Albic(budget="100 %").plan(job, cluster, seen, current)

    assert plan.placement["a"].nodes == ("node-3",) * 4
    assert np.bincount(plan.placement["a"].groups).tolist() == [10, 10, 10, 10]


# --- settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("2 s", 2.0, "seconds"),
        ("250ms", 0.25, "seconds"),
        ("64 MB", 64e6, "bytes"),
        ("1.5 GB", 1.5e9, "bytes"),
        ("100 B", 100.0, "bytes"),
        ("10 %", 0.1, "share"),
        ("1 group", 1.0, "groups"),
        (" 20 groups ", 20.0, "groups"),
    ],
)
def test_budgets_are_read_as_they_are_written(written, amount, unit):
    budget = MigrationBudget.of(written)
    assert (budget.amount, budget.unit) == (pytest.approx(amount), unit)


def test_the_price_of_a_byte_is_what_was_measured():
    moved = PastEpoch(0, moved_bytes=6e6, pause=2.0)
    still = PastEpoch(1, moved_bytes=0.0, pause=0.0)
    state = np.array([3e6, 1e6])

    assert pace(Past()) == USUAL_PACE
    assert pace(Past((moved, still))) == 3e6
    assert MigrationBudget.of("1 s").costs(state, Past((moved, still))).tolist() == [1.0, 1 / 3]
    assert MigrationBudget.of("10 %").costs(state, Past()).tolist() == [0.75, 0.25]
    assert MigrationBudget.of("3 groups").costs(state, Past()).tolist() == [1, 1]
    assert MigrationBudget.of("3 MB").costs(state, Past()).tolist() == state.tolist()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"budget": "much"}, "budget='much' is not a budget"),
        ({"budget": "10 miles"}, "as in '2 s', '64 MB', '10 %' or '20 groups'"),
        ({"budget": "-1 s"}, "is not a budget"),
        ({"budget": 5}, "budget=5 is not a budget"),
        ({"budget": "120 %"}, "budget=1.2"),
        ({"max_load_distance": 0}, "max_load_distance"),
        ({"resource": "disk"}, "resource='disk'"),
        ({"by_stage": 1}, "by_stage=1"),
        ({"worth": -1}, "worth"),
        ({"lasting": 2}, "lasting"),
        ({"rounds": 0.5}, "rounds"),
        ({"score_factor": 0}, "score_factor"),
        ({"max_partition_load": None}, "max_partition_load"),
        ({"max_partition_load": -1}, "max_partition_load"),
        ({"time_limit": 0}, "time_limit"),
        ({"solver": "abacus"}, "solver='abacus'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong, words):
    with pytest.raises(InvalidValueError) as caught:
        Albic(**wrong)
    assert words in str(caught.value)


def test_it_can_be_had_by_its_name():
    assert create("albic", budget="2 s") == Albic(budget="2 s")
    assert create("albic-published", score_factor=2) == Albic.published(score_factor=2)
