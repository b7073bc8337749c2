"""What flows through a simulated job, in statistics: streams and work of which all is known."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listening import Listening

from batching.stages import StageCosts
from optimizers import (
    Cluster,
    Edge,
    LocalOrShuffle,
    Node,
    Operator,
    Plan,
    Probe,
    Shuffle,
    Topology,
)
from optimizers.simulation import MicroBatches, Network, SimulationEngine, Stream, Work

JOB = Topology.source("in").then("work")


def heard(job, streams, work, **settings):
    listening = Listening()
    SimulationEngine(**settings).run(job, streams, listening, work=work)
    return listening.heard[1:]


def test_what_arrives_and_is_not_let_in_waits():
    # Ten come each second, and the source lets in four.
    stream = Stream(np.arange(200) / 10.0)
    seen = heard(JOB, stream, {"in": Work(0.25)}, batch_seconds=5.0)

    assert 3 == len(seen)
    for place, statistics in enumerate(seen):
        source = statistics.sources["in"]
        assert (50.0, 5.0, 10.0) == (source.arrived, source.seconds, source.rate)
        assert source.admitted == pytest.approx(20, abs=1)
        assert source.waiting == pytest.approx(30 * (place + 1), abs=1)
        assert statistics.operators["in"].tuples == source.admitted
    assert () == seen[0].batch_times  # tuple by tuple there are no stages
    remembered = [epoch.sources for epoch in seen[2].past.epochs]
    assert [seen[0].sources, seen[1].sources] == remembered


def test_an_epoch_of_several_batches_is_told_as_one():
    stream = Stream(np.arange(200) / 10.0)
    one, several = (
        heard(JOB, stream, {"in": Work(0.25)}, batch_seconds=5.0 / every, every=every)
        for every in (1, 5)
    )

    assert [seen.sources for seen in one] == [seen.sources for seen in several]


def test_two_sources_are_told_apart():
    job = Topology(
        (Operator("slow"), Operator("fast"), Operator("work")),
        (Edge("slow", "work"), Edge("fast", "work")),
    )
    streams = {"slow": Stream(np.arange(30) * 1.0), "fast": Stream(np.arange(300) / 10.0)}
    (seen, *_) = heard(job, streams, {}, batch_seconds=10.0)

    assert (10.0, 10.0, 0.0) == (
        seen.sources["slow"].arrived,
        seen.sources["slow"].admitted,
        seen.sources["slow"].waiting,
    )
    assert (100.0, 10.0) == (seen.sources["fast"].arrived, seen.sources["fast"].rate)


def test_what_operators_emit_ship_and_take_is_told():
    job = Topology.source("in").then("split").then("work")
    stream = Stream(np.arange(100) / 10.0)
    network = Network(per_batch=0.002)
    work = {"split": Work(0.01, emits=3), "work": Work(0.02)}
    settings = {"batch_seconds": 1.0, "every": 5, "network": network, "cores": np.inf}
    (seen, *_) = heard(job, stream, work, **settings)

    split, last = seen.operators["split"], seen.operators["work"]
    assert 3.0 == split.selectivity
    assert split.emitted == 3 * split.tuples
    assert 1.0 == last.selectivity
    assert split.shipping == pytest.approx(0.002 * split.emitted, rel=0.05)
    assert 0.0 == last.shipping
    assert (split.seconds, last.seconds) == (split.wall, last.wall)  # all have a core
    assert seen.edges["split", "work"].parcels is None  # nothing is packed


# Time by the clock.


def busy_periods(times, instance):
    """Return how long an instance had a tuple before it, in its queue or at work."""
    own = times.instances == instance
    spans = sorted(zip(times.arrived[own].tolist(), times.ended[own].tolist(), strict=True))
    total, until = 0.0, 0.0
    for arrived, ended in spans:
        total += max(0.0, ended - max(arrived, until))
        until = max(until, ended)
    return total


@settings(max_examples=40)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 40),
    st.sampled_from([None, 7, 25]),
    st.integers(0, 99),
)
def test_an_instance_with_tuples_is_at_work_or_waits_for_a_core(instances, cores, rate, cut, seed):
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(1 / rate, 100))
    stream = Stream(times, {"k": random.integers(0, 20, 100), "s": random.exponential(0.1, 100)})
    job = Topology.source("in").then("work", key="k", parallelism=instances)
    node = Cluster((Node("x", capacity=cores, cores=cores),))
    run = SimulationEngine(cluster=node, batch_tuples=cut).run(
        job, stream, work={"work": Work(lambda columns: columns["s"])}
    )

    done = run.operators["work"]
    walls, busy = np.zeros(instances), np.zeros(instances)
    for batch in run.batches:
        for instance in batch.instances:
            if instance.operator == "work":
                walls[instance.number] += instance.wall
                busy[instance.number] += instance.seconds
    assert [busy_periods(done, number) for number in range(instances)] == pytest.approx(walls)
    if instances <= cores:
        assert busy.tolist() == walls.tolist()


def test_waiting_for_a_core_is_told_by_the_clock_and_not_as_work():
    # Two of four instances work at a time, all have enough to do.
    stream = Stream(np.zeros(400), {"k": np.arange(400)})
    job = Topology.source("in").then("work", parallelism=4, grouping=Shuffle())
    node = Cluster((Node("x", capacity=2, cores=2),))
    (seen, *_) = heard(
        job, stream_in_two(stream), {"work": Work(0.01)}, cluster=node, batch_seconds=1.0
    )

    told = seen.operators["work"]
    assert 2.0 == pytest.approx(told.seconds, rel=0.02)
    assert 4.0 == pytest.approx(told.wall, rel=0.02)


def stream_in_two(stream):
    """Return a stream whose last tuple comes later, so that there is a decision before it."""
    times = stream.times.copy()
    times[-1] = 3.0
    return Stream(times, stream.columns)


def test_waiting_to_send_is_not_work():
    job = Topology.source("in").then("split", parallelism=2, grouping=Shuffle()).then("work")
    node = Cluster((Node("x", cores=1),))
    network = Network(per_batch=0.1)
    stream = Stream(np.append(np.arange(20) / 4.0, 90.0))
    (seen, *_) = heard(
        job, stream, {"split": Work(0.01)}, cluster=node, network=network, batch_seconds=60.0
    )

    split = seen.operators["split"]
    assert 20 * 0.01 == pytest.approx(split.seconds)
    assert 20 * 0.1 == pytest.approx(split.shipping)
    assert split.seconds <= split.wall


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_in_micro_batches_work_takes_by_the_clock_what_the_batch_says(parallelism):
    job = Topology.source("in").then("work", key="k", parallelism=parallelism)
    stream = Stream(np.arange(400) / 10.0, {"k": np.arange(400) % 37})
    costs = MicroBatches(StageCosts(0.1, 0.05, 0.02, work=2.0), row=1e-3)
    seen = heard(
        job,
        stream,
        {"work": Work(0.02)},
        cluster=Cluster((Node("x", cores=1),)),
        micro_batches=costs,
        batch_seconds=10.0,
    )

    for epoch in seen:
        told = epoch.operators["work"]
        assert 2.0 * told.seconds == pytest.approx(told.wall)
        # One task at a time: all of them are one chain. A task that has no slot yet is not at work.
        assert epoch.batch_times[-1].parts["work"] == pytest.approx(told.wall)


# Parcels, and what stays in memory.


def packed_by_hand(run, limit):
    """Return how many parcels of a limited size each sender makes for each instance."""
    sent, got = run.operators["in"], run.operators["work"]
    senders = dict(zip(sent.rows.tolist(), sent.instances.tolist(), strict=True))
    pairs = Counter(
        (senders[row], instance)
        for row, instance in zip(got.rows.tolist(), got.instances.tolist(), strict=True)
    )
    return sum(-(-tuples // limit) for tuples in pairs.values())


@settings(max_examples=40)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 60),
    st.integers(2, 12),
    st.booleans(),
)
def test_parcels_are_those_that_senders_pack(senders, instances, tuples, limit, micro):
    random = np.random.default_rng(tuples)
    stream = Stream(np.zeros(tuples), {"k": random.integers(0, 9, tuples)})
    job = Topology.source("in", parallelism=senders).then("work", key="k", parallelism=instances)
    constants = MicroBatches(StageCosts(0.1, 0.05, 0.02)) if micro else None
    engine = SimulationEngine(cluster=Cluster.uniform(2), micro_batches=constants)
    run = engine.run(job, stream, Plan(batch={"in": limit}), work={"work": Work(0.01)})

    assert packed_by_hand(run, limit) == run.batches[0].edges["in", "work"].parcels


def test_without_a_plan_a_micro_batch_packs_as_its_engine_does_and_tuples_travel_alone():
    job = Topology.source("in").then("work", parallelism=2, grouping=Shuffle())
    stream = Stream(np.zeros(100), {})
    alone, whole, cut = (
        SimulationEngine(micro_batches=each).run(job, stream).batches[0].edges["in", "work"]
        for each in (
            None,
            MicroBatches(StageCosts(0.1, 0.05, 0.02)),
            MicroBatches(StageCosts(0.1, 0.05, 0.02), parcel=20),
        )
    )
    assert (None, 2.0, 10.0) == (alone.parcels, whole.parcels, cut.parcels)


def test_an_operator_that_works_in_the_tasks_before_it_gets_no_parcels():
    job = Topology.source("in", parallelism=2).then(
        "work", parallelism=2, grouping=LocalOrShuffle()
    )
    constants = MicroBatches(StageCosts(0.1, 0.05, 0.02))
    run = SimulationEngine(micro_batches=constants).run(job, Stream(np.zeros(100), {}))

    assert {"work"} == run.layout.attached
    assert run.batches[0].edges["in", "work"].parcels is None


def test_what_sending_takes_goes_by_what_came_where_it_is_not_known_by_which_key_tuples_left():
    """Those of two edges have two keys, and either may be that of a tuple that is sent."""
    job = Topology(
        (Operator("s"), Operator("t"), Operator("both", "k", key_groups=4), Operator("sink")),
        (Edge("s", "both"), Edge("t", "both"), Edge("both", "sink")),
    )
    streams = {name: Stream(np.arange(40) / 4.0, {"k": np.arange(40) % 3}) for name in "st"}
    network = Network(per_batch=0.002)

    class HearingGroups(Listening):
        observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    listening = HearingGroups()
    engine = SimulationEngine(batch_seconds=4.0, network=network)
    engine.run(job, streams, listening, work={"both": Work(0.01)})
    told = listening.heard[1]

    groups, (whole,) = told.groups["both"], told.instances["both"].seconds
    assert groups.seconds.sum() == pytest.approx(whole)
    assert groups.seconds == pytest.approx(groups.tuples * whole / groups.tuples.sum())
    assert 0 < np.count_nonzero(groups.seconds) < 4


@pytest.mark.parametrize("given", [{"cores": 4}, {"cluster": Cluster((Node("x", cores=4),))}])
def test_a_node_whose_cores_all_work_is_in_use_as_a_whole(given):
    job = Topology.source("in").then("work", parallelism=8)
    stream = Stream(np.arange(4000) / 400.0)  # eight seconds of work a second
    settings = {"cluster": Cluster((Node("x"),)), **given, "batch_seconds": 2.0}
    seen = heard(job, stream, {"work": Work(0.02)}, **settings)[-1]

    assert seen.instances["work"].cpu.sum() == pytest.approx(1.0, rel=0.02)


def test_all_state_of_a_simulation_stays_in_memory():
    job = Topology.source("in").then("work", key="k", parallelism=2)
    stream = Stream(np.arange(100) / 10.0, {"k": np.arange(100) % 37})
    (seen, *_) = heard(job, stream, {"work": Work(0.01, state_bytes=8.0)}, batch_seconds=5.0)

    told = seen.instances["work"]
    assert told.resident.tolist() == told.state_bytes.tolist()
    assert 37 * 8.0 == told.resident.sum()
