"""Every strategy that goes by a name, in a simulation: no tuple lost, none where it must not be."""

import numpy as np
import pytest

from optimizers import Cluster, PartialKey, Topology
from optimizers.plugins import create, registered
from optimizers.simulation import SimulationEngine, Stream, Work
from optimizers.strategies.everywhere import Everywhere

TUPLES = 1200
JOB = (
    Topology.source("in", parallelism=2)
    .then("score", parallelism=3, edge_key="author")
    .then("by_author", key="author", parallelism=3, partial=True, key_groups=12)
    .then("by_tag", key="tag", parallelism=3, key_groups=12)
)
WORK = {"score": Work(lambda columns: 0.001 * (1 + columns["author"] % 3)), "by_tag": Work(0.001)}


def stream():
    random = np.random.default_rng(5)
    author = random.zipf(1.5, TUPLES).clip(max=60)
    return Stream.steady({"author": author, "tag": author % 20}, rate=400.0)


@pytest.mark.parametrize("name", registered())
def test_all_tuples_arrive_once_and_every_key_of_a_whole_operator_has_one_owner(name):
    engine = SimulationEngine(batch_tuples=300, cluster=Cluster.uniform(3))
    found = stream()

    run = engine.run(JOB, found, create(name), work=WORK)

    assert len(run.batches) == 4
    for operator in JOB.order:
        assert sorted(run.operators[operator].rows.tolist()) == list(range(TUPLES))
    last = run.operators["by_tag"]
    settled = last.rows >= 950  # routed after the last decision
    owners = {}
    for row, instance in zip(last.rows[settled], last.instances[settled], strict=True):
        owners.setdefault(int(found.columns["tag"][row]), set()).add(int(instance))
    assert {1} == {len(instances) for instances in owners.values()}


def test_heavy_keys_of_a_partial_operator_are_spread_by_partial_key():
    engine = SimulationEngine(batch_tuples=300, cluster=Cluster.uniform(3))

    run = engine.run(JOB, stream(), Everywhere(PartialKey()), work=WORK)

    loads = np.bincount(run.operators["by_author"].instances, minlength=3)
    hashed = engine.run(JOB, stream(), None, work=WORK).operators["by_author"].instances
    assert loads.max() < np.bincount(hashed, minlength=3).max()
