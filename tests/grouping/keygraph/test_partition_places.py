"""Dividing keys among parts that differ in capacity and rack."""

import numpy as np
import pytest
from planted import IMBALANCE, ROUNDING, community_pairs, counted, fullness, graph_of, parts_of

from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_keys
from grouping.routing_table import RoutingTable


@pytest.fixture(scope="module")
def stream():
    return community_pairs(0)


@pytest.mark.parametrize("capacities", [[3, 2, 1], [[3, 2, 1], [1, 1, 4]], [[1, 1, 0], [1, 2, 3]]])
def test_parts_get_what_they_can_take(stream, capacities):
    graph = graph_of(stream[0])
    shares = np.broadcast_to(np.array(capacities, dtype=float), (2, 3))
    shares = shares / shares.sum(axis=1, keepdims=True)

    found = partition_keys(graph, 3, capacities=capacities)

    assert fullness(graph, found.tables, shares) == pytest.approx(found.imbalance)
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


def test_a_part_without_capacity_loses_its_keys(stream):
    before = partition_keys(stream[0], 3).tables

    found = partition_keys(stream[0], 3, previous=before, capacities=[1, 0, 1])

    assert all(1 not in table.parts for table in found.tables)
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


def test_a_single_heavy_key_does_not_stay_where_nothing_can_be_taken():
    pairs = KeyPairs([1], ["x"], [100])

    found = partition_keys(pairs, 3, capacities=[[0, 1, 0], [1, 0, 0]])

    assert [1] == found.tables[0].parts.tolist()
    assert [0] == found.tables[1].parts.tolist()


def two_levels(seed=0, tuples=40_000):
    """Pairs inside small communities mostly, and inside pairs of these for most of the rest."""
    random = np.random.default_rng(seed)
    left = random.integers(0, 600, tuples)
    kind, belongs = random.random(tuples), random.integers(0, 12, 600)
    near = np.where(kind < 0.6, belongs[left], np.where(kind < 0.9, belongs[left] ^ 1, -1))
    near = np.where(near < 0, random.integers(0, 12, tuples), near)
    return counted(left, near * 50 + random.integers(0, 50, tuples))


@pytest.mark.parametrize("racks", [["r0", "r0", "r1", "r1", "r2", "r2"], [0, 1, 2, 0, 1, 2]])
def test_racks_keep_together_what_parts_cannot(racks):
    pairs = two_levels()
    graph = graph_of(pairs)
    rack_of = np.array([sorted(set(racks)).index(rack) for rack in racks])
    flat = partition_keys(graph, 6)

    found = partition_keys(graph, 6, racks=racks)

    in_racks = graph.within(rack_of[parts_of(graph, found.tables)]) / graph.total
    assert in_racks == found.rack_locality
    assert graph.within(parts_of(graph, found.tables)) / graph.total == found.locality
    assert in_racks >= graph.within(rack_of[parts_of(graph, flat.tables)]) / graph.total
    # Planted: six in ten in a part and nine in ten in a rack, some of the rest by chance.
    assert found.locality >= 0.55
    assert found.rack_locality >= 0.85
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


@pytest.mark.parametrize("racks", [np.repeat(range(3), 2), np.repeat(range(4), 3)], ids=len)
def test_racks_are_not_filled_so_far_that_their_parts_cannot_keep_the_limits(racks):
    found = partition_keys(
        two_levels(tuples=5000), len(racks), racks=racks.tolist(), imbalance=1.01
    )

    assert max(found.imbalance) <= 1.01 * ROUNDING


def test_racks_stay_racks_when_tables_change():
    racks = [0, 1, 2, 0, 1, 2]
    before = partition_keys(two_levels(0), 6, racks=racks)
    names = np.array([4, 2, 0, 1, 5, 3])  # parts of one rack go to another one together
    swapped = [RoutingTable(table.keys, names[table.parts], 6) for table in before.tables]

    for tables in (before.tables, swapped):
        found = partition_keys(two_levels(0), 6, racks=racks, previous=tables)

        assert found.moved <= 0.05
        assert found.rack_locality >= before.rack_locality - 0.01
        assert found.locality >= before.locality - 0.01


def test_racks_may_be_uneven_and_some_without_an_operator(stream):
    found = partition_keys(
        stream[0], 4, racks=["a", "b", "b", "b"], capacities=[[0, 1, 1, 1], [2, 1, 1, 1]]
    )

    assert 0 not in found.tables[0].parts
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


def test_one_rack_and_racks_of_one_part_are_as_none(stream):
    flat = partition_keys(stream[0], 4)
    alone = partition_keys(stream[0], 4, racks=["a", "b", "c", "d"])

    assert alone.locality == alone.rack_locality
    assert alone.locality == pytest.approx(flat.locality, abs=0.03)
    assert 1.0 == partition_keys(stream[0], 4, racks=["a"] * 4).rack_locality
