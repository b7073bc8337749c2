"""Keys that meet by their hash, in masses: what says who owns which key goes by the keys."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from cut_hash import cut_hash
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields
from grouping.key_batch import KeyBatch
from grouping.key_slots import KeySlots
from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.migration.reconfiguration import reconfigure
from grouping.owners import KeyOwners, handover
from grouping.routing_table import GroupTable, RoutingTable
from optimizers.runtime.task.key_reader import key_batch
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.key_identity import distinct
from sketches.keys import as_keys

TEXTS = st.text("ab", max_size=3) | st.text("ab\0", min_size=7, max_size=18)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.one_of(
    st.lists(TEXTS, max_size=60),
    st.lists(st.binary(max_size=9), max_size=60),
    st.lists(INTEGERS, max_size=60),
    st.lists(st.tuples(INTEGERS, st.integers(0, 5)), max_size=60),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=60),
    st.lists(st.decimals(-100, 100, places=1), max_size=60),
)
SEEDS = st.sampled_from([0, 7])
CUT = pytest.mark.parametrize("bits", [1, 8, 16, 64])
MANY = [f"key {n:05}" for n in range(1500)]  # six for each value of 8 bits


@CUT
@given(keys=KEYS, seed=SEEDS)
def test_each_key_has_a_number_of_its_own(bits, keys, seed):
    with cut_hash(bits):
        column = as_keys(keys, seed=seed)
        numbers, firsts = distinct(column)

    rows = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, row)
    assert [keys.index(key) for key in keys] == firsts[numbers].tolist()
    assert sorted(rows.values()) == sorted(firsts.tolist())
    codes = column.codes[firsts]
    order = list(zip(codes.tolist(), column.take(firsts).objects().tolist(), strict=True))
    assert sorted(order) == order


@CUT
@given(keys=KEYS, data=st.data())
def test_two_keys_are_the_same_if_they_are_equal(bits, keys, data):
    others = data.draw(st.lists(st.sampled_from(keys), max_size=60)) if keys else []
    with cut_hash(bits):
        first, second = as_keys(keys), as_keys(others)
    rows, columns = np.indices((len(keys), len(others))).reshape(2, -1)

    found = first.same(rows, second, columns).tolist() if others else []
    assert [key == other for key in keys for other in others] == found


@pytest.mark.parametrize("size", [7, 8, 9, 255, 256, 257, 300])
def test_long_texts_are_compared_to_their_ends(size):
    keys = ["x" * size, "x" * (size - 1) + "y", "y" + "x" * (size - 1), "x" * (size + 1)]
    column = as_keys([*keys, *keys])
    rows, others = np.indices((8, 8)).reshape(2, -1)

    assert np.array_equal(rows % 4 == others % 4, column.same(rows, column, others))


@CUT
@given(keys=KEYS, data=st.data(), seed=SEEDS)
def test_slots_find_the_keys_that_are_there_and_no_others(bits, keys, data, seed):
    known = list(dict.fromkeys(keys))
    inside = known[: data.draw(st.integers(0, len(known)))]
    with cut_hash(bits):
        slots = KeySlots(as_keys(inside, seed=seed))
        found = slots.find(as_keys(keys)) if inside else np.full(len(keys), -1)

    assert [inside.index(key) if key in inside else -1 for key in keys] == found.tolist()


@CUT
@given(keys=KEYS, instances=st.integers(1, 5), seed=SEEDS)
def test_a_table_names_the_owner_of_its_keys_only(bits, keys, instances, seed):
    known = list(dict.fromkeys(keys))
    split = len(known) // 2
    owner = {key: place % instances for place, key in enumerate(known[:split])}
    with cut_hash(bits):
        table = RoutingTable(list(owner), list(owner.values()), instances)
        found, parts = table.find(keys, seed=seed) if owner else ([], [])
        hashed = Fields().router(instances).route(len(keys), KeyBatch.read(keys, seed))
        turned = RoutingTable(list(owner)[::-1], list(owner.values())[::-1], instances)
        whole = table.with_keys(known[split:], [0] * (len(known) - split))
        grown = whole.assign(known).tolist() if known else []

    if owner:
        assert [key in owner for key in keys] == found.tolist()
        assert [owner.get(k, h) for k, h in zip(keys, hashed, strict=True)] == parts.tolist()
    assert table == turned
    assert table.keys.tolist() == turned.keys.tolist()
    assert [owner.get(key, 0) for key in known] == grown


@CUT
def test_tables_of_other_keys_with_the_same_codes_are_not_equal(bits):
    with cut_hash(bits):
        by_code = {}
        for key, code in zip(MANY, as_keys(MANY).codes.tolist(), strict=True):
            by_code.setdefault(code, []).append(key)
        met = [keys[:2] for keys in by_code.values() if len(keys) > 1]
        assert bool(met) is (bits < 64)
        for one, other in met:
            first, second = (RoutingTable([key], [1], 2) for key in (one, other))
            assert first != second
            assert first == RoutingTable([one], [1], 2)
            assert 1 == first.assign([one])[0]
            assert [False] == first.find([other])[0].tolist()


@CUT
def test_a_key_that_is_given_twice_is_found_among_others_that_meet(bits):
    with cut_hash(bits):
        with pytest.raises(InvalidValueError, match=r"key 'key 00007' is given to both 0 and 1"):
            RoutingTable([*MANY, "key 00007"], [0] * len(MANY) + [1], 2)
        with pytest.raises(InvalidValueError, match=r"key 'key 00007' is counted twice"):
            KeyCounts([*MANY, "key 00007"], np.ones(len(MANY) + 1))
        table = RoutingTable(MANY, np.zeros(len(MANY), int), 2)
        with pytest.raises(InvalidKeyError, match=r"key 'key 00007' is listed twice"):
            reconfigure(table, table, [*MANY, "key 00007"])
        assert len(MANY) == len(KeyCounts(MANY, np.ones(len(MANY))))
        assert 0 == reconfigure(table, table, MANY).moved


@CUT
@given(
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 9)), min_size=1)
)
def test_a_graph_has_a_vertex_for_each_key(bits, rows):
    left, right = ([f"{side}{row[i]}" for row in rows] for i, side in enumerate("lr"))
    counts = [row[2] for row in rows]
    known = sorted(set(left))
    with cut_hash(bits):
        graph = KeyGraph.of(
            {("a", "b"): KeyPairs(left, right, counts)},
            counts={"a": KeyCounts(known, np.arange(1.0, len(known) + 1))},
        )

    weights = Counter()
    for one, other, count in zip(left, right, counts, strict=True):
        weights[one, other] += count
    names = [key for column in graph.columns for key in column.objects().tolist()]
    edges = {
        (names[vertex], names[graph.neighbours[place]]): graph.weights[place]
        for vertex in range(len(names))
        for place in range(graph.starts[vertex], graph.starts[vertex + 1])
    }
    assert {pair: edges[pair] for pair in weights} == weights
    assert len(edges) == 2 * len(weights)
    scale = sum(counts) / sum(range(1, len(known) + 1))
    expected = [scale * (known.index(key) + 1) for key in graph.columns[0].objects().tolist()]
    assert expected == pytest.approx(graph.loads[graph.span(0)].tolist())


@CUT
def test_new_keys_get_owners_one_by_one(bits):
    partners = [f"tag {n % 2}" for n in range(len(MANY))]
    with cut_hash(bits):
        pairs = KeyPairs(MANY, partners, np.ones(len(MANY)))
        tables = RoutingTable([], [], 2), RoutingTable(["tag 0", "tag 1"], [0, 1], 2)
        first, _ = first_touch(pairs, tables, np.zeros((2, 2)), imbalance=2.0)

        assert len(MANY) == len(first)
        assert [n % 2 for n in range(len(MANY))] == first.assign(MANY).tolist()


@CUT
@given(data=st.data(), seed=SEEDS)
def test_a_handover_tells_all_keys_that_move(bits, data, seed):
    keys = data.draw(st.lists(TEXTS, min_size=1, max_size=60, unique=True))
    parts = st.lists(st.integers(-1, 3), min_size=len(keys), max_size=len(keys))
    groups = st.lists(st.integers(0, 3), min_size=8, max_size=8).map(tuple)
    with cut_hash(bits):
        both, owned = [], []
        for _ in range(2):
            of = data.draw(parts)
            table = RoutingTable(
                [key for key, part in zip(keys, of, strict=True) if part >= 0],
                [part for part in of if part >= 0],
                4,
            )
            both.append(KeyOwners(data.draw(groups), table, None, 4, seed))
            by_group = both[-1].by_group(as_keys(keys, seed=seed).codes)
            expected = np.where(np.array(of) >= 0, of, by_group).tolist()
            owned.append(both[-1].assign(keys).tolist())
            assert expected == owned[-1]
        change = handover(*both)
        codes = as_keys(keys, seed=seed).codes
        named = both[0].named(as_keys(keys)) >= 0, both[1].named(as_keys(keys)) >= 0
        told = list(zip(change.codes, change.senders, change.recipients, strict=True))

    for key, code, *ends in zip(range(len(keys)), codes, *owned, strict=True):
        moves = ends[0] != ends[1]
        if moves and (named[0][key] or named[1][key]):
            assert (code, *ends) in told
    assert sorted(told) == told


@CUT
@given(data=st.data(), seed=SEEDS)
def test_named_keys_go_with_their_group_also_where_they_meet(bits, data, seed):
    keys = data.draw(st.lists(TEXTS, min_size=1, max_size=60, unique=True))
    named = data.draw(st.lists(st.integers(-1, 7), min_size=len(keys), max_size=len(keys)))
    groups = st.lists(st.integers(0, 3), min_size=8, max_size=8).map(tuple)
    known = {key: group for key, group in zip(keys, named, strict=True) if group >= 0}
    with cut_hash(bits):
        table = GroupTable(list(known), list(known.values()), 8)
        old, new = (KeyOwners(data.draw(groups), table, None, 4, seed) for _ in range(2))
        found = old.group_of(keys).tolist()
        before, after = old.assign(keys).tolist(), new.assign(keys).tolist()
        column = as_keys(keys, seed=seed)
        change = handover(old, new)
        told = list(zip(change.codes, change.senders, change.recipients, strict=True))
        alone = KeyOwners(old.groups, None, None, 4, seed).group_of(keys).tolist()

    assert [known.get(k, group) for k, group in zip(keys, alone, strict=True)] == found
    assert [old.groups[group] for group in found] == before
    assert [new.groups[group] for group in found] == after
    moves = [
        (code, one, other)
        for key, code, one, other in zip(keys, column.codes, before, after, strict=True)
        if key in known and one != other
    ]
    assert sorted(moves) == sorted(told)


@CUT
@given(rows=st.lists(st.tuples(st.integers(0, 40), TEXTS, st.booleans()), max_size=60))
def test_keys_of_three_columns_are_told_apart(bits, rows):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    types = pa.int64(), pa.string(), pa.bool_()
    table = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], list("abc"))
    with cut_hash(bits):
        numbers, firsts = key_batch(table, "abc", "test").distinct()

    assert [rows.index(row) for row in rows] == firsts[numbers].tolist()


@CUT
@given(words=st.lists(TEXTS, max_size=40))
def test_words_of_a_dictionary_are_told_apart(bits, words):
    with cut_hash(bits):
        batch = KeyBatch.read(pa.array(words * 2, pa.string()).dictionary_encode())
        numbers, firsts = batch.distinct()

    assert [words.index(word) for word in words * 2] == firsts[numbers].tolist()
