"""Clusters: named machines, dealt out in order; what is no cluster is refused by name."""

import copy
import math
import pickle
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import clusters, fitting_plans, topologies
from wild_input import taken_or_refused

from optimizers import Cluster, Node, Plan, PlanError
from optimizers.errors import InvalidValueError, UnknownNameError

PAIR = Cluster((Node("a"), Node("b", 2.0, "left")))

BAD = {
    "no nodes": (lambda: Cluster(()), InvalidValueError, ["at least one"]),
    "nodes None": (lambda: Cluster(None), InvalidValueError, ["nodes=None", "list"]),
    "nodes text": (lambda: Cluster("ab"), InvalidValueError, ["nodes='ab'"]),
    "nodes a set": (lambda: Cluster({Node("a")}), InvalidValueError, ["set", "order"]),
    "nodes names": (lambda: Cluster(["a"]), InvalidValueError, ["'a' is not a Node", "Node('a')"]),
    "twice a node": (
        lambda: Cluster([Node("a"), Node("a", 2.0)]),
        InvalidValueError,
        ["two nodes are called 'a'", "rename"],
    ),
    "draining unknown": (
        lambda: Cluster([Node("a")], ["ghost"]),
        UnknownNameError,
        ["unknown node 'ghost'", "known: 'a'"],
    ),
    "draining one name": (
        lambda: Cluster([Node("a"), Node("b")], "a"),
        InvalidValueError,
        ["draining='a'", "list"],
    ),
    "draining None": (lambda: Cluster([Node("a")], None), InvalidValueError, ["draining=None"]),
    "draining nodes": (
        lambda: Cluster([Node("a"), Node("b")], [Node("a")]),
        UnknownNameError,
        ["unknown node Node("],
    ),
    "draining all": (
        lambda: Cluster([Node("a"), Node("b")], ["b", "a"]),
        InvalidValueError,
        ["all 2 nodes are draining", "keep at least one"],
    ),
    "name empty": (lambda: Node(""), InvalidValueError, ["node name ''"]),
    "name None": (lambda: Node(None), InvalidValueError, ["node name None"]),
    "rack a number": (lambda: Node("a", rack=3), InvalidValueError, ["rack name 3"]),
    "capacity nothing": (lambda: Node("a", 0), InvalidValueError, ["capacity=0"]),
    "capacity negative": (lambda: Node("a", -1.0), InvalidValueError, ["capacity=-1.0"]),
    "capacity NaN": (lambda: Node("a", math.nan), InvalidValueError, ["capacity=nan"]),
    "capacity infinite": (lambda: Node("a", math.inf), InvalidValueError, ["capacity=inf"]),
    "capacity True": (lambda: Node("a", True), InvalidValueError, ["capacity=True"]),  # noqa: FBT003
    "capacity text": (lambda: Node("a", "2"), InvalidValueError, ["capacity='2'"]),
    "no cores": (lambda: Node("a", cores=0), InvalidValueError, ["cores=0"]),
    "memory text": (lambda: Node("a", memory="1g"), InvalidValueError, ["memory='1g'"]),
    "bandwidth infinite": (
        lambda: Node("a", bandwidth=math.inf),
        InvalidValueError,
        ["bandwidth=inf"],
    ),
    "uniform none": (lambda: Cluster.uniform(0), InvalidValueError, ["count=0"]),
    "uniform half": (lambda: Cluster.uniform(1.5), InvalidValueError, ["count=1.5"]),
    "uniform no racks": (lambda: Cluster.uniform(2, racks=0), InvalidValueError, ["racks=0"]),
    "unknown node": (lambda: PAIR.node("c"), UnknownNameError, ["'c'", "known: 'a', 'b'"]),
    "node of a list": (lambda: PAIR.node(["a"]), UnknownNameError, ["unknown node ['a']"]),
    "deal none": (lambda: PAIR.deal(0), InvalidValueError, ["instances=0"]),
    "deal text": (lambda: PAIR.deal("3"), InvalidValueError, ["instances='3'"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_cluster_is_refused_by_name_and_with_a_remedy(case):
    build, error, words = BAD[case]

    with pytest.raises(error) as caught:
        build()

    assert [] == [word for word in words if word not in str(caught.value)]


@pytest.mark.parametrize(
    "build",
    [
        Cluster,
        lambda value: Cluster([value]),
        lambda value: Cluster([Node("a")], value),
        lambda value: Cluster([Node("a")], [value]),
        Node,
        lambda value: Node("a", value),
        lambda value: Node("a", 1.0, value),
        Cluster.uniform,
        lambda value: Cluster.uniform(1, racks=value),
        PAIR.node,
        PAIR.deal,
        Cluster.from_json,
    ],
)
def test_wild_input_is_taken_or_refused_but_never_stumbled_over(build):
    taken_or_refused(build, Node)


@given(clusters(), st.integers(1, 20))
def test_instances_are_dealt_to_working_nodes_in_turn(cluster, instances):
    names = [node.name for node in cluster.nodes if node.name not in cluster.draining]
    expected = []
    while len(expected) < instances:
        expected += names

    assert tuple(expected[:instances]) == cluster.deal(instances)
    assert names == [node.name for node in cluster.working]


@given(clusters())
def test_the_typical_node_has_the_share_of_what_all_have_that_capacity_1_is(cluster):
    typical, whole = cluster.typical, sum(node.capacity for node in cluster.nodes)

    assert typical.capacity == 1.0
    for name in ("cores", "memory", "bandwidth"):
        sizes = [getattr(node, name) for node in cluster.nodes]
        if None in sizes:
            assert getattr(typical, name) is None
        else:
            assert getattr(typical, name) * whole == pytest.approx(sum(sizes))


def test_draining_is_a_sorted_set_of_names():
    nodes = [Node("a"), Node("b"), Node("c")]

    assert ("a", "c") == Cluster(nodes, ["c", "a", "c"]).draining


def test_lists_changed_afterwards_change_nothing():
    nodes, draining = [Node("a"), Node("b")], ["a"]
    cluster = Cluster(nodes, draining)

    nodes.clear()
    draining.append("b")

    assert Cluster((Node("a"), Node("b")), ("a",)) == cluster


@given(clusters())
def test_a_cluster_is_the_same_after_pickle_copy_and_use(cluster):
    fresh = Cluster(cluster.nodes, cluster.draining)
    before = pickle.dumps(fresh)
    copies = [pickle.loads(before), copy.deepcopy(fresh), copy.copy(fresh)]  # noqa: S301
    fresh.node(fresh.nodes[0].name), fresh.working, hash(fresh)

    assert before == pickle.dumps(fresh)
    assert [fresh] * 3 == copies
    assert {hash(fresh)} == set(map(hash, copies))


@pytest.mark.parametrize("value", [PAIR, PAIR.nodes[0]])
def test_nothing_of_a_cluster_can_be_set(value):
    for field in fields(value):
        before = getattr(value, field.name)
        with pytest.raises(AttributeError):
            setattr(value, field.name, None)
        assert before == getattr(value, field.name)


def test_under_a_plan_nodes_are_added_at_the_end_and_draining():
    plan = Plan(add=(Node("z"), Node("c"), Node("b", 2.0, "left")), drain=("a",))

    under = PAIR.under(plan)

    assert ["a", "b", "c", "z"] == [node.name for node in under.nodes]
    assert ("a",) == under.draining
    assert PAIR == PAIR.under(Plan(batch={"x": 2}))


def test_what_drains_already_goes_on_draining():
    cluster = Cluster((*PAIR.nodes, Node("c")), ("a",))

    assert ("a", "b") == cluster.under(Plan(drain=("b",))).draining


def test_a_node_that_is_there_with_other_properties_cannot_be_added():
    with pytest.raises(PlanError) as caught:
        PAIR.under(Plan(add=(Node("b", 4.0),)))

    for word in ("'b'", "capacity=4.0", "capacity=2.0", "a name of its own"):
        assert word in str(caught.value)


def test_a_plan_cannot_drain_the_last_node_even_with_help_of_what_drains_already():
    cluster = Cluster(PAIR.nodes, ("a",))

    for plan in (Plan(drain=("b",)), Plan(drain=("b",), add=(Node("a"),))):
        with pytest.raises(PlanError, match=r"draining \['b'\] would leave no node"):
            cluster.under(plan)


@given(st.data())
def test_a_plan_is_in_force_once_however_often_it_is_applied(data):
    cluster = data.draw(clusters())
    plan = data.draw(fitting_plans(data.draw(topologies(1)), cluster))

    once = cluster.under(plan)

    assert once == once.under(plan)
    assert {*cluster.nodes, *plan.add} == set(once.nodes)
    assert {*cluster.draining, *plan.drain} == set(once.draining)
