"""Key graphs against dictionaries: which keys occurred together, and how often."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_keys
from sketches.errors import InvalidKeyError, InvalidValueError

OPERATORS = ("a", "b", "c", "d")
KINDS = (
    st.integers(-3, 3) | st.sampled_from((-(1 << 63), (1 << 63) - 1)),
    st.text("xyé", max_size=2),
    st.binary(max_size=1),
    st.tuples(st.integers(0, 1), st.text("xy", max_size=1)),
)
# Sums of these are exact in whatever order they are added.
COUNTS = st.integers(0, 4).map(float) | st.sampled_from((0.25, 1.5))


@st.composite
def hops(draw):
    """Counted pairs of any hops that follow the order of the operators: {hop: [(l, r, n)]}."""
    kinds = {name: draw(st.sampled_from(KINDS)) for name in OPERATORS}
    possible = [(a, b) for place, a in enumerate(OPERATORS) for b in OPERATORS[place + 1 :]]
    chosen = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4, unique=True))
    return {
        (a, b): draw(st.lists(st.tuples(kinds[a], kinds[b], COUNTS), max_size=8)) for a, b in chosen
    }


def pairs_of(rows):
    return KeyPairs(*([row[side] for row in rows] for side in range(3)))


def graph_of(written, order=OPERATORS):
    return KeyGraph.of({hop: pairs_of(rows) for hop, rows in written.items()}, order)


def vertices(graph):
    """The (operator, key) of each vertex."""
    return [
        (name, key)
        for name, column in zip(graph.names, graph.columns, strict=True)
        for key in column.objects().tolist()
    ]


def edges(graph):
    """{vertex: {vertex: weight}}, read off the arrays one by one."""
    named = vertices(graph)
    return {
        named[v]: {
            named[graph.neighbours[e]]: graph.weights[e]
            for e in range(graph.starts[v], graph.starts[v + 1])
        }
        for v in range(len(graph))
    }


def edges_written(written):
    """The same from the rows, without an array."""
    found = defaultdict(Counter)
    for (a, b), rows in written.items():
        for left, right, count in rows:
            if count:
                found[a, left][b, right] += count
                found[b, right][a, left] += count
    return {vertex: dict(others) for vertex, others in found.items()}


@given(hops())
def test_each_pair_that_was_seen_is_an_edge_in_both_directions_with_all_its_tuples(written):
    graph = graph_of(written)

    assert edges_written(written) == edges(graph)
    assert len(graph.neighbours) == sum(map(len, edges(graph).values()))
    assert sum(row[2] for rows in written.values() for row in rows) == graph.total


@given(hops())
def test_what_comes_in_adds_up_and_what_goes_out_is_the_busiest_hop(written):
    graph = graph_of(written)

    expected = []
    for name, key in vertices(graph):
        coming = sum(
            n for (_, b), rows in written.items() for _, r, n in rows if (b, r) == (name, key)
        )
        going = [
            sum(n for left, _, n in rows if left == key)
            for (a, _), rows in written.items()
            if a == name
        ]
        expected.append(max([coming, *going]))

    assert expected == graph.loads.tolist()
    assert all(load > 0 for load in expected)


@given(hops())
def test_vertices_of_an_operator_stand_together_each_key_once(written):
    graph = graph_of(written)

    named = vertices(graph)
    assert len(named) == len(set(named)) == len(graph) == graph.bounds[-1]
    assert tuple(n for n in OPERATORS if any(n in hop for hop in written)) == graph.names
    for operator, name in enumerate(graph.names):
        span = graph.span(operator)
        assert {name} >= {named[v][0] for v in range(span.start, span.stop)}
        codes = graph.columns[operator].codes
        assert (codes[1:] > codes[:-1]).all()


@given(hops(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_hops_makes_no_difference(written, random):
    shuffled = [(hop, random.sample(rows, len(rows))) for hop, rows in written.items()]
    random.shuffle(shuffled)

    graph, other = graph_of(written), graph_of(dict(shuffled))

    for part in ("bounds", "starts", "neighbours", "weights", "loads"):
        assert getattr(graph, part).tolist() == getattr(other, part).tolist()
    assert vertices(graph) == vertices(other)


@given(hops(), st.data())
def test_within_counts_the_tuples_of_pairs_in_one_part(written, data):
    graph = graph_of(written)
    drawn = data.draw(
        st.lists(st.integers(0, 2), min_size=len(graph), max_size=len(graph)), "parts"
    )
    part = dict(zip(vertices(graph), drawn, strict=True))

    expected = sum(
        n
        for (a, b), rows in written.items()
        for left, right, n in rows
        if n and part[a, left] == part[b, right]
    )

    assert expected == graph.within(np.array(drawn, dtype=np.int32))


@given(hops(), st.data())
def test_a_subgraph_has_some_of_the_vertices_and_all_edges_between_them(written, data):
    graph = graph_of(written)
    size = len(graph)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)

    some = graph.subgraph(kept)

    named = vertices(graph)
    staying = [vertex for vertex, keep in zip(named, kept, strict=True) if keep]
    assert staying == vertices(some)
    assert graph.loads[kept].tolist() == some.loads.tolist()
    assert {
        v: {u: n for u, n in edges(graph)[v].items() if u in staying} for v in staying
    } == edges(some)
    assert graph.names == some.names
    assert [sum(name == n for n, _ in staying) for name in graph.names] == np.diff(
        some.bounds
    ).tolist()


@given(hops())
def test_whole_counts_stay_as_they_are_and_each_operator_has_a_column_of_its_own(written):
    whole = {hop: [(a, b, float(int(n))) for a, b, n in rows] for hop, rows in written.items()}
    graph = graph_of(whole)

    assert graph.weights.tolist() == graph.whole.weights.tolist()
    for operator in range(len(graph.names)):
        column = np.zeros(len(graph))
        column[graph.span(operator)] = graph.loads[graph.span(operator)]
        assert column.tolist() == graph.whole_loads[:, operator].tolist()
    assert np.int64 == graph.whole.weights.dtype == graph.whole_loads.dtype


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 0.85, 1e3 + 1 / 3, 1e15 + 0.5, 1e290])
def test_fractions_keep_their_proportions_as_whole_numbers(factor):
    counts = np.array([1.0, 3.0, 10.0, 100.0]) * factor
    graph = KeyGraph.of({("a", "b"): KeyPairs([1, 2, 3, 4], [1, 2, 3, 4], counts)})

    for amounts in (graph.whole.weights, graph.whole_loads.sum(axis=1)):
        # A mean amount is a thousand units or more, so 1 where that is 28.5 is off by 2 % at most.
        found = np.sort(amounts / amounts.max())
        each = len(amounts) // 4  # an edge stands there twice, a load at each of its two keys
        assert found == pytest.approx(np.repeat([0.01, 0.03, 0.1, 1.0], each), rel=0.02)
        assert amounts.sum() <= 1 << 41


def test_loads_of_all_operators_are_in_one_unit():
    hops = {
        ("a", "b"): KeyPairs([1, 2], ["x", "y"], [8, 8]),
        ("b", "c"): KeyPairs(["x", "y"], [1, 2], [0.5, 0.5]),
    }

    loads = KeyGraph.of(hops).whole_loads.sum(axis=0)

    assert loads[0] == loads[1] == 16 * loads[2]


def test_tiny_counts_weigh_something():
    graph = KeyGraph.of({("a", "b"): KeyPairs([1, 2], [1, 2], [1e-9, 1e9 + 0.5])})

    assert graph.whole.weights.min() == 1
    assert (graph.whole_loads.sum(axis=1) >= 1).all()


def test_without_any_tuple_there_is_no_vertex():
    for pairs in (KeyPairs([], [], []), KeyPairs([1, 2], ["x", "y"], [0, 0])):
        graph = KeyGraph.of({("a", "b"): pairs})

        assert len(graph) == 0
        assert 0.0 == graph.total == graph.within(np.empty(0, np.int32))
        assert ("a", "b") == graph.names
        assert len(graph.whole) == 0
        assert (0, 2) == graph.whole_loads.shape


def test_without_an_order_operators_stand_as_the_hops_name_them():
    pairs = KeyPairs([1], [2], [3])

    assert ("b", "c", "a") == KeyGraph.of({("b", "c"): pairs, ("a", "b"): pairs}).names


@pytest.mark.parametrize(
    ("hop", "order"), [(("a", "a"), None), (("a", "b"), ("a",)), (("a", "b"), ())], ids=repr
)
def test_a_hop_must_be_between_two_operators_of_the_order(hop, order):
    with pytest.raises(
        InvalidValueError, match=r"\('a', '.'\) is not between two of the operators"
    ):
        KeyGraph.of({hop: KeyPairs([1], [2], [3])}, order)


def test_a_graph_of_no_hops_is_refused():
    with pytest.raises(InvalidValueError, match="there are no hops"):
        KeyGraph.of({})


def test_an_operator_has_keys_of_one_kind():
    hops = {("a", "b"): KeyPairs([1], ["x"], [3]), ("b", "c"): KeyPairs([7], [1], [3])}

    with pytest.raises(InvalidKeyError, match="'b' has str keys in one hop and int keys"):
        KeyGraph.of(hops)


def test_a_hop_without_pairs_says_nothing_of_the_kind_of_keys():
    hops = {("a", "b"): KeyPairs([1], ["x"], [3]), ("b", "c"): KeyPairs([], [], [])}

    assert [("a", 1), ("b", "x")] == vertices(KeyGraph.of(hops))


def test_counted_keys_have_the_load_that_was_counted_in_the_unit_of_the_pairs():
    pairs = KeyPairs([1, 2, 3], ["x", "x", "y"], [10, 10, 20])
    counts = {"a": KeyCounts([2, 1, 9], [30, 10, 5])}

    graph = KeyGraph.of({("a", "b"): pairs}, counts=counts)

    loads = dict(zip(graph.columns[0].values.tolist(), graph.loads[graph.span(0)], strict=True))
    # Keys 1 and 2 have 20 of the pairs together and were counted 40 times: half a unit each.
    assert {1: 5.0, 2: 15.0, 3: 20.0} == loads
    assert KeyGraph.of({("a", "b"): pairs}).loads[graph.span(1)].tolist() == [
        *graph.loads[graph.span(1)]
    ]


@pytest.mark.parametrize(
    "counts",
    [{}, {"a": KeyCounts([], [])}, {"a": KeyCounts([77], [3])}, {"a": KeyCounts([1], [0])}],
)
def test_counts_that_tell_nothing_of_the_keys_change_nothing(counts):
    pairs = KeyPairs([1, 2], ["x", "y"], [10, 20])

    expected = KeyGraph.of({("a", "b"): pairs}).loads

    assert expected.tolist() == KeyGraph.of({("a", "b"): pairs}, counts=counts).loads.tolist()


def test_counts_of_another_kind_of_key_are_refused():
    pairs = KeyPairs([1, 2], ["x", "y"], [10, 20])

    with pytest.raises(InvalidKeyError, match=r"operator 'a' has int keys .* str keys"):
        KeyGraph.of({("a", "b"): pairs}, counts={"a": KeyCounts(["1"], [3])})


def test_a_division_is_balanced_by_what_was_counted():
    # Key 0 has many partners that were never reported: it is far heavier than its pairs tell.
    pairs = KeyPairs(list(range(8)), list(range(8)), [10] * 8)
    counts = {"left": KeyCounts(list(range(8)), [70, *[10] * 7])}
    hops = {("left", "right"): pairs}

    unaware, aware = (
        partition_keys(KeyGraph.of(hops, counts=known), 2).tables[0].assign(list(range(8)))
        for known in (None, counts)
    )

    assert 4 == (unaware == unaware[0]).sum()
    assert 1 == (aware == aware[0]).sum()
