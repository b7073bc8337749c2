"""Migrations: what moves, against a count by hand of every key group's home."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Table, fitting_plans, worlds

from grouping.groupings import Fields, GroupTable, RoutingTable, WorstCase
from grouping.key_table import KeyTable
from grouping.owners import KeyOwners
from optimizers import (
    Cluster,
    Deployment,
    GroupMove,
    GroupStatistics,
    KeyCounts,
    Migration,
    Node,
    OperatorStatistics,
    Plan,
    PlanError,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.layout import Layout
from optimizers.migration import KeyMoves, Moved

JOB = Topology.source("in").then("count", key="k", parallelism=2, key_groups=4).then("out")
NODES = Cluster((Node("a"), Node("b"), Node("c")))


def sized(*state_bytes):
    zeros = [0.0] * len(state_bytes)
    groups = {"count": GroupStatistics(zeros, zeros, zeros, state_bytes)}
    return Statistics(groups=groups)


def home_by_hand(topology, cluster, plan, name, group):
    """The instance and node of a group, from the definitions and nothing else."""
    operator = topology.operator(name)
    if name in plan.placement:
        instance = plan.placement[name].groups[group]
        return instance, plan.placement[name].nodes[instance]
    instances = plan.parallelism.get(name, operator.parallelism)
    instance = group * instances // operator.key_groups
    names = [node.name for node in (*cluster.nodes, *plan.add)]
    working = [n for n in names if n not in plan.drain and n not in cluster.draining]
    return instance, working[instance % len(working)]


def nodes_by_hand(topology, cluster, plan, name):
    if name in plan.placement:
        return plan.placement[name].nodes
    instances = plan.parallelism.get(name, topology.operator(name).parallelism)
    names = [node.name for node in (*cluster.nodes, *plan.add)]
    working = [n for n in names if n not in plan.drain and n not in cluster.draining]
    return tuple(working[instance % len(working)] for instance in range(instances))


def grouping_under(topology, plan, edge):
    """The declared grouping; the default where it was made for another number of instances."""
    chosen = topology.grouping(*edge.name)
    instances = plan.parallelism.get(edge.target, chosen.instances)
    return chosen if chosen.instances in {None, instances} else Fields()


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_what_moves_is_every_group_whose_home_changes(data):
    topology, cluster, old = data.draw(worlds())
    new = data.draw(fitting_plans(topology, cluster))
    migration = old.diff(new, topology, cluster)

    expected = []
    parallelism = []
    reroutes = []
    for name in topology.order:
        operator = topology.operator(name)
        before, after = (p.parallelism.get(name, operator.parallelism) for p in (old, new))
        if before != after:
            parallelism.append((name, before, after))
        if not operator.keyed or operator.partial or not topology.inputs(name):
            continue
        edge = topology.inputs(name)[0]
        routes = [
            plan.routing.get(name, grouping_under(topology, plan, edge)) for plan in (old, new)
        ]
        rules = [None if isinstance(g, Fields | KeyTable) else g for g in routes]
        if any(rule is not None for rule in rules):
            nodes = [nodes_by_hand(topology, cluster, plan, name) for plan in (old, new)]
            if rules[0] != rules[1] or nodes[0] != nodes[1]:
                reroutes.append(name)
            continue
        for group in range(operator.key_groups):
            here, there = (home_by_hand(topology, cluster, p, name, group) for p in (old, new))
            if here != there:
                expected.append(GroupMove(name, group, here, there))
    assert tuple(expected) == migration.groups
    assert tuple(parallelism) == migration.parallelism
    assert tuple(reroutes) == migration.reroutes
    assert len(expected) == sum(move.bytes is None for move in migration.groups)
    named = migration.keys != ()
    assert bool(expected or parallelism or reroutes or named) == bool(migration)
    assert len(expected) == migration.total.groups


@given(worlds())
def test_nothing_moves_between_a_plan_and_itself(world):
    topology, cluster, plan = world

    assert Migration() == plan.diff(plan, topology, cluster)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_the_way_back_is_the_same_move_for_move(data):
    topology, cluster, old = data.draw(worlds())
    new = data.draw(fitting_plans(topology, cluster))

    forth, back = (
        first.diff(second, topology, cluster) for first, second in ((old, new), (new, old))
    )

    turned = tuple(GroupMove(m.operator, m.group, m.new, m.old, m.bytes) for m in back.groups)
    assert forth.groups == turned
    counts = [sorted((m.operator, m.old, m.new, m.keys, m.alone) for m in forth.keys)]
    counts += [sorted((m.operator, m.new, m.old, m.keys, m.alone) for m in back.keys)]
    assert counts[0] == counts[1]
    assert forth.reroutes == back.reroutes


def test_the_bytes_are_the_state_of_the_groups_that_move():
    new = Plan(placement={"count": Deployment(("a", "b"), (0, 1, 1, 0))})

    migration = Plan().diff(new, JOB, NODES, sized(1.0, 20.0, 300.0, 4000.0))

    assert (
        GroupMove("count", 1, (0, "a"), (1, "b"), 20.0),
        GroupMove("count", 3, (1, "b"), (0, "a"), 4000.0),
    ) == migration.groups
    assert 4020.0 == migration.bytes
    assert 0 == migration.unsized


def test_what_was_not_observed_is_unsized_and_not_empty():
    migration = Plan().diff(Plan(drain=("a",)), JOB, NODES)

    assert 0.0 == migration.bytes
    assert isinstance(migration.bytes, float)
    assert 4 == migration.unsized
    assert [None] * 4 == [move.bytes for move in migration.groups]


def test_a_group_known_to_be_empty_is_not_unsized():
    migration = Plan().diff(Plan(drain=("a",)), JOB, NODES, sized(0.0, 0.0, 8.0, 0.0))

    assert 0 == migration.unsized
    assert 8.0 == migration.bytes


def test_a_group_that_changes_its_instance_only_stays_on_its_node():
    old = Plan(placement={"count": Deployment(("a", "a"), (0, 0, 1, 1))})
    new = Plan(placement={"count": Deployment(("a", "a"), (1, 0, 1, 1))})

    (move,) = old.diff(new, JOB, NODES).groups

    assert GroupMove("count", 0, (0, "a"), (1, "a")) == move
    assert not move.crosses_nodes
    assert GroupMove("count", 0, (0, "a"), (0, "b")).crosses_nodes


def test_more_instances_take_over_ranges_of_groups():
    migration = Plan().diff(Plan(parallelism={"count": 4, "out": 3}), JOB, NODES)

    assert (("count", 2, 4), ("out", 1, 3)) == migration.parallelism
    assert [(1, 0, 1), (2, 1, 2), (3, 1, 3)] == [
        (move.group, move.old[0], move.new[0]) for move in migration.groups
    ]


def test_a_drained_node_is_emptied():
    migration = Plan().diff(Plan(drain=("b",)), JOB, NODES)

    assert [((1, "b"), (1, "c"))] * 2 == [(move.old, move.new) for move in migration.groups]


def test_keys_routed_anew_are_told_from_groups_that_move():
    migration = Plan().diff(Plan(routing={"count": Table(2)}), JOB, NODES)

    assert Migration(reroutes=("count",)) == migration
    assert "count: keys are sent by another rule" == str(migration)


def test_a_table_that_names_the_owners_of_now_moves_nothing():
    keys = list(range(50))
    layout = Layout.of(JOB, NODES, Plan())
    owners = layout.owners("count")

    for table in (
        RoutingTable(keys, owners.assign(keys), 2),
        GroupTable(keys, owners.group_of(keys), 4),
        GroupTable(keys, [{0: 0, 1: 3}[owner] for owner in owners.assign(keys).tolist()], 4),
    ):
        assert Migration() == Plan().diff(Plan(routing={"count": table}), JOB, NODES)


def test_keys_are_counted_by_both_ends_and_have_a_share_of_the_state():
    keys = list(range(40))
    places = np.array([0, 0, 1, 1])[KeyOwners((0, 1, 2, 3)).assign(keys)]
    ahead = RoutingTable(keys, 1 - places, 2)
    seen = Statistics(operators={"count": OperatorStatistics(state_bytes=400.0)})

    migration = Plan().diff(Plan(routing={"count": ahead}), JOB, NODES, seen)

    there, back = (int((places == side).sum()) for side in (0, 1))
    assert (
        KeyMoves("count", (0, "a"), (1, "b"), there, there, 10.0 * there),
        KeyMoves("count", (1, "b"), (0, "a"), back, back, 10.0 * back),
    ) == migration.keys
    assert {"count": Moved(40, 0, 400.0, 0)} == migration.by_operator
    assert {
        ("a", "b"): Moved(there, 0, 10.0 * there),
        ("b", "a"): Moved(back, 0, 10.0 * back),
    } == migration.by_nodes


@pytest.mark.parametrize(("state", "moved"), [(None, None), (0.0, 0.0)])
def test_no_state_is_known_to_be_none_and_an_unknown_one_is_not(state, moved):
    keys = list(range(40))
    ahead = RoutingTable(keys, 1 - np.array([0, 0, 1, 1])[KeyOwners((0, 1, 2, 3)).assign(keys)], 2)
    seen = Statistics(operators={"count": OperatorStatistics(state_bytes=state)})

    migration = Plan().diff(Plan(routing={"count": ahead}), JOB, NODES, seen)

    assert {moved} == {each.bytes for each in migration.keys}


def test_keys_that_go_with_their_group_have_its_state():
    table = GroupTable(list(range(8)), [0] * 8, 4)
    old = Plan(routing={"count": table})
    new = Plan(routing={"count": table}, placement={"count": Deployment(("a", "b"), (1, 0, 1, 1))})

    migration = old.diff(new, JOB, NODES, sized(7.0, 1.0, 1.0, 1.0))

    assert (KeyMoves("count", (0, "a"), (1, "b"), 8, 0, 0.0),) == migration.keys
    assert {"count": Moved(8, 1, 7.0, uncounted=1)} == migration.by_operator
    assert 0 == old.diff(new, JOB, NODES, sized(7.0, 1.0, 1.0, 1.0)).unsized
    assert 1 == old.diff(new, JOB, NODES).unsized


def test_operators_come_in_the_order_of_the_job():
    job = JOB.then("b", key="k", key_groups=1).then("a", key="k", key_groups=1)
    plan = Plan(drain=("a",))

    moved = [move.operator for move in Plan().diff(plan, job, NODES).groups]

    assert ["count"] * 4 + ["b", "a"] == moved


def test_a_migration_prints_what_moves():
    new = Plan(
        parallelism={"count": 1},
        routing={"count": RoutingTable([1, 2, 3], [0, 0, 0], 1)},
        placement={"count": Deployment(("a",), (0, 0, 0, 0))},
    )
    old = Plan(routing={"count": RoutingTable([1, 2], [0, 1], 2)})
    assert 1 == KeyOwners((0, 0, 1, 1)).assign([3])[0]

    expected = (
        "count: 2 -> 1 instances\n"
        "count: 2 key groups and 2 named keys to move, 2 and 2 to another node, 12 bytes"
    )

    # All that is on the instance that goes, and no more: 15 bytes are all there are.
    assert expected == str(old.diff(new, JOB, NODES, sized(1.0, 2.0, 4.0, 8.0)))
    assert "nothing moves" == str(Migration())


@pytest.mark.parametrize(
    ("statistics", "error", "words"),
    [
        (sized(1.0, 2.0), InvalidValueError, "groups\\['count'\\] has 2 key groups"),
        (sized(*range(5)), InvalidValueError, "5 key groups"),
        (
            Statistics(groups={"ghost": sized(1.0).groups["count"]}),
            UnknownNameError,
            "'ghost'",
        ),
    ],
)
def test_statistics_of_another_job_are_refused(statistics, error, words):
    with pytest.raises(error, match=words):
        Plan().diff(Plan(drain=("a",)), JOB, NODES, statistics)


@pytest.mark.parametrize("both", [(True, False), (False, True)])
def test_neither_plan_may_be_one_that_the_job_cannot_carry_out(both):
    unfit = Plan(parallelism={"count": 5})
    old, new = (unfit if bad else Plan() for bad in both)

    with pytest.raises(PlanError, match="parallelism\\['count'\\]=5"):
        old.diff(new, JOB, NODES)


def counted(keys, each, tuples=None, groups=4):
    """Statistics of keys that came once each, and hold as much state each."""
    of = KeyOwners((0, 0, 1, 1)).group_of(keys)
    state = each * np.bincount(of, minlength=groups).astype(float)
    return Statistics(
        operators={"count": OperatorStatistics(len(keys) if tuples is None else tuples)},
        groups={"count": GroupStatistics(state_bytes=state)},
        keys={"count": KeyCounts(keys, np.ones(len(keys)))},
    )


def test_keys_that_a_table_names_have_their_own_state_and_not_that_of_all_keys():
    keys = list(range(6000))
    owners = Layout.of(JOB, NODES, Plan()).owners("count")
    away = GroupTable(keys[:100], [3 - group for group in owners.group_of(keys[:100])], 4)

    migration = Plan().diff(Plan(routing={"count": away}), JOB, NODES, counted(keys, 10.0))

    assert (100, 0) == (migration.total.keys, migration.total.groups)
    assert 1000.0 == pytest.approx(migration.bytes)


def test_a_group_that_moves_takes_along_what_was_counted_but_for_keys_that_stay():
    keys = list(range(80))
    of = KeyOwners((0, 0, 1, 1)).group_of(keys)
    stay = [key for key, group in zip(keys, of.tolist(), strict=True) if group == 0][:3]
    pinned = RoutingTable(stay, [0, 0, 0], 2)
    old = Plan(routing={"count": pinned}, placement={"count": Deployment(("a", "b"), (0, 0, 1, 1))})
    new = Plan(routing={"count": pinned}, placement={"count": Deployment(("a", "b"), (1, 0, 1, 1))})

    migration = old.diff(new, JOB, NODES, counted(keys, 10.0))

    moved = int((of == 0).sum()) - 3
    assert {"count": Moved(moved, 1, pytest.approx(10.0 * moved))} == migration.by_operator
    expected = f"count: 1 key group and {moved} keys to move, 1 and {moved} to another node, "
    assert f"{expected}{10 * moved} bytes" == str(migration)


def test_keys_that_a_rule_sends_are_told_as_far_as_they_were_counted():
    keys = list(range(40))
    new = Plan(routing={"count": WorstCase(RoutingTable([], [], 2))})
    layouts = [Layout.of(JOB, NODES, plan) for plan in (Plan(), new)]
    before, after = (layout.owners("count").assign(keys) for layout in layouts)
    moved = int((before != after).sum())

    all_told = Plan().diff(new, JOB, NODES, counted(keys, 10.0))
    some_told = Plan().diff(new, JOB, NODES, counted(keys, 10.0, tuples=50))
    untold = Plan().diff(new, JOB, NODES)

    assert {"count": Moved(moved, 0, pytest.approx(10.0 * moved))} == all_told.by_operator
    assert () == all_told.reroutes
    assert (moved, 1) == (some_told.total.keys, some_told.unsized)
    assert ("count",) == some_told.reroutes == untold.reroutes
    assert (0, 1) == (untold.total.keys, untold.unsized)


def test_keys_that_were_not_counted_are_as_many_as_if_each_came_as_rarely_as_any_that_was():
    """Eight keys came once each, with four more tuples: of four other keys, one in each group."""
    keys = list(range(8))
    number = np.bincount(KeyOwners((0, 0, 1, 1)).group_of(keys), minlength=4)
    seen = counted(keys, 10.0, tuples=12)

    moves = Plan().diff(Plan(drain=("a",)), JOB, NODES, seen).groups

    assert (number + 1.0).tolist() == [move.keys for move in moves]
    assert (10.0 * number).tolist() == [move.bytes for move in moves]


def test_a_key_that_a_table_names_and_that_never_came_has_no_state():
    keys = list(range(20))
    owners = KeyOwners((0, 0, 1, 1))
    named = [99, 100]
    assert {*owners.group_of(named).tolist()} <= {*owners.group_of(keys).tolist()}
    table = GroupTable(named, [3 - group for group in owners.group_of(named).tolist()], 4)
    new = Plan(routing={"count": table})

    without, with_others = (
        Plan().diff(new, JOB, NODES, counted(keys, 10.0, tuples=count)) for count in (20, 21)
    )

    assert (2, 0.0) == (without.total.keys, without.bytes)
    number = np.bincount(owners.group_of([*keys, *named]), [1.0] * 20 + [0.5] * 2, 4)
    state = 10.0 * np.bincount(owners.group_of(keys), minlength=4)
    groups = owners.group_of(named)
    assert (0.5 * state / number)[groups].sum() == pytest.approx(with_others.bytes)
