"""Figures of a batch, from hand-made summaries whose answers can be worked out by hand."""

import pytest

from grouping.groupings import LocalOrShuffle
from optimizers.cluster import Cluster
from optimizers.comparing.measuring import batch_facts, makespan
from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.layout import Layout
from optimizers.plan import Plan
from optimizers.statistics import EdgeStatistics
from optimizers.topology import Topology

JOB = (
    Topology.source("in", parallelism=2)
    .then("clean", parallelism=2, grouping=LocalOrShuffle())
    .then("a", key="k", parallelism=2)
    .then("split", parallelism=2, grouping=LocalOrShuffle())
    .then("b", key="l", parallelism=2)
)
LAYOUT = Layout.of(JOB, Cluster.uniform(2), Plan())


def instance(operator, number, tuples=0, *, seconds=0.0, shipping=0.0, moved=0):
    return InstanceSummary(
        operator, number, f"node-{number}", tuples, tuples, seconds, shipping, moved
    )


def summary(instances, edges):
    return BatchSummary(7, 7, 2.0, tuple(instances), edges)


INSTANCES = [
    instance("in", 0, 10, seconds=1.0, shipping=0.5),
    instance("in", 1, 10, seconds=0.5),
    instance("clean", 0, 10, seconds=0.25),  # works where in[0] does
    instance("clean", 1, 10, seconds=2.0),
    instance("a", 0, 15, seconds=4.0, moved=3),
    instance("a", 1, 5, seconds=1.0, shipping=1.0, moved=2),
    instance("split", 1, 5, seconds=8.0),
    instance("b", 0, 10, seconds=0.125),
    instance("b", 1, 10),
]
EDGES = {
    ("in", "clean"): EdgeStatistics(0, 0, 0, 0),
    ("clean", "a"): EdgeStatistics(20, 400, 10, 150),
    ("split", "b"): EdgeStatistics(20, 1000, 15, 800),
}


def test_the_makespan_is_that_of_the_busiest_instance_of_each_stage():
    sources, first, second = 0.5 + 2.0, 1.0 + 1.0 + 8.0, 0.125

    assert sources + first + second == pytest.approx(makespan(summary(INSTANCES, EDGES), LAYOUT))


def test_several_partitions_of_a_source_are_work_of_one_instance():
    twice = [instance("in", 0, 5, seconds=1.0), instance("in", 0, 5, seconds=1.0)]

    assert pytest.approx(2.0) == makespan(summary(twice, {}), LAYOUT)


def test_facts_are_taken_from_the_summary():
    facts = batch_facts(summary(INSTANCES, EDGES), LAYOUT, 20, changed=True)

    assert (7, 20, 2.0, 5, True) == (
        facts.batch,
        facts.tuples,
        facts.seconds,
        facts.moved,
        facts.changed,
    )
    assert (40, 25) == (facts.hops, facts.local)
    assert 1400 == facts.bytes
    assert 250 + 200 == facts.remote_bytes
    assert {"a": (15, 5), "b": (10, 10)} == facts.loads


def test_tuples_that_come_straight_from_a_source_are_no_hop_between_keys():
    job = Topology.source("in", parallelism=2).then("a", key="k", parallelism=2)
    layout = Layout.of(job, Cluster.uniform(2), Plan())
    edges = {("in", "a"): EdgeStatistics(20, 400, 10, 150)}

    facts = batch_facts(summary([instance("in", 0, 20)], edges), layout, 20, changed=False)

    assert (0, 0, 250) == (facts.hops, facts.local, facts.remote_bytes)


def test_the_load_of_what_is_scheduled_by_cost_is_the_time_it_took():
    job = Topology.source("in").then("free", parallelism=2, edge_key="k").then("plain")
    layout = Layout.of(job, Cluster.uniform(2), Plan())
    seen = [
        instance("in", 0, 20),
        instance("free", 0, 5, seconds=0.25),
        instance("free", 1, 15, seconds=0.000002),
        instance("plain", 0, 20, seconds=1.0),
    ]

    facts = batch_facts(summary(seen, {}), layout, 20, changed=False)

    assert {"free": (250_000, 2)} == facts.loads
