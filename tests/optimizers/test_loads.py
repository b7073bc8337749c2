"""Loads: amounts, and the shares of a node that they are; what is not known is absent."""

from collections import Counter, defaultdict
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.hashing import hash_parts
from optimizers import (
    Cluster,
    Deployment,
    Node,
    Optimizer,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.simulation import Network, SimulationEngine, Stream, Work

MIXED = Cluster(
    (
        Node("big", 2.0, cores=4, memory=3e9, bandwidth=1e6),
        Node("small", 1.0, cores=4, memory=3e9, bandwidth=2e6),
    )
)
ONE = np.array([1.0, 1.0])


def test_shares_are_of_what_the_node_has_times_its_capacity():
    found = GroupStatistics.of(
        MIXED,
        ["big", "small"],
        10.0,
        seconds=8.0 * ONE,
        state_bytes=np.array([1e9, 5e8]),
        remote_in=np.array([3e6, 0.0]),
        remote_out=np.array([1e6, 1e6]),
    )

    # The cores of the big one are twice as fast: a second there is two of the small one's.
    assert [0.4, 0.2] == pytest.approx(found.cpu.tolist())
    assert [2 / 3, 1 / 6] == pytest.approx(found.memory.tolist())  # 3 GB each
    # Of 10 MB each way in that time, and of 20 MB.
    assert [2 * 3 / 10, 1 / 20] == pytest.approx(found.network.tolist())
    assert found.tuples is None


@pytest.mark.parametrize("way", ["remote_in", "remote_out", "both"])
def test_a_link_that_is_full_one_way_is_full(way):
    """It read half full; and where another node had more, less still."""
    nodes = Cluster((Node("a", 4, cores=4, bandwidth=1e8), Node("b", 4, cores=4, bandwidth=1e9)))
    far = {name: 1e8 * ONE * (way in {name, "both"}) for name in ("remote_in", "remote_out")}

    found = InstanceStatistics.of(nodes, ("a", "b"), 1.0, **far)

    assert [4.0, 0.4] == pytest.approx(found.network.tolist())


def test_a_node_that_is_full_of_state_is_full_whatever_others_have():
    nodes = Cluster((Node("a", 4, memory=8e9), Node("b", 4, memory=56e9), Node("c", 4)))

    found = InstanceStatistics.of(nodes, ("a", "b"), 1.0, state_bytes=8e9 * ONE)

    assert [4.0, 4 / 7] == pytest.approx(found.memory.tolist())
    elsewhere = InstanceStatistics.of(nodes, ("a", "c"), 1.0, state_bytes=8e9 * ONE)
    assert elsewhere.memory is None


def test_shares_of_what_is_not_known_are_absent():
    amounts = {"seconds": ONE, "state_bytes": ONE, "remote_in": ONE, "remote_out": ONE}

    found = GroupStatistics.of(Cluster.uniform(1), ["node-0", "gone"], 4.0, **amounts)

    assert [0.25, 0.25] == found.cpu.tolist()
    assert found.memory is found.network is None
    half = GroupStatistics.of(MIXED, ["big", "small"], 4.0, remote_in=ONE)
    assert half.network is half.cpu is half.memory is None


@given(st.floats(0.25, 8.0), st.integers(1, 9), st.lists(st.floats(0.1, 9.0), min_size=1))
def test_a_node_is_full_when_its_loads_come_to_its_capacity(capacity, cores, seconds):
    cluster = Cluster((Node("a", capacity, cores=cores), Node("b", 1.0, cores=2)))
    busy = np.array(seconds)

    found = GroupStatistics.of(cluster, ["a"] * len(busy), busy.sum() / cores, seconds=busy)

    assert capacity == pytest.approx(found.cpu.sum())


def test_groups_are_weighed_by_tuples_if_they_were_counted():
    loads = np.array([3.0, 1.0])

    assert [3.0, 1.0] == GroupStatistics(ONE, tuples=loads).weights.tolist()
    assert [3.0, 1.0] == GroupStatistics(loads, tuples=0 * ONE).weights.tolist()
    assert [1.0, 1.0] == GroupStatistics(state_bytes=loads).weights.tolist()


def test_what_says_nothing_or_does_not_fit_is_refused():
    with pytest.raises(InvalidValueError, match="GroupStatistics without any column"):
        GroupStatistics()
    with pytest.raises(InvalidValueError, match=r"tuples of shape \(2,\) do not fit 1 keys"):
        InstanceStatistics(("a",), tuples=ONE)
    with pytest.raises(InvalidValueError, match=r"hosts=\('x',\).* of 2 machines"):
        InstanceStatistics(("a", "b"), ("x",))
    with pytest.raises(InvalidValueError, match=r"nodes=\(None,\)"):
        InstanceStatistics((None,))
    with pytest.raises(InvalidValueError, match="nodes='ab' is not a list"):
        InstanceStatistics("ab")


def test_instances_may_be_known_by_their_places_alone():
    found = InstanceStatistics(("a", "b"), (None, "x"))

    assert 2 == len(found)
    assert {} == found.columns
    assert found == InstanceStatistics(["a", "b"], [None, "x"])
    assert found != InstanceStatistics(["a", "b"])
    names = [field.name for field in fields(found)]
    assert ["nodes", "hosts"] == names[:2]


class Told(Optimizer):
    """Keeps the statistics that it gets."""

    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    def __init__(self):
        self.heard = []

    def plan(self, topology, cluster, statistics, current):
        self.heard.append(statistics)
        return Plan()


class Truth:
    """What a source ``s`` and two counts, ``a`` and ``b``, did, one tuple after the other."""

    def __init__(self, homes, network, capacity):
        self.homes, self.network, self.capacity = homes, network, capacity
        self.sums = defaultdict(Counter)
        self.shipping, self.receiving = Counter(), Counter()
        self.known = set()

    def add(self, k, value):
        sums = self.sums
        one, two = int(hash_parts([k], 5)[0]), int(hash_parts([value], 3)[0])
        at = [
            self.homes["s"].nodes[0],
            self.homes["a"].node_of(one),
            self.homes["b"].node_of(two),
        ]
        for name, group, node in (("a", one, at[1]), ("b", two, at[2])):
            work = 1e-6 * (1 + k if name == "a" else 1)
            sums[name, "tuples"][group] += 1
            sums[name, "bytes_in"][group] += 10.0
            self.spend(None, name, group, node, work / self.capacity[node])
        if k not in self.known:
            sums["a", "state_bytes"][one] += 7.0
            self.known.add(k)
        # A batch of its own: its sender pays, and its receiver if it comes from elsewhere.
        far = at[0] != at[1], at[1] != at[2]
        cost, received = self.network.cost, self.network.received(10.0)
        self.spend(self.shipping, "s", 0, at[0], cost(10.0, remote=far[0]))
        self.spend(self.receiving, "a", one, at[1], received * far[0])
        self.spend(self.shipping, "a", one, at[1], cost(10.0, remote=far[1]))
        self.spend(self.receiving, "b", two, at[2], received * far[1])
        sums["a", "bytes_out"][one] += 10.0
        sums["a", "remote_in"][one] += 10.0 * far[0]
        sums["a", "remote_out"][one] += 10.0 * far[1]
        sums["b", "remote_in"][two] += 10.0 * far[1]

    def spend(self, on, name, group, node, seconds):
        self.sums[name, "seconds"][group] += seconds
        self.sums[name, "cpu"][group] += seconds * self.capacity[node]
        if on is not None:
            on[name] += seconds


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_simulation_tells_what_was_done_tuple_by_tuple(data):
    count = data.draw(st.integers(1, 30))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    left, right = random.integers(0, 12, (2, count))
    cluster = Cluster((Node("x", 2.0), Node("y")))
    nodes = st.sampled_from(("x", "y"))
    homes = {
        name: Deployment((data.draw(nodes), data.draw(nodes)), groups)
        for name, groups in (("a", (0, 1, 0, 1, 1)), ("b", (1, 0, 0)))
    }
    homes["s"] = Deployment((data.draw(nodes),), ())
    job = Topology.source("s").then("a", key="k", parallelism=2, key_groups=5)
    job = job.then("b", key="l", parallelism=2, key_groups=3)
    rows = {"k": np.append(left, 0), "l": np.append(right, 0)}
    told = Told()

    class Placing(Told):
        def plan(self, topology, cluster, statistics, current):
            told.heard.append(statistics)
            return Plan(placement=homes) if len(told.heard) == 1 else Plan()

    costs = st.sampled_from((0.0, 2e-6, 5e-6))
    network = Network(
        per_batch=data.draw(costs),
        per_byte=data.draw(costs) / 10.0,
        remote_per_batch=data.draw(costs),
        remote_per_byte=data.draw(costs) / 10.0,
    )

    # The last tuple only ends the batch of those before.
    SimulationEngine(cluster=cluster, batch_tuples=count, network=network).run(
        job,
        Stream.steady(rows, rate=1.0, bytes=10.0),
        Placing(),
        work={
            "a": Work(lambda columns: 1e-6 * (1 + columns["k"]), state_bytes=7.0),
            "b": Work(1e-6),
        },
    )
    seen: Statistics = told.heard[1]

    truth = Truth(homes, network, {node.name: node.capacity for node in cluster.nodes})
    for k, value in zip(left.tolist(), right.tolist(), strict=True):
        truth.add(k, value)
    sums = truth.sums

    for name, groups in (("a", 5), ("b", 3)):
        found, instances = seen.groups[name], seen.instances[name]
        assert homes[name].nodes == instances.nodes
        for part, column in found.columns.items():
            each = 1.0 / seen.seconds if part == "cpu" else 1.0
            expected = [sums[name, part][group] * each for group in range(groups)]
            assert expected == pytest.approx(column.tolist()), (name, part)
            whole = np.bincount(homes[name].groups, column, 2)
            assert whole.tolist() == pytest.approx(getattr(instances, part).tolist())
    for name in "sab":
        instances, operator = seen.instances[name], seen.operators[name]
        for fact, wanted in (
            ("shipping", truth.shipping[name]),
            ("receiving", truth.receiving[name]),
        ):
            assert getattr(instances, fact).sum() == pytest.approx(wanted)
            assert getattr(operator, fact) == pytest.approx(wanted)
        parts = operator.seconds + operator.shipping + operator.receiving
        assert instances.seconds.sum() == pytest.approx(parts)
    source = seen.instances["s"]
    assert ([count], [10.0 * count]) == (source.tuples.tolist(), source.bytes_out.tolist())
    assert sum(sums["a", "remote_in"].values()) == pytest.approx(source.remote_out.sum())
    assert source.hosts is None
