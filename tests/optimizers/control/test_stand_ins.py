"""A plan that speaks of a node by the name it was to have means the one that came in its stead."""

import pytest

from optimizers import Deployment, Node, Plan
from optimizers.cluster import Cluster
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.control.stand_ins import renamed
from optimizers.optimizer import Optimizer
from optimizers.topology import Topology

C = Node("c")


def placed(*nodes):
    return {"a": Deployment(nodes)}


@pytest.mark.parametrize(
    ("expected", "plan"),
    [
        (Plan(placement=placed("m", "z", "z")), Plan(placement=placed("m", "c", "c"))),
        (Plan(), Plan(add=(C,))),
        (Plan(add=(Node("d"),)), Plan(add=(C, Node("d")))),
        (Plan(drain=("m", "z")), Plan(drain=("c", "m"))),
        (Plan(parallelism={"a": 3}, nodes=4), Plan(parallelism={"a": 3}, nodes=4)),
        # The one that came goes: another is to come, and is called as it is.
        (Plan(add=(C,), drain=("z",)), Plan(add=(C,), drain=("z",))),
    ],
)
def test_what_is_said_of_a_node_is_meant_of_the_one_that_stands_in(expected, plan):
    assert expected == renamed(plan, {"c": "z"})
    assert plan == renamed(plan, {}) == renamed(plan, {"other": "z"})


def test_a_node_that_has_come_by_another_name_counts_once_where_fewer_are_wanted():
    class Wanting(Optimizer):
        def plan(self, topology, cluster, statistics, current):
            return Plan(add=(C,), nodes=2)

    there = Cluster((Node("m"), Node("z")))
    question = Question(Topology.source("a"), there, stand_ins={"c": "z"})

    answer = ask(Wanting(), question)

    assert (Plan(nodes=2), "") == (answer.plan, answer.refused)
