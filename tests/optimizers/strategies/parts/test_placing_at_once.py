"""What methods that place all key groups at once may move: to what is better, by more than luck."""

import itertools

import numpy as np
import pytest

from optimizers import Cluster, GroupStatistics, GroupTraffic, Plan, Statistics, Topology
from optimizers.control.question import Question
from optimizers.layout import Layout, completed
from optimizers.strategies.group_rivals import GroupRival
from optimizers.strategies.parts.placing_at_once import placed_at_once

JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=2, key_groups=3)
    .then("b", key="l", parallelism=2, key_groups=3)
)
CLUSTER = Cluster.uniform(2)


def decided(loads, place, *, cluster=CLUSTER, traffic=None, current=None):
    """Let this place the groups of both operators, which have these loads."""
    groups = {
        name: GroupStatistics(cpu=each, state_bytes=np.ones(3))
        for name, each in zip("ab", np.split(np.array(loads), 2), strict=True)
    }
    seen = Statistics(groups=groups, traffic=traffic or {})
    whole = completed(current or Plan(), JOB, cluster)
    asked = Question(JOB, cluster, seen, whole)
    plan = placed_at_once(GroupRival("flux"), asked, place, budget="100 %")
    return {name: home for name, home in plan.placement.items() if home != whole.placement[name]}


def test_what_rounding_alone_makes_more_even_is_left():
    tried = []

    def luckiest(problem, _groups):
        """The most even placement of those that have the same loads on each node, exactly."""
        now = np.bincount(problem.current, [1, 2, 3] * 2, 2)
        alike = [
            np.array(at, dtype=np.int32)
            for at in itertools.product(range(2), repeat=6)
            if (np.bincount(at, [1, 2, 3] * 2, 2) == now).all()
        ]
        found = min(alike, key=problem.distance)
        tried.append(problem.distance(problem.current) - problem.distance(found))
        return found

    assert {} == decided([0.1, 0.2, 0.3] * 2, luckiest)
    assert 0 < tried[0] < 1e-9


@pytest.mark.parametrize(("apart", "moves"), [(True, True), (False, False)])
def test_what_is_more_local_is_taken(apart, moves):
    layout = Layout.of(JOB, CLUSTER, Plan())
    at = {name: np.array(layout.homes[name].groups) for name in "ab"}
    partner = np.flatnonzero((at["b"] == at["a"][0]) != apart)[:1]
    traffic = {("a", "b"): GroupTraffic([0], partner, [5.0])}
    alike = np.flatnonzero((at["b"] == at["a"][0]) == apart)[:1]

    def exchanged(problem, _groups):
        found = problem.current.copy()
        one, other = 3 + int(partner[0]), 3 + int(alike[0])
        found[[one, other]] = found[[other, one]]
        return found

    assert moves == bool(decided(np.ones(6), exchanged, traffic=traffic))


def test_nodes_that_drain_are_left_by_groups_without_load():
    loads = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    homes = completed(Plan(), JOB, CLUSTER).placement
    idle = homes["b"].nodes[1]
    loads[:3] = [1.0 if homes["a"].nodes[g] != idle else 0.0 for g in homes["a"].groups]

    def to_the_other(problem, _groups):
        return np.full_like(problem.current, int(np.flatnonzero(~problem.draining)[0]))

    cluster = Cluster(CLUSTER.nodes, draining=(idle,))
    found = decided(loads, to_the_other, cluster=cluster, current=Plan(placement=homes))

    assert {"a", "b"} == {*found}
    assert all(idle not in home.nodes for home in found.values())
