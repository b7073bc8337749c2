"""What CountMin, in each of its forms, and CostSketch have in common."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_refusals import refuses

from sketches.cost_sketch import CostSketch
from sketches.count_min import CountMin
from sketches.errors import (
    CorruptDataError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
)

FORMS = {
    "plain": lambda: CountMin(7, 3),
    "conservative": lambda: CountMin(7, 3, conservative=True),
    "datasketches": lambda: CountMin(7, 3, backend="datasketches"),
    "costs": lambda: CostSketch(7, 3),
    "exact costs": lambda: CostSketch(7, 3, exact=2),
}
each_form = pytest.mark.parametrize("new", FORMS.values(), ids=FORMS)
each_form_of_ours = pytest.mark.parametrize(
    "new",
    [form for name, form in FORMS.items() if name != "datasketches"],
    ids=[name for name in FORMS if name != "datasketches"],
)

# Multiples of 1/4 below 2^20 add up exactly in any order, so laws can be asked of the last bit.
AMOUNTS = st.integers(0, 2**22).map(lambda quarters: quarters / 4)
INTEGERS = st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
STREAMS = st.lists(st.tuples(INTEGERS, AMOUNTS), max_size=40) | st.lists(
    st.tuples(TEXTS, AMOUNTS), max_size=20
)


def fed(sketch, stream):
    sketch.update([key for key, _ in stream], [amount for _, amount in stream])
    return sketch


def some(new):
    return fed(new(), [(1, 2.0), (2, 3.0), (1, 0.5), (3, 4.0)])


# --- bytes ---------------------------------------------------------------------------------------


@each_form
@given(stream=STREAMS)
@settings(max_examples=50)
def test_bytes_pickles_and_copies_hold_the_same_sketch(new, stream):
    sketch = fed(new(), stream)
    for twin in (
        type(sketch).from_bytes(sketch.to_bytes()),
        pickle.loads(pickle.dumps(sketch)),  # noqa: S301
        copy.copy(sketch),
        copy.deepcopy(sketch),
        sketch.copy(),
    ):
        assert sketch == twin
        assert sketch.to_bytes() == twin.to_bytes()
        assert sketch.kind == twin.kind
        twin.add("a" if sketch.kind == "str" else 1, 1.0)
        assert sketch != twin


@each_form
def test_a_sketch_that_came_from_bytes_counts_on(new):
    sketch = some(new)
    twin = type(sketch).from_bytes(sketch.to_bytes())
    for either in (sketch, twin):
        fed(either, [(1, 2.0), (9, 5.0)])
    assert sketch == twin
    refuses(twin, InvalidKeyError, lambda twin: twin.add("a", 1.0))


@each_form
def test_bytes_cut_anywhere_or_with_any_byte_changed_are_refused(new):
    sketch = some(new)
    data = sketch.to_bytes()
    for place in range(len(data)):
        damaged = [data[:place]]
        for change in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            damaged.append(bytes(changed))
        for wrong in damaged:
            with pytest.raises(CorruptDataError):
                type(sketch).from_bytes(wrong)


@each_form
@pytest.mark.parametrize("data", [b"", b"PNSK", b"not a sketch at all", bytes(100)])
def test_foreign_bytes_are_refused(new, data):
    with pytest.raises(CorruptDataError):
        type(new()).from_bytes(data)


def test_the_bytes_of_another_sketch_are_refused_by_its_name():
    with pytest.raises(CorruptDataError, match="CostSketch"):
        CountMin.from_bytes(CostSketch(3, 2).to_bytes())
    with pytest.raises(CorruptDataError, match="CountMin"):
        CostSketch.from_bytes(CountMin(3, 2).to_bytes())


def test_the_bytes_are_the_same_in_a_process_with_another_hash_seed():
    code = (
        "from sketches.count_min import CountMin\n"
        "from sketches.cost_sketch import CostSketch\n"
        "sketches = [CountMin(55, 4, 7), CountMin(55, 4, 7, conservative=True),\n"
        "    CostSketch(55, 4, 7), CostSketch(55, 4, 7, exact=10)]\n"
        "for s in sketches:\n"
        "    for i in range(5):\n"
        "        s.update([f'{j % 37}' for j in range(i, 200)], [2.0] * (200 - i))\n"
        "print(*[s.to_bytes().hex() for s in sketches])\n"
    )
    printed = []
    for seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, env=environment, capture_output=True, check=True, text=True)
        printed.append(done.stdout.split())
    assert printed[0] == printed[1]
    assert len(set(printed[0])) == 4


# --- keys come in any container ------------------------------------------------------------------


@each_form
@pytest.mark.parametrize(
    "keys",
    [
        (3, -1, 3),
        np.array([3, -1, 3]),
        np.array([3, -1, 3], dtype=np.int8),
        np.array([3, 0, -1, 0, 3])[::2],
        pa.array([3, -1, 3]),
        pa.chunked_array([[3], [-1, 3]]),
        [np.int64(3), -1, np.int16(3)],
    ],
    ids=lambda keys: f"{type(keys).__module__}.{type(keys).__name__}",
)
def test_integers_count_the_same_in_every_container(new, keys):
    expected = fed(new(), [(3, 1.0), (-1, 2.0), (3, 4.0)])
    for amounts in ([1, 2, 4], (1.0, 2.0, 4.0), np.array([1, 2, 4], np.int8), pa.array([1, 2, 4])):
        sketch = new()
        sketch.update(keys, amounts)
        assert expected == sketch


@each_form_of_ours
@pytest.mark.parametrize("plain", [["", "a", "ünï", "a"], [b"", b"a", b"\xff\x01", b"a"]])
def test_strings_count_the_same_in_every_container(new, plain):
    expected = fed(new(), [(key, 2.0) for key in plain])
    for array in (np.array(plain), np.array(plain, dtype=object), pa.array(plain)):
        sketch = new()
        sketch.update(array, [2.0] * 4)
        assert expected == sketch


@each_form
def test_neither_keys_nor_amounts_are_changed_or_kept(new):
    keys, amounts = np.array([1, 2, 1]), np.array([1.0, 2.0, 3.0])
    sketch = new()
    sketch.update(keys, amounts)
    assert keys.tolist() == [1, 2, 1]
    assert amounts.tolist() == [1.0, 2.0, 3.0]
    frozen = sketch.to_bytes()
    keys[:], amounts[:] = 9, 9.0
    sketch.estimate([1])[:] = 9.0
    assert frozen == sketch.to_bytes()


@each_form
def test_copies_and_merges_share_no_memory_with_the_sketch(new):
    sketch = some(new)
    frozen = sketch.to_bytes()
    for other in (sketch.copy(), sketch | sketch, new() | sketch, sketch | new()):
        other.add(1, 9.0)
    assert frozen == sketch.to_bytes()


@each_form
def test_the_first_key_settles_the_kind_and_an_empty_batch_does_not(new):
    sketch = new()
    sketch.update([], [])
    assert sketch.kind is None
    sketch.update(["a"], [1.0])
    assert sketch.kind == "str"
    sketch.update([], [])
    assert sketch.estimate([]).tolist() == []
    assert sketch.kind == "str"


# --- refusals ------------------------------------------------------------------------------------


@each_form
@pytest.mark.parametrize(
    "keys",
    [
        [True, 0],
        np.array([1], "m8[s]"),
        [None],
        [1, None],
        [1.5],
        np.array([1.5]),
        "abc",
        b"abc",
        5,
        None,
        [1, "a"],
        ["a", b"a"],
        [2**63],
        [(1, 2, 3)],
        {1, 2},
        pa.array([1, None]),
    ],
    ids=str,
)
def test_keys_that_cannot_be_counted_are_refused(new, keys):
    for sketch in (new(), some(new)):
        refuses(sketch, InvalidKeyError, lambda sketch: sketch.update(keys, [1.0]))
    refuses(some(new), InvalidKeyError, lambda sketch: sketch.estimate(keys))


@each_form
def test_keys_of_another_kind_are_refused_by_both_names(new):
    sketch = some(new)
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.update(["a"], [1.0]), "str.*int")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.add("a", 1.0), "str.*int")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.estimate([(1, "a")]), r"\(int, str\)")


@each_form
@pytest.mark.parametrize(
    "amounts",
    [
        [1.0, float("nan")],
        [float("inf"), 1.0],
        [1.0, -1.0],
        [1.0],
        [1.0, 2.0, 3.0],
        1.0,
        [[1.0, 2.0]],
        ["1", "2"],
        [None, 1.0],
        [True, True],
        [1e308, 1e308],
        [10**400, 1],
    ],
    ids=lambda amounts: str(amounts)[:20],
)
def test_amounts_that_cannot_be_counted_are_refused(new, amounts):
    for sketch in (new(), some(new)):
        refuses(sketch, InvalidValueError, lambda sketch: sketch.update([1, 2], amounts))


@each_form
def test_totals_that_would_overflow_are_refused_before_anything_changes(new):
    sketch = fed(new(), [(1, 1e308)])
    refuses(sketch, InvalidValueError, lambda sketch: sketch.update([2], [1e308]), "total")
    refuses(sketch, InvalidValueError, lambda sketch: sketch.add(1, 1e308), "total")
    refuses(sketch, InvalidValueError, lambda sketch: sketch | sketch, "total")
    other = sketch.copy()
    with pytest.raises(InvalidValueError, match="total"):
        sketch |= other
    assert other == sketch


@each_form
def test_sketches_of_other_kinds_do_not_merge(new):
    sketch, other = fed(new(), [(1, 1.0)]), fed(new(), [("a", 1.0)])
    refuses(sketch, MergeError, lambda sketch: sketch | other, r"kind='int'.*kind='str'")


@each_form
def test_a_sketch_does_not_merge_with_something_else(new):
    sketch = new()
    for other in (1, None, {}, object()):
        with pytest.raises(TypeError):
            _ = sketch | other
        with pytest.raises(TypeError):
            sketch |= other
        assert sketch != other
    with pytest.raises(TypeError):
        _ = CountMin(5, 2) | CostSketch(5, 2)
    with pytest.raises(TypeError):
        _ = CostSketch(5, 2) | CountMin(5, 2)


@each_form
def test_merging_in_place_keeps_the_object_and_may_double_it(new):
    sketch = alias = some(new)
    expected = sketch | sketch.copy()
    sketch |= sketch
    assert alias is sketch
    assert expected == sketch


@each_form
def test_a_sketch_is_not_hashable_and_its_parameters_are_read_only(new):
    sketch = new()
    with pytest.raises(TypeError):
        hash(sketch)
    for name in ("width", "depth", "seed", "kind", "total"):
        with pytest.raises(AttributeError):
            setattr(sketch, name, 1)
