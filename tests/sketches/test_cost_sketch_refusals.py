"""CostSketch refuses frames with wrong contents, and input that cannot be counted."""

import math

import numpy as np
import pytest
from cost_streams import EXACT, fed
from sketch_refusals import refuses

from sketches import wire
from sketches.cost_sketch import CostSketch
from sketches.errors import (
    CorruptDataError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
)

FIELDS = {
    "width": 2,
    "depth": 1,
    "seed": 0,
    "exact": 2,
    "kind": "int",
    "total": 4.0,
    "total_cost": 9.0,
}
ARRAYS = {
    "counts": [1.0, 0.0],
    "costs": [2.0, 0.0],
    "heavy_codes": [5, 8],
    "heavy_counts": [1.0, 2.0],
    "heavy_costs": [3.0, 4.0],
    "heavy_before": [0.0, 1.0],
}


def frame(fields, arrays):
    built = {
        name: np.array(values, dtype=np.uint64 if name == "heavy_codes" else np.float64)
        for name, values in arrays.items()
    }
    return wire.pack("CostSketch", 2, fields, built)


def test_a_frame_made_by_hand_is_read():
    assert CostSketch.from_bytes(frame(FIELDS, ARRAYS)).estimate([8]).tolist() == [2.0]


@pytest.mark.parametrize(
    ("fields", "arrays"),
    [
        ({}, {"counts": [1.0]}),
        ({}, {"costs": [1.0, 2.0, 3.0]}),
        ({}, {"counts": [math.nan, 0.0]}),
        ({}, {"costs": [-1.0, 0.0]}),
        ({}, {"heavy_codes": [8, 5]}),
        ({}, {"heavy_codes": [5, 5]}),
        ({}, {"heavy_codes": [5]}),
        ({}, {"heavy_counts": [1.0]}),
        ({}, {"heavy_costs": [1.0, math.inf]}),
        ({}, {"heavy_before": [1.0, -1.0]}),
        ({}, {name: [*values, 9] for name, values in ARRAYS.items() if "heavy" in name}),
        ({"exact": 1}, {}),
        ({"exact": -1}, {}),
        ({"width": 0}, {}),
        ({"width": 3}, {}),
        ({"depth": 2}, {}),
        ({"seed": None}, {}),
        ({"kind": "float"}, {}),
        ({"total": -1.0}, {}),
        ({"total_cost": math.nan}, {}),
    ],
)
def test_whole_frames_with_an_impossible_content_are_refused(fields, arrays):
    with pytest.raises(CorruptDataError):
        CostSketch.from_bytes(frame({**FIELDS, **fields}, {**ARRAYS, **arrays}))


def test_exact_keys_of_the_wrong_type_are_refused():
    arrays = {name: np.array(values, dtype=np.float64) for name, values in ARRAYS.items()}
    with pytest.raises(CorruptDataError, match="codes"):
        CostSketch.from_bytes(wire.pack("CostSketch", 2, FIELDS, arrays))


@pytest.mark.parametrize("missing", [*FIELDS, *ARRAYS])
def test_a_frame_without_one_of_its_parts_is_refused(missing):
    fields = {name: value for name, value in FIELDS.items() if name != missing}
    arrays = {name: values for name, values in ARRAYS.items() if name != missing}
    with pytest.raises(CorruptDataError, match=missing):
        CostSketch.from_bytes(frame(fields, arrays))


# --- refusals ------------------------------------------------------------------------------------


@EXACT
def test_costs_are_not_optional_and_named_when_refused(exact):
    sketch = CostSketch(3, 2, exact=exact)
    refuses(sketch, InvalidValueError, lambda sketch: sketch.update([1, 2], None), "cost")
    refuses(sketch, InvalidValueError, lambda sketch: sketch.update([1, 2], [1.0, -2.0]), "cost")
    refuses(sketch, InvalidValueError, lambda sketch: sketch.add(1, -2.0), "cost")


def test_frequencies_of_keys_that_could_not_be_counted_are_refused():
    sketch = fed([(1, 2.0)], width=3, depth=2)
    for keys in ([True], [None], "a", ["a"]):
        refuses(sketch, InvalidKeyError, lambda sketch, keys=keys: sketch.frequency(keys))


def test_averages_are_a_copy():
    sketch = fed([(1, 2.0)], width=3, depth=2)
    frozen = sketch.to_bytes()
    sketch.averages()[:] = 9.0
    sketch.frequency([1])[:] = 9.0
    twin = sketch.copy()
    twin.decay(0.5)
    assert frozen == sketch.to_bytes()


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.5, math.nan, math.inf, None, "0.5", True])
def test_impossible_decay_is_refused(factor):
    sketch = fed([(1, 2.0)], width=3, depth=2)
    refuses(sketch, InvalidValueError, lambda sketch: sketch.decay(factor), "factor")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"width": 0}, "width=0"),
        ({"depth": 2.5}, "depth=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": None}, "seed=None"),
        ({"exact": -1}, "exact=-1"),
        ({"exact": 2.0}, r"exact=2\.0"),
        ({"exact": 2**30}, "exact=1073741824"),
    ],
)
def test_impossible_sketches_are_refused_by_name(changed, named):
    with pytest.raises(InvalidValueError, match=named):
        CostSketch(**{"width": 5, "depth": 2, **changed})


@pytest.mark.parametrize("changed", [{"width": 6}, {"depth": 3}, {"seed": 1}, {"exact": 4}])
def test_sketches_of_other_parameters_do_not_merge(changed):
    sketch = CostSketch(5, 2, 0)
    other = CostSketch(**{"width": 5, "depth": 2, "seed": 0, **changed})
    name, value = next(iter(changed.items()))
    with pytest.raises(MergeError, match=f"{name}={value!r}"):
        _ = sketch | other
    assert sketch != other


def test_sketches_differ_by_what_is_inside_even_if_their_totals_agree():
    first, second = (
        fed([(1, cost), (2, 3.0 - cost)], width=1000, depth=2, exact=2) for cost in (1.0, 2.0)
    )
    assert first != second
    assert first != fed([(1, 1.0), (3, 2.0)], width=1000, depth=2, exact=2)


def test_a_sketch_shows_what_it_is():
    expected = (
        "<CostSketch width=5, depth=2, seed=3, exact=1, kind='str', total=1.0, total_cost=2.5>"
    )
    sketch = CostSketch(5, 2, 3, exact=1)
    sketch.add("a", 2.5)
    assert expected == repr(sketch)
