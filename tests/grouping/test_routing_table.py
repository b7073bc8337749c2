"""Routing tables: known keys go where the table says, others where their hash does."""

import copy
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grouping.groupings import (
    Fields,
    GroupTable,
    RoutingTable,
    grouping_from_dict,
    grouping_to_dict,
)
from grouping.hashing import hash_parts
from grouping.key_slots import CodeSlots
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError
from sketches.key_columns import packed
from sketches.keys import Pairs, as_keys

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
KINDS = (
    INTEGERS,
    TEXTS,
    st.binary(max_size=9),
    st.tuples(INTEGERS, TEXTS),
    st.tuples(st.binary(max_size=3), INTEGERS),
)


@st.composite
def owners(draw, min_size=0):
    """Owners of keys, other keys of their kind, and how many instances there are."""
    kind = draw(st.sampled_from(KINDS))
    instances = draw(st.integers(1, 9))
    part = st.integers(0, instances - 1)
    named = draw(st.dictionaries(kind, part, min_size=min_size, max_size=30))
    asked = draw(st.lists(kind if not named else kind | st.sampled_from(list(named)), max_size=30))
    return named, asked, instances


def table_of(named, instances, sort=RoutingTable):
    return sort(list(named), list(named.values()), instances)


BOTH = pytest.mark.parametrize("sort", [RoutingTable, GroupTable])


@BOTH
@given(owners())
def test_known_keys_go_to_their_owner_and_others_by_hash(sort, drawn):
    named, asked, instances = drawn
    table = table_of(named, instances, sort)
    hashed = hash_parts(asked, instances).tolist()

    known, parts = table.find(asked)

    assert np.int32 == parts.dtype == table.assign(asked).dtype
    assert [key in named for key in asked] == known.tolist()
    assert [named.get(key, part) for key, part in zip(asked, hashed, strict=True)] == parts.tolist()
    assert table.assign(asked).tolist() == parts.tolist()
    assert list(named.values()) == table.assign(list(named)).tolist()


@BOTH
@given(owners(), st.randoms(use_true_random=False))
def test_tables_are_equal_in_whatever_order_they_were_given(sort, drawn, random):
    named, _, instances = drawn
    entries = list(named.items())
    random.shuffle(entries)
    table, other = table_of(named, instances, sort), table_of(dict(entries), instances, sort)

    assert table == other
    assert hash(table) == hash(other)
    assert table.keys.tolist() == other.keys.tolist()
    assert named == dict(zip(table.keys.tolist(), table.parts.tolist(), strict=True))
    assert len(named) == len(table)
    assert instances == (table.instances or table.key_groups)


@BOTH
@given(owners(min_size=1))
def test_tables_differ_in_an_owner_a_key_or_the_instances(sort, drawn):
    named, _, instances = drawn
    table = table_of(named, instances, sort)
    first = next(iter(named))
    moved = {**named, first: (named[first] + 1) % (instances + 1)}
    fewer = {key: part for key, part in named.items() if key != first}

    assert table != table_of(named, instances + 1, sort)
    assert table_of(named, instances + 1, sort) != table_of(moved, instances + 1, sort)
    assert table != table_of(fewer, instances, sort)
    assert table != Fields()


@BOTH
def test_equal_codes_of_different_kinds_are_different_keys(sort):
    [code] = as_keys(["Asia"]).codes.view(np.int64).tolist()

    assert sort([code], [0], 2) != sort(["Asia"], [0], 2)


@BOTH
@given(owners())
def test_a_table_comes_back_from_json_and_pickle_as_it_was(sort, drawn):
    named, asked, instances = drawn
    table = table_of(named, instances, sort)
    written = json.dumps(grouping_to_dict(table))

    for other in (
        grouping_from_dict(json.loads(written)),
        pickle.loads(pickle.dumps(table)),  # noqa: S301
        copy.deepcopy(table),
    ):
        assert table == other
        assert table.key_kind == other.key_kind
        assert table.assign(asked).tolist() == other.assign(asked).tolist()
        assert not other.parts.flags.writeable


@BOTH
def test_what_was_looked_up_before_does_not_travel(sort):
    table = sort(np.arange(10_000), np.zeros(10_000, int), 2)
    fresh = len(pickle.dumps(table))

    table.assign([1])

    assert fresh == len(pickle.dumps(table))


@BOTH
@pytest.mark.parametrize("order", [1, -1])
def test_a_key_that_is_given_twice_has_one_owner(sort, order):
    keys, parts = ["a", "b", "a", "c"][::order], [1, 0, 1, 0][::order]

    assert sort(["a", "b", "c"], [1, 0, 0], 2) == sort(keys, parts, 2)

    with pytest.raises(InvalidValueError, match=r"key 'a' is given to both [01] and [01]"):
        sort(["a", "b", "a"][::order], [0, 0, 1][::order], 2)


