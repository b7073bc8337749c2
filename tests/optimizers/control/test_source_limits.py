"""Sources that cannot follow a plan: the decision is refused by name, and only where it changes."""

import pytest

from optimizers import Cluster, Plan, Topology
from optimizers.control.checking import EngineLimits, check_decision
from optimizers.errors import PlanError
from sketches.values import FrozenMap

JOB = Topology.source("s", parallelism=2).also("t").then("a", key="k", after=("s", "t"))
NODES = Cluster.uniform(2)
LIMITS = EngineLimits(
    unsized=FrozenMap({"s": "it is a pipe"}), fixed=FrozenMap({"t": "it is one file"})
)


def check(decision, current=None):
    return check_decision(JOB, NODES, current or Plan(), decision, LIMITS)


def test_admission_of_a_source_that_cannot_be_sized_is_refused():
    with pytest.raises(PlanError, match=r"admit\['s'\]=5: it is a pipe"):
        check(Plan(admit={"s": 5}))
    assert {"t": 5} == dict(check(Plan(admit={"t": 5})).admit)


def test_another_parallelism_of_a_source_that_is_fixed_is_refused():
    with pytest.raises(PlanError, match=r"parallelism\['t'\]=3: it is one file"):
        check(Plan(parallelism={"t": 3}))
    assert {"s": 3, "t": 1} == dict(check(Plan(parallelism={"s": 3, "t": 1})).parallelism)


def test_what_is_in_force_already_is_no_change():
    current = Plan(admit={"s": 5}, parallelism={"t": 4})

    assert {"s": 5, "t": 9} == dict(check(Plan(admit={"s": 5, "t": 9}), current).admit)
    assert 4 == check(Plan(parallelism={"t": 4, "a": 2}), current).parallelism["t"]
