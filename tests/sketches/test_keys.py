"""Keys out of every container, and the codes that they must have for ever."""

import hashlib
import os
import subprocess
import sys
from collections import UserList
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketches
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.fingerprints import fingerprints
from sketches.key_columns import PackedPairs, alike, packed
from sketches.keys import IntegerKeys, PairKeys, Pairs, as_keys, mix, pair_codes

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
# Arrow and NumPy have no cells for lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
BINARIES = st.binary(max_size=300)


def codes(keys):
    return as_keys(keys).codes.tolist()


def u64(*values):
    return np.array(values, dtype=np.uint64)


TEXT_CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "another sequence": UserList,
    "object array": lambda keys: np.array([*keys, None], dtype=object)[:-1],
    "StringDType": lambda keys: np.array(keys, dtype=np.dtypes.StringDType()),
    "string": lambda keys: pa.array(keys, pa.string()),
    "large string": lambda keys: pa.array(keys, pa.large_string()),
    "string view": lambda keys: pa.array(keys, pa.string_view()),
    "dictionary": lambda keys: pa.array(keys, pa.string()).dictionary_encode(),
    "dictionary of int8": lambda keys: (
        pa.array(keys, pa.large_string())
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.large_string()))
    ),
    "slice": lambda keys: pa.array(["x", *keys, "yyyyyyyyy"], pa.string())[1:-1],
    "slice of large": lambda keys: pa.array(["x", *keys, "yyyyyyyyy"], pa.large_string())[1:-1],
    "slice of a dictionary": lambda keys: pa.array(["x", *keys]).dictionary_encode()[1:],
    "slice of a view": lambda keys: pa.array(["x" * 20, *keys, "y"], pa.string_view())[1:-1],
    "no chunks": lambda keys: pa.chunked_array([keys] if keys else [], pa.string()),
    "chunks": lambda keys: pa.chunked_array([keys[:1], [], keys[1:]], pa.string()),
    "chunks of dictionaries": lambda keys: pa.chunked_array(
        [pa.array(part, pa.string()).dictionary_encode() for part in (keys[:2], keys[2:])]
    ),
    "column of a table": lambda keys: pa.table({"k": pa.array(keys, pa.string())})["k"],
}
BYTES_CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "object array": lambda keys: np.array([*keys, None], dtype=object)[:-1],
    "binary": lambda keys: pa.array(keys, pa.binary()),
    "large binary": lambda keys: pa.array(keys, pa.large_binary()),
    "binary view": lambda keys: pa.array(keys, pa.binary_view()),
    "dictionary": lambda keys: pa.array(keys, pa.binary()).dictionary_encode(),
    "slice": lambda keys: pa.array([b"x", *keys, b"yyyyyyyyy"], pa.binary())[1:-1],
    "slice of large": lambda keys: pa.array([b"x", *keys, b"yyyyy"], pa.large_binary())[1:-1],
    "chunks": lambda keys: pa.chunked_array([keys[:1], keys[1:]], pa.binary()),
}
INTEGER_CONTAINERS = {
    "list": list,
    "range of lists": tuple,
    "NumPy integers": lambda keys: [np.int64(key) for key in keys],
    "mixed integers": lambda keys: [np.int64(k) if i % 2 else k for i, k in enumerate(keys)],
    "object array": lambda keys: np.array(keys, dtype=object),
    "int64": lambda keys: np.array(keys, np.int64),
    "big endian": lambda keys: np.array(keys, ">i8"),
    "every second": lambda keys: np.repeat(np.array(keys, np.int64), 2)[::2],
    "Arrow": lambda keys: pa.array(keys, pa.int64()),
    "Arrow slice": lambda keys: pa.array([1, *keys, 2], pa.int64())[1:-1],
    "Arrow chunks": lambda keys: pa.chunked_array([keys[:1], keys[1:]], pa.int64()),
    "Arrow dictionary": lambda keys: pa.array(keys, pa.int64()).dictionary_encode(),
}


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
        assert alike(small, small) == (small, small)
        first, second = alike(small, large)
        assert (type(first), second) == (PairKeys, large)
        assert [(1, 2)] == first.objects().tolist()
        assert type(alike(large, small)[1]) is PairKeys


def unmix(code):
    """Undo `mix`, with Python's integers."""
    mask = 2**64 - 1
    code = code ^ (code >> 31) ^ (code >> 62)
    code = code * pow(0x94D049BB133111EB, -1, 2**64) & mask
    code = code ^ (code >> 27) ^ (code >> 54)
    code = code * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask
    return code ^ (code >> 30) ^ (code >> 60)


