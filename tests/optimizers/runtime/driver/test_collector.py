"""Epochs: what batches report adds up to statistics, in whatever order reports arrive."""

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.hashing import hash_parts
from optimizers import Cluster, EdgeStatistics, Operator, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.runtime.driver.collector import EpochCollector, edge_statistics, edge_sums
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.task.reports import Reports, TaskReport
from optimizers.statistics import Probe

JOB = Topology.source("s", parallelism=2).then(
    Operator("a", "k", 3, apply=Count(emit=Emit.TUPLES), key_groups=8)
)
JOB = JOB.then(Operator("b", "l", 2, apply=Count(emit=Emit.NOTHING), key_groups=4))
LAYOUT = Layout.of(JOB, Cluster.uniform(2), Plan())


def rows(seed, count=60):
    random = np.random.default_rng(seed)
    return pa.table({"k": random.integers(0, 9, count), "l": random.integers(0, 5, count)})


def statistics_of(folder, batches, *, order=lambda reports: reports):
    driver = Driver(folder, JOB, observes=set(Probe), every=99)
    epoch = EpochCollector(LAYOUT, 7)
    for table in batches:
        reports = driver.run({"s": [table.slice(0, 20), table.slice(20)]})
        driver.coordinator.commit(driver.assigned, reports, 1.0)
        epoch.add(Reports.merged(order(reports)), 0.5)
    return epoch.statistics({})


def counts(pairs):
    return dict(zip(zip(pairs.left, pairs.right, strict=True), pairs.counts, strict=True))


def test_pairs_are_learned_from_every_other_batch_and_tried_on_those_between(tmp_path):
    batches = [rows(seed) for seed in range(4)]

    found = statistics_of(tmp_path, batches)

    for part, chosen in ((found.pairs, batches[::2]), (found.held_out, batches[1::2])):
        true = {}
        for table in chosen:
            for pair in zip(*(table.column(n).to_pylist() for n in "kl"), strict=True):
                true[pair] = true.get(pair, 0) + 1
        assert true == counts(part["a", "b"])


def test_one_batch_leaves_nothing_to_try_pairs_on(tmp_path):
    found = statistics_of(tmp_path, [rows(0)])

    assert {} == dict(found.held_out)
    assert [("a", "b")] == list(found.pairs)


def test_operators_and_edges_are_counted(tmp_path):
    found = statistics_of(tmp_path, [rows(0), rows(1)])

    assert (7, 1.0) == (found.epoch, found.seconds)
    assert {"s": 120, "a": 120, "b": 120} == {n: o.tuples for n, o in found.operators.items()}
    assert (None, None, 0.0) == tuple(found.operators[n].state_bytes for n in "abs")
    keys = np.concatenate([rows(seed).column("k").to_numpy() for seed in (0, 1)])
    assert max(np.bincount(keys)) / 120 == found.operators["a"].hottest_key
    assert found.operators["s"].hottest_key is None
    assert {("s", "a"): 120, ("a", "b"): 120} == {n: e.tuples for n, e in found.edges.items()}
    assert all(edge.bytes > 120 for edge in found.edges.values())
    found.check(JOB)


def test_of_groups_it_is_told_what_is_known(tmp_path):
    tables = [rows(0), rows(1)]

    found = statistics_of(tmp_path, tables)

    groups = hash_parts(np.concatenate([t.column("k").to_numpy() for t in tables]), 8)
    tuples = np.bincount(groups, minlength=8)
    assert tuples.tolist() == found.groups["a"].tuples.tolist()
    assert found.edges["s", "a"].bytes == pytest.approx(found.groups["a"].bytes_in.sum())
    owners = np.array(LAYOUT.homes["a"].groups)
    for instance in range(3):  # to which all tuples are of one size, with a share of its parcels
        own = (owners == instance) & (tuples > 0)
        assert np.ptp(found.groups["a"].bytes_in[own] / tuples[own]) < 1e-6
    unknown = ("cpu", "seconds", "memory", "state_bytes", "network")
    assert [None] * 5 == [getattr(found.groups["a"], part) for part in unknown]


def test_traffic_is_that_of_all_batches(tmp_path):
    tables = [rows(0), rows(1)]

    traffic = statistics_of(tmp_path, tables).traffic["a", "b"]

    true = np.zeros((8, 4))
    for table in tables:
        cells = (hash_parts(table.column(n), size) for n, size in (("k", 8), ("l", 4)))
        np.add.at(true, tuple(cells), 1)
    found = np.zeros((8, 4))
    found[traffic.sources, traffic.targets] = traffic.tuples
    assert true.tolist() == found.tolist()


def test_keys_are_those_of_all_batches(tmp_path):
    tables = [rows(0), rows(1)]

    keys = statistics_of(tmp_path, tables).keys["a"]

    true = np.bincount(np.concatenate([t.column("k").to_numpy() for t in tables]))
    assert dict(enumerate(true)) == dict(zip(keys.keys.tolist(), keys.counts, strict=True))


def test_history_of_hops_that_were_not_seen_is_left_out(tmp_path):
    found = statistics_of(tmp_path, [rows(0)])
    epoch = EpochCollector(LAYOUT, 0)

    assert {} == dict(epoch.statistics(dict(found.pairs)).history)
    assert 0 == epoch.batches


@settings(max_examples=10)
@given(st.randoms())
def test_the_order_of_reports_changes_nothing_that_is_decided_by(random):
    with any_job.temporary() as one, any_job.temporary() as other:
        first = statistics_of(one, [rows(0)])
        second = statistics_of(
            other, [rows(0)], order=lambda reports: random.sample(reports, len(reports))
        )

    assert counts(first.pairs["a", "b"]) == counts(second.pairs["a", "b"])
    assert first.edges == second.edges
    assert first.traffic == second.traffic


def test_flows_of_an_edge_are_added_up_over_its_targets():
    counter = FlowCounter()
    for target, local in ((0, True), (1, False), (1, False)):
        counter.add(Parcel(0, 0, target, 0, 0, 5, b"abc"), local=local)
    report = TaskReport(operator="s", instance=0, sender=0, received=counter.flows())

    sums = edge_sums(Reports.of([report]), JOB)

    assert {("s", "a"): [15, 9, 5, 3, 3]} == {name: flow.tolist() for name, flow in sums.items()}
    assert {("s", "a"): EdgeStatistics(15, 9, 5, 3, parcels=3)} == edge_statistics(sums)
