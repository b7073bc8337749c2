"""What a new routing starts from: machines, owners of now, and what a change would move."""

import numpy as np
import pytest

from grouping.groupings import PartialKey
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_as_published, partition_keys
from grouping.routing_table import RoutingTable
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
from optimizers.strategies.standing import Standing, one_owner_a_key

HOP = ("a", "b")
PAIRS = KeyPairs(np.arange(40), np.arange(40) % 20, np.ones(40))


def job(a=4, b=4):
    return Topology.source("in").then("a", key="k", parallelism=a).then("b", key="l", parallelism=b)


def standing(topology=None, cluster=None, current=None):
    current = Plan() if current is None else current
    topology = (job() if topology is None else topology).under(current)
    return Standing(topology, Cluster.uniform(2) if cluster is None else cluster, current, (HOP,))


def graph_of(topology):
    return KeyGraph.of({HOP: PAIRS}, topology.order)


def test_operators_stand_in_the_order_of_the_job():
    topology = job().then("c", key="m")
    found = Standing(topology, Cluster.uniform(2), Plan(), (("b", "c"), ("a", "b")))

    assert ("a", "b", "c") == found.names


def test_instances_are_where_the_plan_places_them_else_dealt_out():
    groups = job().operator("b").key_groups
    nodes = ("node-1", "node-1", "node-2", "node-1")
    placed = Plan(placement={"b": Deployment(nodes, (0,) * groups)})

    found = standing(cluster=Cluster.uniform(4), current=placed)

    assert ("node-0", "node-1", "node-2", "node-3") == found.deployed["a"]
    assert [1, 1, 2, 1] == found.node_of["b"].tolist()


def test_nodes_without_an_instance_are_left_out():
    found = standing(job(2, 1), Cluster.uniform(5))

    assert ("node-0", "node-1") == found.nodes
    assert [[1, 1], [1, 0]] == found.capacities(("a", "b")).tolist()


def test_nodes_take_in_proportion_to_their_capacity_and_instances():
    cluster = Cluster((Node("big", 4.0), Node("small", 0.5)))

    assert [[8, 0.5], [4, 0.5]] == standing(job(3, 2), cluster).capacities(("a", "b")).tolist()


def draining():
    """A job that was on three nodes when one of them began to drain."""
    groups = job(3, 3).operator("a").key_groups
    nodes = ("node-0", "node-1", "node-2")
    current = Plan(placement={name: Deployment(nodes, (0,) * groups) for name in HOP})
    return job(3, 3), Cluster(Cluster.uniform(3).nodes, draining=("node-1",)), current


def test_nodes_that_drain_take_nothing():
    assert [[1, 0, 1]] * 2 == standing(*draining()).capacities(HOP).tolist()


def test_an_operator_that_is_on_draining_nodes_only_stays_there():
    topology, cluster, current = draining()
    groups = topology.operator("a").key_groups
    there = Plan(placement={"b": Deployment(("node-1",) * 3, (0,) * groups)})
    current = current.amended(there, cluster)

    found = standing(topology, cluster, current).capacities(HOP)

    assert [[1, 0, 1], [0, 3, 0]] == found.tolist()


def test_tables_are_those_in_force_else_empty():
    table = RoutingTable([1, 2], [3, 0], 4)
    found = standing(current=Plan(routing={"b": table}))

    assert table == found.tables["b"]
    assert RoutingTable([], [], 4) == found.tables["a"]
    assert found.decided
    assert not standing().decided


def test_racks_count_only_where_there_are_several():
    assert standing().racks is None
    assert ["rack-0", "rack-1"] == standing(cluster=Cluster.uniform(2, racks=2)).racks


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
    assert chance == pytest.approx(standing(topology, cluster).chance)


def test_keys_are_on_the_node_of_their_instance():
    topology = job()
    found = standing(current=Plan(routing={"a": RoutingTable(np.arange(40), np.arange(40) % 4, 4)}))
    graph = graph_of(topology)

    first, second = found.on_nodes(graph)

    assert (np.arange(40) % 4 % 2).tolist() == first.assign(np.arange(40)).tolist()
    by_hash = RoutingTable([], [], 4).assign(np.arange(20))
    assert (by_hash % 2).tolist() == second.assign(np.arange(20)).tolist()


def test_keys_get_instances_on_their_node_that_share_its_load():
    topology = job(4, 6)
    graph = graph_of(topology)
    partition = partition_keys(graph, 2)

    tables = standing(topology).instances(graph, partition)

    for place, (name, size) in enumerate((("a", 40), ("b", 20))):
        keys, table = np.arange(size), tables[name]
        nodes = partition.tables[place].assign(keys)
        assert nodes.tolist() == (table.assign(keys) % 2).tolist()
        counts = np.bincount(table.parts, minlength=table.instances)
        assert counts.max() - counts.min() <= 2  # keys weigh alike, 10 or 3.3 an instance


def test_where_a_node_has_no_instance_the_published_division_uses_another():
    topology = job(4, 2)
    graph = graph_of(topology)

    tables = standing(topology, Cluster.uniform(4)).instances(
        graph, partition_as_published(graph, 4)
    )

    assert {0, 1} == set(tables["b"].parts.tolist())
    assert {0, 1, 2, 3} == set(tables["a"].parts.tolist())


def test_keys_not_seen_keep_their_owner():
    old = RoutingTable(["x", "y"], [3, 2], 4)
    found = standing(current=Plan(routing={"b": old}))

    whole = found.kept({"b": RoutingTable(["y", "z"], [0, 1], 4), "a": RoutingTable([1], [1], 4)})

    assert RoutingTable(["x", "y", "z"], [3, 0, 1], 4) == whole["b"]
    assert RoutingTable([1], [1], 4) == whole["a"]


def test_keys_not_seen_leave_a_node_that_drains():
    topology, cluster, current = draining()
    keys = np.arange(30)
    current = current.amended(Plan(routing={"b": RoutingTable(keys, keys % 3, 3)}), cluster)

    kept = standing(topology, cluster, current).kept({"b": RoutingTable([], [], 3)})["b"]

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
    assert 0.4 == standing().locality(tables, {HOP: pairs})
    assert 0.0 == standing().locality(tables, {})


def test_moving_counts_keys_with_a_new_instance_and_their_state_where_it_is_known():
    old = RoutingTable([1, 2, 3, 4], [0, 0, 1, 1], 4)
    found = standing(current=Plan(routing={"a": old, "b": old}))
    new = {"a": RoutingTable([1, 2, 3, 4], [0, 1, 2, 1], 4), "b": old}
    sized = OperatorStatistics(state_bytes=800.0)

    assert (2.0, None) == found.moving(new, Statistics())
    assert (2.0, None) == found.moving(new, Statistics(operators={"a": sized}))
    known = Statistics(operators={"a": sized, "b": OperatorStatistics(state_bytes=4.0)})
    assert (2.0, 400.0) == found.moving(new, known)


def test_tuples_are_as_large_as_on_the_edges_into_later_operators():
    topology = Topology.source("in").then("a", key="k", parallelism=2).then("wash")
    topology = topology.then("b", key="l", parallelism=2)
    found = Standing(topology, Cluster.uniform(2), Plan(), (HOP,))
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
    found = standing()
    localities = [
        found.locality(
            {name: RoutingTable(range(keys), random.integers(0, 4, keys), 4) for name in HOP},
            {HOP: pairs},
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
