import struct
import subprocess
import sys

import datasketches
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import wire
from sketches.count_min import CountMin
from sketches.errors import (
    CorruptDataError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
    MissingPackageError,
)

WEIGHTS = st.integers(0, 2**22).map(lambda quarters: quarters / 4)
INTEGERS = st.integers(-3, 30) | st.integers(-(2**63), 2**63 - 1)
STREAMS = st.lists(st.tuples(INTEGERS, WEIGHTS), max_size=40)
SEED = 9001


def fed(stream, *, width=20, depth=3):
    sketch = CountMin(width, depth, backend="datasketches")
    sketch.update([key for key, _ in stream], [weight for _, weight in stream])
    return sketch


def library(stream, *, width=20, depth=3, seed=SEED):
    sketch = datasketches.count_min_sketch(depth, width, seed)
    for key, weight in stream:
        sketch.update(key, weight)
    return sketch


def refuses(sketch, error, change, match=None):
    before = sketch.copy()
    with pytest.raises(error, match=match):
        change(sketch)
    assert before == sketch


@given(STREAMS)
def test_it_counts_what_the_library_counts(stream):
    sketch, expected = fed(stream), library(stream)
    asked = [key for key, _ in stream] + [5, 77]
    assert [expected.get_estimate(key) for key in asked] == sketch.estimate(asked).tolist()
    assert expected.total_weight == sketch.total
    assert expected.serialize() == sketch.to_datasketches()


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), max_size=20))
@settings(max_examples=30)
def test_it_counts_text_as_the_library_does(texts):
    sketch = CountMin(20, 3, backend="datasketches")
    sketch.update(texts)
    expected = library([(text, 1.0) for text in texts])
    assert expected.serialize() == sketch.to_datasketches()
    assert [expected.get_estimate(text) for text in texts] == sketch.estimate(texts).tolist()


def test_single_keys_count_as_batches_do():
    single, batch = fed([]), fed([(1, 1.0), (1, 2.5), (-7, 4.0)])
    single.add(1)
    single.add(1, 2.5)
    single.add(np.int64(-7), 4)
    assert batch == single
    assert single.total == 7.5


@given(STREAMS, STREAMS)
@settings(max_examples=40)
def test_a_merge_is_the_sketch_of_both_streams(left, right):
    merged = fed(left) | fed(right)
    assert fed(left + right) == merged
    assert fed(left + right).total == merged.total


@given(STREAMS)
@settings(max_examples=40)
def test_what_the_library_wrote_is_read_and_the_other_way_round(stream):
    sketch = CountMin.from_datasketches(library(stream).serialize())
    assert fed(stream).to_datasketches() == sketch.to_datasketches()
    assert fed(stream).total == sketch.total
    assert sketch.kind is None
    assert (20, 3, SEED) == (sketch.width, sketch.depth, sketch.seed)
    back = datasketches.count_min_sketch.deserialize(fed(stream).to_datasketches())
    assert [back.get_estimate(key) for key, _ in stream] == sketch.estimate(
        [key for key, _ in stream]
    ).tolist()


@pytest.mark.parametrize("data", [5, "text", None, [1, 2]])
def test_what_is_no_bytes_at_all_is_refused(data):
    with pytest.raises(CorruptDataError, match="not bytes"):
        CountMin.from_datasketches(data)


def test_memory_views_are_read_too():
    data = library([(1, 2.0)]).serialize()
    assert CountMin.from_datasketches(memoryview(bytearray(data))).total == 2.0


@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_both_backends_err_alike_within_the_same_bound(exponent):
    shares = 1 / np.arange(1, 2001) ** exponent
    keys = np.random.default_rng(1).choice(2000, size=20_000, p=shares / shares.sum())
    truth = np.bincount(keys, minlength=2000)
    mean_errors = []
    for backend in ("numpy", "datasketches"):
        sketch = CountMin.for_error(0.02, 0.02, backend=backend)
        sketch.update(keys)
        errors = sketch.estimate(np.arange(2000)) - truth
        assert errors.min() >= 0
        assert (errors > sketch.epsilon * sketch.total).mean() <= sketch.delta
        mean_errors.append(errors.mean())
    # Measured over ten runs, the means differ by at most a quarter.
    assert max(mean_errors) <= 1.5 * min(mean_errors)


def test_the_truth_lies_within_the_bounds_of_the_library_and_ours():
    keys = np.random.default_rng(2).zipf(1.5, 5000) % 500
    truth = np.bincount(keys, minlength=500)
    ours = CountMin(272, 5)
    ours.update(keys)
    theirs = library([(key, 1.0) for key in keys.tolist()], width=272, depth=5)
    for key, estimate in enumerate(ours.estimate(np.arange(500)).tolist()):
        assert theirs.get_estimate(key) >= truth[key]
        assert estimate >= truth[key]
        assert theirs.get_lower_bound(key) <= theirs.get_estimate(key)
    above = sum(theirs.get_upper_bound(key) < truth[key] for key in range(500))
    assert not above


# --- its limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[b"a"], [(1, 2)], [(1, "a")]])
def test_bytes_and_pairs_are_refused(keys):
    sketch = CountMin(5, 2, backend="datasketches")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.update(keys), "backend='numpy'")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.estimate(keys), "backend='numpy'")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.add(keys[0]), "backend='numpy'")
    assert sketch.kind is None


