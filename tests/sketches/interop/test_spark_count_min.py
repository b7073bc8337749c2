"""Spark's Count-Min sketch: the bytes that Spark 4.3 made, and the laws of any such sketch."""

import json
import pickle
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError, MergeError
from sketches.interop import SparkCountMin

RECORDED = json.loads((Path(__file__).parent / "spark_4_3.json").read_text("utf-8"))
CASES = RECORDED["count_min"]


def keys_of(kind, values):
    return [bytes.fromhex(value) for value in values] if kind == "binary" else values


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']} {case['eps']}")
def test_it_is_byte_by_byte_what_spark_makes_of_the_same_stream(case):
    sketch = SparkCountMin(case["eps"], case["confidence"], case["seed"])

    sketch.update(keys_of(case["kind"], RECORDED["values"][case["kind"]]))

    assert case["bytes"] == sketch.to_spark().hex()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']} {case['eps']}")
def test_it_answers_as_spark_does_for_what_spark_wrote(case):
    sketch = SparkCountMin.from_spark(bytes.fromhex(case["bytes"]))

    assert case["estimates"] == sketch.estimate(keys_of(case["kind"], case["asked"])).tolist()
    assert case["total"] == sketch.total
    assert case["bytes"] == sketch.to_spark().hex()


INTEGERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 9), max_size=40)
TEXTS = st.lists(st.text(max_size=9) | st.sampled_from("ab"), max_size=40)
STREAMS = INTEGERS | TEXTS | TEXTS.map(lambda words: [word.encode() for word in words])


def fed(keys, weights=None, *, seed=3):
    sketch = SparkCountMin(0.3, 0.8, seed)
    sketch.update(keys, weights)
    return sketch


@given(STREAMS, st.data())
def test_it_never_underestimates_and_errs_by_no_more_than_other_keys(keys, data):
    weights = data.draw(st.lists(st.integers(0, 99), min_size=len(keys), max_size=len(keys)))
    truth = Counter()
    for key, weight in zip(keys, weights, strict=True):
        truth[key] += weight

    sketch = fed(keys, weights)

    assert sum(weights) == sketch.total
    for key, estimate in zip(truth, sketch.estimate(list(truth)).tolist(), strict=True):
        assert truth[key] <= estimate <= sketch.total


@given(st.data())
def test_the_sketch_of_two_streams_is_the_sum_of_theirs(data):
    kind = data.draw(st.sampled_from((INTEGERS, TEXTS)))
    one, other = data.draw(kind), data.draw(kind)

    assert fed(one + other).to_spark() == (fed(one) | fed(other)).to_spark()
    assert fed(one + other).to_spark() == fed(other + one).to_spark()


@given(STREAMS)
def test_it_travels(keys):
    sketch = fed(keys)

    for copy in (SparkCountMin.from_spark(sketch.to_spark()), pickle.loads(pickle.dumps(sketch))):  # noqa: S301
        assert sketch.to_spark() == copy.to_spark()
        copy.update(keys)  # and can be gone on with
        assert 2 * sketch.total == copy.total


def test_estimates_keep_to_the_error_as_often_as_promised():
    random = np.random.default_rng(1)
    keys = random.zipf(1.3, 20_000).clip(max=1 << 40)
    known, counts = np.unique(keys, return_counts=True)
    sketch = SparkCountMin(0.01, 0.99, 5)
    sketch.update(keys)

    off = sketch.estimate(known) - counts

    assert (200, 7) == (sketch.width, sketch.depth)
    assert off.min() >= 0
    assert (off > 0.01 * len(keys)).mean() <= 0.01


GOOD = fed(["a", "b"]).to_spark()


def changed(place, value):
    return GOOD[:place] + value + GOOD[place + len(value) :]


DAMAGED = {
    "nothing": (b"", "0 bytes are too few"),
    "cut": (GOOD[:-1], "they were truncated"),
    "more": (GOOD + b"\0", "they were truncated or more was added"),
    "version": (changed(3, b"\2"), "are not those of a Count-Min sketch of Spark"),
    "no rows": (changed(12, struct.pack(">i", 0)), "are not those"),
    "width": (changed(16, struct.pack(">i", 5)), "they were truncated or more was added"),
    "total": (changed(4, struct.pack(">q", 9)), "not to its total of 9"),
    "negative": (changed(len(GOOD) - 8, struct.pack(">q", -1)), "it was damaged"),
    "factor": (changed(20, struct.pack(">q", 1 << 31)), "factor"),
    "text": ("00000001", "a str is not bytes"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_spark_did_not_write_is_refused(name):
    data, message = DAMAGED[name]

    with pytest.raises(CorruptDataError, match=message):
        SparkCountMin.from_spark(data)


@given(st.data())
def test_any_changed_bit_of_the_cells_is_noticed_or_harmless(data):
    place = data.draw(st.integers(20 + 8 * 3, len(GOOD) - 1))
    bit = 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptDataError):
        SparkCountMin.from_spark(changed(place, bytes([GOOD[place] ^ bit])))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0.0, 0.9, 1), "epsilon=0.0 is out of range"),
        ((float("nan"), 0.9, 1), "epsilon=nan is not finite"),
        ((1e-12, 0.9, 1), "give a larger epsilon"),
        ((0.1, 0.0, 1), "confidence=0.0 is out of range"),
        ((0.1, 1.0, 1), "confidence=1.0 is out of range"),
        ((0.1, 0.9, 1 << 31), "seed=2147483648 is out of range"),
        ((0.1, 0.9, 0.5), "seed=0.5 is not a whole number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidValueError, match=message):
        SparkCountMin(*settings)


@pytest.mark.parametrize(
    ("keys", "weights", "error", "message"),
    [
        ([True], None, InvalidKeyError, "bool.* are not counted by Spark's"),
        ([("a", "b")], None, InvalidKeyError, "are not counted by Spark's"),
        (["a"], [0.5], InvalidValueError, "give whole numbers"),
        (["a"], [-1], InvalidValueError, "cannot be counted"),
        (["a"], [1, 2], InvalidValueError, "do not fit 1 keys"),
        (["a"], [(1 << 63) - 2], InvalidValueError, "count less"),
    ],
)
def test_a_refused_update_leaves_the_sketch_as_it_was(keys, weights, error, message):
    sketch = fed(["a", "b"])

    with pytest.raises(error, match=message):
        sketch.update(keys, weights)

    assert GOOD == sketch.to_spark()


@pytest.mark.parametrize("other", [fed([], seed=4), SparkCountMin(0.1, 0.8, 3)])
def test_sketches_of_other_settings_cannot_be_added(other):
    with pytest.raises(MergeError, match="make both with equal settings"):
        _ = fed([]) | other
