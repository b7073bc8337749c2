"""Locality: it routes what is correlated and lasts, and leaves the rest alone."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from locality_jobs import HOP, NODES, ask, correlated, figures, job, locality, owners, run

from grouping.groupings import Fields, PartialKey
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_as_published
from optimizers import (
    Chain,
    Cluster,
    Deployment,
    Fixed,
    Node,
    Operator,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.deployment import default_groups
from optimizers.errors import InvalidValueError
from optimizers.strategies.locality import Locality
from optimizers.strategies.locality_published import PublishedLocality
from optimizers.testing import OptimizerContract, World, example_statistics, example_worlds

IMBALANCE = 1.03


class TestLocality(OptimizerContract):
    optimizer = Locality()


class TestLocalityThatAlwaysProposes(OptimizerContract):
    optimizer = Locality(worth=0)


class TestLocalityAsPublished(OptimizerContract):
    optimizer = Locality.published()


class TestLocalityOffline(OptimizerContract):
    optimizer = Locality(offline=True, worth=0)


class TestLocalityInAChain(OptimizerContract):
    optimizer = Chain(Fixed(Plan(batch={})), Locality(worth=0))


class TestLocalityOfWorldsWithPartialKeys(OptimizerContract):
    optimizer = Locality(worth=0)

    def worlds(self):
        split = Operator("b", "l", partial=True, parallelism=3)
        topology = job(b=None).then(split, grouping=PartialKey()).then("c", key="m", parallelism=2)
        return [World(topology, Cluster.uniform(2), example_statistics(topology))]


# Shapes of jobs.


def shapes():
    """Jobs with their hops: a fork, a join, three in a row, and stateless operators between."""
    start = Topology.source("in")
    chain = start.then("a", key="k", parallelism=3).then("b", key="l", parallelism=3)
    yield "chain", chain.then("c", key="m", parallelism=3)
    yield "fork", chain.then("c", key="m", after="a", parallelism=3)
    yield (
        "join",
        (
            start.then("a", key="k", parallelism=3)
            .then("b", key="l", after="in", parallelism=3)
            .then("c", key="m", after=("a", "b"), parallelism=3)
        ),
    )
    between = start.then("a", key="k", parallelism=3).then("wash", parallelism=2)
    yield "between", between.then("b", key="l", parallelism=3).then("c", key="m", parallelism=3)


@pytest.mark.parametrize(("name", "topology"), list(shapes()))
@pytest.mark.parametrize("optimizer", [Locality(), Locality.published()], ids=["ours", "published"])
def test_operators_of_any_shape_of_job_are_routed_together(name, topology, optimizer):
    keys = np.arange(90)  # the hash sends equal keys of two operators to one place anyway
    sides = {"a": keys, "b": keys * 7 + 100, "c": keys * 11 + 5000}
    pairs = {(a, b): KeyPairs(sides[a], sides[b], keys + 50) for a, b in topology.keyed_hops}

    plan = ask(optimizer, pairs, topology=topology, cluster=Cluster.uniform(3))

    assert {"a", "b", "c"} == set(plan.routing)
    for hop, seen in pairs.items():
        assert (
            locality(plan, seen, topology=topology, cluster=Cluster.uniform(3), hop=hop) >= 0.9
        ), (name, hop)


def test_operators_that_were_not_seen_are_left_alone():
    topology = job().then("c", key="m", parallelism=2)

    plan = ask(Locality(), correlated(0), topology=topology)

    assert set(HOP) == set(plan.routing)


def test_keys_that_are_split_and_keys_of_sources_are_left_alone():
    split = Topology.source("in").then("a", key="k", parallelism=2)
    split = split.then(Operator("b", "l", partial=True, parallelism=2), grouping=PartialKey())
    keyed = Topology.source("a", key="k", parallelism=2).then("b", key="l", parallelism=2)

    for topology in (split, keyed):
        assert not ask(Locality(worth=0), correlated(0), topology=topology)


HINDRANCES = {
    "no key": (Topology.source("in").then("a", parallelism=2), "no operator has a key"),
    "one key": (
        Topology.source("in").then("a", key="k").then("out", after="a"),
        "no operator with a key feeds another one",
    ),
    "no two in a row": (
        Topology.source("in").then("a", key="k", after="in").then("b", key="l", after="in"),
        "no operator with a key feeds another one",
    ),
    "split": (
        Topology.source("in")
        .then("a", key="k")
        .then(Operator("b", "l", partial=True, parallelism=2), grouping=PartialKey()),
        "keys of 'b' are not its own by hash or table",
    ),
    "wide": (
        Topology.source("in").then("a", key=("k", "m")).then("b", key="l"),
        "the key of 'a' has several columns",
    ),
}


@pytest.mark.parametrize("what", HINDRANCES)
@pytest.mark.parametrize("strategy", [Locality(), Locality.published(), Locality(offline=True)])
def test_it_says_so_where_it_can_do_nothing(what, strategy):
    topology, reason = HINDRANCES[what]

    for plan in (
        ask(strategy, {}, topology=topology),
        ask(Chain(Fixed(Plan()), strategy), {}, topology=topology),
    ):
        (note,) = plan.notes
        assert note.idle
        assert (strategy.name, f"can do nothing for this job: {reason}") == (note.by, note.text)


def test_it_does_not_say_so_where_it_has_only_seen_nothing_yet():
    mixed = HINDRANCES["wide"][0].then("c", key="n")

    assert Plan() == ask(Locality(), {})
    assert Plan() == ask(Locality(), {}, topology=mixed)


def test_several_instances_on_a_node_share_its_keys():
    topology, cluster = job(8, 12), Cluster.uniform(4)

    plan = ask(Locality(), correlated(0), topology=topology, cluster=cluster)

    assert locality(plan, correlated(99), topology=topology, cluster=cluster) >= 0.85
    pairs = correlated(0)
    for name, side in (("a", pairs.left), ("b", pairs.right)):
        held = np.bincount(owners(plan, name, side, topology=topology), pairs.counts)
        assert len(held) == topology.operator(name).parallelism
        # Within a node, to the heaviest key; among nodes, to the imbalance.
        heaviest = np.bincount(side, pairs.counts).max()
        assert held.max() <= IMBALANCE * held.mean() + heaviest


@pytest.mark.parametrize("published", [False, True])
def test_operators_may_have_different_numbers_of_instances(published):
    optimizer = Locality.published() if published else Locality(worth=0)

    plan = ask(optimizer, correlated(0), topology=job(4, 2))

    for name, number in (("a", 4), ("b", 2)):
        keys = plan.routing[name].keys
        found = owners(plan, name, keys, topology=job(4, 2))
        assert set(range(number)) == set(found.tolist())


def test_nodes_get_what_they_can_take():
    cluster = Cluster(
        tuple(Node(f"n{place}", capacity) for place, capacity in enumerate((4, 2, 1, 1)))
    )
    pairs = correlated(0)

    plan = ask(Locality(), pairs, cluster=cluster)

    for name, side in (("a", pairs.left), ("b", pairs.right)):
        held = np.bincount(owners(plan, name, side, cluster=cluster), pairs.counts, NODES)
        assert (held <= IMBALANCE * 20_000 * np.array([4, 2, 1, 1]) / 8 * (1 + 1e-8)).all()


def test_what_cannot_be_on_a_node_is_kept_in_its_rack():
    cluster = Cluster.uniform(NODES, racks=2)
    pairs = correlated(0, groups=2, inside=1.0)  # each group fills two nodes

    plan = ask(Locality(), pairs, cluster=cluster)

    here = owners(plan, "a", pairs.left, cluster=cluster) % 2
    there = owners(plan, "b", pairs.right, cluster=cluster) % 2
    assert pairs.counts[here == there].sum() >= 0.95 * pairs.total


def test_nodes_that_drain_get_no_keys():
    topology = job()
    nodes = tuple(node.name for node in Cluster.uniform(NODES).nodes)
    groups = default_groups(topology.operator("a"))
    there = Plan(placement={name: Deployment(nodes, groups) for name in HOP})
    _, settled = run(Locality(), [correlated(0)])
    cluster = Cluster(Cluster.uniform(NODES).nodes, draining=("node-2",))

    plan = ask(
        Locality(worth=0), correlated(1), cluster=cluster, current=settled.amended(there, cluster)
    )

    later = settled.amended(there, cluster).amended(plan, cluster)
    for name, table in plan.routing.items():
        assert {0, 1, 3} == set(owners(later, name, table.keys, cluster=cluster).tolist())


def test_on_a_single_node_there_is_nothing_to_gain():
    decision = ask(Locality(), correlated(0), cluster=Cluster.uniform(1))

    assert not decision
    assert 0.0 == figures(decision)["gained"]


# What was before.


@pytest.mark.parametrize(
    "strategy", [Locality(offline=True, worth=0), Locality.published(offline=True)]
)
def test_offline_decides_once(strategy):
    decisions, plan = run(strategy, [correlated(e) for e in range(3)])

    assert [True, False, False] == [bool(decision) for decision in decisions]
    assert [0, 0] == [len(decision.notes) for decision in decisions[1:]]
    assert plan.routing == decisions[0].routing


def few(pairs, most):
    some = pairs.left < most
    return KeyPairs(pairs.left[some], pairs.right[some], pairs.counts[some])


def test_keys_that_were_not_seen_again_stay_with_their_owner():
    _, settled = run(Locality(), [correlated(0)])

    plan = ask(Locality(worth=0), few(correlated(1), 50), current=settled)

    absent = np.arange(50, 200)
    old, new = settled.routing["a"], plan.routing["a"]
    assert old.assign(absent).tolist() == new.assign(absent).tolist()
    assert set(range(200)) == set(new.keys.tolist())


def test_as_published_keys_that_were_not_seen_again_go_by_hash():
    _, settled = run(Locality.published(), [correlated(0)])

    plan = ask(Locality.published(), few(correlated(1), 50), current=settled)

    assert set(range(50)) == set(plan.routing["a"].keys.tolist())


def test_published_is_the_partition_of_the_last_epoch_whatever_was_before():
    pairs = correlated(0)

    plan = ask(Locality.published(seed=5), pairs, history={HOP: correlated(1, seed=3)})

    expected = partition_as_published(KeyGraph.of({HOP: pairs}), NODES, seed=5)
    for name, table in zip(HOP, expected.tables, strict=True):
        assert table.keys.tolist() == plan.routing[name].keys.tolist()
        assert table.parts.tolist() == owners(plan, name, table.keys).tolist()
    assert 0.0 == Locality.published().memory
    assert PublishedLocality(offline=True, seed=5) == Locality.published(offline=True, seed=5)


def test_after_a_change_of_parallelism_keys_that_belong_together_are_together():
    cluster = Cluster.uniform(8)
    _, settled = run(Locality(), [correlated(0)])
    chain = Chain(Fixed(Plan(parallelism={"a": 8, "b": 8})), Locality())

    plan = ask(chain, correlated(1), cluster=cluster, current=settled)

    later = settled.amended(plan, cluster)
    assert locality(later, correlated(99), cluster=cluster) >= 0.8
    for name, table in later.routing.items():
        found = owners(later, name, table.keys, cluster=cluster)
        assert set(range(8)) == set(found.tolist())


def test_later_steps_of_a_chain_see_the_routing():
    chain = Chain(Locality(), Fixed(Plan(batch={"in": 500})))

    plan = ask(chain, correlated(0))

    assert {"in": 500} == plan.batch
    assert set(HOP) == set(plan.routing)
    assert 0.85 == chain.memory


def test_declared_fields_are_routed_as_the_default_is():
    declared = Topology.source("in").then("a", key="k", parallelism=4, grouping=Fields())
    declared = declared.then("b", key="l", parallelism=4, grouping=Fields())

    assert ask(Locality(), correlated(0)) == ask(Locality(), correlated(0), topology=declared)


def test_text_keys_are_routed_as_well():
    pairs = correlated(0)
    named = KeyPairs([f"p{k}" for k in pairs.left], [b"t%d" % k for k in pairs.right], pairs.counts)

    plan = ask(Locality(), named)

    assert locality(plan, named) >= 0.85


# The contract.


def test_it_observes_pairs_and_sizes_and_remembers():
    assert frozenset({Probe.PAIRS, Probe.OPERATORS}) == Locality().observes
    assert 0.85 == Locality().memory
    assert "Locality" == Locality().name


def test_without_pairs_nothing_is_decided():
    for pairs in ({}, {HOP: KeyPairs([], [], [])}, {HOP: KeyPairs([1], [2], [0])}):
        assert Plan() == ask(Locality(worth=0), pairs)


def test_pairs_that_were_counted_zero_do_not_matter():
    pairs = correlated(0)
    more = KeyPairs([*pairs.left, 999], [*pairs.right, 999], [*pairs.counts, 0])

    assert ask(Locality(), pairs).routing == ask(Locality(), more).routing


def test_another_process_answers_alike():
    world = World(job(), Cluster.uniform(NODES), Statistics(pairs={HOP: correlated(0)}))
    script = (
        "import pickle, sys; world, optimizer = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(pickle.dumps(world.ask(optimizer)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps((world, Locality())),
        capture_output=True,
        check=True,
    )

    plan = world.ask(Locality())
    assert plan
    assert plan == pickle.loads(answer.stdout)  # noqa: S301  # our own words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"imbalance": 0.9}, "imbalance=0.9 would leave load without an instance"),
        ({"imbalance": float("inf")}, "imbalance=inf is not finite"),
        ({"memory": 1.5}, "memory=1.5 is out of range"),
        ({"memory": "long"}, "memory='long' is not a number"),
        ({"inertia": -1}, "inertia=-1 is out of range"),
        ({"worth": -0.1}, "worth=-0.1 is out of range"),
        ({"tries": 0}, "tries=0 is out of range"),
        ({"tries": 1.0}, "tries=1.0 is not a whole number"),
        ({"seed": -1}, "seed=-1 is out of range"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InvalidValueError, match=words):
        Locality(**settings)


def test_the_worlds_of_the_contract_are_worlds_it_decides_in():
    assert any(world.ask(Locality(worth=0)) for world in example_worlds())


def test_tables_say_that_they_adopt_unless_told_otherwise():
    world = World(job(), Cluster.uniform(NODES), Statistics(pairs={HOP: correlated(0)}))

    def adopting(optimizer):
        plan = world.ask(optimizer)
        assert HOP == tuple(plan.routing)
        return plan.adopt

    assert HOP == adopting(Locality(worth=0))
    assert () == adopting(Locality(worth=0, adopts=False))
    assert () == adopting(Locality.published())


def test_instances_are_balanced_by_counted_keys():
    pairs = correlated(0)
    keys, number = np.unique(pairs.left, return_inverse=True)
    counts = np.bincount(number, pairs.counts)
    counts[keys % 16 < 4] *= 3  # the partners of these groups were mostly not reported
    known = Statistics(pairs={HOP: pairs}, keys={"a": KeyCounts(keys, counts)})

    def fullest(statistics):
        plan = World(job(), Cluster.uniform(NODES), statistics).ask(Locality(worth=0))
        loads = np.bincount(owners(plan, "a", keys), counts)
        return loads.max() / loads.mean()

    assert fullest(known) <= IMBALANCE + 1e-9
    assert fullest(replace(known, keys={})) > IMBALANCE + 0.05
