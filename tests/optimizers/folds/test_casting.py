"""Columns in other forms of their type, and columns with more text than fits offsets of 32 bits.

What is too much is lowered to a few bytes here, so that all ways through are taken. A try with
more than 2 GiB takes minutes and 8 GiB of memory: `python tests/benchmarks/two_gib.py`.
"""

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError
from optimizers.folds import DELETE, Count, Distinct, EachKey, Emit, Last, Max, TopK, casting
from optimizers.folds.casting import bytes_in, cast, cast_back, one_array, roomy, take_rows
from optimizers.folds.key_codes import key_numbers
from optimizers.folds.types import normal, normal_key

MOST = 64


@pytest.fixture(scope="class")  # as long as one test here, and all examples of a property
def _small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(casting, "MOST_BYTES", MOST)
        yield


LONG = st.text("abc", max_size=20)
COLUMNS = {
    "string": (pa.string(), LONG),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "view": (pa.string_view(), LONG),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), LONG),
    "list": (pa.list_(pa.string()), st.lists(LONG, max_size=3)),
    "fixed list": (pa.list_(pa.string(), 2), st.lists(LONG, min_size=2, max_size=2)),
    "struct": (pa.struct({"a": pa.string()}), st.fixed_dictionaries({"a": LONG})),
    "structs": (
        pa.list_(pa.struct({"a": pa.binary()})),
        st.lists(st.fixed_dictionaries({"a": st.binary(max_size=20)}), max_size=3),
    ),
    "numbers": (pa.int64(), st.integers(-9, 9)),
}


@st.composite
def columns(draw, name):
    kind, values = COLUMNS[name]
    pieces = draw(st.lists(st.lists(st.none() | values, max_size=8), min_size=1, max_size=4))
    arrays = [pa.array(piece, kind) for piece in pieces]
    if draw(st.booleans()):
        arrays = [array.slice(1) if len(array) else array for array in arrays]
    return pa.chunked_array(arrays, kind)


def has_room(column):
    """Whether each piece is small enough for its offsets, or cannot be cut."""
    kind = column.type
    wide = pa.types.is_dictionary(kind) or kind == pa.string_view() or roomy(kind) == kind
    return wide or all(len(piece) < 2 or bytes_in(piece) <= MOST for piece in column.chunks)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data(), random=st.randoms(use_true_random=False))
def test_rows_are_taken_of_columns_that_do_not_fit_one_array(name, data, random):
    column = data.draw(columns(name))
    rows = list(range(len(column)))
    random.shuffle(rows)

    (taken,) = take_rows(pa.table({"x": column}), np.array(rows, dtype=np.int64)).columns

    assert column.type == taken.type
    expected = column.to_pylist()
    assert [expected[row] for row in rows] == taken.to_pylist()
    # Where nothing had to be cut, only offsets and marks of nulls can have become more.
    assert bytes_in(column) <= MOST or has_room(taken)
    assert bytes_in(column) <= MOST or roomy(column.type) == one_array(column).type
    assert expected == one_array(column).to_pylist()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_columns_go_into_their_normal_form_and_back(name, data):
    column = data.draw(columns(name))
    kind = normal(column.type)

    there = cast(column, kind)
    back = cast_back(there, column.type, "x")

    assert kind == there.type
    assert column.type == back.type
    assert column.to_pylist() == there.to_pylist() == back.to_pylist()
    assert has_room(back)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_folds_work_on_text_that_does_not_fit_one_array(kind):
    text = [f"text {number % 7}" * 5 for number in range(60)]
    column = pa.chunked_array(
        [pa.array(text[start : start + 10], kind) for start in range(0, 60, 10)]
    )
    table = pa.table({"k": column, "x": column, "n": np.arange(60)})
    assert bytes_in(column) > MOST
    different = list(dict.fromkeys(text))

    assert different == Count()(table, "k")["k"].to_pylist()
    assert different == Max("x")(table, "k")["max"].to_pylist()
    assert different == Last("x")(table, "k")["last"].to_pylist()
    assert [1] * 7 == Distinct("x")(table, "k")["distinct"].to_pylist()
    top = TopK("x", 1)(table, "k")["top"].to_pylist()
    assert different == [entries[0]["value"] for entries in top]
    assert different == EachKey(the_key, pa.string())(table, "k")["state"].to_pylist()
    assert len(key_numbers(table, ("k", "x")).codes) == 7