def test_the_empty_text_is_refused_because_the_library_would_skip_it():
    sketch = CountMin(5, 2, backend="datasketches")
    sketch.add("a")
    for change in (
        lambda sketch: sketch.update(["b", ""]),
        lambda sketch: sketch.add(""),
        lambda sketch: sketch.estimate([""]),
    ):
        refuses(sketch, InvalidKeyError, change, "empty text")
    assert library([("", 1.0)]).total_weight == 0.0


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1])
def test_integers_beyond_64_bits_are_refused(key):
    sketch = fed([(1, 1.0)])
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.add(key), "64 bits")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.update([1, key]), "64 bits")


def test_other_seeds_are_refused_because_the_library_could_not_read_them_back():
    with pytest.raises(InvalidValueError, match="seed=7"):
        CountMin(5, 2, 7, backend="datasketches")
    assert CountMin(5, 2, backend="datasketches").seed == SEED
    assert CountMin(5, 2, SEED, backend="datasketches").seed == SEED
    data = library([(1, 1.0)], seed=7).serialize()
    with pytest.raises(ValueError, match="seed"):
        datasketches.count_min_sketch.deserialize(data)
    with pytest.raises(CorruptDataError, match="seed"):
        CountMin.from_datasketches(data)


def test_conservative_updates_and_two_columns_are_refused():
    with pytest.raises(InvalidValueError, match="conservative"):
        CountMin(5, 2, conservative=True, backend="datasketches")
    with pytest.raises(InvalidValueError, match="width=2"):
        CountMin(2, 2, backend="datasketches")


def test_the_backends_do_not_mix():
    with pytest.raises(MergeError, match="backend"):
        _ = CountMin(5, 2, SEED) | CountMin(5, 2, SEED, backend="datasketches")
    with pytest.raises(InvalidValueError, match="backend='datasketches'"):
        CountMin(5, 2).to_datasketches()


# --- damaged bytes -------------------------------------------------------------------------------


def test_bytes_of_any_other_length_are_refused():
    # The library itself takes bytes that lack the last eight, and reads what lies behind them in
    # memory: not shown here.
    data = library([(1, 2.0)], width=3, depth=2).serialize()
    for length in range(len(data)):
        with pytest.raises(CorruptDataError):
            CountMin.from_datasketches(data[:length])
    with pytest.raises(CorruptDataError):
        CountMin.from_datasketches(data + b"\0")


@pytest.mark.parametrize("place", [0, 1, 2, 8, 12, 13, 14])
def test_a_damaged_preamble_is_refused(place):
    data = bytearray(library([(1, 2.0)], width=3, depth=2).serialize())
    data[place] ^= 0x55
    with pytest.raises(CorruptDataError):
        CountMin.from_datasketches(bytes(data))


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("place", [16, 24, 64])
def test_impossible_counts_are_refused(amount, place):
    data = bytearray(library([(1, 2.0)], width=3, depth=2).serialize())
    struct.pack_into("<d", data, place, amount)
    with pytest.raises(CorruptDataError, match="negative or not finite"):
        CountMin.from_datasketches(bytes(data))


@pytest.mark.parametrize("shape", [(0, 2), (2, 2), (3, 0)])
def test_impossible_shapes_are_refused(shape):
    data = bytearray(library([], width=3, depth=2).serialize())
    struct.pack_into("<IB", data, 8, *shape)
    with pytest.raises(CorruptDataError):
        CountMin.from_datasketches(bytes(data))


def test_a_frame_around_the_bytes_of_another_shape_or_of_none_is_refused():
    fields, arrays = wire.unpack(fed([(1, 2.0)]).to_bytes(), "CountMin", 2)
    other = np.frombuffer(library([(1, 2.0)], width=21, depth=3).serialize(), dtype=np.uint8)
    for table in (other, arrays["table"][:-1], arrays["table"][:5], np.zeros(3)):
        with pytest.raises(CorruptDataError):
            CountMin.from_bytes(wire.pack("CountMin", 2, fields, {"table": table}))


# --- the package is asked for only when needed ---------------------------------------------------


def test_only_this_backend_imports_the_package():
    code = (
        "import sys; from sketches.count_min import CountMin; import sketches.cost_sketch\n"
        "CountMin(5, 2).add(1); print('datasketches' in sys.modules)\n"
        "CountMin(5, 2, backend='datasketches'); print('datasketches' in sys.modules)\n"
    )
    run = [sys.executable, "-c", code]
    printed = subprocess.run(run, capture_output=True, check=True, text=True)
    assert printed.stdout.split() == ["False", "True"]


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    data = fed([(1, 2.0)]).to_bytes()
    monkeypatch.setitem(sys.modules, "datasketches", None)
    monkeypatch.delitem(sys.modules, "sketches.count_min_datasketches", raising=False)
    for ask in (
        lambda: CountMin(5, 2, backend="datasketches"),
        lambda: CountMin.from_datasketches(b""),
        lambda: CountMin.from_bytes(data),
    ):
        with pytest.raises(MissingPackageError, match="pip install datasketches") as refusal:
            ask()
        assert not isinstance(refusal.value, CorruptDataError)
    CountMin(5, 2).add(1)