def fingerprint_by_hand(kind, text):
    """Return the fingerprint of one text of up to 256 bytes, with Python's integers."""
    mask = 2**64 - 1
    seed = {"str": 0x5D589B6A2F3C7E11, "bytes": 0xA3B195354A39B70D}[kind]
    code = mixed((seed + len(text) * 0x9E3779B97F4A7C15) & mask)
    for start in range(0, len(text), 8):
        code = mixed(code ^ int.from_bytes(text[start : start + 8], "little"))
    return code


def mixed(code):
    return int(mix(u64(code))[0])


def flipped(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


class TestCodes:
    @given(UINT64)
    def test_mix_is_a_bijection(self, code):
        assert code == unmix(int(mix(u64(code))[0]))

    @given(st.binary(max_size=256), st.binary(max_size=20))
    def test_a_fingerprint_reads_eight_bytes_at_a_time_whatever_lies_beside(self, key, other):
        assert [fingerprint_by_hand("bytes", k) for k in (other, key, other)] == codes(
            [other, key, other]
        )

    @given(TEXTS)
    def test_a_text_is_read_as_utf_8(self, key):
        assert [fingerprint_by_hand("str", key.encode())] == codes([key])

    @given(st.integers(0, 8), st.data())
    def test_different_bytes_of_one_length_up_to_eight_never_collide(self, length, data):
        keys = data.draw(st.lists(st.binary(min_size=length, max_size=length), unique=True))
        assert len(keys) == len(set(codes(keys)))

    def test_zeros_at_the_end_are_part_of_a_key(self):
        keys = [b"a" + b"\0" * n for n in range(20)] + [b"\0" * n for n in range(300)]
        assert len(keys) == len(set(codes(keys)))

    def test_a_million_texts_do_not_collide(self):
        words = np.array([f"https://example.org/{n:07}/{n % 13}" for n in range(1_000_000)])
        # Expected: 1e12 / 2^65 = 3e-8 collisions.
        assert len(np.unique(as_keys(words).codes)) == 1_000_000

    def test_longer_texts_have_fingerprints_of_their_own(self):
        text = "".join(map(chr, range(0x100, 0x100 + 600)))
        keys = [text[:n] for n in range(100, 600)]
        array = pa.array(keys)
        assert len(keys) == len(set(codes(keys)))
        assert codes(keys) == codes(array)
        assert keys == as_keys(array).objects().tolist()

    @pytest.mark.parametrize("length", [255, 256, 257, 1000])
    def test_the_last_byte_of_a_long_key_counts(self, length):
        first, second = codes([b"x" * length, b"x" * (length - 1) + b"y"])
        assert first != second

    @pytest.mark.parametrize("text", ["abcdefg€x", "abcdef€x", "€€€", "😀" * 5, "aaaaaaaé"])
    def test_a_character_may_lie_across_two_words(self, text):
        for container in TEXT_CONTAINERS.values():
            column = as_keys(container([text, "b", text]))
            assert [text, "b", text] == column.objects().tolist()
            assert fingerprint_by_hand("str", text.encode()) == column.codes[0] == column.codes[2]

    @pytest.mark.parametrize("length", [1, 5, 8, 9, 31, 300])
    def test_one_flipped_bit_changes_about_half_of_the_code(self, length):
        rng = np.random.default_rng(length)
        keys = [rng.bytes(length) for _ in range(2000)]
        changed = [flipped(key, int(rng.integers(length * 8))) for key in keys]
        differences = np.bitwise_count(as_keys(keys).codes ^ as_keys(changed).codes)
        # Of 64 fair coins: mean 32, deviation 4; the mean of 2000 deviates by 0.09.
        assert abs(differences.mean() - 32) < 1
        assert ((differences >= 20) & (differences <= 44)).mean() > 0.98

    def test_one_flipped_bit_of_an_integer_changes_about_half_of_its_mix(self):
        rng = np.random.default_rng(0)
        numbers = rng.integers(0, 2**63, 6400, dtype=np.uint64)
        bits = np.uint64(1) << (np.arange(6400, dtype=np.uint64) % np.uint64(64))
        differences = np.bitwise_count(mix(numbers) ^ mix(numbers ^ bits)).reshape(-1, 64)
        assert differences.mean(axis=0).min() > 28
        assert differences.mean(axis=0).max() < 36

    def test_codes_are_for_ever(self):
        golden = {
            "": GOLDEN[0],
            "a": GOLDEN[1],
            "#java": GOLDEN[2],
            "12345678": GOLDEN[3],
            "naïve café €": GOLDEN[4],
            "x" * 256: GOLDEN[5],
            "x" * 257: GOLDEN[6],
        }
        assert golden == dict(zip(golden, map(hex, codes(list(golden))), strict=True))
        assert GOLDEN[7] == hex(codes([b"a"])[0])
        assert GOLDEN[8] == hex(codes([("Asia", 7)])[0])
        assert GOLDEN[9] == hex(int(mix(u64(1))[0]))

    def test_codes_are_the_same_in_every_process(self):
        program = (
            "from sketches.keys import as_keys\n"
            "keys = [('k' * (n % 300), b'\\xff' * (n % 11)) for n in range(1000)]\n"
            "print(as_keys(keys).codes.tobytes().hex())"
        )
        home = str(Path(sketches.__file__).parents[1])
        outputs = {
            subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | {"PYTHONHASHSEED": seed},
                cwd=home,
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        keys = [("k" * (n % 300), b"\xff" * (n % 11)) for n in range(1000)]
        assert {as_keys(keys).codes.tobytes().hex().encode() + b"\n"} == outputs

    def test_fingerprints_of_nothing_are_none(self):
        none = np.empty(0, dtype=np.int64)
        assert fingerprints("str", np.empty(0, np.uint8), none, none).tolist() == []

    def test_a_long_key_is_hashed_by_blake2b(self):
        key = b"k" * 400
        salt = 0xA3B195354A39B70D.to_bytes(16, "little")
        digest = hashlib.blake2b(key, digest_size=8, salt=salt).digest()
        assert int(mix(u64(int.from_bytes(digest, "little")))[0]) == codes([key])[0]


GOLDEN = (
    "0xd6090dbbb8bff307",
    "0xadb275a25b8dfc05",
    "0x598817c1b1d2d30a",
    "0xce0b08cd3e06c361",
    "0xf1b4214b18360ab7",
    "0x815274ed4655dfaf",
    "0x6d42b1b8dd2994d7",
    "0x39665004f873e9ae",
    "0x1b08241e0e92e1d3",
    "0x5692161d100b05e5",
)

REFUSALS = {
    "one text": ("abc", r"'abc' is one key, not a sequence of keys; write \['abc'\]"),
    "one bytes": (b"abc", r"b'abc' is one key"),
    "one integer": (5, r"5 is one key, not a sequence of keys; write \[5\]"),
    "one NumPy integer": (np.int64(5), r"5\) is one key"),
    "nothing": (None, r"keys of type NoneType cannot be read; give a numpy array, an Arrow array"),
    "a set": ({1, 2}, r"keys of type set cannot be read"),
    "an iterator": (iter([1]), r"keys of type list_iterator cannot be read"),
    "a dictionary": ({1: 2}, r"keys of type dict cannot be read"),
    "a float": (1.5, r"keys of type float cannot be read"),
    "a bytearray": (bytearray(b"ab"), r"keys of type bytearray cannot be read"),
    "a memoryview": (memoryview(b"ab"), r"keys of type memoryview cannot be read"),
    "floats": ([1.5], r"key 1.5 of type float at 0 cannot be counted; floats that print the same"),
    "one date": (date(2020, 1, 1), r"datetime.date\(2020, 1, 1\) is one key, not a sequence"),
    "integers among truth": ([True, 1], r"key 1 of type int at 1 is not of the kind of the first"),
    "a datetime among dates": (
        [date(2020, 1, 1), datetime(2020, 1, 1)],  # noqa: DTZ001
        r"key datetime.datetime\(2020, 1, 1, 0, 0\) of type datetime at 1",
    ),
    "a zone among none": (
        [datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)],  # noqa: DTZ001
        r"at 1 is with a zone and the first, .* is without one; give all of them a zone, or none",
    ),
    "a time that is none": (np.array(["2020", "NaT"], "M8[us]"), r"key at 1 is NaT; filter"),
    "a time of the past": (np.array([-(2**62)], "M8[us]"), r"at 0 is not from year 1 to 9999"),
    "a time to come": (np.array(["9999", "10000"], "M8[s]"), r"key 10000-01-01.* at 1 is not from"),
    "a day to come": (pa.array([2932897], pa.date32()), r"key 10000-01-01 at 0 is not from year"),
    "nanoseconds": (pa.array([1001], pa.timestamp("ns")), r"at 0 has parts of a microsecond"),
    "a decimal that is none": ([Decimal("NaN")], r"decimal key NaN at 0 is no number; filter"),
    "a long decimal": ([Decimal("1e38")], r"decimal key 1E\+38 at 0 does not fit 38 digits; round"),
    "a fine decimal": ([Decimal("1e-39")], r"decimal key 1E-39 at 0 does not fit 38 digits"),
    "an integer among decimals": ([Decimal(1), 1], r"key 1 of type int at 1"),
    "a duration": (
        np.array([1], "m8[s]"),
        r"keys of type timedelta64\[s\] cannot be counted; a key",
    ),
    "a missing first": (
        [None, "a"],
        r"key None of type NoneType at 0 .* \(give missing keys a name",
    ),
    "a missing text": (
        ["a", None],
        r"key None of type NoneType at 1 is not of the kind of the fir",
    ),
    "a missing integer": (
        [1, 2, None],
        r"key None of type NoneType at 2 .* first, 1; use one kind",
    ),
    "truth among integers": ([1, True], r"key True of type bool at 1"),
    "a float among integers": ([1, 2.0], r"key 2.0 of type float at 1"),
    "bytes among text": (["a", b"a"], r"key b'a' of type bytes at 1 .* first, 'a'"),
    "text among bytes": ([b"a", "a"], r"key 'a' of type str at 1"),
    "a list of lists": ([[1, 2], [3, 4]], r"key \[1, 2\] of type list at 0 cannot be counted"),
    "a lone surrogate": (["a", "\ud800"], r"text key '\\ud800' has no UTF-8 form; replace its"),
    "a surrogate in an array": (np.array(["\ud800"]), r"'\\ud800' has no UTF-8 form"),
    "too large": ([1, 2**63], r"integer key 9223372036854775808 at 1 does not fit 64 bits with a"),
    "too small": ([-(2**63) - 1], r"integer key -9223372036854775809 at 0 does not fit"),
    "a large NumPy integer": ([np.uint64(2**63)], r"integer key 9223372036854775808 at 0"),
    "a large uint64": (np.array([1, 2**63], np.uint64), r"integer key 9223372036854775808 at 1"),
    "a large Arrow uint64": (
        pa.array([2**63], pa.uint64()),
        r"integer key 9223372036854775808 at 0",
    ),
    "an array of floats": (
        np.array([1.0]),
        r"keys of type float64 cannot be counted; floats that print the same may differ: round",
    ),
    "an array without length": (np.array(5), r"keys of shape \(\) are not a column"),
    "three columns": (np.zeros((2, 3), int), r"keys of shape \(2, 3\) are not a column; give one"),
    "a cube": (np.zeros((2, 2, 2), int), r"keys of shape \(2, 2, 2\) are not a column"),
    "masked": (np.ma.array([1, 2], mask=[0, 1]), r"1 keys are masked; filter missing keys out"),
    "a missing Arrow text": (pa.array(["a", None]), r"key at 1 is null \(1 of 2 are\); filter"),
    "a missing Arrow integer": (pa.array([1, 2, None]), r"key at 2 is null \(1 of 3 are\)"),
    "a missing chunk": (
        pa.chunked_array([["a"], [None, None]]),
        r"key at 1 is null \(2 of 3 are\)",
    ),
    "a missing index": (pa.array(["a", None]).dictionary_encode(), r"key at 1 is null"),
    "a missing word": (
        pa.DictionaryArray.from_arrays(pa.array([1, 1, 0]), pa.array([None, "a"])),
        r"key at 2 is null \(1 of 3 are\)",
    ),
    "Arrow floats": (pa.array([1.5]), r"Arrow keys of type double cannot be counted; floats"),
    "Arrow nulls": (pa.nulls(0), r"Arrow keys of type null cannot be counted"),
    "Arrow structs": (pa.array([{"a": 1}]), r"Arrow keys of type struct<a: int64> cannot be"),
    "an Arrow table": (pa.table({"a": [1]}), r"Table is not a column of keys; pass one of its col"),
    "an Arrow scalar": (pa.scalar(1), r"Int64Scalar is not a column of keys"),
    "a pair among texts": (["a", ("a", "b")], r"key \('a', 'b'\) of type tuple at 1"),
    "a text among pairs": ([("a", "b"), "ab"], r"key 'ab' at 1 is not a pair; if one key is a"),
    "three fields": ([(1, 2), (1, 2, 3)], r"key \(1, 2, 3\) at 1 is not a pair"),
    "three fields at first": ([(1, 2, 3)], r"key \(1, 2, 3\) at 0 is not a pair"),
    "pairs of several kinds": ([(1, "a"), ("b", 2)], r"key 'b' of type str at 1"),
    "a pair of pairs": ([((1, 2), 3)], r"a pair of \(int, int\) is too deep; pair plain keys only"),
    "a pair of one key": (Pairs("abc", [1, 2, 3]), r"'abc' is one key"),
    "a pair with floats": (Pairs([1], np.array([1.5])), r"keys of type float64"),
}


@pytest.mark.parametrize(("keys", "words"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_no_key_is_refused_with_its_name_and_a_remedy(keys, words):
    with pytest.raises(InvalidKeyError, match=words):
        as_keys(keys)


def test_columns_of_two_lengths_do_not_pair():
    with pytest.raises(InvalidValueError, match=r"2 left keys do not pair with 3 right keys"):
        as_keys(Pairs([1, 2], [1, 2, 3]))


def test_integers_can_be_made_from_their_ids():
    assert [-1, 5] == IntegerKeys(u64(3)).of(u64(2**64 - 1, 5)).objects().tolist()
