"""Cores that instances share, links that edges share, and what both ends of a way pay."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Shuffle
from optimizers import Cluster, Deployment, Node, Optimizer, Plan, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work


@dataclass(frozen=True)
class Then(Optimizer):
    """Decides a second plan after the first batch."""

    first: Plan
    second: Plan

    def plan(self, topology, cluster, statistics, current):
        return self.first if not statistics else self.second


def on(**nodes):
    return Plan(placement={name: Deployment(tuple(where)) for name, where in nodes.items()})


def machines(*names, **fields):
    return Cluster(tuple(Node(name, **fields) for name in names))


FORK = Topology.source("in").then("a").then("b", after="in")
SLOW = {"a": Work(lambda columns: columns["a"]), "b": Work(lambda columns: columns["b"])}


def started(run, operator):
    return run.operators[operator].started.tolist()


def test_seven_cores_of_work_are_slow_on_one_node_and_quick_on_eight():
    stream = Stream.poisson(rate=70.0, count=4_000, seed=1)
    job = Topology.source("in").then("work", parallelism=8, grouping=Shuffle())
    means = {
        nodes: SimulationEngine(cluster=Cluster.uniform(nodes))
        .run(job, stream, work={"work": Work(0.1)})
        .latency.mean
        for nodes in (1, 2, 8)
    }
    assert means[8] < 0.3
    assert means[2] > 50 * means[8]
    assert means[1] > 100 * means[8]
    shared = SimulationEngine(cluster=Cluster.uniform(1), cores=8)
    assert shared.run(job, stream, work={"work": Work(0.1)}).latency.mean == means[8]


@pytest.mark.parametrize("cores", [1, 2, 4, math.inf])
def test_a_node_works_on_as_many_tuples_as_it_has_cores(cores):
    job = Topology.source("in").then("work", parallelism=4, grouping=Shuffle())
    engine = SimulationEngine(cluster=Cluster.uniform(1), cores=cores)
    run = engine.run(job, Stream(np.zeros(12)), work={"work": Work(1.0)})
    served = run.operators["work"]
    at_once = [int(((served.started <= t) & (t < served.ended)).sum()) for t in served.started]
    assert max(at_once) == min(cores, 4)
    assert run.makespan == 12 / min(cores, 4)


def test_instances_take_turns_one_tuple_each():
    engine = SimulationEngine(cluster=machines("x"))
    stream = Stream(np.zeros(3), {"a": [1.0, 1.0, 1.0], "b": [1.0, 1.0, 1.0]})
    run = engine.run(FORK, stream, work=SLOW)
    assert started(run, "a") == [0.0, 2.0, 4.0]
    assert started(run, "b") == [1.0, 3.0, 5.0]


def test_what_takes_no_time_waits_for_no_core():
    engine = SimulationEngine(cluster=machines("x"))
    stream = Stream([0.0, 1.0], {"a": [9.0, 9.0], "b": [0.0, 0.0]})
    run = engine.run(FORK, stream, work=SLOW)
    assert started(run, "b") == [0.0, 1.0]


def test_a_core_is_kept_while_what_comes_of_a_tuple_is_sent():
    job = Topology.source("in").then("a").then("c").then("b", after="in")
    engine = SimulationEngine(cluster=machines("x", "y"), network=Network(per_batch=0.25))
    plan = on(**{"in": "y", "a": "x", "c": "y", "b": "x"})
    run = engine.run(job, Stream([0.0], {"a": [1.0], "b": [1.0]}), plan, work=SLOW)
    # The source sends to a, then to b; a works for a second and sends to c for a quarter.
    assert started(run, "a") == [0.25]
    assert started(run, "b") == [1.5]


def test_an_instance_that_moves_ends_where_it_has_begun():
    engine = SimulationEngine(cluster=machines("x", "y"), batch_tuples=1)
    stream = Stream([0.0, 5.0], {"a": [10.0, 1.0], "b": [0.5, 1.0]})
    plans = Then(on(a="x", b="y"), on(a="y", b="x"))
    run = engine.run(FORK, stream, plans, work=SLOW)
    assert started(run, "a") == [0.0, 10.0]
    assert started(run, "b") == [0.0, 10.0]  # x is at the first tuple of a until then


def test_instances_that_moved_wait_in_the_order_in_which_they_came():
    job = Topology.source("in")
    for name in "abcd":
        job = job.then(name, after="in")
    takes = {
        "a": [9.0, 0.0, 0.0, 0.0],  # keeps x busy
        "b": [9.0, 0.0, 0.0, 0.0],  # keeps y busy
        "c": [0.0, 0.0, 1.0, 0.0],  # waits for y
        "d": [0.0, 1.0, 0.0, 0.0],  # waits for x, from a moment later on
    }
    work = {name: Work(lambda columns, name=name: columns[name]) for name in takes}
    engine = SimulationEngine(cluster=machines("x", "y", "z"), batch_seconds=3.0)
    plans = Then(on(a="x", b="y", c="y", d="x"), on(a="x", b="y", c="z", d="z"))
    run = engine.run(job, Stream([0.0, 1.0, 2.0, 9.5], takes), plans, work=work)
    # Both move at 3 s, with three tuples each, and take turns, c before d.
    assert started(run, "c")[:3] == [3.0, 3.0, 4.0]
    assert started(run, "d")[:3] == [3.0, 3.0, 5.0]


def test_both_ends_pay_for_what_leaves_a_node():
    network = Network(per_batch=1.0, remote_per_batch=0.5, remote_per_byte=0.25)
    job = Topology.source("in").then("a")

    def busy(plan):
        engine = SimulationEngine(cluster=machines("x", "y"), network=network)
        run = engine.run(job, Stream([0.0], bytes=2.0), plan, work={"a": Work(3.0)})
        return [run.operators[name].busy.sum() for name in ("in", "a")]

    assert busy(on(**{"in": "x", "a": "x"})) == [1.0, 3.0]
    assert busy(on(**{"in": "x", "a": "y"})) == [2.0, 4.0]


def test_a_receiver_begins_once_it_has_received():
    network = Network(remote_per_batch=0.5, latency=0.25)
    engine = SimulationEngine(cluster=machines("x", "y"), network=network)
    job = Topology.source("in").then("a")
    plan = Plan(batch={"in": 2}, placement=on(**{"in": "x", "a": "y"}).placement)
    run = engine.run(job, Stream([0.0, 0.0]), plan, work={"a": Work(1.0)})
    assert run.operators["a"].arrived.tolist() == [0.75, 0.75]
    assert started(run, "a") == [1.25, 2.25]
    assert run.operators["a"].receiving.tolist() == [0.5]
    assert run.operators["a"].shipping.tolist() == [0.0]
    assert run.operators["in"].shipping.tolist() == [0.5]


WAYS = {"nodes": [1.0, 2.0, 3.0], "pairs": [1.0, 2.0, 1.0], "edges": [1.0, 1.0, 1.0]}


@pytest.mark.parametrize("links", WAYS)
def test_links_are_shared_as_the_network_says(links):
    """One tuple to a on y, to b on y, and to c on z, all sent at 0."""
    job = Topology.source("in").then("a").then("b", after="in").then("c", after="in")
    plan = on(**{"in": "x", "a": "y", "b": "y", "c": "z"})
    network = Network(bandwidth=1.0, links=links)
    engine = SimulationEngine(cluster=machines("x", "y", "z"), network=network)
    run = engine.run(job, Stream([0.0], bytes=1.0), plan)
    found = [run.operators[name].arrived[0] for name in "abc"]
    assert found == WAYS[links]


def test_racks_share_a_way_up_and_a_way_down():
    nodes = [Node("w1", rack="west"), Node("w2", rack="west"), Node("e1", rack="east")]
    cluster = Cluster((*nodes, Node("e2", rack="east")))
    job = Topology.source("in", parallelism=2).then("a", parallelism=2, grouping=Shuffle())
    stream = Stream([0.0, 0.0], bytes=8.0)
    network = Network(latency=1.0, rack_latency=2.0, bandwidth=4.0, rack_bandwidth=8.0)
    engine = SimulationEngine(cluster=cluster, network=network)

    def arrivals(where):
        run = engine.run(job, stream, on(**{"in": ("w1", "w2"), "a": where}))
        return sorted(run.operators["a"].arrived.tolist())

    assert arrivals(("w2", "w1")) == [3.0, 3.0]  # two seconds on the cards, one of latency
    # The second is held up for a second by the first, which takes one on the way out of its rack.
    assert arrivals(("e1", "e2")) == [5.0, 6.0]


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2**16),
)
def test_cores_are_never_idle_while_work_waits_nor_busy_twice(lengths, cores, nodes, seed):
    chance = np.random.default_rng(seed)
    times = np.cumsum(chance.integers(0, 3, len(lengths))).astype(float)
    job = Topology.source("in").then("a", parallelism=2, grouping=Shuffle())
    job = job.then("b", parallelism=2, grouping=Shuffle())
    stream = Stream(times, {"seconds": np.array(lengths) + 1.0})
    work = {name: Work(lambda columns: columns["seconds"]) for name in ("a", "b")}
    engine = SimulationEngine(cluster=Cluster.uniform(nodes), cores=cores)
    run = engine.run(job, stream, work=work)
    moments = np.unique(np.concatenate([run.operators[name].started for name in work]))
    for moment in moments + 0.5:
        for node in range(nodes):
            at_work, waiting = _state(run, moment, node, nodes)
            assert at_work <= cores
            assert at_work == cores or not waiting


def _state(run, moment, node, nodes):
    """Return how many instances of a node are at work, and how many could be."""
    at_work = waiting = 0
    for name in ("a", "b"):
        operator = run.operators[name]
        for instance in range(2):
            if instance % nodes != node:
                continue
            own = operator.instances == instance
            here = own & (operator.started <= moment) & (moment < operator.ended)
            queued = own & (operator.arrived <= moment) & (moment < operator.started)
            at_work += int(here.sum())
            waiting += int(queued.any() and not here.any())
    return at_work, waiting