@BOTH
@given(owners(), owners())
def test_more_keys_are_those_of_both_tables(sort, drawn, more):
    named, asked, instances = drawn
    added = {key: part % instances for key, part in more[0].items()}
    assume(not named or not added or same_kind(named, added))
    table = table_of(named, instances, sort)
    fresh = {key: part for key, part in added.items() if key not in named}

    grown = table.with_keys(list(fresh), list(fresh.values()))

    assert table_of({**named, **fresh}, instances, sort) == grown
    assert table_of(named, instances, sort) == table
    asked = asked if same_kind(named or fresh, dict.fromkeys(asked)) else []
    known = [key in named or key in fresh for key in asked]
    assert known == grown.find(asked)[0].tolist()
    assert grown == grown.with_keys(list(named), list(named.values()))


def same_kind(first, second):
    return len({as_keys(list(keys)).kind for keys in (first, second) if keys}) < 2


@BOTH
@given(owners(min_size=1))
def test_more_keys_cannot_change_an_owner(sort, drawn):
    named, _, instances = drawn
    table = table_of(named, instances + 1, sort)
    key, part = next(iter(named.items()))

    with pytest.raises(InvalidValueError, match="is given to both"):
        table.with_keys([key], [(part + 1) % (instances + 1)])

    assert table_of(named, instances + 1, sort) == table


def test_an_empty_table_routes_as_fields_do_and_takes_any_kind():
    for keys in ([1, 2, -3], ["Asia", "Europe"], [b"x"], [(1, "a")]):
        table = RoutingTable([], [], 7)

        assert Fields().router(7).route(len(keys), keys).tolist() == table.assign(keys).tolist()
        assert table.key_kind is None
        assert as_keys(keys).kind == table.with_keys(keys, [0] * len(keys)).key_kind
    assert RoutingTable([], [], 7) == RoutingTable(as_keys(["a"]).take(slice(0)), [], 7)


@BOTH
def test_keys_of_another_kind_are_refused(sort):
    table = sort(["Asia"], [0], 2)

    for question in ([1], [b"Asia"], [("Asia", "Asia")], pa.array([1, 1]).dictionary_encode()):
        for ask in (table.assign, table.find, lambda keys: table.with_keys(keys, [0] * len(keys))):
            with pytest.raises(InvalidKeyError, match=r"of kind .* a table of str keys"):
                ask(question)
    assert [] == table.assign([]).tolist()
    assert table == table.with_keys([], [])


@BOTH
def test_every_container_is_answered_alike(sort):
    words = ["Asia", "Europe", "Asia", "Nowhere", "Asia"]
    table = sort(["Asia", "Europe"], [4, 3], 5)
    expected = table.assign(words).tolist()
    plain = pa.array(words)

    for same in (
        np.array(words),
        plain,
        plain.dictionary_encode(),
        pa.chunked_array([plain[:2], plain[2:]]).dictionary_encode(),
    ):
        assert expected == table.assign(same).tolist()
        assert [True, True, True, False, True] == table.find(same)[0].tolist()


@BOTH
def test_pairs_are_the_same_keys_packed_or_not(sort):
    pairs = Pairs([1, 2], [3, 4])
    table = sort(packed(as_keys(pairs)), [0, 1], 2)

    assert sort([(2, 4), (1, 3)], [1, 0], 2) == table
    assert [1, 0] == table.assign([(2, 4), (1, 3)]).tolist()
    assert {(1, 3), (2, 4)} == set(table.keys.tolist())
    assert [True, True] == table.with_keys([(5, -6)], [1]).find([(5, -6), (2, 4)])[0].tolist()
    assert table == table.with_keys(packed(as_keys(pairs)), [0, 1])


def test_a_table_does_not_change():
    keys, parts = np.array([5, 6, 7]), np.array([0, 1, 0])
    table = RoutingTable(keys, parts, 2)
    table.assign([5])
    keys[:], parts[:] = 9, 1

    assert [0, 1, 0] == table.assign([5, 6, 7]).tolist()
    assert [5, 6, 7] == sorted(table.keys.tolist())
    for array in (table.keys, table.parts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("parts", "keys", "instances", "anything"):
        with pytest.raises(AttributeError):
            setattr(table, name, 1)


@BOTH
def test_an_answer_is_the_callers_own(sort):
    table = sort([5, 6], [0, 1], 2)

    table.assign([5, 6])[:] = 9

    assert [0, 1] == table.assign([5, 6]).tolist()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([0, 2], "key 'b' is given to 2; give it an instance from 0 to 1"),
        ([-1, 0], "key 'a' is given to -1"),
        ([0], "parts of shape (1,) do not fit 2 keys"),
        ([[0, 1]], "parts of shape (1, 2)"),
        (0, "parts of shape ()"),
        ([0.0, 1.0], "parts of type float64 are not whole numbers"),
        ([True, False], "parts of type bool"),
        (["0", "1"], "parts of type <U1"),
        ([1 << 40, 0], "key 'a' is given to 1099511627776"),
        ([[0], [0, 1]], "is not an array"),
    ],
)
def test_parts_that_are_no_instances_are_refused(parts, words):
    with pytest.raises(InvalidValueError) as caught:
        RoutingTable(["a", "b"], parts, 2)

    assert words in str(caught.value)