def the_key(key, rows, state):
    assert {key[0]} == set(rows["x"].to_pylist())
    return key[0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.uint64()),
        (pa.float32(), pa.float32()),
        (pa.string_view(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.int16()), pa.int64()),
        (pa.binary(3), pa.large_binary()),
        (pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("ns", "+01:00"), pa.timestamp("ns", "UTC")),
        (pa.decimal32(5, 2), pa.decimal128(38, 2)),
        (pa.decimal256(50, 2), pa.decimal256(50, 2)),
        (pa.date32(), pa.date32()),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int8())),
    ],
)
def test_each_type_has_one_normal_form(kind, expected):
    assert expected == normal(kind)
    assert expected == normal(normal(kind))
    assert normal_key(kind) == (pa.int64() if kind == pa.uint64() else expected)


BERLIN, TOKYO = (pa.timestamp("us", zone) for zone in ("Europe/Berlin", "Asia/Tokyo"))
NOON = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
FORMS = {
    "integers": ([pa.int32(), pa.int64(), pa.int8()], [1, 2]),
    "texts": ([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ["a", "b"]),
    "bytes": ([pa.binary(), pa.binary(1), pa.large_binary()], [b"a", b"b"]),
    "decimals": ([pa.decimal128(4, 2), pa.decimal128(12, 2)], [Decimal("1.50"), Decimal("2.50")]),
    "times": ([pa.timestamp("us", "UTC"), BERLIN, TOKYO], [NOON, NOON + dt.timedelta(1)]),
    "lists": ([pa.list_(pa.int32()), pa.large_list(pa.int64())], [[1], [1, 2]]),
    "structs": ([pa.struct({"a": pa.int32()}), pa.struct({"a": pa.int64()})], [{"a": 1}, {"a": 2}]),
}
ORDERED = ("integers", "texts", "bytes", "decimals", "times")


@pytest.mark.parametrize("forms", FORMS)
def test_what_is_kept_does_not_depend_on_the_form_of_a_type(forms):
    kinds, values = FORMS[forms]
    folds = [Last("x"), Max("x"), Distinct("x"), TopK("x", 1)][: None if forms in ORDERED else 1]
    for fold in folds:
        kept = {fold.state(pa.schema({"x": kind})) for kind in kinds}
        assert len(kept) == 1
        for kind in kinds:
            table = pa.table({"k": [1, 1], "x": pa.array(values, kind)})
            sent = fold(table, "k")
            if isinstance(fold, Last | Max):
                plain = pa.string() if pa.types.is_dictionary(kind) else kind
                assert [plain] == sent.schema.types[1:]
                assert [values[1]] == sent.column(1).to_pylist()


def test_what_was_kept_of_wider_values_is_not_cut_when_it_is_sent_on():
    fold = Max("x")
    key_rows = pa.table({"k": [1]})
    wide, narrow = (
        pa.table({"k": [1], "x": pa.array([1], kind)}) for kind in (pa.int64(), pa.int32())
    )
    before = pa.table({"max": [1 << 40]}, schema=fold.state(wide.schema))

    with pytest.raises(FoldError, match=r"'max' was kept of .* wider type than int32.*former type"):
        fold.step(narrow, np.array([0]), before, key_rows)
    quiet = Max("x", emit=Emit.NOTHING)
    assert [1 << 40] == quiet.step(narrow, np.array([0]), before, key_rows).state["max"].to_pylist()


def test_a_deletion_is_the_same_in_every_process():
    assert pickle.loads(pickle.dumps(DELETE)) is DELETE  # noqa: S301
    assert "DELETE" == repr(DELETE)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_the_size_of_text_is_known_in_all_its_forms(kind):
    text = pa.array(["x" * 100, "y" * 50], kind)

    for rows in (text, pa.chunked_array([text]), pa.table({"text": text})):
        assert 150 <= bytes_in(rows) < 250
