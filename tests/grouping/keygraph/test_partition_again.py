"""Dividing keys that have been divided before: little moves, and little is lost."""

import numpy as np
import pytest
from planted import IMBALANCE, ROUNDING, community_pairs, drifting_weeks, graph_of, parts_of

from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_keys
from grouping.routing_table import RoutingTable


@pytest.fixture(scope="module")
def stream():
    return community_pairs(0)


@pytest.fixture(scope="module")
def drift():
    return drifting_weeks(3)


def test_moved_is_the_load_of_keys_whose_owner_was_another():
    pairs = KeyPairs([1, 2, 3], ["x", "y", "z"], [10, 20, 30])
    before = (RoutingTable([1, 2, 3], [0, 1, 1], 2), RoutingTable(["x", "y"], [1, 1], 2))
    graph = graph_of(pairs)

    found = partition_keys(graph, 2, previous=before)

    owners = {**{("l", k): p for k, p in ((1, 0), (2, 1), (3, 1))}, ("r", "x"): 1, ("r", "y"): 1}
    owners["r", "z"] = int(before[1].assign(["z"])[0])
    moved = sum(
        load
        for side, table, column in zip("lr", found.tables, graph.columns, strict=True)
        for key, load in zip(
            column.objects().tolist(),
            graph.loads[graph.span("lr".index(side))].tolist(),
            strict=True,
        )
        if owners[side, key] != table.assign([key])[0]
    )
    assert moved > 0
    assert moved / 120 == found.moved


@pytest.mark.parametrize("parts", [4, 6])
def test_week_by_week_a_quarter_of_the_load_moves_for_a_cut_within_two_points(drift, parts):
    tables = partition_keys(drift[0], parts).tables

    for week in drift[1:]:
        fresh = partition_keys(week, parts)
        changed = partition_keys(week, parts, previous=tables)

        graph = graph_of(week)
        owners, now = parts_of(graph, tables), parts_of(graph, fresh.tables)
        assert graph.loads[owners != now].sum() / graph.loads.sum() >= 0.6
        assert changed.moved <= 0.25
        assert changed.locality >= fresh.locality - 0.02
        assert max(changed.imbalance) <= IMBALANCE * ROUNDING
        tables = changed.tables


def test_the_more_inertia_the_less_moves_and_the_more_is_lost(drift):
    before = partition_keys(drift[0], 6).tables

    found = [partition_keys(drift[1], 6, previous=before, inertia=i) for i in (0, 0.5, 1)]

    assert found[0].locality > found[1].locality > found[2].locality
    assert found[0].moved > found[1].moved > found[2].moved


def test_new_names_of_parts_are_those_of_before(stream):
    """Renaming the parts of before only renames those of after: what stays together stays."""
    before = partition_keys(stream[0], 6).tables
    names = np.array([3, 1, 0, 5, 2, 4])
    renamed = [RoutingTable(table.keys, names[table.parts], 6) for table in before]

    assert 0.0 == partition_keys(stream[0], 6, previous=renamed).moved


@pytest.mark.parametrize(("then", "now"), [(6, 8), (6, 5), (6, 4), (6, 1)])
def test_when_parts_come_or_go_little_more_moves_than_must(drift, then, now):
    before = partition_keys(drift[0], then)

    found = partition_keys(drift[0], now, previous=before.tables)

    assert max(found.imbalance) <= IMBALANCE * ROUNDING
    assert found.locality >= partition_keys(drift[0], now).locality - 0.02
    # At least what the parts that are gone had, or what the new ones get, must move.
    needed = 1 - min(then, now) / max(then, now)
    assert needed - 0.03 <= found.moved <= needed + 0.05


@pytest.mark.parametrize("inertia", [0.0, 0.1])
def test_what_would_be_divided_anew_just_so_stays(stream, inertia):
    before = partition_keys(stream[0], 6)

    again = partition_keys(stream[0], 6, previous=before.tables, inertia=inertia)

    assert 0.0 == again.moved
    assert before.tables == again.tables


def test_nobody_is_at_home_at_a_part_that_is_gone():
    pairs = KeyPairs([1, 2], ["x", "y"], [10, 10])
    before = RoutingTable([1, 2], [2, 3], 4), RoutingTable(["x", "y"], [1, 0], 4)

    found = partition_keys(pairs, 2, previous=before, inertia=1.0)

    assert [1, 0] == found.tables[0].assign([1, 2]).tolist()
    assert [1, 0] == found.tables[1].assign(["x", "y"]).tolist()
    assert 0.5 == found.moved


def test_parts_divided_anew_are_named_so_that_least_moves(stream):
    before = partition_keys(stream[0], 4).tables

    found = partition_keys(stream[0], 6, previous=before, inertia=0)

    # It was .575; with the names as METIS gives them .739.
    assert found.moved <= 0.65
