"""The frequent items of Spark's approx_top_k: states that Spark 4.3 made, and laws of counting."""

import json
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sketches.errors import (
    CorruptDataError,
    EmptySketchError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
)
from sketches.interop import FrequentItems

FIELDS = ("sketch", "maxItemsTracked", "itemDataType", "itemDataTypeDDL")
RECORDED = json.loads((Path(__file__).parent / "spark_4_3.json").read_text("utf-8"))
STATES = [
    (case, dict(zip(FIELDS, [bytes.fromhex(case["state"][0]), *case["state"][1:]], strict=True)))
    for case in RECORDED["top_k"]
]
READABLE = [(case, state) for case, state in STATES if case["kind"] in ("bigint", "string")]
IDS = [f"{case['kind']} {state['maxItemsTracked']}" for case, state in READABLE]


@pytest.mark.parametrize(("case", "state"), READABLE, ids=IDS)
def test_it_estimates_as_spark_does_from_what_spark_wrote(case, state):
    items = FrequentItems.from_spark(state)

    expected = sorted((item, count) for item, count in case["estimates"] if item is not None)
    assert expected == sorted((hitter.key, hitter.estimate) for hitter in items.top(1000))
    assert case["nulls"] == items.nulls
    assert len(RECORDED["values"][case["kind"]]) == items.total


@pytest.mark.parametrize(("case", "state"), READABLE, ids=IDS)
def test_what_spark_wrote_brackets_the_truth(case, state):
    truth = Counter(RECORDED["values"][case["kind"]])

    items = FrequentItems.from_spark(state)
    keys, estimates, errors = items.arrays()

    for key, estimate, error in zip(keys.tolist(), estimates, errors, strict=True):
        assert estimate - error <= truth[key] <= estimate
    assert all(count <= items.error for key, count in truth.items() if key not in set(keys))
    assert {items.error} == set(errors)


@pytest.mark.parametrize(("case", "state"), READABLE, ids=IDS)
def test_a_state_without_a_count_of_nulls_is_read_too(case, state):
    older = FrequentItems.from_spark({**state, "sketch": state["sketch"][:-8]})

    assert 0 == older.nulls
    assert FrequentItems.from_spark(state).top(9) == older.top(9)


@pytest.mark.parametrize("kind", ["int", "double"])
def test_items_of_other_types_are_refused_with_the_remedy(kind):
    (state,) = (state for case, state in STATES if case["kind"] == kind)

    with pytest.raises(InvalidKeyError, match=f"(?i)type {kind} cannot be read; cast the column"):
        FrequentItems.from_spark(state)


def fed(items, weights=None, *, tracked=5, nulls=0):
    found = FrequentItems(tracked)
    found.update(items, weights, nulls=nulls)
    return found


INTEGERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 12), max_size=60)
TEXTS = st.lists(st.text(max_size=3) | st.sampled_from("abcdef"), max_size=60)


def brackets(items, truth):
    keys, estimates, errors = items.arrays()
    least = dict(zip(keys.tolist(), (estimates - errors).tolist(), strict=True))
    most = dict(zip(keys.tolist(), estimates.tolist(), strict=True))
    unseen = items.error
    return all(least.get(key, 0) <= truth[key] <= most.get(key, unseen) for key in truth)


@given(INTEGERS | TEXTS, st.integers(1, 9), st.data())
def test_it_brackets_the_truth(keys, tracked, data):
    weights = data.draw(st.lists(st.integers(1, 99), min_size=len(keys), max_size=len(keys)))
    truth = Counter()
    for key, weight in zip(keys, weights, strict=True):
        truth[key] += weight

    items = fed(keys, weights, tracked=tracked)

    assert sum(weights) == items.total
    assert brackets(items, truth)
    estimates = items.arrays()[1].tolist()
    assert sorted(estimates, reverse=True) == estimates


@given(st.sampled_from((INTEGERS, TEXTS)).flatmap(lambda keys: st.tuples(keys, keys)))
def test_the_items_of_two_streams_bracket_the_truth_of_both(streams):
    one, other = streams

    try:
        both = fed(one, nulls=1) | fed(other, nulls=2)
    except EmptySketchError:
        assert not all(len(fed(stream).arrays()[0]) for stream in streams)
        return

    assert (len(one) + len(other), 3) == (both.total, both.nulls)
    assert brackets(both, Counter(one + other))


@given(INTEGERS.filter(len) | TEXTS.filter(len), st.integers(0, 9))
def test_a_state_comes_back_as_it_was(keys, nulls):
    items = fed(keys, nulls=nulls)
    assume(len(items.arrays()[0]))

    back = FrequentItems.from_spark(items.to_spark())

    assert [array.tolist() for array in items.arrays()] == [a.tolist() for a in back.arrays()]
    assert (items.total, nulls, 5) == (back.total, back.nulls, back.tracked)


def test_with_room_for_all_it_is_an_exact_counter():
    items = fed(["b", "a", "b", ""], [1, 2, 3, 4], tracked=100)

    assert [("", 4.0, 0.0), ("b", 4.0, 0.0), ("a", 2.0, 0.0)] == items.top(9)
    assert ["", "b"] == [hitter.key for hitter in items.top(2)]


ALIKE = list(range(7))  # one more than fits, and none heavier than another


def test_what_keeps_none_of_its_items_still_knows_how_often_they_came_at_most():
    items = fed(ALIKE)

    assert (7, 1, 0) == (items.total, items.error, len(items.arrays()[0]))
    with pytest.raises(EmptySketchError, match="each came at most 1 times, and cannot be written"):
        items.to_spark()
    for add in (lambda: fed([1]) | items, lambda: items | fed([1])):
        with pytest.raises(EmptySketchError, match="cannot be added up by Apache DataSketches"):
            add()