@pytest.mark.parametrize("instances", [0, -1, 1 << 31, 2.0, True, None])
def test_the_number_of_instances_is_a_number(instances):
    with pytest.raises(InvalidValueError, match=f"instances={instances}"):
        RoutingTable([], [], instances)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keys": None}, "keys=None of a routing table is not a list"),
        ({"keys": "ab"}, "keys='ab'"),
        ({"keys": ["a", 1]}, "key 1 of type int at 1"),
        ({"keys": ["a", None]}, "None"),
        ({"keys": [{"base64": "YQ=="}, {"base64": "Y"}]}, "is not in base64"),
        ({"keys": [{"base64": "ä"}, {"base64": "YQ=="}]}, "is not in base64"),
        ({"keys": [{"base64": "Y*Q=="}, {"base64": "Yg=="}]}, "is not in base64"),
        ({"keys": [{"base64": "YQ==", "more": 1}] * 2}, "cannot be counted"),
        ({"keys": [["a"], ["b"]]}, "cannot be counted"),
        ({"keys": ["a", "a"]}, "key 'a' is given to both"),
        ({"keys": [1 << 70, 1]}, "does not fit 64 bits"),
        ({"keys": ["\ud800", "b"]}, "no UTF-8 form"),
        ({"parts": [0, 7]}, "is given to 7"),
        ({"instances": 0}, "instances=0"),
        ({"owner": 1}, "owner"),
    ],
)
def test_a_document_that_is_no_table_is_refused(change, words):
    data = {"kind": "table", "instances": 2, "keys": ["a", "b"], "parts": [0, 1], **change}

    with pytest.raises(CorruptDataError) as caught:
        grouping_from_dict(data)

    assert words in str(caught.value)


def test_a_refusal_of_a_large_document_is_short():
    data = grouping_to_dict(RoutingTable(range(5_000), [0] * 5_000, 2))

    with pytest.raises(CorruptDataError) as caught:
        grouping_from_dict({**data, "instances": 0})

    assert 1_000 > len(str(caught.value))


def test_a_table_says_what_it_is_in_a_line():
    assert "RoutingTable(2 int keys, instances=3)" == repr(RoutingTable([1, 2], [0, 1], 3))
    assert "RoutingTable(0 keys, instances=3)" == repr(RoutingTable([], [], 3))


# Keys whose homes collide: of the preimages of a few neighbouring slots under `mix`.


def unmixed(number):
    """Undo `mix`, a step at a time from its last."""
    mask = (1 << 64) - 1
    number = number ^ (number >> 31) ^ (number >> 62)
    number = number * pow(0x94D049BB133111EB, -1, 1 << 64) & mask
    number = number ^ (number >> 27) ^ (number >> 54)
    number = number * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & mask
    return number ^ (number >> 30) ^ (number >> 60)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
    st.sampled_from([0, (1 << 64) - 4096]),
)
def test_keys_of_one_home_are_all_found_at_either_end_of_the_table(steps, base):
    crowd = [unmixed(base + step) for step in range(41)]
    inside = sorted(set(steps))
    codes = np.array([crowd[step] for step in inside], dtype=np.uint64)
    slots = CodeSlots(codes, np.array(inside, dtype=np.int32))

    found = slots.find(np.array(crowd, dtype=np.uint64)).tolist()

    assert [step if step in inside else -1 for step in range(41)] == found


def test_code_zero_is_a_key_like_any_other():
    zero = np.zeros(1, np.uint64)

    assert [3] == CodeSlots(zero, np.array([3], np.int32)).find(zero).tolist()
    assert [-1] == CodeSlots(zero + 1, np.array([3], np.int32)).find(zero).tolist()
    assert [-1] == CodeSlots(zero[:0], np.empty(0, np.int32)).find(zero).tolist()


def test_large_tables_and_long_questions_are_answered_as_a_dict_would():
    rng = np.random.default_rng(7)
    keys = np.unique(rng.integers(-(1 << 62), 1 << 62, 50_000))
    parts = rng.integers(0, 13, len(keys))
    asked = np.concatenate([rng.choice(keys, 150_000), rng.integers(-(1 << 62), 1 << 62, 50_000)])
    named = dict(zip(keys.tolist(), parts.tolist(), strict=True))
    hashed = hash_parts(asked, 13).tolist()

    found = RoutingTable(keys, parts, 13).assign(asked).tolist()

    assert [named.get(k, part) for k, part in zip(asked.tolist(), hashed, strict=True)] == found


def test_what_an_earlier_version_wrote_of_adopting_is_no_part_of_a_table():
    table = RoutingTable([1, 2], [0, 1], 2)

    for adopts in (True, False):
        assert table == grouping_from_dict({**grouping_to_dict(table), "adopts": adopts})
    with pytest.raises(CorruptDataError, match="adopts='yes'"):
        grouping_from_dict({**grouping_to_dict(table), "adopts": "yes"})
