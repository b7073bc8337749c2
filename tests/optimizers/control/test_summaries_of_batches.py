"""Summaries of batches and runs, from batches whose figures can be worked out by hand."""

import pytest

from grouping.groupings import LocalOrShuffle
from optimizers.cluster import Cluster
from optimizers.control.part_summaries import OperatorSummary
from optimizers.control.run_summary import RunSummary
from optimizers.control.summary import BatchSummary, InstanceSummary, makespan
from optimizers.errors import InvalidValueError, UnknownNameError
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


def instance(operator, number, tuples=0, *, seconds=0.0, shipping=0.0, moved=0, receiving=None):
    node = f"node-{number}"
    return InstanceSummary(
        operator, number, node, tuples, tuples, seconds, shipping, moved, receiving=receiving
    )


def summary(instances, edges, *, batch=7, planned=7, span=None):
    return BatchSummary(batch, planned, 2.0, tuple(instances), edges, makespan=span)


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

    assert sources + first + second == pytest.approx(makespan(INSTANCES, LAYOUT))


def test_all_cpu_time_of_an_instance_counts():
    """Of folds that cost little, most is for taking tuples in."""
    seen = [
        instance("in", 0, 20, seconds=1.0, shipping=0.5, receiving=0.25),
        instance("a", 0, 5, seconds=2.0, receiving=0.5),
        instance("a", 1, 15, seconds=1.0, shipping=0.5, receiving=4.0),
    ]

    assert makespan(seen, LAYOUT) == 1.75 + 5.5
    told = RunSummary.of_batches(JOB, [summary(seen, {})]).operator("a")
    assert ((2.5, 5.5), 4.5, 0.5) == (told.busy, told.receiving, told.shipping)


def test_several_partitions_of_a_source_are_work_of_one_instance():
    twice = [instance("in", 0, 5, seconds=1.0), instance("in", 0, 5, seconds=1.0)]

    assert pytest.approx(2.0) == makespan(twice, LAYOUT)


def test_a_batch_is_summed_up():
    found = RunSummary.of_batches(JOB, [summary(INSTANCES, EDGES, span=3.5)])

    assert (7, 1, 20, 2.0, 5, 1, 3.5) == (
        found.first,
        found.batches,
        found.tuples,
        found.seconds,
        found.taken_over,
        found.changed,
        found.makespan,
    )
    assert (40, 25) == (found.hops, found.local)
    assert 250 + 200 == found.remote_bytes
    assert {"a": (15, 5), "b": (10, 10)} == {
        each.operator: each.loads for each in found.operators if each.spread_by == "key"
    }
    assert (1.5, 1.0) == (found.operator("a").imbalance, found.operator("b").imbalance)
    assert (0.0, 8.0) == found.operator("split").busy  # of an instance that had nothing, too
    with pytest.raises(UnknownNameError, match="unknown operator 'c'; known: 'in', 'clean'"):
        found.operator("c")


def test_several_batches_are_added_up_whatever_their_numbers_of_instances():
    wider = [instance("in", 0, 10), instance("a", 2, 10, seconds=1.0, moved=4)]
    batches = [
        summary(INSTANCES, EDGES, span=3.5),
        summary(wider, {("clean", "a"): EDGES["clean", "a"]}, batch=8, planned=8, span=0.5),
        summary([], {}, batch=9, planned=8, span=0.25),
    ]

    found = RunSummary.of_batches(JOB, batches)

    assert (7, 3, 30, 6.0, 9, 2) == (
        found.first,
        found.batches,
        found.tuples,
        found.seconds,
        found.taken_over,
        found.changed,
    )
    assert (15, 5, 10) == found.operator("a").tuples
    assert (4.0, 2.0, 1.0) == found.operator("a").busy
    assert (60, 35) == (found.hops, found.local)
    assert 250 + 200 + 250 == found.remote_bytes
    assert 4.25 == found.makespan
    apart = [RunSummary.of_batches(JOB, [batch]) for batch in batches]
    for name in ("batches", "tuples", "seconds", "taken_over", "changed", "hops", "makespan"):
        assert getattr(found, name) == sum(getattr(each, name) for each in apart)


def test_what_an_engine_did_not_tell_of_one_batch_is_not_known_of_all():
    unknown = {("clean", "a"): EdgeStatistics(20, 400, 10)}
    batches = [summary(INSTANCES, EDGES, span=3.5), summary([], unknown, batch=8)]

    found = RunSummary.of_batches(JOB, batches)

    assert found.makespan is None
    assert found.remote_bytes is None
    assert 35 == found.local


def test_the_first_plan_changes_nothing_and_one_in_force_already_neither():
    plans = [(0, 0), (1, 0), (2, 2), (3, 2)]
    batches = [summary([], {}, batch=batch, planned=planned) for batch, planned in plans]

    assert [False, False, True, False] == [batch.changed for batch in batches]


def test_tuples_that_come_straight_from_a_source_are_no_hop_between_keys():
    job = Topology.source("in", parallelism=2).then("a", key="k", parallelism=2)
    edges = {("in", "a"): EdgeStatistics(20, 400, 10, 150)}

    found = RunSummary.of_batches(job, [summary([instance("in", 0, 20)], edges)])

    assert (0, 0, 250) == (found.hops, found.local, found.remote_bytes)


def test_the_load_of_what_is_scheduled_by_cost_is_the_time_it_took():
    job = Topology.source("in").then("free", parallelism=2, edge_key="k").then("plain")
    seen = [
        instance("in", 0, 20),
        instance("free", 0, 5, seconds=0.25),
        instance("free", 1, 15, seconds=0.125, shipping=0.125),
        instance("plain", 0, 20, seconds=1.0),
    ]

    found = RunSummary.of_batches(job, [summary(seen, {})])

    assert ["", "cost", ""] == [each.spread_by for each in found.operators]
    assert ((0.25, 0.25), 1.0) == (found.operator("free").loads, found.operator("free").imbalance)
    assert (5.0, 15.0) == OperatorSummary("free", (5, 15), (0.0, 0.0), spread_by="cost").loads
    with pytest.raises(InvalidValueError, match="spread_by='hash' is none of 'key', 'cost', ''"):
        OperatorSummary("free", (), (), spread_by="hash")
