"""What the user says of hosts counts before what is read of them, while they come and go."""

from types import SimpleNamespace

import pytest

from optimizers import Cluster, Node, Topology
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.spark import SparkEngine, SparkExecutors, checks, harness, machines
from optimizers.spark.executors import Host
from optimizers.spark.harness import SparkHarness
from optimizers.spark.machine_facts import MachineFacts
from optimizers.spark.machines import Machines

JOB = Topology.source("s").then("a", key="k", parallelism=3)
LINK = 1.25e9


class Read:
    """Stands for what Spark and hosts tell: their executors, each with one core, and memory."""

    def __init__(self):
        self.hosts, self.here = {}, None

    def __call__(self):
        return {name: Host(tuple(names), len(names)) for name, names in sorted(self.hosts.items())}

    def of(self, hosts):
        return {name: MachineFacts({name: 100.0}, None) for name in hosts}


@pytest.fixture
def read(monkeypatch):
    found = Read()
    found.hosts = {"x": "12", "y": "3"}
    monkeypatch.setattr(machines, "HostReader", lambda session: found)
    monkeypatch.setattr(machines, "Survey", lambda session: found)
    monkeypatch.setattr(machines, "rack_of", lambda session, host: {"y": "dc"}.get(host))
    pins = SimpleNamespace(forget=lambda used: None)
    monkeypatch.setattr(machines, "Pins", lambda session, hosts: pins)
    return found


def session():
    """A session that is none."""
    conf = SimpleNamespace(get={"spark.task.cpus": "1"}.get)
    context = SimpleNamespace(getConf=lambda: conf, defaultParallelism=6, master="spark://x:7077")
    return SimpleNamespace(version="4", sparkContext=context)


def looking(hosts):
    engine = SparkEngine(checkpoint="x", hosts=hosts)
    return Machines(session(), JOB, engine.cluster, engine.hosts)


def test_the_rest_is_read(read):
    said = {"x": {"bandwidth": LINK, "rack": "left"}, "z": {"bandwidth": 1.0}}

    assert (
        Node("x", 2.0, "left", cores=2, memory=100, bandwidth=LINK),
        Node("y", 1.0, "dc", cores=1, memory=100),
    ) == looking(said).cluster.nodes


def test_all_of_it_counts_before_what_is_read(read):
    every = {"capacity": 7, "rack": "r", "cores": 8, "memory": 9, "bandwidth": 10}

    x, y = looking({"x": every, "y": {"capacity": 1.0, "rack": "rack-0"}}).cluster.nodes

    assert Node("x", 7.0, "r", 8, 9, 10) == x
    assert Node("y", 1.0, "rack-0", cores=1, memory=100) == y  # said, and so not "dc"


def test_hosts_come_and_go_and_what_is_said_of_them_comes_with_them(read):
    asked = []

    def said(host):
        asked.append(host)
        return None if host == "y" else {"bandwidth": LINK}

    found = looking(said)
    assert [LINK, None] == [node.bandwidth for node in found.cluster.nodes]

    read.hosts = {"y": "3", "z": "45"}
    cluster = found.look()

    assert ["y", "z"] == [node.name for node in cluster.nodes]
    assert [None, LINK] == [node.bandwidth for node in cluster.nodes]
    assert Node("z", 2.0, cores=2, memory=100, bandwidth=LINK) == cluster.node("z")
    assert ("z", "y") == cluster.deal(2)  # it has the place of the one that left
    assert {"x", "y", "z"} == set(asked)
    assert found.look() is cluster


def test_nodes_that_are_thought_of_share_the_memory_that_is_said(read):
    read.hosts = {"x": "12"}

    nodes = looking({"x": {"memory": 600}}).cluster.nodes

    assert [200.0] * 3 == [node.memory for node in nodes]


