"""Conservative counting: never below the truth, never above the plain sketch."""

import numpy as np
import pytest
from count_min_streams import INTEGERS, SHAPES, STREAMS, counted, fed, zipf
from hypothesis import given
from hypothesis import strategies as st

from sketches import wire
from sketches.count_min import CountMin


@given(st.lists(STREAMS, max_size=4), SHAPES)
def test_conservative_estimates_lie_between_the_truth_and_the_plain_ones(batches, shape):
    plain, careful = CountMin(**shape), CountMin(**shape, conservative=True)
    for batch in batches:
        for sketch in (plain, careful):
            sketch.update([key for key, _ in batch], [weight for _, weight in batch])
    truth = counted([pair for batch in batches for pair in batch])
    asked = [*truth, 12345, -99]
    estimates = careful.estimate(asked)
    assert (estimates >= [truth[key] for key in asked]).all()
    assert (estimates <= plain.estimate(asked)).all()
    assert plain.total == careful.total


@given(STREAMS, SHAPES, st.randoms(use_true_random=False))
def test_a_conservative_sketch_does_not_depend_on_the_order_within_a_batch(stream, shape, random):
    shuffled = list(stream)
    random.shuffle(shuffled)
    expected = fed(stream, conservative=True, **shape)
    assert expected == fed(shuffled, conservative=True, **shape)


@given(st.lists(INTEGERS, max_size=40), SHAPES)
def test_conservative_counts_equal_weights_of_one(keys, shape):
    counting, weighing = (CountMin(**shape, conservative=True) for _ in range(2))
    counting.update(keys)
    weighing.update(keys, np.ones(len(keys)))
    assert weighing == counting


@given(STREAMS, STREAMS, SHAPES)
def test_a_conservative_merge_is_an_upper_bound_below_the_plain_one(left, right, shape):
    merged = fed(left, conservative=True, **shape) | fed(right, conservative=True, **shape)
    plain = fed(left + right, **shape)
    truth = counted(left + right)
    estimates = merged.estimate(list(truth))
    assert (estimates >= list(truth.values())).all()
    assert (estimates <= plain.estimate(list(truth))).all()


@given(st.lists(STREAMS, min_size=1, max_size=4), SHAPES)
def test_conservative_cells_are_those_of_a_loop_over_keys(batches, shape):
    sketch, probe = CountMin(**shape, conservative=True), CountMin(**shape)
    cells = np.zeros((shape["depth"], shape["width"]))
    for batch in batches:
        sketch.update([key for key, _ in batch], [weight for _, weight in batch])
        before = cells.copy()
        for key, count in counted(batch).items():
            alone = probe.copy()
            alone.add(key, 1.0)
            mine = table_of(alone) > 0
            cells[mine] = np.maximum(cells[mine], before[mine].min() + count)
    assert cells.tolist() == table_of(sketch).tolist()


def table_of(sketch):
    _, arrays = wire.unpack(sketch.to_bytes(), "CountMin", 2)
    return arrays["table"].reshape(sketch.depth, sketch.width)


@pytest.mark.parametrize("width", [55, 272])
@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_conservative_errors_are_a_fifth_of_the_plain_ones_when_columns_are_few(width, exponent):
    keys = zipf(keys=40_000, exponent=exponent, length=200_000, seed=1)
    truth = np.bincount(keys)
    seen = np.flatnonzero(truth)
    plain, careful = CountMin(width, 4), CountMin(width, 4, conservative=True)
    for batch in keys.reshape(-1, 10_000):
        plain.update(batch)
        careful.update(batch)
    errors = careful.estimate(seen) - truth[seen]
    assert errors.min() >= 0
    assert errors.mean() <= (plain.estimate(seen) - truth[seen]).mean() / 5