GOOD = fed(["a", "bc", "a"], nulls=3).to_spark()
NUMBERS = fed([1, 2, 2], nulls=3).to_spark()


def with_sketch(change, state=GOOD):
    return {**state, "sketch": change(state["sketch"])}


BAD = {
    "no struct": (None, "a NoneType is not a state"),
    "no field": ({"sketch": b""}, "it lacks 'maxItemsTracked'"),
    "no bytes": ({**GOOD, "sketch": "x"}, "sketch is a str"),
    "no type": ({**GOOD, "itemDataTypeDDL": "x"}, "does not say what the items are"),
    "no number": ({**GOOD, "maxItemsTracked": 0}, "maxItemsTracked: tracked=0 is out of range"),
    "nothing": (with_sketch(lambda _: b""), "0 bytes are too few"),
    "head only": (with_sketch(lambda data: data[:8]), "too few for a sketch with items"),
    "counts cut": (with_sketch(lambda data: data[:40]), "too few for 2 items"),
    "items cut": (with_sketch(lambda data: data[:52]), "item . of 2 is missing"),
    "text cut": (with_sketch(lambda data: data[:-9]), "they were truncated"),
    "numbers cut": (with_sketch(lambda data: data[:-17], NUMBERS), "they were truncated"),
    "more": (with_sketch(lambda data: data + b"\0"), "more was added"),
    "family": (with_sketch(lambda data: data[:2] + b"\1" + data[3:]), "are not those of a sketch"),
    "map": (with_sketch(lambda data: data[:3] + b"\x3f" + data[4:]), "are not those of a sketch"),
    "flags": (with_sketch(lambda data: data[:5] + b"\5" + data[6:]), "are not those of a sketch"),
    "too many": (with_sketch(lambda data: data[:8] + b"\7" + data[9:]), "too few for 7 items"),
    "more than fit": (
        with_sketch(
            lambda data: data[:4] + b"\3" + data[5:], fed(range(20), tracked=20).to_spark()
        ),
        "a map of 8 places are too few for 20 items",
    ),
    "count": (with_sketch(lambda data: data[:32] + b"\xff" * 8 + data[40:]), "do not fit a total"),
    "total": (with_sketch(lambda data: data[:16] + b"\1" + data[17:]), "do not fit a total of 1"),
    "no text": (with_sketch(lambda data: data[:52] + b"\xff" + data[53:]), "is not text"),
    "nulls": (
        with_sketch(lambda data: data[:-8] + struct.pack(">q", -1)),
        "-1 rows without an item",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_state_is_refused(name):
    state, message = BAD[name]

    with pytest.raises(CorruptDataError, match=message):
        FrequentItems.from_spark(state)


@given(st.sampled_from((GOOD, NUMBERS)), st.data())
def test_damaged_bytes_are_refused_or_read_and_never_end_the_process(state, data):
    sketch = bytearray(state["sketch"])
    for _ in range(data.draw(st.integers(1, 3))):
        sketch[data.draw(st.integers(0, len(sketch) - 1))] = data.draw(st.integers(0, 255))

    try:
        FrequentItems.from_spark({**state, "sketch": bytes(sketch)}).arrays()
    except CorruptDataError:
        return


def test_spark_writes_an_empty_column_without_items():
    empty = {**GOOD, "sketch": bytes.fromhex("01010a030305000000000000000000ff")[:8]}

    items = FrequentItems.from_spark(empty)

    assert (0, []) == (items.total, items.top(3))


@pytest.mark.parametrize(
    ("update", "error", "message"),
    [
        ((([1],), {}), InvalidKeyError, "items of kind int cannot be counted with those of kind"),
        (([[b"a"]], {}), InvalidKeyError, "give integers only, or texts only"),
        ((["aa", [0.5, 1]], {}), InvalidKeyError, "is one key"),
        (([["a"], [0.5]], {}), InvalidValueError, "give whole numbers"),
        (([["a"], [-1]], {}), InvalidValueError, "cannot be counted"),
        (([["a"]], {"nulls": -1}), InvalidValueError, "nulls=-1 is out of range"),
        (([["a"], [(1 << 63) - 2]], {}), InvalidValueError, "count less"),
    ],
)
def test_a_refused_update_changes_nothing(update, error, message):
    items = fed(["a", "bc", "a"], nulls=3)
    given_, named = update

    with pytest.raises(error, match=message):
        items.update(*given_, **named)

    assert GOOD == items.to_spark()


@pytest.mark.parametrize("tracked", [0, 1_000_001, 1.5])
def test_a_number_of_items_that_spark_does_not_track_is_refused(tracked):
    with pytest.raises(InvalidValueError, match="tracked"):
        FrequentItems(tracked)


def test_what_was_never_filled_has_no_type_to_write():
    for asked in (lambda: FrequentItems().to_spark(), lambda: FrequentItems().spark_schema):
        with pytest.raises(EmptySketchError, match="their type is not known; update it"):
            asked()
    assert "itemDataType bigint" in fed([1]).spark_schema


@pytest.mark.parametrize(("items", "tracked"), [([1], 5), (["a"], 6)])
def test_items_of_other_types_or_sizes_cannot_be_added(items, tracked):
    with pytest.raises(MergeError, match="make both of one type, with one `tracked`"):
        _ = fed(["a"]) | fed(items, tracked=tracked)
    assert 1 == (fed(["a"]) | FrequentItems(5)).total


def test_without_datasketches_it_says_what_to_install():
    code = "import sys; sys.modules['datasketches'] = None; import sketches.interop"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "MissingPackageError: frequent items of other systems need the package" in ran.stderr