def test_names_that_no_host_has_are_pointed_out(read, caplog):
    looking({"x.example.org": {"cores": 2}})
    assert "nothing of any of the hosts ['x', 'y'], but of ['x.example.org']" in caplog.text

    caplog.clear()
    looking({"x": {"cores": 2}, "later": {"cores": 2}})
    assert not caplog.text


def test_a_function_that_fails_is_refused_at_the_start_and_later_ends_no_job(read, caplog):
    def said(host):
        return {"bandwidth": {"x": 1.0, "y": 2.0}[host]}

    found = looking(said)
    read.hosts = {"x": "1", "new": "2"}
    assert Node("new", 1.0, cores=1, memory=100) == found.look().node("new")
    assert 1.0 == found.cluster.node("x").bandwidth
    assert "host new is taken as it was read: hosts: the function raised KeyError" in caplog.text

    with pytest.raises(InvalidValueError, match="raised KeyError for 'new': 'new'; let it return"):
        looking(said)
    with pytest.raises(InvalidValueError, match=r"hosts\['new'\]=3 are no properties"):
        looking(lambda host: 3)
    with pytest.raises(UnknownNameError, match="'speed'"):
        looking(lambda host: {"speed": 3})


REFUSED = {
    "a number": (3, InvalidValueError, "hosts=3 is neither a mapping"),
    "a class": (dict, InvalidValueError, "is neither a mapping"),
    "nodes": ({"x": Node("x")}, InvalidValueError, r"hosts\['x'\]=Node\(.*are no properties"),
    "a typo": ({"x": {"bandwith": 1}}, UnknownNameError, r"hosts\['x'\].*bandwith"),
    "a name": ({"x": {"name": "y"}}, UnknownNameError, "'name'"),
    "no amount": ({"x": {"bandwidth": 0}}, InvalidValueError, r"hosts\['x'\]: bandwidth=0"),
    "no rack": ({"x": {"rack": 3}}, InvalidValueError, r"hosts\['x'\]: rack"),
    "no host": ({3: {"cores": 1}}, InvalidValueError, r"hosts\[3\]: node"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_means_nothing_is_refused_in_a_line(case):
    hosts, error, words = REFUSED[case]

    with pytest.raises(error, match=words) as caught:
        SparkEngine(checkpoint="x", hosts=hosts)
    assert "\n" not in str(caught.value)


def test_it_goes_with_a_provisioner_and_not_with_a_cluster():
    said = {"x": {"bandwidth": LINK}}
    engine = SparkEngine(checkpoint="x", hosts=said, provisioner=SparkExecutors())
    said["x"]["bandwidth"] = 0

    assert {"x": {"bandwidth": LINK}} == {name: dict(each) for name, each in engine.hosts.items()}
    with pytest.raises(InvalidValueError, match=r"hosts and cluster are both .* leave the"):
        SparkEngine(checkpoint="x", hosts={}, cluster=Cluster.uniform(2))
    with pytest.raises(InvalidValueError, match="say by hosts="):
        SparkEngine(checkpoint="x", provisioner=SparkExecutors(), cluster=Cluster.uniform(2))


@pytest.mark.parametrize("there", ["xy", "x"])
def test_comparisons_know_it_of_hosts_and_of_virtual_nodes_that_share_one(
    monkeypatch, tmp_path, read, there
):
    read.hosts = dict.fromkeys(there, "12")
    monkeypatch.setattr(harness, "local_session", session)
    monkeypatch.setattr(harness, "HostReader", lambda _: read)
    monkeypatch.setattr(checks, "check_session", lambda _: None)  # it is none
    engine = SparkEngine(checkpoint=str(tmp_path), hosts={"x": {"memory": 30, "cores": 6}})

    found = SparkHarness(engine, JOB)._engine  # noqa: SLF001  # each variant is begun with it

    assert (found.hosts is None) == (found.cluster is not None) == (len(there) < 2)
    if found.cluster is not None:
        assert [(2, 10)] * 3 == [(node.cores, node.memory) for node in found.cluster.nodes]
