"""Key pairs: any kind of keys, counted, checked and kept as they were."""

import copy
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from optimizers import Statistics
from sketches.errors import InvalidKeyError, InvalidValueError, PenstockError
from sketches.keys import Pairs, StringKeys, as_keys
from sketches.space_saving import SpaceSaving

KEYS = {
    "integers": [3, -4, 0],
    "text": ["a", "größe", ""],
    "bytes": [b"a", b"\xff\x00", b""],
    "pairs": [(1, "a"), (2, "b"), (1, "b")],
    "numpy integers": np.array([3, 4, 5], dtype=np.uint8),
    "numpy text": np.array(["a", "bc", "d"]),
    "arrow": pa.array(["a", "b", "c"]),
}


@pytest.mark.parametrize("left", KEYS)
@pytest.mark.parametrize("right", KEYS)
def test_keys_of_any_kind_pair_with_keys_of_any_kind(left, right):
    pairs = KeyPairs(KEYS[left], KEYS[right], [1, 2.5, 0])

    def plain(keys):
        return keys.to_pylist() if isinstance(keys, pa.Array) else [*np.asarray(keys, object)]

    def listed(keys):
        return keys if isinstance(keys, list) else plain(keys)

    assert listed(KEYS[left]) == pairs.left.tolist()
    assert listed(KEYS[right]) == pairs.right.tolist()
    assert [1.0, 2.5, 0.0] == pairs.counts.tolist()
    assert 3 == len(pairs)
    assert 3.5 == pairs.total
    assert pairs == pickle.loads(pickle.dumps(pairs)) == copy.deepcopy(pairs)  # noqa: S301


def test_integers_are_64_bits_wide_and_other_keys_are_objects():
    pairs = KeyPairs(np.array([1], np.int16), ["a"], np.array([1], np.int32))

    assert [np.int64, np.object_, np.float64] == [
        pairs.left.dtype,
        pairs.right.dtype,
        pairs.counts.dtype,
    ]


def test_no_pairs_are_no_pairs():
    empty = KeyPairs([], [], [])

    assert 0 == len(empty)
    assert 0.0 == empty.total
    assert empty == KeyPairs.of(SpaceSaving(4))
    assert empty == pickle.loads(pickle.dumps(empty))  # noqa: S301


@pytest.mark.parametrize(
    ("left", "right", "counts", "error", "words"),
    [
        ([1, 2], [1], [1.0], InvalidValueError, "2 left keys do not pair with 1 right keys"),
        ([1], [1], [1.0, 2.0], InvalidValueError, "counts of shape"),
        ([1], [1], 1.0, InvalidValueError, "counts of shape"),
        ([1], [1], [[1.0]], InvalidValueError, "counts of shape"),
        ([1, 2], [1, 2], [[1.0], [1.0, 2.0]], InvalidValueError, "counts=.*not an array"),
        ([1], [1], [math.nan], InvalidValueError, "counts.*nan"),
        ([1], [1], [math.inf], InvalidValueError, "counts.*inf"),
        ([1], [1], [-1.0], InvalidValueError, "counts.*-1"),
        ([1], [1], ["1"], InvalidValueError, "counts"),
        ([1], [1], None, InvalidValueError, "counts"),
        ([1.5], [1], [1.0], InvalidKeyError, "1.5"),
        ([None], [1], [1.0], InvalidKeyError, "None"),
        ([1, "a"], [1, 2], [1.0, 1.0], InvalidKeyError, "'a'"),
        ("ab", [1, 2], [1.0, 1.0], InvalidKeyError, "'ab'"),
        (None, [1], [1.0], InvalidKeyError, "NoneType"),
        ([1], {1}, [1.0], InvalidKeyError, "set"),
    ],
)
def test_what_is_no_column_of_keys_or_counts_is_refused(left, right, counts, error, words):
    with pytest.raises(error, match=words) as caught:
        KeyPairs(left, right, counts)

    assert isinstance(caught.value, PenstockError)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("abc"), st.integers(1, 5)), max_size=30)
)
def test_the_pairs_of_a_sketch_with_room_are_those_that_were_counted(tuples):
    sketch = SpaceSaving(64)
    expected = {}
    for left, right, count in tuples:
        sketch.update([(left, right)], [count])
        expected[left, right] = expected.get((left, right), 0) + count

    pairs = KeyPairs.of(sketch)

    found = zip(pairs.left.tolist(), pairs.right.tolist(), pairs.counts.tolist(), strict=True)
    assert expected == {(left, right): count for left, right, count in found}
    assert len(expected) == len(pairs)


