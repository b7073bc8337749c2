"""What flows through a simulated job, in statistics: streams and work of which all is known."""

import numpy as np
import pytest
from listening import Listening

from optimizers import Edge, Operator, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work

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
    (seen, *_) = heard(job, stream, work, batch_seconds=1.0, every=5, network=network)

    split, last = seen.operators["split"], seen.operators["work"]
    assert 3.0 == split.selectivity
    assert split.emitted == 3 * split.tuples
    assert 1.0 == last.selectivity
    assert split.shipping == pytest.approx(0.002 * split.emitted, rel=0.05)
    assert 0.0 == last.shipping
    assert (split.seconds, last.seconds) == (split.wall, last.wall)
    assert seen.edges["split", "work"].parcels is None  # nothing is packed
