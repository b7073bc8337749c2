"""What is no key is refused, with its name and a remedy."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.keys import Pairs, as_keys

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
    "a decimal that is none": ([Decimal("NaN")], r"decimal key NaN at 0 is not a number; filter"),
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
