"""Queues whose answer is known: by hand, by a formula, or by an identity."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.routing_table import RoutingTable
from optimizers import Cluster, Node, Plan, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work

ONE = Topology.source("in").then("work")


def waits(run, operator="work"):
    result = run.operators[operator]
    return result.started - result.arrived


def test_a_queue_by_hand_is_lindleys_recursion():
    stream = Stream([0.0, 1.0, 1.5, 6.0], {"taken": [2.0, 1.0, 2.0, 0.5]})

    run = SimulationEngine().run(ONE, stream, work={"work": Work(lambda c: c["taken"])})

    assert [0.0, 1.0, 1.5, 0.0] == waits(run).tolist()
    assert [2.0, 3.0, 5.0, 6.5] == run.operators["work"].ended.tolist()
    assert [2.0, 2.0, 3.5, 0.5] == run.latencies.tolist()
    assert 6.5 == run.makespan
    assert 4 / 6.5 == run.throughput
    assert [5.5 / 6.5] == run.utilisation("work").tolist()


def test_steady_arrivals_and_steady_work_never_wait():
    run = SimulationEngine().run(ONE, Stream.steady(rate=4.0, count=100), work={"work": Work(0.25)})

    assert not waits(run).any()
    assert {0.25} == set(run.latencies.tolist())


def test_steady_arrivals_that_are_too_many_wait_longer_and_longer():
    run = SimulationEngine().run(ONE, Stream.steady(rate=4.0, count=100), work={"work": Work(0.5)})

    assert (np.arange(100) * 0.25).tolist() == waits(run).tolist()


def mean_of_runs(engine_seeds, waiting):
    """Return the mean over independent runs, and four standard errors of it."""
    means = [waiting(seed).mean() for seed in engine_seeds]
    return np.mean(means), 4 * np.std(means, ddof=1) / math.sqrt(len(means))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_exponential_work_waits_as_in_an_m_m_1_queue(load):
    def waiting(seed):
        taken = np.random.default_rng([seed, 1]).exponential(1.0, 30_000)
        stream = Stream.poisson({"taken": taken}, rate=load, seed=seed)
        run = SimulationEngine().run(ONE, stream, work={"work": Work(lambda c: c["taken"])})
        return waits(run)[2_000:]  # the first find the queue empty

    mean, error = mean_of_runs(range(12), waiting)

    assert load / (1 - load) == pytest.approx(mean, abs=error)
    assert error < 0.15 * mean


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_equal_work_waits_as_in_an_m_d_1_queue(load):
    def waiting(seed):
        stream = Stream.poisson(rate=load, seed=seed, count=30_000)
        return waits(SimulationEngine().run(ONE, stream, work={"work": Work(1.0)}))[2_000:]

    mean, error = mean_of_runs(range(12), waiting)

    assert load / (2 * (1 - load)) == pytest.approx(mean, abs=error)
    assert error < 0.15 * mean


@given(st.integers(0, 1000), st.integers(1, 5), st.floats(0, 2))
def test_what_is_there_over_time_is_how_long_each_is_there(seed, instances, noise):
    job = Topology.source("in").then("work", parallelism=instances)
    stream = Stream.poisson(rate=1.0, seed=seed, count=60)

    run = SimulationEngine(seed=seed).run(job, stream, work={"work": Work(2.0, noise=noise)})

    result = run.operators["work"]
    events = [(time, 1) for time in result.arrived] + [(time, -1) for time in result.ended]
    area, there, before = 0.0, 0, 0.0
    for time, change in sorted(events):
        area += there * (time - before)
        there, before = there + change, time
    assert area == pytest.approx(result.latencies.sum(), rel=1e-9)


def test_noise_leaves_the_mean_and_has_its_sigma():
    stream = Stream.steady(rate=1.0, count=200_000)

    run = SimulationEngine(seed=3).run(ONE, stream, work={"work": Work(0.5, noise=0.4)})

    taken = run.operators["work"].ended - run.operators["work"].started
    # Standard errors of mean and sigma are 0.1 and 0.16 per cent here; four of them.
    assert 0.5 == pytest.approx(taken.mean(), rel=0.004)
    assert 0.4 == pytest.approx(np.log(taken).std(), rel=0.0064)


def test_speeds_and_capacities_divide_the_time_that_work_takes():
    job = Topology.source("in").then("work", parallelism=3)
    cluster = Cluster((Node("slow", 0.5), Node("fast", 2.0)))  # work[2] is on the slow one again
    work = Work(1.0, speeds=[1.0, 4.0, 2.0])

    run = SimulationEngine(cluster=cluster).run(
        job, Stream.steady(rate=0.1, count=6), work={"work": work}
    )

    assert [2.0, 0.125, 1.0] * 2 == run.latencies.tolist()


def test_a_link_takes_tuples_one_after_the_other_and_a_node_needs_none():
    job = Topology.source("in").then("work", parallelism=2)
    network = Network(latency=1.0, bandwidth=100.0)
    stream = Stream([0.0, 0.0, 0.0, 0.0], bytes=[50, 50, 100, 200])

    run = SimulationEngine(network=network).run(job, stream)

    # Every other tuple goes to the other node: half a second and two for the link.
    assert [0.0, 1.5, 0.0, 3.5] == run.latencies.tolist()
    assert 0.5 == run.edges["in", "work"].locality


def test_sending_keeps_the_sender_from_its_next_tuple():
    network = Network(per_batch=1.0, per_byte=0.01)
    stream = Stream([0.0, 0.0, 10.0], bytes=[50, 100, 0])

    run = SimulationEngine(network=network).run(ONE, stream, work={"in": Work(0.25)})

    # 0.25 of work, 1.5 of sending; then 0.25 and 2.
    assert [1.75, 4.0, 1.25] == run.latencies.tolist()
    assert [4.5] == run.operators["in"].shipping.tolist()
    assert [5.25] == run.operators["in"].busy.tolist()


@pytest.mark.parametrize(
    ("buffers", "second"), [("distinct", 4.0), ("alike", 3.0), ("shared", 3.0)]
)
def test_what_edges_share_is_packed_once_and_sent_to_each(buffers, second):
    job = Topology.source("in").then("a", after="in").then("b", after="in")
    network = Network(per_batch=1.0, per_byte=0.01, buffers=buffers)

    run = SimulationEngine(network=network).run(job, Stream([0.0], bytes=[100]))

    assert [2.0] == run.operators["a"].arrived.tolist()
    assert [second] == run.operators["b"].arrived.tolist() == run.operators["in"].shipping.tolist()
    assert (1, 100.0) == (run.edges["in", "b"].tuples, run.edges["in", "b"].bytes)


@pytest.mark.parametrize(
    ("batch_bytes", "arrived"),
    [
        (math.inf, [3.0, 3.0, 3.0, 3.0, 4.0]),
        (100.0, [1.0, 1.0, 2.0, 4.0, 4.0]),
        (101.0, [2.0, 2.0, 2.0, 4.0, 4.0]),
        (1.0, [0.0, 1.0, 2.0, 4.0, 4.0]),  # the one of no bytes fills none
    ],
)
def test_a_batch_is_full_once_its_tuples_have_so_many_bytes(batch_bytes, arrived):
    job = Topology.source("in").then("a", after="in")
    stream = Stream([0.0, 1.0, 2.0, 3.0, 4.0], bytes=[50, 50, 100, 0, 100])

    run = SimulationEngine(network=Network(batch_bytes=batch_bytes)).run(
        job, stream, Plan(batch={"in": 4})
    )

    assert arrived == run.operators["a"].arrived.tolist()


@pytest.mark.parametrize(
    ("buffers", "shipping"),
    # Four batches of two tuples; or of each tuple one, for it alone has its two instances.
    [("distinct", 4.0), ("alike", 4.0), ("shared", 8.0)],
)
def test_a_batch_for_each_combination_of_instances_fills_more_slowly(buffers, shipping):
    table = RoutingTable([0, 1], [0, 1], 2)
    job = Topology.source("in")
    for name, key in (("a", "k"), ("b", "j")):
        job = job.then(name, key=key, after="in", parallelism=2, grouping=table)
    stream = Stream([0.0, 1.0, 2.0, 3.0], {"k": [0, 0, 1, 1], "j": [0, 1, 0, 1]})
    network = Network(per_batch=1.0, buffers=buffers)

    run = SimulationEngine(network=network).run(job, stream, Plan(batch={"in": 2}))

    assert [shipping] == run.operators["in"].shipping.tolist()
    for name in ("a", "b"):
        assert [2, 2] == run.operators[name].tuples.tolist()


def test_what_comes_of_a_tuple_is_done_when_the_last_of_it_is():
    job = Topology.source("in").then("split").then("work")
    stream = Stream([0.0, 1.0, 20.0], {"parts": [3, 0, 1]})
    work = {"split": Work(0.5, emits=lambda c: c["parts"]), "work": Work(2.0)}

    run = SimulationEngine(cores=2).run(job, stream, work=work)

    assert [6.5, 0.5, 2.5] == run.latencies.tolist()
    assert [0, 0, 0, 2] == run.operators["work"].rows.tolist()
