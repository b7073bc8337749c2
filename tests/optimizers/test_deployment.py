"""Deployments of other sizes and on other machines: as little moves as can."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Cluster, Deployment, Node, Operator
from optimizers.deployment import default_groups
from optimizers.errors import InvalidValueError


@st.composite
def deployments(draw, most_groups=6, most_instances=4):
    instances = draw(st.integers(1, most_instances))
    part = st.integers(0, instances - 1)
    groups = draw(st.lists(part, max_size=most_groups))
    nodes = draw(st.lists(st.sampled_from("abc"), min_size=instances, max_size=instances))
    return Deployment(tuple(nodes), tuple(groups))


CLUSTERS = st.builds(
    lambda capacities, draining: Cluster(
        tuple(Node(name, capacity) for name, capacity in zip("abcd", capacities, strict=True)),
        draining,
    ),
    st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=4, max_size=4),
    st.lists(st.sampled_from("abcd"), max_size=3).map(tuple),
)


def moved(old, new):
    return sum(one != other for one, other in zip(old, new, strict=True))


def fewest(groups, instances):
    """How many groups move at least: by trying all that are even."""
    share, more = divmod(len(groups), instances)
    sizes = sorted([share + 1] * more + [share] * (instances - more))
    return min(
        moved(groups, chosen)
        for chosen in product(range(instances), repeat=len(groups))
        if sorted(Counter(dict.fromkeys(range(instances), 0) | Counter(chosen)).values()) == sizes
    )


@given(deployments(), CLUSTERS, st.integers(1, 5))
def test_another_number_of_instances_moves_the_fewest_groups(old, cluster, instances):
    new = old.resized(instances, cluster)

    assert instances == len(new.nodes)
    if instances == len(old.nodes):
        assert old == new
        return
    kept = min(instances, len(old.nodes))
    assert old.nodes[:kept] == new.nodes[:kept]
    assert fewest(old.groups, instances) == moved(old.groups, new.groups)
    counts = [new.groups.count(instance) for instance in range(instances)]
    assert 1 >= max(counts) - min(counts)


def test_as_many_instances_as_there_are_change_nothing_however_uneven_they_are():
    uneven = Deployment(("a", "b"), (0, 0, 0, 0))

    assert uneven == uneven.resized(2, Cluster.uniform(1))


@given(deployments(), CLUSTERS, st.integers(1, 5))
def test_new_instances_go_to_the_emptiest_working_node(old, cluster, instances):
    nodes = list(old.nodes[:instances])
    while len(nodes) < instances:
        loads = [(nodes.count(n.name) + 1) / n.capacity for n in cluster.working]
        nodes.append(cluster.working[loads.index(min(loads))].name)

    assert nodes == list(old.resized(instances, cluster).nodes)


@pytest.mark.parametrize(
    ("old", "new", "share"), [(8, 9, 14 / 128), (16, 8, 0.5), (4, 5, 25 / 128), (6, 8, 32 / 128)]
)
def test_of_128_groups_as_many_move_as_must(old, new, share):
    cluster = Cluster.uniform(4)
    groups = default_groups(Operator("a", parallelism=old, key="k"))
    before = Deployment(cluster.deal(old), groups)

    assert share == moved(groups, before.resized(new, cluster).groups) / 128


@given(deployments(), CLUSTERS, st.lists(st.sampled_from("abc"), max_size=2))
def test_only_instances_of_nodes_that_are_left_go_elsewhere(old, cluster, left):
    new = old.without(left, cluster)

    assert old.groups == new.groups
    working = {node.name for node in cluster.working}
    for before, after in zip(old.nodes, new.nodes, strict=True):
        assert (after in working) if before in left else (before == after)


def test_without_a_node_its_instances_go_to_the_emptiest_one_after_the_other():
    cluster = Cluster((Node("a"), Node("b"), Node("c", capacity=2.0)), draining=("b",))
    old = Deployment(("a", "b", "b", "b", "b"))

    assert ("a", "c", "c", "c", "a") == old.without(["b"], cluster).nodes


@pytest.mark.parametrize("instances", [0, -1, 1.5, None])
def test_the_number_of_instances_is_checked(instances):
    with pytest.raises(InvalidValueError, match="instances="):
        Deployment(("a",)).resized(instances, Cluster.uniform(1))