def test_of_a_full_sketch_each_count_is_the_middle_of_what_it_can_be():
    sketch = SpaceSaving(2, block=2)
    for key in (1, 2, 3, 1) * 3:
        sketch.update([(key, key)] * key)
    _, estimates, errors = sketch.arrays()
    assert errors.any()

    assert sorted(estimates - errors / 2) == sorted(KeyPairs.of(sketch).counts)


@pytest.mark.parametrize("keys", [[1, 2], ["a", "b"]])
def test_a_sketch_of_single_keys_holds_no_pairs(keys):
    sketch = SpaceSaving(4)
    sketch.update(keys)

    with pytest.raises(InvalidKeyError, match=f"keys of kind {sketch.kind}, not pairs"):
        KeyPairs.of(sketch)


@pytest.mark.parametrize("value", [None, [], {}, SpaceSaving])
def test_what_is_no_sketch_holds_no_pairs(value):
    with pytest.raises(InvalidValueError, match="is not a SpaceSaving"):
        KeyPairs.of(value)


def test_pairs_are_compared_by_content_and_not_hashed():
    pairs = KeyPairs([1, 2], ["a", "b"], [1, 2])

    assert pairs == KeyPairs(np.array([1, 2]), np.array(["a", "b"]), np.array([1.0, 2.0]))
    assert pairs != KeyPairs([1, 3], ["a", "b"], [1, 2])
    assert pairs != KeyPairs([1, 2], ["a", "c"], [1, 2])
    assert pairs != KeyPairs([1, 2], ["a", "b"], [1, 3])
    assert pairs != KeyPairs([1, 2], [b"a", b"b"], [1, 2])
    with pytest.raises(TypeError, match="unhashable"):
        hash(pairs)


def test_what_was_passed_in_can_change_without_changing_the_pairs():
    left, right, counts = np.array([1, 2]), np.array(["a", "b"], object), np.array([1.0, 2.0])
    pairs = KeyPairs(left, right, counts)

    left[:], right[:], counts[:] = 9, "z", 9.0

    assert pairs == KeyPairs([1, 2], ["a", "b"], [1.0, 2.0])


@pytest.fixture
def counted_objects(monkeypatch):
    """How many keys were made Python objects of."""
    made = []
    objects = StringKeys.objects

    def counting(column):
        made.append(len(column))
        return objects(column)

    monkeypatch.setattr(StringKeys, "objects", counting)
    return made


def test_no_object_is_made_of_a_key_until_somebody_asks(counted_objects):
    texts = [f"key-{number}" for number in range(100)]
    sketch, single = SpaceSaving(100), SpaceSaving(100)
    sketch.update(Pairs(texts, texts[::-1]))
    single.update(texts)

    pairs, counts = KeyPairs.of(sketch), KeyCounts.of(single)
    for some in (pairs.faded(0.5), pairs.together(pairs), *pairs.halved(3), pairs.take([4, 2])):
        graph = KeyGraph.of({("a", "b"): some}, counts={"a": counts})
        assert graph.names == ("a", "b")
    seen = Statistics(pairs={("a", "b"): pairs}, keys={"a": counts})
    assert 100 == len(seen.remembered(0.5)["a", "b"])
    assert [] == counted_objects

    assert {*texts} == {*pairs.left.tolist()} == {*counts.keys.tolist()}
    assert pairs.left is pairs.left
    assert [100, 100] == counted_objects


COLUMNS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    st.lists(st.binary()),
    st.lists(st.dates()),
    st.lists(st.tuples(st.integers(0, 9), st.text(st.sampled_from("ab")))),
)


@given(COLUMNS, st.integers(0, 99), st.integers(0, 1))
def test_pairs_of_columns_are_pairs_of_what_is_in_them(keys, seed, other):
    random = np.random.default_rng(seed)
    counts, rows = random.integers(0, 9, len(keys)), random.permutation(len(keys))
    given, column = KeyPairs(keys, keys, counts), as_keys(keys, seed=other)
    read = KeyPairs(column, column, counts)

    assert given == read
    assert keys == read.left.tolist() == given.right.tolist()
    assert not read.left.flags.writeable
    assert [keys[row] for row in rows] == read.take(rows).left.tolist()
    assert keys + keys == read.together(given).left.tolist()
    assert pickle.loads(pickle.dumps(read)) == given  # noqa: S301


def test_keys_of_two_kinds_are_not_joined():
    with pytest.raises(InvalidKeyError, match="not of the kind of the first"):
        KeyPairs([1], [2], [3]).together(KeyPairs(["a"], [2], [3]))
