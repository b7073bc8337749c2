"""The strategies that need no statistics: the plan written by hand, and the default."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Table, clusters, fitting_plans, topologies, worlds

from optimizers import (
    Cluster,
    Fields,
    Fixed,
    Hash,
    LocalOrShuffle,
    Plan,
    PlanError,
    Shuffle,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError, UnknownNameError

JOB = Topology.source("in").then("count", key="k", parallelism=2).then("out")
NODES = Cluster.uniform(2)


def ask(strategy, topology=JOB, cluster=NODES):
    return strategy.plan(topology, cluster, Statistics(), Plan())


@settings(max_examples=60)  # whole worlds are slow to draw
@given(worlds())
def test_fixed_decides_what_was_written_down(world):
    topology, cluster, plan = world

    assert plan == ask(Fixed(plan), topology, cluster)


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (Plan(batch={"ghost": 1}), UnknownNameError),
        (Plan(drain=("ghost",)), UnknownNameError),
        (Plan(routing={"count": Table(3)}), PlanError),
    ],
)
def test_fixed_refuses_a_job_that_its_plan_does_not_fit(plan, error):
    with pytest.raises(error):
        ask(Fixed(plan))


@pytest.mark.parametrize("value", [None, {}, Plan, "{}"], ids=repr)
def test_fixed_takes_a_plan_and_nothing_else(value):
    with pytest.raises(InvalidValueError) as caught:
        Fixed(value)

    assert f"{value!r} is not a Plan; write Fixed(Plan(...))" in str(caught.value)


def test_hash_decides_for_every_operator_and_edge():
    job = JOB.then("end", after=("in", "out"), grouping=LocalOrShuffle())

    expected = Plan(
        routing={"count": Fields()},
        scheduling={
            ("count", "out"): Shuffle(),
            ("in", "end"): Shuffle(),
            ("out", "end"): Shuffle(),
        },
    )

    assert expected == ask(Hash(), job)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_hash_undoes_what_any_other_routing_and_scheduling_did(data):
    topology, cluster = data.draw(topologies(4)), data.draw(clusters())
    other = data.draw(fitting_plans(topology, cluster))
    running = topology.under(other)

    after = other.amended(ask(Hash(), running, cluster), cluster)
    after.check(topology)

    for edge in topology.edges:
        keyed = topology.operator(edge.target).keyed
        assert (Fields() if keyed else Shuffle()) == topology.under(after).grouping(*edge.name)


def test_both_are_values_and_observe_nothing():
    for strategy in (Hash(), Fixed(Plan(batch={"in": 2}))):
        assert frozenset() == strategy.observes
        assert strategy == pickle.loads(pickle.dumps(strategy))  # noqa: S301
        assert hash(strategy) == hash(copy.deepcopy(strategy))
        with pytest.raises(AttributeError):
            strategy.decision = Plan()
    assert ("Hash", "Fixed") == (Hash().name, Fixed(Plan()).name)
