"""What a new routing starts from: machines, owners of now, and what a change would move."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.groupings import PartialKey
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_as_published, partition_keys
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    EdgeStatistics,
    Node,
    Operator,
    OperatorStatistics,
    Plan,
    Statistics,
    Topology,
)
from optimizers.layout import Layout
from optimizers.strategies.parts.key_layout import KeyLayout, one_owner_a_key

HOP = ("a", "b")
PAIRS = KeyPairs(np.arange(40), np.arange(40) % 20, np.ones(40))


def job(a=4, b=4):
    return Topology.source("in").then("a", key="k", parallelism=a).then("b", key="l", parallelism=b)


def laid_out(topology=None, cluster=None, current=None, hops=(HOP,)):
    current = Plan() if current is None else current
    topology = job() if topology is None else topology
    cluster = Cluster.uniform(2) if cluster is None else cluster
    return KeyLayout(Layout.of(topology, cluster, current), cluster, hops)


def graph_of(topology):
    return KeyGraph.of({HOP: PAIRS}, topology.order)


def test_operators_stand_in_the_order_of_the_job():
    topology = job().then("c", key="m")
    found = laid_out(topology, hops=(("b", "c"), ("a", "b")))

    assert ("a", "b", "c") == found.names


def test_instances_are_where_the_plan_places_them_else_dealt_out():
    groups = job().operator("b").key_groups
    nodes = ("node-1", "node-1", "node-2", "node-1")
    placed = Plan(placement={"b": Deployment(nodes, (0,) * groups)})

    found = laid_out(cluster=Cluster.uniform(4), current=placed)

    assert [0, 1, 2, 3] == found.node_of["a"].tolist()
    assert [1, 1, 2, 1] == found.node_of["b"].tolist()


def test_nodes_without_an_instance_are_left_out():
    found = laid_out(job(2, 1), Cluster.uniform(5))

    assert ("node-0", "node-1") == found.nodes
    assert [[1, 1], [1, 0]] == found.capacities(("a", "b")).tolist()


def test_nodes_take_in_proportion_to_their_capacity_and_instances():
    cluster = Cluster((Node("big", 4.0), Node("small", 0.5)))

    assert [[8, 0.5], [4, 0.5]] == laid_out(job(3, 2), cluster).capacities(("a", "b")).tolist()


def draining():
    """A job that was on three nodes when one of them began to drain."""
    groups = job(3, 3).operator("a").key_groups
    nodes = ("node-0", "node-1", "node-2")
    spread = tuple(group % 3 for group in range(groups))
    current = Plan(placement={name: Deployment(nodes, spread) for name in HOP})
    return job(3, 3), Cluster(Cluster.uniform(3).nodes, draining=("node-1",)), current


def test_nodes_that_drain_take_nothing():
    assert [[1, 0, 1]] * 2 == laid_out(*draining()).capacities(HOP).tolist()


def test_an_operator_that_is_on_draining_nodes_only_stays_there():
    topology, cluster, current = draining()
    groups = topology.operator("a").key_groups
    there = Plan(
        placement={"b": Deployment(("node-1",) * 3, tuple(group % 3 for group in range(groups)))}
    )
    current = current.amended(there, cluster)

    found = laid_out(topology, cluster, current).capacities(HOP)

    assert [[1, 0, 1], [0, 3, 0]] == found.tolist()


def test_tables_are_those_in_force_else_empty():
    table = RoutingTable([1, 2], [3, 0], 4)
    found = laid_out(current=Plan(routing={"b": table}))

    assert table == found.table("b")
    assert found.table("a") is None
    assert found.decided
    assert not laid_out().decided


def test_racks_count_only_where_there_are_several():
    assert laid_out().racks is None
    assert ["rack-0", "rack-1"] == laid_out(cluster=Cluster.uniform(2, racks=2)).racks


@pytest.mark.parametrize(
    ("topology", "cluster", "chance"),
    [
        (job(4, 4), Cluster.uniform(4), 1 / 4),
        (job(4, 4), Cluster.uniform(1), 1.0),
        (job(2, 1), Cluster.uniform(2), 1 / 2),
        (job(2, 2), Cluster((Node("big", 3.0), Node("small", 1.0))), 9 / 16 + 1 / 16),
    ],
)
def test_chance_is_how_often_keys_meet_that_are_dealt_out_by_capacity(topology, cluster, chance):
    assert chance == pytest.approx(laid_out(topology, cluster).chance)


def test_keys_are_on_the_node_of_their_instance():
    topology = job()
    found = laid_out(current=Plan(routing={"a": RoutingTable(np.arange(40), np.arange(40) % 4, 4)}))
    graph = graph_of(topology)

    first, second = found.on_nodes(graph)

    assert (np.arange(40) % 4 % 2).tolist() == first.assign(np.arange(40)).tolist()
    by_hash = found.owners("b", np.arange(20))
    assert (by_hash % 2).tolist() == second.assign(np.arange(20)).tolist()


def test_keys_get_instances_on_their_node_that_share_its_load():
    topology = job(4, 6)
    graph = graph_of(topology)
    partition = partition_keys(graph, 2)

    tables = laid_out(topology).divided(graph, partition)

    for place, (name, size) in enumerate((("a", 40), ("b", 20))):
        keys, table = np.arange(size), tables[name]
        nodes = partition.tables[place].assign(keys)
        assert nodes.tolist() == (table.assign(keys) % 2).tolist()
        counts = np.bincount(table.parts, minlength=table.instances)
        assert counts.max() - counts.min() <= 2  # keys weigh alike, 10 or 3.3 an instance


def test_where_a_node_has_no_instance_the_published_division_uses_another():
    topology = job(4, 2)
    graph = graph_of(topology)

    tables = laid_out(topology, Cluster.uniform(4)).divided(graph, partition_as_published(graph, 4))

    assert {0, 1} == set(tables["b"].parts.tolist())
    assert {0, 1, 2, 3} == set(tables["a"].parts.tolist())


def test_keys_not_seen_keep_their_owner():
    old = RoutingTable(["x", "y"], [3, 2], 4)
    found = laid_out(current=Plan(routing={"b": old}))

    whole = found.kept({"b": RoutingTable(["y", "z"], [0, 1], 4), "a": RoutingTable([1], [1], 4)})

    assert RoutingTable(["x", "y", "z"], [3, 0, 1], 4) == whole["b"]
    assert RoutingTable([1], [1], 4) == whole["a"]


def test_keys_not_seen_leave_a_node_that_drains():
    topology, cluster, current = draining()
    keys = np.arange(30)
    current = current.amended(Plan(routing={"b": RoutingTable(keys, keys % 3, 3)}), cluster)

    kept = laid_out(topology, cluster, current).kept({"b": RoutingTable([], [], 3)})["b"]

    assert keys.tolist() == sorted(kept.keys.tolist())
    stays = keys % 3 != 1
    assert (keys % 3)[stays].tolist() == kept.assign(keys[stays]).tolist()
    assert {0, 2} == set(kept.assign(keys[~stays]).tolist())


def test_locality_is_the_share_of_tuples_that_stay_on_their_node():
    tables = {
        "a": RoutingTable([1, 2, 3], [0, 1, 2], 4),
        "b": RoutingTable(["x", "y"], [2, 1], 4),
    }
    pairs = KeyPairs([1, 2, 3, 3], ["x", "x", "x", "y"], [10, 20, 30, 40])

    # Instances 0 and 2 are on one node, 1 and 3 on the other.
    assert 0.4 == laid_out().locality({HOP: pairs}, tables)
    assert 0.0 == laid_out().locality({}, tables)


def test_moving_counts_keys_with_a_new_instance_and_their_state_where_it_is_known():
    old = RoutingTable([1, 2, 3, 4], [0, 0, 1, 1], 4)
    found = laid_out(current=Plan(routing={"a": old, "b": old}))
    new = {"a": RoutingTable([1, 2, 3, 4], [0, 1, 2, 1], 4), "b": old}
    sized = OperatorStatistics(state_bytes=800.0)

    assert (2.0, None) == found.moving(new, Statistics())
    assert (2.0, None) == found.moving(new, Statistics(operators={"a": sized}))
    known = Statistics(operators={"a": sized, "b": OperatorStatistics(state_bytes=4.0)})
    assert (2.0, 400.0) == found.moving(new, known)


def test_a_key_that_moves_has_its_own_state_however_few_keys_the_tables_name():
    old = RoutingTable([1, 2, 3, 4], [0, 0, 1, 1], 4)
    found = laid_out(current=Plan(routing={"a": old, "b": old}))
    new = {"a": RoutingTable([1, 2, 3, 4], [0, 1, 2, 1], 4), "b": old}
    keys = KeyCounts(list(range(1000)), np.ones(1000))
    sized = OperatorStatistics(tuples=1000.0, state_bytes=8000.0)
    known = Statistics(operators={"a": sized, "b": sized}, keys={"a": keys, "b": keys})

    assert (2.0, pytest.approx(16.0)) == found.moving(new, known)


def test_tuples_are_as_large_as_on_the_edges_into_later_operators():
    topology = Topology.source("in").then("a", key="k", parallelism=2).then("wash")
    topology = topology.then("b", key="l", parallelism=2)
    found = laid_out(topology)
    sizes = {("in", "a"): EdgeStatistics(10, 9999), ("wash", "b"): EdgeStatistics(10, 500)}

    assert 50.0 == found.tuple_bytes(Statistics(edges=sizes))
    assert found.tuple_bytes(Statistics()) is None
    assert found.tuple_bytes(Statistics(edges={("wash", "b"): EdgeStatistics(10, 0)})) is None


def test_a_table_may_say_where_keys_are_that_go_by_hash_or_table():
    topology = Topology.source("keyed", key="k").then("a", key="k", parallelism=2)
    topology = topology.then("b", key="l", parallelism=2, grouping=RoutingTable([1], [0], 2))
    topology = topology.then(Operator("c", "m", partial=True), grouping=PartialKey())

    assert {"keyed": False, "a": True, "b": True, "c": False} == {
        name: one_owner_a_key(topology, name) for name in topology.order
    }


@pytest.mark.parametrize("keys", [4, 40])
def test_luck_is_how_much_the_locality_of_random_tables_varies(keys):
    random = np.random.default_rng(3)
    left, right = np.arange(keys).repeat(3), np.tile(np.arange(keys), 3)
    pairs = KeyPairs(left, right, np.where(left < keys // 4, 9, 1))
    found = laid_out()
    localities = [
        found.locality(
            {HOP: pairs},
            {name: RoutingTable(range(keys), random.integers(0, 4, keys), 4) for name in HOP},
        )
        for _ in range(400)
    ]

    assert np.mean(localities) == pytest.approx(found.chance, abs=0.03)
    assert np.std(localities) <= found.luck({HOP: pairs})
    shares = [
        pairs.counts[side == key].sum() / pairs.total
        for side in (pairs.left, pairs.right)
        for key in range(keys)
    ]
    expected = (found.chance * (1 - found.chance) * sum(share**2 for share in shares)) ** 0.5
    assert expected == pytest.approx(found.luck({HOP: pairs}))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 1 << 30), st.booleans()
)
def test_each_key_gets_a_group_of_the_instance_that_is_to_have_it(a, b, nodes, seed, known):
    random = np.random.default_rng(seed)
    topology = job(a, b)
    groups = topology.operator("a").key_groups
    placed = {
        name: Deployment(
            tuple(f"node-{node}" for node in random.integers(0, nodes, count)),
            tuple(random.integers(0, count, groups).tolist()),
        )
        for name, count in (("a", a), ("b", b))
    }
    old = GroupTable(np.arange(15), random.integers(0, groups, 15), groups)
    current = Plan(placement=placed, routing={"a": old} if known else {})
    found = laid_out(topology, Cluster.uniform(nodes), current)
    graph = graph_of(topology)
    division = {
        name: RoutingTable(np.arange(60), random.choice(placed[name].groups, 60), count)
        for name, count in (("a", a), ("b", b))
    }

    for tables in (found.in_groups(division), found.in_groups(division, graph)):
        for name in HOP:
            owners = np.array(placed[name].groups)[tables[name].assign(np.arange(60))]
            assert division[name].assign(np.arange(60)).tolist() == owners.tolist()
            assert 60 == len(tables[name])
            if known and name == "a":
                unseen = np.arange(40, 60)
                now = found.layout.owners("a").group_of(unseen)
                stays = np.array(placed["a"].groups)[now] == division["a"].assign(unseen)
                assert (tables["a"].assign(unseen) == now)[stays].all()


def test_instances_without_a_key_group_get_no_keys():
    groups = job().operator("a").key_groups
    some = tuple(2 * (group % 2) for group in range(groups))
    placement = {name: Deployment(("node-0", "node-0", "node-1", "node-1"), some) for name in HOP}
    found = laid_out(current=Plan(placement=placement))
    graph = graph_of(job())

    division = found.divided(graph, partition_keys(graph, 2))

    assert {0, 2} == set(division["a"].parts.tolist()) == set(division["b"].parts.tolist())
    assert [[1, 1], [1, 1]] == found.capacities(HOP).tolist()
