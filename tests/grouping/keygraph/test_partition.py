"""Dividing keys: against all divisions, planted communities, and impossible questions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import (
    IMBALANCE,
    ROUNDING,
    community_pairs,
    counted,
    even_limits,
    fullness,
    graph_of,
    parts_of,
)

from grouping.errors import PartitionError
from grouping.keygraph import metis, partition
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_as_published, partition_keys, reachable_limits
from grouping.routing_table import RoutingTable
from sketches.errors import InvalidKeyError, InvalidValueError


@pytest.fixture(scope="module")
def stream():
    return community_pairs(0)


@st.composite
def any_graphs(draw):
    """Small graphs of two or three operators; whole counts, so that sums are exact."""
    keys = st.integers(0, 5)
    rows = st.lists(st.tuples(keys, keys, st.integers(0, 9)), max_size=25)
    hops = draw(
        st.sampled_from(((("a", "b"),), (("a", "b"), ("b", "c")), (("a", "b"), ("a", "c"))))
    )
    drawn = {hop: draw(rows) for hop in hops}
    return KeyGraph.of(
        {
            hop: KeyPairs(*([row[side] for row in some] for side in range(3)))
            for hop, some in drawn.items()
        },
        ("a", "b", "c"),
    )


@settings(max_examples=60)
@given(any_graphs(), st.integers(1, 5), st.sampled_from((1.0, 1.03, 1.5)))
def test_what_is_reported_is_what_the_tables_do_and_limits_are_kept(graph, parts, imbalance):
    found = partition_keys(graph, parts, imbalance=imbalance)

    assert len(graph.names) == len(found.tables)
    assert {parts} == {table.instances for table in found.tables}
    assert [len(column) for column in graph.columns] == [len(table) for table in found.tables]
    within = graph.within(parts_of(graph, found.tables))
    assert (within / graph.total if graph.total else 1.0) == found.locality
    assert 0.0 == found.moved
    assert found.locality == found.rack_locality
    for operator, (table, column) in enumerate(zip(found.tables, graph.columns, strict=True)):
        loads = graph.loads[graph.span(operator)]
        held = np.bincount(table.assign(column), loads, parts)
        expected = held.max() / held.mean() if len(loads) else 0.0
        assert expected == pytest.approx(found.imbalance[operator], rel=1e-12)
        assert (held <= even_limits(graph, parts, imbalance)[operator] * ROUNDING).all()


def test_small_graphs_are_divided_nearly_as_well_as_can_be():
    """Against all divisions that keep the same limits, of up to nine keys in two or three parts."""
    random = np.random.default_rng(5)
    ratios = []
    for case in range(60):
        parts, imbalance = (2, 3)[case % 2], (1.03, 1.2)[case // 2 % 2]
        rows = random.integers(0, (4, 5 if parts == 2 else 4), (14, 2))
        graph = graph_of(KeyPairs(rows[:, 0], rows[:, 1], random.integers(1, 9, 14)))
        limits = even_limits(graph, parts, imbalance)
        every = np.array(list(product(range(parts), repeat=len(graph))), dtype=np.int32)
        fits = np.ones(len(every), dtype=bool)
        for operator in (0, 1):
            span = graph.span(operator)
            for part in range(parts):
                held = (every[:, span] == part) @ graph.loads[span]
                fits &= held <= limits[operator, part]
        rows = np.repeat(np.arange(len(graph)), np.diff(graph.starts))
        within = (every[:, rows] == every[:, graph.neighbours]) @ graph.weights / 2

        found = partition_keys(graph, parts, imbalance=imbalance)

        ratios.append(found.locality * graph.total / within[fits].max())
    assert max(ratios) <= 1 + 1e-12
    # Measured over 640 such graphs: one below .9, of .87; a mean of .9996.
    assert min(ratios) >= 0.87
    assert np.mean(ratios) >= 0.995


@pytest.mark.parametrize("parts", [2, 3, 6, 12])
def test_planted_communities_are_found(stream, parts):
    pairs, places, tags = stream
    planted = pairs.counts[places[pairs.left] == tags[pairs.right]].sum() / pairs.total

    found = partition_keys(pairs, parts)

    # Nobody can do better than to cut no community at all; parts that are evenly filled cut some.
    assert found.locality >= planted - 0.05
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


@pytest.mark.parametrize("parts", [2, 6])
def test_the_sum_is_not_what_is_balanced_but_each_operator(stream, parts):
    graph = graph_of(stream[0])

    found = partition_keys(graph, parts)

    assert found.imbalance == pytest.approx(fullness(graph, found.tables), rel=1e-12)
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


def test_limits_are_kept_also_where_only_the_sum_can_be_given_to_metis(stream, monkeypatch):
    monkeypatch.setattr(metis, "_native", lambda: None)
    pairs, places, tags = stream

    found = partition_keys(pairs, 6)

    planted = pairs.counts[places[pairs.left] == tags[pairs.right]].sum() / pairs.total
    assert max(found.imbalance) <= IMBALANCE * ROUNDING
    assert found.locality >= planted - 0.05


def test_a_key_heavier_than_a_share_sets_the_limit_of_its_operator_only():
    # Key 7 of the left has each of the 100 keys of the right three times, the others one once.
    others = np.delete(np.arange(100), 7)
    left, right = np.append(others, np.full(100, 7)), np.append(others, np.arange(100))
    graph = graph_of(KeyPairs(left, right, np.where(left == 7, 3, 1)))

    found = partition_keys(graph, 4)

    assert found.imbalance[0] == pytest.approx(4 * 300 / 399)
    assert found.imbalance[1] <= IMBALANCE * ROUNDING


def test_limits_are_a_share_times_the_imbalance_or_what_the_heaviest_keys_need():
    graph = graph_of(KeyPairs([1, 2, 3, 4], ["a", "a", "b", "b"], [70, 10, 10, 10]))
    shares = np.array([[0.5, 0.5], [0.25, 0.75]])

    limits = reachable_limits(graph, shares, 1.1)

    # Left: 70 of 100 cannot be cut. Right: 20 and 80 in 25 and 75 leave one part 80 / 75 full.
    assert limits[0] == pytest.approx([70, 70])
    assert limits[1] == pytest.approx([27.5, 82.5])


def test_limits_are_what_keys_need_also_where_each_is_light():
    graph = graph_of(KeyPairs(range(17), range(17), np.full(17, 5)))

    assert even_limits(graph, 2) == pytest.approx(np.full((2, 2), 45))


@given(any_graphs(), st.integers(1, 5))
@settings(max_examples=50)
def test_dealing_out_all_keys_the_heaviest_first_keeps_the_limits(graph, parts):
    limits = even_limits(graph, parts, 1.0)

    for operator in range(len(graph.names)):
        held = [0.0] * parts
        for load in sorted(graph.loads[graph.span(operator)], reverse=True):
            held[held.index(min(held))] += load
        assert max(held) <= limits[operator].max() * ROUNDING


def test_equal_questions_have_equal_answers_and_seeds_matter(stream):
    pairs = stream[0]
    first, again, other = (partition_keys(pairs, 6, seed=seed) for seed in (3, 3, 4))

    assert first == again
    assert first.tables == again.tables
    assert first.tables != other.tables


def test_more_tries_are_never_worse(stream):
    found = [partition_keys(stream[0], 6, tries=tries).locality for tries in (1, 3)]

    assert found[0] <= found[1]


def test_the_order_of_rows_makes_no_difference(stream):
    pairs = stream[0]
    order = np.random.default_rng(1).permutation(len(pairs))
    shuffled = KeyPairs(pairs.left[order], pairs.right[order], pairs.counts[order])

    assert partition_keys(pairs, 6).tables == partition_keys(shuffled, 6).tables


def test_the_names_of_keys_make_no_difference_that_matters(stream):
    pairs = stream[0]
    named = KeyPairs(
        np.array([f"place {key}" for key in pairs.left.tolist()], dtype=object),
        np.array([b"#%d" % key for key in pairs.right.tolist()], dtype=object),
        pairs.counts,
    )

    ours, theirs = partition_keys(pairs, 6), partition_keys(named, 6)

    # METIS begins elsewhere, which is as good as another seed.
    assert ours.locality == pytest.approx(theirs.locality, abs=0.03)
    assert max(theirs.imbalance) <= IMBALANCE * ROUNDING


@pytest.mark.parametrize("factor", [0.37, 1e-9, 1e20])
def test_the_scale_of_counts_makes_no_difference_that_matters(stream, factor):
    pairs = stream[0]
    scaled = KeyPairs(pairs.left, pairs.right, pairs.counts * factor)

    found = partition_keys(scaled, 6)

    assert found.locality == pytest.approx(partition_keys(pairs, 6).locality, abs=0.03)
    assert max(found.imbalance) <= IMBALANCE * ROUNDING


def test_a_chain_of_three_operators_is_divided_whole():
    first, _, tags = community_pairs(3, tuples=20_000, keys=(200, 300), number=12)
    left = np.random.default_rng(4).integers(0, 200, 20_000)
    second = counted(tags[left % 300] * 5 % 60 * 7, left)  # keys of the middle feed a third
    graph = KeyGraph.of({("a", "b"): first, ("b", "c"): second})

    found = partition_keys(graph, 4)

    assert 3 == len(found.tables) == len(found.imbalance)
    limits = even_limits(graph, 4)
    for operator in range(3):
        span = graph.span(operator)
        held = np.bincount(parts_of(graph, found.tables)[span], graph.loads[span], 4)
        assert (held <= limits[operator] * ROUNDING).all()


# As published.


def test_as_published_the_sum_is_balanced_by_one_call_and_nothing_else(stream, monkeypatch):
    calls = []

    def watched(graph, loads, shares, tolerances, *, seed):
        calls.append((loads.shape[1], shares.shape, tolerances.tolist(), seed))
        return split(graph, loads, shares, tolerances, seed=seed)

    split = metis.split
    monkeypatch.setattr(metis, "split", watched)
    monkeypatch.setattr(partition, "divide", None)
    graph = graph_of(stream[0])

    found = partition_as_published(graph, 6, seed=9)

    assert [(1, (1, 6), [IMBALANCE], 9)] == calls
    held = np.bincount(parts_of(graph, found.tables), graph.loads, 6)
    # METIS may miss its bound a little.
    assert held.max() / held.mean() <= IMBALANCE + 0.01
    assert max(found.imbalance) > IMBALANCE
    assert found.imbalance == pytest.approx(fullness(graph, found.tables))
    assert found.tables == partition_as_published(stream[0], 6, seed=9).tables


# Edges of the input.


def test_without_pairs_all_keys_go_by_hash():
    found = partition_keys(KeyPairs([], [], []), 3, racks=[0, 0, 1], capacities=[1, 2, 3])

    assert (1.0, (0.0, 0.0), 0.0) == (found.locality, found.imbalance, found.moved)
    assert [0, 0] == [len(table) for table in found.tables]
    assert (
        RoutingTable([], [], 3).assign(range(9)).tolist()
        == found.tables[0].assign(range(9)).tolist()
    )


def test_a_seed_as_wide_as_seeds_are_allowed_is_taken(stream):
    found = partition_keys(stream[0], 3, seed=(1 << 64) - 1)

    assert max(found.imbalance) <= IMBALANCE * ROUNDING


PAIRS = KeyPairs([1, 2], ["x", "y"], [3, 4])
TABLES = (RoutingTable([1], [0], 2), RoutingTable(["x"], [0], 2))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"pairs": [1, 2]}, PartitionError, "are not pairs of keys; give KeyPairs"),
        ({"parts": 0}, InvalidValueError, "parts=0 is out of range"),
        ({"parts": 2.0}, InvalidValueError, "parts=2.0 is not a whole number"),
        ({"imbalance": 0.99}, PartitionError, "imbalance=0.99 would leave some of the load"),
        ({"imbalance": float("nan")}, InvalidValueError, "imbalance=nan"),
        ({"imbalance": "1"}, InvalidValueError, "imbalance='1' is not a number"),
        ({"previous": TABLES[:1]}, PartitionError, "1 previous tables are given for 2 operators"),
        ({"previous": ({}, {})}, PartitionError, "previous holds {}, which is not a RoutingTable"),
        ({"previous": TABLES[::-1]}, InvalidKeyError, "kind int are unknown to a table of str"),
        ({"capacities": [1]}, PartitionError, r"capacities of shape \(1,\) do not fit 2 parts"),
        ({"capacities": [[1, 2]] * 3}, PartitionError, r"shape \(3, 2\) do not fit 2 parts"),
        ({"capacities": [[1], [1, 2]]}, InvalidValueError, "capacities"),
        ({"capacities": [1, -1]}, InvalidValueError, r"capacities\[1\]=-1.0 cannot be counted"),
        ({"capacities": [0, 0]}, PartitionError, "leave an operator without any part"),
        ({"capacities": [[1, 1], [0, 0]]}, PartitionError, "leave an operator without any part"),
        ({"racks": ["a"]}, PartitionError, "1 racks are given for 2 parts"),
        ({"inertia": -0.1}, InvalidValueError, "inertia=-0.1 is out of range"),
        ({"inertia": 1.1}, InvalidValueError, "inertia=1.1 is out of range"),
        ({"tries": 0}, InvalidValueError, "tries=0 is out of range"),
        ({"seed": -1}, InvalidValueError, "seed=-1 is out of range"),
        ({"seed": 1 << 64}, InvalidValueError, "seed=18446744073709551616 is out of range"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(arguments, error, words):
    with pytest.raises(error, match=words):
        partition_keys(**{"pairs": PAIRS, "parts": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pairs": None}, PartitionError),
        ({"parts": -1}, InvalidValueError),
        ({"imbalance": 0.5}, PartitionError),
        ({"seed": "0"}, InvalidValueError),
    ],
)
def test_so_is_it_as_published(arguments, error):
    with pytest.raises(error):
        partition_as_published(**{"pairs": PAIRS, "parts": 2, **arguments})
