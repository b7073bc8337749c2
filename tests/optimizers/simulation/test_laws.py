"""What holds of every run: nothing is lost, nothing depends on names, chance or epochs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.groupings import Fields, PartialKey, RoutingTable, Shuffle
from optimizers import Cluster, Deployment, Edge, Operator, Plan, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work

GROUPINGS = [Shuffle(), Fields(), PartialKey()]


def job(grouping, instances=4, senders=2):
    return Topology(
        [Operator("in", parallelism=senders), Operator("work", parallelism=instances)],
        [Edge("in", "work", grouping, "k")],
    )


def stream(seed, count=300):
    keys = np.random.default_rng(seed).zipf(1.5, count) % 20
    return Stream.poisson({"k": keys}, rate=10.0, seed=seed, bytes=10.0)


def parts(run):
    """Return all numbers of a run, each operator's by instance and time."""
    found = [run.completed]
    for result in run.operators.values():
        order = np.lexsort((result.rows, result.ended, result.instances))
        names = ("rows", "instances", "arrived", "started", "ended")
        found += [*(getattr(result, name)[order] for name in names), result.shipping]
    return [*map(np.ndarray.tolist, found), dict(run.edges)]


NETWORKS = [
    Network(),
    Network(latency=0.01, bandwidth=1e4, per_batch=0.002, per_byte=1e-4),
    Network(latency=0.01, linger=0.3),
]


@settings(max_examples=20)
@given(
    st.integers(0, 1000),
    st.sampled_from(GROUPINGS),
    st.sampled_from(NETWORKS),
    st.sampled_from([1, 5]),
    st.integers(1, 200),
)
def test_epochs_in_which_nothing_is_decided_change_nothing(seed, grouping, network, batch, every):
    plan = Plan(batch={"in": batch})
    work = {"work": Work(0.3, noise=0.5), "in": Work(0.01)}

    whole = SimulationEngine(network=network, seed=seed).run(
        job(grouping), stream(seed), plan, work=work
    )
    cut = SimulationEngine(network=network, seed=seed, batch_tuples=every).run(
        job(grouping), stream(seed), plan, work=work
    )

    assert parts(whole) == parts(cut)
    assert 1 == len(whole.batches)
    assert -(-300 // every) == len(cut.batches)


def test_the_same_question_has_the_same_answer_and_another_seed_another():
    work = {"work": Work(0.3, noise=0.5)}
    first, again, other = (
        SimulationEngine(seed=seed).run(job(Shuffle()), stream(1), work=work) for seed in (1, 1, 2)
    )

    assert parts(first) == parts(again)
    assert parts(first) != parts(other)


def test_noise_is_the_same_under_every_plan():
    work = {"work": Work(0.3, noise=0.5)}
    one, three = (
        SimulationEngine().run(job(grouping, count), stream(1), work=work).operators["work"]
        for grouping, count in ((Shuffle(), 1), (Fields(), 3))
    )

    def taken(result):
        return (result.ended - result.started)[np.argsort(result.rows)]

    assert taken(three) == pytest.approx(taken(one), rel=1e-9)  # a difference of large times


@given(st.permutations(range(4)), st.integers(0, 1000))
def test_instances_with_other_numbers_do_the_same_work(numbers, seed):
    keys = np.arange(20)
    owners = keys % 4
    renamed = np.array(numbers)[owners]
    speeds = np.array([1.0, 2.0, 0.5, 1.5])
    runs = [
        SimulationEngine().run(
            job(RoutingTable(keys, table, 4)),
            stream(seed, 60),
            work={"work": Work(0.3, speeds=each)},
        )
        for table, each in ((owners, speeds), (renamed, speeds[np.argsort(numbers)]))
    ]

    assert runs[0].completed.tolist() == runs[1].completed.tolist()
    tuples = [run.operators["work"].tuples for run in runs]
    assert tuples[0].tolist() == tuples[1][np.array(numbers)].tolist()


@given(st.permutations(range(3)), st.integers(0, 1000))
def test_nodes_with_other_names_do_the_same_work(order, seed):
    network = Network(latency=0.1, bandwidth=100.0)
    names = [f"node-{number}" for number in order]

    def run(homes):
        plan = Plan(
            placement={"in": Deployment(tuple(homes[:2])), "work": Deployment((*homes, homes[0]))}
        )
        engine = SimulationEngine(cluster=Cluster.uniform(3), network=network)
        return engine.run(job(Shuffle()), stream(seed, 60), plan, work={"work": Work(0.3)})

    assert parts(run(sorted(names))) == parts(run(names))


@settings(max_examples=40)
@given(
    st.integers(0, 1000),
    st.sampled_from(GROUPINGS),
    st.sampled_from(NETWORKS),
    st.sampled_from([1, 4]),
    st.integers(0, 3),
)
def test_no_tuple_is_lost_or_doubled(seed, grouping, network, batch, most):
    emits = np.random.default_rng(seed).integers(0, most + 1, 300)
    source = Stream(stream(seed).times, {**stream(seed).columns, "n": emits}, 10.0)
    chain = job(grouping).then("last")

    run = SimulationEngine(network=network).run(
        chain,
        source,
        Plan(batch={"in": batch, "work": batch}),
        work={"in": Work(0.001), "work": Work(0.1, emits=lambda c: c["n"])},
    )

    rows = np.arange(300)
    assert rows.tolist() == sorted(run.operators["in"].rows.tolist())
    assert rows.tolist() == sorted(run.operators["work"].rows.tolist())
    assert np.repeat(rows, emits).tolist() == sorted(run.operators["last"].rows.tolist())
    assert 300 == run.edges["in", "work"].tuples
    assert emits.sum() == run.edges["work", "last"].tuples


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from(NETWORKS), st.sampled_from([1, 4]))
def test_instances_take_one_tuple_at_a_time_in_the_order_in_which_they_come(seed, network, batch):
    run = SimulationEngine(network=network, cores=math.inf).run(
        job(PartialKey()), stream(seed), Plan(batch={"in": batch}), work={"work": Work(0.3)}
    )

    result = run.operators["work"]
    for instance in range(4):
        own = result.instances == instance
        arrived, started, ended = (
            getattr(result, name)[own] for name in ("arrived", "started", "ended")
        )
        assert (np.diff(arrived) >= 0).all()
        # Busy if anything waits: work begins with the arrival, or when the one before is done.
        assert np.maximum(arrived[1:], ended[:-1]).tolist() == started[1:].tolist()
        assert arrived[0] == started[0]


def test_what_work_takes_can_change_while_the_job_runs():
    work = Work(seconds_at=lambda columns, times: np.where(times < 2.0, 0.1, 0.5))

    run = SimulationEngine().run(
        Topology.source("in").then("work"), Stream.steady(rate=1.0, count=4), work={"work": work}
    )

    assert [0.1, 0.1, 0.5, 0.5] == pytest.approx(run.latencies.tolist())


def test_batches_wait_until_they_are_full_or_for_so_long():
    chain = Topology.source("in").then("work")
    four = Stream([0.0, 1.0, 2.0, 3.0, 10.0])

    def arrived(linger):
        engine = SimulationEngine(network=Network(linger=linger))
        run = engine.run(chain, four, Plan(batch={"in": 3}))
        return run.operators["work"].arrived.tolist()

    assert [2.0, 2.0, 2.0, 10.0, 10.0] == arrived(float("inf"))
    assert [1.5, 1.5, 3.5, 3.5, 10.0] == arrived(1.5)
