"""The published method with a solver for its program, as in the paper."""

import numpy as np
import pytest

from optimizers import Cluster, Deployment, GroupStatistics, Plan, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.plugins import create
from optimizers.strategies.albic_published import PublishedAlbic

LOADS = np.random.default_rng(1).gamma(2.0, 1.0, 12)
JOB = Topology.source("s").then("a", key="k", parallelism=3, key_groups=12)
SEEN = Statistics(groups={"a": GroupStatistics(LOADS, LOADS, LOADS, np.ones(12))})
NODES = tuple(f"node-{number}" for number in range(3))
CURRENT = Plan(placement={"a": Deployment(NODES, (0,) * 12)})


def distance(plan):
    held = np.bincount(plan.placement["a"].groups, LOADS, 3)
    return np.abs(held / held.mean() - 1).max()


def test_with_a_time_limit_it_asks_a_solver():
    descent, solved = (
        PublishedAlbic(budget="8 groups", **more).plan(JOB, Cluster.uniform(3), SEEN, CURRENT)
        for more in ({}, {"time_limit": 20.0})
    )

    assert distance(solved) <= distance(descent) * (1 + 1e-9)
    assert create("albic-published", time_limit=5) == PublishedAlbic(time_limit=5.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"time_limit": 0}, "time_limit=0 is out of range"),
        ({"solver": "Excel"}, "solver='Excel' is not known"),
    ],
)
def test_settings_of_the_solver_are_checked_when_it_is_made(wrong, words):
    with pytest.raises(InvalidValueError, match=words):
        PublishedAlbic(**wrong)
