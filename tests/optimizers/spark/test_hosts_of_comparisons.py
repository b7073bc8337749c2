"""Comparisons on Spark run on the hosts where there are several, and say on which."""

from types import SimpleNamespace

import pytest

from optimizers import Cluster, Node, Topology
from optimizers.spark import SparkEngine, SparkExecutors, checks, harness
from optimizers.spark.executors import Host
from optimizers.spark.harness import SparkHarness


@pytest.mark.parametrize(
    ("there", "given", "expected"),
    [
        ("xy", None, (2, ("x", "y"), False)),
        ("x", None, (3, (), True)),  # virtual
        ("", None, (3, (), True)),
        ("xy", ("y", "z"), (2, ("y",), False)),
        ("xy", ("v", "w"), (2, (), True)),
        ("x", ("x", "w"), (2, (), True)),
        ("", ("x",), (1, (), False)),
    ],
)
def test_it_runs_on_the_hosts_where_there_are_several(
    monkeypatch, tmp_path, there, given, expected
):
    context = SimpleNamespace(master="spark://h:1")
    session = SimpleNamespace(version="4", sparkContext=context)
    hosts = {name: Host((name,), 1) for name in there}
    monkeypatch.setattr(harness, "local_session", lambda: session)
    monkeypatch.setattr(harness, "HostReader", lambda _: lambda: hosts)
    virtual = SimpleNamespace(cluster=Cluster.uniform(3))
    monkeypatch.setattr(harness, "Machines", lambda *_: virtual)
    monkeypatch.setattr(checks, "check_session", lambda _: None)  # it is none
    cluster = None if given is None else Cluster(tuple(map(Node, given)))
    provisioner = None if given else SparkExecutors()
    engine = SparkEngine(checkpoint=str(tmp_path), cluster=cluster, provisioner=provisioner)

    found = SparkHarness(engine, Topology.source("s").then("a", parallelism=3))

    assert expected == (found.nodes, found.hosts, found.imagined)
    run_with = found._engine  # noqa: SLF001  # each variant is begun with it
    assert run_with.provisioner is None
    assert (cluster is None and len(there) > 1) == (run_with.cluster is None)
