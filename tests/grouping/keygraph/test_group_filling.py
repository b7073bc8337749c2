"""Keys of each instance in its key groups: those together that belong together."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import community_pairs, graph_of

from grouping.keygraph.group_filling import HOMELESS, fill_groups
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_keys


def homeless(graph):
    return np.full(len(graph), HOMELESS, dtype=np.int32)


def owners(groups, instances):
    return (np.arange(groups) * instances // groups).astype(np.int32)


@st.composite
def questions(draw):
    """A graph, its keys on instances of some nodes, and the instances of each operator's groups."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    names = ("a", "b", "c")[: draw(st.integers(2, 3))]
    hops = {}
    for hop in pairwise(names):
        rows = draw(st.integers(1, 80))
        left, right = (random.integers(0, draw(st.integers(1, 30)), rows) for _ in hop)
        hops[hop] = KeyPairs(left, right, random.integers(1, 9, rows).astype(float))
    graph = KeyGraph.of(hops, names)
    nodes = draw(st.integers(1, 3))
    all_nodes, instances, of_groups = [], [], []
    for place in range(len(names)):
        count, groups = draw(st.integers(1, 4)), draw(st.integers(4, 12))
        node_of = random.integers(0, nodes, count)
        of_groups.append(owners(groups, count))
        span = graph.span(place)
        instances.append(random.integers(0, count, span.stop - span.start).astype(np.int32))
        all_nodes.append(node_of[instances[-1]].astype(np.int32))
    return graph, np.concatenate(all_nodes), np.concatenate(instances), of_groups


def spans(graph):
    return [graph.span(place) for place in range(len(graph.names))]


@settings(max_examples=75, deadline=None)
@given(questions(), st.integers(0, 1 << 30))
def test_each_key_gets_a_group_of_its_instance(question, seed):
    graph, _, instances, of_groups = question
    random = np.random.default_rng(seed)
    home = np.concatenate(
        [
            random.integers(-1, len(of), span.stop - span.start)
            for span, of in zip(spans(graph), of_groups, strict=True)
        ]
    ).astype(np.int32)

    for now in (homeless(graph), home):
        found = fill_groups(*question, now)
        for span, of in zip(spans(graph), of_groups, strict=True):
            assert of[found[span]].tolist() == instances[span].tolist()
        assert found.tolist() == fill_groups(*question, now).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_even_but_for_those_of_one_heavy_key(seed):
    graph = graph_of(community_pairs(seed)[0])
    instances = partition_of(graph, 4, seed)

    groups = fill_groups(graph, instances, instances, [owners(64, 4)] * 2, homeless(graph))

    for span in spans(graph):
        loads = np.bincount(groups[span], graph.loads[span], 64)
        heaviest = np.zeros(64)
        np.maximum.at(heaviest, groups[span], graph.loads[span])
        share = graph.loads[span].sum() / 64
        assert (loads <= np.maximum(1.5 * share, heaviest + 1.5 * share)).all()
        assert (loads > 0).mean() > 0.75


def partition_of(graph, parts, seed):
    partition = partition_keys(graph, parts, seed=seed)
    columns = zip(partition.tables, graph.columns, strict=True)
    return np.concatenate([table.assign(column) for table, column in columns])


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_two_operators_correspond(seed):
    """By chance, one pair in 16 would have both keys in groups of one number here."""
    graph = graph_of(community_pairs(seed, number=64)[0])
    instances = partition_of(graph, 4, seed)

    groups = fill_groups(graph, instances, instances, [owners(64, 4)] * 2, homeless(graph))

    together = graph.within(groups) / graph.within(instances)
    assert together > 0.5


def test_keys_stay_in_their_group_while_others_come():
    graph = graph_of(community_pairs(0)[0])
    instances = partition_of(graph, 4, 0)
    before = fill_groups(graph, instances, instances, [owners(64, 4)] * 2, homeless(graph))
    random = np.random.default_rng(0)
    coming = random.random(len(graph)) < 0.1

    after = fill_groups(
        graph, instances, instances, [owners(64, 4)] * 2, np.where(coming, HOMELESS, before)
    )

    stayed = ~coming & (after == before)
    assert graph.loads[stayed].sum() > 0.9 * graph.loads[~coming].sum()
    assert graph.within(after) > 0.9 * graph.within(before)


def test_groups_that_correspond_by_another_number_keep_doing_so():
    pairs = KeyPairs([0, 1, 2, 3], [10, 11, 12, 13], [9.0, 9.0, 9.0, 9.0])
    graph = KeyGraph.of({("a", "b"): pairs})
    there = np.zeros(8, dtype=np.int32)
    home = np.array([0, 1, 2, 3, 2, 0, 3, 1], dtype=np.int32)

    assert home.tolist() == fill_groups(graph, there, there, [owners(4, 1)] * 2, home).tolist()


def test_instances_of_one_operator_on_one_node_have_groups_of_their_own():
    pairs = KeyPairs([0, 1, 2, 3], [10, 11, 12, 13], [9.0, 9.0, 9.0, 9.0])
    graph = KeyGraph.of({("a", "b"): pairs})
    instances = np.array([0, 0, 1, 1, 0, 0, 0, 0], dtype=np.int32)

    found = fill_groups(
        graph, np.zeros(8, np.int32), instances, [owners(4, 2), owners(4, 1)], homeless(graph)
    )

    assert [0, 0, 1, 1] == owners(4, 2)[found[:4]].tolist()
    assert {0, 1, 2, 3} == set(found[:4].tolist()) == set(found[4:].tolist())
    assert found[:4].tolist() == found[4:].tolist()
