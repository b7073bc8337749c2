"""Executors come and go: nodes follow the hosts, and instances are held where those are."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from optimizers import Cluster, Deployment, Node, Optimizer, Plan, Topology
from optimizers.deployment import default_groups
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.spark import SparkEngine, machines
from optimizers.spark.machines import Machines
from optimizers.spark.pinning import executor_hosts

JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=3, apply=Count(emit=Emit.TUPLES))
    .then("b", key="l", parallelism=2)
)


class Executors:
    """The hosts that executors run on."""

    def __init__(self, **hosts):
        self.hosts = hosts

    def __call__(self, session):
        return {host: tuple(names) for host, names in sorted(self.hosts.items())}


class Pins:
    """Stands for what holds instances: keeps which nodes it was asked for."""

    def __init__(self, session, hosts):
        self.hosts, self.kept = hosts, set()

    def held(self, parcels, nodes):
        self.kept.add(tuple(nodes))
        return parcels

    def forget(self, used):
        self.kept &= {tuple(nodes) for nodes in used}


@pytest.fixture
def executors(monkeypatch):
    found = Executors()
    monkeypatch.setattr(machines, "executor_hosts", found)
    return found


@pytest.fixture
def pins(monkeypatch):
    made = []

    def make(session, hosts):
        made.append(Pins(session, hosts))
        return made[-1]

    monkeypatch.setattr(machines, "Pins", make)
    return made


def names(cluster):
    return [node.name for node in cluster.nodes]


class TestClusters:
    def test_are_the_hosts_each_as_capable_as_it_has_executors(self, executors, pins):
        executors.hosts = {"x": "12", "y": "3"}

        assert Cluster((Node("x", 2.0), Node("y", 1.0))) == Machines(None, JOB, None).cluster

    @pytest.mark.parametrize("hosts", [{}, {"x": "12"}])
    def test_are_only_thought_of_where_there_is_no_choice_of_hosts(self, executors, pins, hosts):
        executors.hosts = hosts
        found = Machines(None, JOB, None)

        assert Cluster.uniform(3) == found.cluster == found.look()
        assert [] == pins

    def test_follow_the_hosts(self, executors, pins, caplog):
        executors.hosts = {"x": "1", "y": "2"}
        found = Machines(None, JOB, None)
        before = found.cluster
        assert before is found.look()

        executors.hosts = {"y": "2", "z": "34"}

        assert {"y": 1.0, "z": 2.0} == {node.name: node.capacity for node in found.look().nodes}
        assert found.cluster.deal(2) == ("z", "y")
        assert "['x'] left, ['z'] came" in caplog.text
        executors.hosts = {"y": "2"}  # the cluster is real by now, and stays so
        assert ["y"] == names(found.look())
        executors.hosts = {}
        assert ["y"] == names(found.look())

    def test_begin_with_one_host_and_become_several(self, executors, pins):
        executors.hosts = {"x": "1"}
        found = Machines(None, JOB, None)

        executors.hosts = {"x": "1", "y": "2"}

        assert ["x", "y"] == names(found.look())
        assert 1 == len(pins)
        executors.hosts = {"y": "2"}
        assert ["y"] == names(found.look())

    def test_that_are_given_stay_as_they_are(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        given = Cluster((Node("x"), Node("y"), Node("w")))
        found = Machines(None, JOB, given)

        executors.hosts = {"y": "2", "z": "3"}

        assert given == found.cluster == found.look()
        assert ["x", "y"] == sorted(pins[0].hosts)
        assert ["y", "z"] == sorted(pins[1].hosts)

    def test_that_are_given_and_name_no_host_hold_nothing(self, executors, pins, caplog):
        executors.hosts = {"x": "1", "y": "2"}

        Machines(None, JOB, Cluster.uniform(3))

        assert [] == pins
        assert "no node of ['node-0', 'node-1', 'node-2'] is called as one of the hosts" in (
            caplog.text
        )


class TestPins:
    def test_of_earlier_layouts_are_given_back(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        found = Machines(None, JOB, None)
        layouts = [
            Layout.of(JOB, found.cluster, Plan(placement={"b": Deployment(homes, GROUPS)}))
            for homes in (("x", "y"), ("y", "x"))
        ]
        for layout in layouts:
            for stage in (1, 2):
                found.held(None, layout, stage)

        found.forget_others(layouts[1])

        assert {("x", "y", "x"), ("y", "x")} == pins[0].kept
        found.rest()
        assert set() == pins[0].kept

    def test_are_made_anew_for_other_executors_on_the_same_hosts(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        found = Machines(None, JOB, None)
        found.held(None, Layout.of(JOB, found.cluster, Plan()), 1)

        executors.hosts = {"x": "1", "y": "3"}
        before = found.cluster

        assert before == found.look()
        assert set() == pins[0].kept
        assert {"x": ("1",), "y": ("3",)} == pins[1].hosts


GROUPS = default_groups(JOB.operator("b"))


class Placing(Optimizer):
    """Places all of operator b on the first node it is shown, once."""

    def __init__(self):
        self.seen = []

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(names(cluster))
        if statistics:
            return Plan()
        return Plan(placement={"b": Deployment((names(cluster)[0],) * 2, GROUPS)})


@pytest.mark.spark
def test_a_run_follows_its_executors(spark, tmp_path, executors):
    executors.hosts = {"x": ["8"], "y": ["9"]}  # none that Spark knows
    engine = SparkEngine(checkpoint=str(tmp_path / "job"), spark=spark, every=1)
    keys = list(range(30))
    rows = spark.createDataFrame(pa.table({"k": keys, "l": keys}))
    optimizer = Placing()
    cached = spark.sparkContext._jsc.getPersistentRDDs  # noqa: SLF001
    before = cached().size()

    run = engine.run(JOB, [], optimizer)
    run.execute(rows)
    assert ("x", "x") == run.layout.homes["b"].nodes
    assert 2 == cached().size() - before  # an anchor for each stage
    executors.hosts = {"y": ["9"], "z": ["10"]}
    run.execute(rows)  # looks at the end of the batch
    # The plan in force has "a" on "y", too: the host that came takes over from the one that left.
    assert ("z", "z") == run.layout.homes["b"].nodes
    assert 0 == cached().size() - before
    run.execute(rows)

    assert [["x", "y"], ["x", "y"], ["y", "z"], ["y", "z"]] == optimizer.seen
    assert [False, False, True, False, False] == [said.fits for said in run.decisions]
    assert [3] * 30 == run.state("b").column("count").to_pylist()
    assert 2 == cached().size() - before
    run.rest()
    assert 0 == cached().size() - before


def test_executors_are_told_apart_by_host():
    def executor(name, place):
        return SimpleNamespace(id=lambda: name, hostPort=lambda: place)

    there = [executor("driver", "d:1"), executor("1", "x:7"), executor("0", "x:5")]
    store = SimpleNamespace(size=lambda: len(there), apply=there.__getitem__)
    status = SimpleNamespace(executorList=lambda active: store)
    context = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: status))
    session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context))

    assert {"x": ("0", "1")} == executor_hosts(session)
