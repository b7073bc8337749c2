"""Keys out of every container, and the codes that they must have for ever."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from key_samples import (
    BINARIES,
    BYTES_CONTAINERS,
    INTEGER_CONTAINERS,
    TEXT_CONTAINERS,
    TEXTS,
    UINT64,
    codes,
    u64,
)

from sketches.key_columns import PackedPairs, packed, unified
from sketches.keys import IntegerKeys, PairKeys, Pairs, as_keys, pair_codes

INT64 = st.integers(-(2**63), 2**63 - 1)


class TestContainers:
    @pytest.mark.parametrize("hold", TEXT_CONTAINERS.values(), ids=TEXT_CONTAINERS)
    @given(keys=st.lists(TEXTS, min_size=1))
    def test_text_has_the_same_codes_in_every_container(self, hold, keys):
        column = as_keys(hold(keys))
        assert column.kind == "str"
        assert codes(keys) == column.codes.tolist()
        assert keys == column.objects().tolist()

    @pytest.mark.parametrize("hold", BYTES_CONTAINERS.values(), ids=BYTES_CONTAINERS)
    @given(keys=st.lists(BINARIES, min_size=1, max_size=5))
    def test_bytes_have_the_same_codes_in_every_container(self, hold, keys):
        column = as_keys(hold(keys))
        assert column.kind == "bytes"
        assert codes(keys) == column.codes.tolist()
        assert keys == column.objects().tolist()

    @pytest.mark.parametrize("hold", INTEGER_CONTAINERS.values(), ids=INTEGER_CONTAINERS)
    @given(keys=st.lists(INT64, min_size=1))
    def test_an_integer_is_its_own_code_in_every_container(self, hold, keys):
        column = as_keys(hold(keys))
        assert column.kind == "int"
        assert [key % 2**64 for key in keys] == column.codes.tolist()
        assert keys == column.objects().tolist()
        assert keys == column.values.tolist()

    @pytest.mark.parametrize("order", ["<", ">"])
    @given(keys=st.lists(TEXTS.map(lambda text: text.rstrip("\0")), min_size=1))
    def test_cells_of_a_fixed_width_are_text_without_the_zeros_at_their_end(self, order, keys):
        array = np.array(keys)
        array = array.astype(array.dtype.newbyteorder(order))
        for view in (array, np.repeat(array, 2)[::2], array[::-1][::-1]):
            assert codes(keys) == codes(view)
            assert keys == as_keys(view).objects().tolist()

    @given(keys=st.lists(BINARIES.map(lambda key: key.rstrip(b"\0")), min_size=1, max_size=5))
    def test_cells_of_a_fixed_width_are_bytes_without_the_zeros_at_their_end(self, keys):
        array = np.array(keys)
        for view in (array, np.repeat(array, 2)[::2]):
            assert codes(keys) == codes(view)
            assert keys == as_keys(view).objects().tolist()

    @pytest.mark.parametrize(
        "dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 64)]
    )
    def test_integers_of_every_width_are_the_same_keys(self, dtype):
        assert [1, 2, 100] == codes(np.array([1, 2, 100], dtype))
        assert [1, 2, 100] == codes(pa.array([1, 2, 100], dtype))

    def test_bytes_of_one_size_are_bytes(self):
        array = pa.array([b"ab", b"cd", b"ef"], pa.binary(2))
        assert codes([b"cd", b"ef"]) == codes(array[1:])

    def test_a_series_of_pandas_is_a_column(self):
        pandas = pytest.importorskip("pandas")
        assert codes(["a", "é"]) == codes(pandas.Series(["a", "é"]))
        assert codes([1, 2]) == codes(pandas.Series([1, 2]))

    @pytest.mark.parametrize(
        "empty",
        [[], (), np.empty(0, int), np.empty(0, "U3"), pa.array([], pa.string()), range(0)],
        ids=str,
    )
    def test_no_keys_are_no_keys(self, empty):
        column = as_keys(empty)
        assert (0, []) == (len(column), column.objects().tolist())

    def test_text_is_not_bytes(self):
        keys = ["", "a", "abcdefgh", "abcdefghi", "x" * 300]
        assert not set(codes(keys)) & set(codes([key.encode() for key in keys]))

    def test_a_word_missing_from_a_dictionary_is_no_fault_if_nobody_uses_it(self):
        words = pa.array(["a", None])
        assert codes(["a", "a"]) == codes(pa.DictionaryArray.from_arrays(pa.array([0, 0]), words))

    def test_a_column_is_taken_as_it_is(self):
        column = as_keys(["a"])
        assert as_keys(column) is column

    @pytest.mark.parametrize(
        "array",
        [
            np.array([1, 2]),
            np.array([1, 2], np.uint64),
            np.array([[1, 2], [3, 4]]),
            np.array([b"a", b"b"]),
            np.array(["a", "b"]),
        ],
        ids=["int64", "uint64", "pairs", "bytes", "text"],
    )
    def test_a_column_owns_its_memory_unless_asked_not_to(self, array):
        array = array.copy()
        column = as_keys(array)
        before = column.objects().tolist()
        array[:] = array[::-1].copy()
        assert before == column.objects().tolist()

    def test_without_a_copy_integers_are_looked_at_where_they_are(self):
        array = np.array([1, 2])
        assert np.shares_memory(array, as_keys(array, copy=False).codes)
        assert not np.shares_memory(array, as_keys(array, copy=False).joined().codes)


class TestPairs:
    @given(st.lists(st.tuples(TEXTS, INT64), min_size=1))
    def test_pairs_have_the_same_codes_in_every_container(self, rows):
        left, right = map(list, zip(*rows, strict=True))
        for keys in (
            rows,
            tuple(rows) if len(rows) != 2 else rows,
            Pairs(left, right),
            (left, right),
            Pairs(pa.array(left), np.array(right)),
            (pa.array(left).dictionary_encode(), pa.array(right)),
        ):
            column = as_keys(keys)
            assert column.kind == "(str, int)"
            assert codes(rows) == column.codes.tolist()
            assert rows == column.objects().tolist()
            assert (left, right) == (column.values.left.tolist(), column.values.right.tolist())

    def test_an_array_of_two_columns_holds_pairs(self):
        assert codes([(1, 2), (3, -4)]) == codes(np.array([[1, 2], [3, -4]]))
        assert codes([("a", "b")]) == codes(np.array([["a", "b"]]))

    def test_a_tuple_of_two_keys_is_two_keys_and_not_a_pair(self):
        assert codes([1, 2]) == codes((1, 2))
        assert codes([("a", "b"), ("c", "d")]) == codes((("a", "b"), ("c", "d")))

    def test_the_order_within_a_pair_counts(self):
        assert codes([(1, 2)]) != codes([(2, 1)])

    @given(UINT64, st.lists(UINT64, unique=True))
    def test_with_one_side_fixed_pairs_never_share_a_code(self, fixed, others):
        rest = np.array(others, dtype=np.uint64)
        same = np.full(len(rest), fixed, dtype=np.uint64)
        assert len(others) == len(set(pair_codes(same, rest).tolist()))
        assert len(others) == len(set(pair_codes(rest, same).tolist()))

    def test_a_million_pairs_do_not_collide(self):
        side = np.arange(1000, dtype=np.uint64)
        grid = pair_codes(np.repeat(side, 1000), np.tile(side, 1000))
        # Expected: 1e12 / 2^65 = 3e-8 collisions.
        assert len(np.unique(grid)) == 1_000_000


class TestColumns:
    COLUMNS = (
        [5, -3, 5, 2**40],
        ["a", "", "é" * 5, "z" * 300],
        [b"", b"a\0b", b"\0", b"xyz"],
        [("a", 1), ("", -2), ("é", 3), ("b", 2**50)],
    )

    @pytest.mark.parametrize("keys", COLUMNS, ids=str)
    @pytest.mark.parametrize("places", [[], [0], [3, 1, 1], [2, 3], [0, 1, 2, 3]], ids=str)
    def test_taken_keys_are_those_at_the_places(self, keys, places):
        expected = [keys[place] for place in places]
        taken = as_keys(keys).take(np.array(places, dtype=np.intp))
        assert expected == taken.objects().tolist()
        assert ([] if not places else codes(expected)) == taken.codes.tolist()
        assert expected == taken.joined().objects().tolist()

    @pytest.mark.parametrize("keys", COLUMNS, ids=str)
    def test_joined_columns_follow_each_other(self, keys):
        column = as_keys(keys)
        parts = column.take(slice(1, 3)), column.take(slice(0, 0)), column.take(np.array([3, 0]))
        joined = parts[0].joined(*parts[1:])
        expected = [keys[1], keys[2], keys[3], keys[0]]
        assert expected == joined.objects().tolist()
        assert codes(expected) == joined.codes.tolist()
        assert len(joined) == 4

    def test_joined_text_keeps_nothing_of_what_was_left_out(self):
        column = as_keys(["x" * 1000, "a", "y" * 1000, "b"])
        assert column.take(np.array([1, 3])).joined().nbytes == 2 + 2 * 3 * 8

    @pytest.mark.parametrize(("keys", "nbytes"), [([1, 2], 16), ([(1, 2)], 24), ([b"abc"], 3 + 24)])
    def test_the_memory_of_keys_is_known(self, keys, nbytes):
        assert nbytes == as_keys(keys).nbytes

    @given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))))
    def test_packed_pairs_are_the_same_keys(self, rows):
        column = as_keys(Pairs([row[0] for row in rows], [row[1] for row in rows]))
        small = packed(column)
        assert isinstance(small, PackedPairs)
        assert (column.kind, len(column)) == (small.kind, len(small))
        assert rows == small.objects().tolist()
        assert column.codes.tolist() == small.codes.tolist()
        assert [left << 32 | right for left, right in rows] == small.ids.tolist()
        assert rows == small.unpacked().objects().tolist()
        assert {n: a.tolist() for n, a in column.arrays().items()} == {
            n: a.tolist() for n, a in small.arrays().items()
        }

    @pytest.mark.parametrize(
        "keys", [[(-1, 0)], [(0, -1)], [(2**32, 0)], [(0, 2**32)], [("a", 1)], [1], ["a"]], ids=str
    )
    def test_what_cannot_be_packed_stays_as_it_is(self, keys):
        column = as_keys(keys)
        assert packed(column) is column

    def test_columns_are_made_alike(self):
        small, large = packed(as_keys([(1, 2)])), as_keys([(-1, 2)])
        assert unified(small, small) == (small, small)
        first, second = unified(small, large)
        assert (type(first), second) == (PairKeys, large)
        assert [(1, 2)] == first.objects().tolist()
        assert type(unified(large, small)[1]) is PairKeys


def test_integers_can_be_made_from_their_ids():
    assert [-1, 5] == IntegerKeys(u64(3)).of(u64(2**64 - 1, 5)).objects().tolist()
