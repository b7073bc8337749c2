"""What a Count-Min sketch refuses: weights, keys, sizes, and sketches of other parameters."""

import math
import sys

import numpy as np
import pytest
from sketch_refusals import refuses

from sketches.count_min import CountMin
from sketches.errors import (
    InvalidKeyError,
    InvalidValueError,
    MergeError,
)


@pytest.mark.parametrize(
    "weight", [math.nan, math.inf, -1.0, -1, "1", None, True, 10**400], ids=str
)
@pytest.mark.parametrize("backend", ["numpy", "datasketches"])
def test_a_weight_that_cannot_be_counted_is_refused(weight, backend):
    sketch = CountMin(3, 2, backend=backend)
    refuses(sketch, InvalidValueError, lambda sketch: sketch.add(1, weight))
    sketch.add(1)
    refuses(sketch, InvalidValueError, lambda sketch: sketch.add(1, weight))


@pytest.mark.parametrize("key", [True, None, 1.5, 2**63, [1], (1, 2, 3), b"a", "a", "\ud800"])
@pytest.mark.parametrize("backend", ["numpy", "datasketches"])
def test_a_key_that_cannot_be_counted_is_refused(key, backend):
    sketch = CountMin(3, 2, backend=backend)
    sketch.add(1)
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.add(key))


@pytest.mark.parametrize("backend", ["numpy", "datasketches"])
def test_text_without_a_utf8_form_is_refused(backend):
    sketch = CountMin(3, 2, backend=backend)
    sketch.add("a")
    refuses(sketch, InvalidKeyError, lambda sketch: sketch.add("\ud800"))


def test_cells_stay_finite_up_to_the_largest_total():
    sketch = CountMin(1, 1)
    largest = sys.float_info.max * (1 - 2**-20)
    sketch.update(np.arange(1000), np.full(1000, largest / 1001))
    assert np.isfinite(sketch.estimate([1])).all()
    refuses(sketch, InvalidValueError, lambda sketch: sketch.add(1, largest / 500))
    # Beyond it a cell, rounded in another order than the total, might overflow where that did not.
    refuses(CountMin(1, 1), InvalidValueError, lambda sketch: sketch.add(1, sys.float_info.max))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"width": 0}, "width=0"),
        ({"width": 2.5}, "width=2.5"),
        ({"depth": 0}, "depth=0"),
        ({"depth": 1000}, "depth=1000"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.0}, r"seed=0\.0"),
        ({"conservative": 1}, "conservative=1"),
        ({"backend": "numba"}, "backend='numba'"),
        ({"backend": None}, "backend=None"),
    ],
)
def test_impossible_sketches_are_refused_by_name(changed, named):
    with pytest.raises(InvalidValueError, match=named):
        CountMin(**{"width": 5, "depth": 2, **changed})


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.1, math.nan, math.inf, "0.1", None, True])
def test_impossible_errors_are_refused_by_name(value):
    with pytest.raises(InvalidValueError, match="epsilon"):
        CountMin.for_error(value, 0.1)
    with pytest.raises(InvalidValueError, match="delta"):
        CountMin.for_error(0.1, value)


@pytest.mark.parametrize(
    "changed",
    [{"width": 6}, {"depth": 3}, {"seed": 1}, {"conservative": True}, {"backend": "datasketches"}],
)
def test_sketches_of_other_parameters_do_not_merge(changed):
    sketch = CountMin(5, 2, 0)
    other = CountMin(**{"width": 5, "depth": 2, "seed": None, **changed})
    name, value = next(iter(changed.items()))
    with pytest.raises(MergeError, match=f"{name}={value!r}"):
        _ = sketch | other
    with pytest.raises(MergeError):
        sketch |= other
    assert CountMin(5, 2, 0) == sketch
    assert sketch != other
