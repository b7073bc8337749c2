"""Keys of a machine, spread over the instances that it has."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grouping.keygraph.spreading import spread


@st.composite
def machines(draw):
    """Keys with node, load and instance of now; and the node of each instance."""
    node_of = np.array(draw(st.lists(st.integers(0, 2), min_size=1, max_size=7)), dtype=np.int32)
    used = sorted(set(node_of.tolist()))
    key = st.tuples(st.sampled_from(used), st.integers(0, 40), st.integers(0, len(node_of) - 1))
    keys = draw(st.lists(key, max_size=20))
    nodes, weights, current = (np.array([k[side] for k in keys], dtype=int) for side in range(3))
    return nodes.astype(np.int32), weights.astype(float), node_of, current.astype(np.int32)


def fair_share(loads, instances):
    """What each instance gets of a node once keys heavier than that have one to themselves."""
    return min(
        sum(sorted(loads)[: max(0, len(loads) - hot)]) / (instances - hot)
        for hot in range(instances)
    )


@given(machines())
def test_each_key_is_on_its_node(machine):
    nodes, _, node_of, _ = machine

    assert nodes.tolist() == node_of[spread(*machine)].tolist()


@given(machines())
def test_no_instance_has_more_than_a_share_and_a_key(machine):
    nodes, loads, node_of, _ = machine
    held = np.bincount(spread(*machine), loads, len(node_of))

    for node in set(nodes.tolist()):
        mine = loads[nodes == node]
        count = int((node_of == node).sum())
        assert held[node_of == node].max() <= fair_share(mine.tolist(), count) + mine.max() + 1e-9


@given(machines())
def test_keys_that_are_spread_once_stay(machine):
    nodes, loads, node_of, _ = machine
    chosen = spread(*machine)
    held = np.bincount(chosen, loads, len(node_of))

    again = spread(nodes, loads, node_of, chosen)

    for node in set(nodes.tolist()):
        mine = nodes == node
        share = fair_share(loads[mine].tolist(), int((node_of == node).sum()))
        for instance in np.flatnonzero(node_of == node):
            keys = mine & (chosen == instance)
            if held[instance] <= share:
                assert chosen[keys].tolist() == again[keys].tolist()


def test_a_key_heavier_than_a_share_keeps_its_instance_and_has_it_to_itself():
    loads = np.array([100.0, 5, 5, 5, 5])
    nodes = np.zeros(5, dtype=np.int32)

    chosen = spread(nodes, loads, np.zeros(3, np.int32), np.array([2, 2, 2, 0, 0], np.int32))

    assert chosen[0] == 2
    assert [10.0, 10.0, 100.0] == np.bincount(chosen, loads).tolist()
    assert [0, 0] == chosen[3:].tolist()


def test_two_heavy_keys_of_one_instance_part():
    nodes = np.zeros(3, dtype=np.int32)

    chosen = spread(nodes, np.array([50.0, 60, 4]), np.zeros(3, np.int32), np.ones(3, np.int32))

    assert chosen[1] == 1
    assert sorted(chosen.tolist()) == [0, 1, 2]


def test_keys_from_other_nodes_fill_up_the_instances_that_have_least():
    loads = np.array([6.0, 1, 1, 1, 1, 1, 1])
    current = np.array([1, 0, 0, 0, 0, 0, 0], dtype=np.int32)
    node_of = np.array([5, 3, 3], dtype=np.int32)

    chosen = spread(np.full(7, 3, dtype=np.int32), loads, node_of, current)

    assert [1] + [2] * 6 == chosen.tolist()


def test_small_cases_are_nearly_as_even_as_can_be():
    """Over all loads of five keys, the fullest of two instances is a key above the best at most."""
    for loads in product((1, 2, 5), repeat=5):
        weights = np.array(loads, dtype=float)
        chosen = spread(
            np.zeros(5, np.int32), weights, np.zeros(2, np.int32), np.zeros(5, np.int32)
        )
        best = min(
            max(sum(w for w, s in zip(loads, sides, strict=True) if s == side) for side in (0, 1))
            for sides in product((0, 1), repeat=5)
        )
        assert np.bincount(chosen, weights).max() <= best + max(loads)


def test_no_keys_need_no_instance():
    nothing = np.empty(0, dtype=np.int32)

    assert [] == spread(nothing, np.empty(0), np.zeros(2, np.int32), nothing).tolist()
