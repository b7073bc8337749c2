"""Strategies come to rest where a stream stays the same: they decide, and then no longer.

The paper's ALBIC does not: each time it brings one more pair of key groups to one node, and evens
out what the pair before has made uneven.
"""

import numpy as np
import pytest

from optimizers import Cluster, Topology
from optimizers.plugins import create, registered
from optimizers.simulation import SimulationEngine, Stream, Work

BATCH, BATCHES, LAST = 120, 20, 5

JOB = (
    Topology.source("s")
    .then("x", parallelism=2, edge_key="k")
    .then("a", key="k", parallelism=3, key_groups=24)
    .then("b", key="l", parallelism=3, key_groups=24)
)
WORK = {"x": Work(1e-3)} | dict.fromkeys("ab", Work(1e-3, state_bytes=100.0))


RESTLESS = {"albic-published"}


@pytest.mark.parametrize("name", sorted({*registered()} - RESTLESS))
def test_no_strategy_acts_for_ever_on_a_stream_that_stays_the_same(name):
    keys = np.random.default_rng(0).zipf(1.4, BATCH) % 40
    tuples = {"k": np.tile(keys, BATCHES), "l": np.tile((keys * 7) % 20, BATCHES)}
    engine = SimulationEngine(cluster=Cluster.uniform(3), batch_tuples=BATCH)

    run = engine.run(JOB, Stream.steady(tuples, rate=200.0), create(name), work=WORK)

    assert BATCHES == len(run.batches)
    assert not [str(said) for said in run.decisions[-LAST:] if said.applied]
    assert not any(batch.moved.keys for batch in run.batches[-LAST:])
