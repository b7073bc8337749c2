"""Rivals of Albic behind the same interface."""

import numpy as np
import pytest

from grouping.placement import PlacementProblem
from grouping.placement.baselines import both_choices
from optimizers import Cluster, GroupStatistics, GroupTraffic, Plan, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.plugins import create, registered
from optimizers.strategies.group_rivals import METHODS, GroupRival
from optimizers.testing import OptimizerContract

JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=3, key_groups=12)
    .then("b", key="l", parallelism=3, key_groups=12)
)
CLUSTER = Cluster.uniform(3)
LOAD = np.array([9.0, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1])


class TestFlux(OptimizerContract):
    optimizer = GroupRival("flux")


class TestCola(OptimizerContract):
    optimizer = GroupRival("cola")


def seen(load=LOAD):
    groups = GroupStatistics(cpu=load, state_bytes=np.full(12, 100.0))
    pairs = np.arange(12), np.roll(np.arange(12), 4)
    return Statistics(
        groups={"a": groups, "b": groups},
        traffic={("a", "b"): GroupTraffic(*pairs, np.full(12, 9.0))},
    )


@pytest.mark.parametrize("method", METHODS)
def test_each_evens_load_out_and_says_what_it_does(method):
    plan = GroupRival(method, budget="6 groups").plan(JOB, CLUSTER, seen(), Plan())
    said = dict(plan.notes[0].figures)

    assert plan.notes[0].by == method
    assert said["distance now"] < said["distance then"]
    moved = Plan().diff(plan, JOB, CLUSTER, seen())
    assert len(moved.groups) == said["groups"]
    if method in {"flux", "readj"}:
        assert len(moved.groups) <= 6
    else:
        assert len(moved.groups) > 6  # from scratch, without regard to the budget


def test_cola_brings_those_together_that_talk():
    plan = GroupRival("cola").plan(JOB, CLUSTER, seen(np.ones(12)), Plan())
    homes = {n: plan.placement.get(n) for n in "ab"}
    groups = {
        n: (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2) if h is None else h.groups for n, h in homes.items()
    }

    assert [groups["b"][(g + 8) % 12] for g in range(12)] == list(groups["a"])


@pytest.mark.parametrize("method", METHODS)
def test_they_can_be_had_by_name_and_be_left_alone(method):
    assert create(method, budget="5 groups") == GroupRival(method, budget="5 groups")
    assert method in registered()
    calm = GroupRival(method, max_load_distance=9.0).plan(JOB, CLUSTER, seen(), Plan())
    assert not calm
    assert calm.notes[0].text == "even enough"
    assert not GroupRival(method).plan(JOB, CLUSTER, seen(0 * LOAD), Plan())
    assert (
        GroupRival(method)
        .plan(Topology.source("s").then("a"), CLUSTER, Statistics(), Plan())
        .notes[0]
        .idle
    )


def test_a_method_that_is_not_known_is_refused():
    with pytest.raises(InvalidValueError, match="use one of flux, readj, longest-first, cola"):
        GroupRival("magic")


def test_both_choices_even_load_out_but_not_what_merging_takes():
    drawn = np.random.default_rng(2)
    loads = drawn.gamma(2.0, 1.0, 200)
    problem = PlacementProblem.of(loads, np.zeros(200, int), 10, budget=0)
    one_choice = np.bincount(drawn.integers(0, 10, 200), loads, 10)

    plain, merging = both_choices(problem), both_choices(problem, merge=0.2)

    assert plain.sum() == pytest.approx(loads.sum())
    assert merging.sum() == pytest.approx(1.2 * loads.sum())
    assert np.ptp(plain) < 0.2 * np.ptp(one_choice)
    assert np.ptp(merging) > 2 * np.ptp(plain)
    uneven = PlacementProblem.of(
        loads, np.zeros(200, int), 3, budget=0, capacities=[1, 1, 2], draining=[0]
    )
    held = both_choices(uneven)
    assert held[0] == 0
    assert held[2] == pytest.approx(2 * held[1], rel=0.1)
