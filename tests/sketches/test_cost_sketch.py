"""CostSketch against loops over its keys and against true counts, in any order of steps."""

import math
import sys
from collections import Counter

import numpy as np
import pytest
from cost_streams import (
    BATCHES,
    COSTS,
    EXACT,
    KEYS,
    SHAPES,
    STREAMS,
    TABLES,
    NaiveCostSketch,
    counts_and_costs,
    fed,
    feed,
    parts_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sketch_refusals import refuses

from sketches.cost_sketch import CostSketch
from sketches.errors import (
    EmptySketchError,
    InvalidValueError,
    PenstockError,
)
from sketches.row_hashes import RowHashes

# --- what an estimate is -------------------------------------------------------------------------


@given(BATCHES, SHAPES, st.sampled_from([0, 1, 2, 5, 100]))
@settings(max_examples=75)
def test_a_sketch_is_what_loops_over_its_keys_make_of_it(batches, shape, exact):
    sketch, naive = CostSketch(**shape, exact=exact), NaiveCostSketch(**shape, exact=exact)
    for batch in batches:
        feed(sketch, batch)
        naive.update(batch)
    assert naive.tables() == {name: array.tolist() for name, array in parts_of(sketch).items()}
    assert naive.total == sketch.total
    assert naive.total_cost == sketch.total_cost
    assert naive.averages() == sketch.averages().tolist()
    if sketch.total:
        asked = [*{key for batch in batches for key, _ in batch}, 5, 77, -1000]
        assert [naive.estimate(key) for key in asked] == sketch.estimate(asked).tolist()
        assert [naive.frequency(key) for key in asked] == sketch.frequency(asked).tolist()


@given(BATCHES, st.sampled_from([0, 200]))
@settings(max_examples=30)
def test_a_wide_sketch_knows_each_mean_cost(batches, exact):
    sketch = fed(*batches, width=50_000, depth=5, exact=exact)
    counts, costs = counts_and_costs(pair for batch in batches for pair in batch)
    if counts:
        expected = [costs[key] / counts[key] for key in counts]
        assert expected == sketch.estimate(list(counts)).tolist()
        assert list(counts.values()) == sketch.frequency(list(counts)).tolist()


def test_the_row_with_the_least_count_decides_and_not_the_least_ratio():
    # Key 0 costs 100 and has one cell of its own; in another row it is among very many cheap keys,
    # where the ratio is far lower. Searched for: a seed with that situation.
    for seed in range(100):
        columns = next(RowHashes(width=4, depth=2, seed=seed).columns(codes_up_to(4)))[1]
        alone = (columns[:, 1:] != columns[:, :1]).all(axis=1)
        if alone.tolist() == [False, True]:
            break
    sketch = fed([(0, 100.0)] + [(key, 1.0) for key in (1, 2, 3)] * 50, width=4, depth=2, seed=seed)
    assert sketch.estimate([0]).tolist() == [100.0]


def codes_up_to(number):
    return np.arange(number, dtype=np.uint64)


@EXACT
def test_an_unseen_key_costs_the_mean_and_never_nothing(exact):
    sketch = fed([(1, 10.0), (2, 30.0), (1, 5.0)], width=100_000, depth=4, exact=exact)
    expected = [15.0, 15.0]
    assert expected == sketch.estimate([3, 4]).tolist()
    assert sketch.mean == 15.0
    assert sketch.frequency([3, 4]).tolist() == [0.0, 0.0]


@EXACT
def test_keys_that_cost_nothing_are_estimated_at_nothing(exact):
    sketch = fed([(1, 0.0), (2, 8.0)], width=100_000, depth=4, exact=exact)
    assert sketch.estimate([1]).tolist() == [0.0]


@given(st.lists(STREAMS, min_size=1, max_size=4), SHAPES, st.integers(0, 4))
def test_estimates_lie_between_the_least_and_the_largest_cost(batches, shape, exact):
    costs = [cost for batch in batches for _, cost in batch]
    if costs:
        estimates = fed(*batches, exact=exact, **shape).estimate(list(range(-3, 20)))
        assert min(costs) <= estimates.min()
        assert estimates.max() <= max(costs)


def test_a_heavy_exact_key_is_exact_even_where_all_keys_share_one_cell():
    sketch = CostSketch(1, 1, exact=1)
    rng = np.random.default_rng(1)
    for _ in range(20):
        light = rng.integers(1, 1000, 50)
        sketch.update(np.concatenate([light, np.zeros(50, dtype=int)]), [1.0] * 50 + [64.0] * 50)
    assert sketch.estimate([0]).tolist() == [64.0]
    assert sketch.estimate([1, 5]).tolist() == [1.0, 1.0]
    assert sketch.frequency([0]).tolist() == [1000.0]


def test_exact_heavy_keys_make_all_estimates_better():
    # The measured gain at these parameters is from 10.6 to 6.0 ms of mean error by tuple; a
    # quarter less is asked of the mean of five seeds, which are fixed.
    shares = 1 / np.arange(1, 4097)
    without, beside = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cost_of = rng.integers(1, 65, 4096).astype(float)
        keys = rng.choice(4096, size=8192, p=shares / shares.sum())
        asked = rng.choice(4096, size=8192, p=shares / shares.sum())
        for exact, errors in ((0, without), (144, beside)):
            sketch = CostSketch(54, 4, seed, exact=exact)
            for batch in keys.reshape(-1, 1024):
                sketch.update(batch, cost_of[batch])
            errors.append(np.abs(sketch.estimate(asked) - cost_of[asked]).mean())
    assert np.mean(beside) <= 0.75 * np.mean(without)


@pytest.mark.parametrize(
    "ask", [lambda s: s.estimate([1]), lambda s: s.estimate([]), lambda s: s.mean]
)
def test_a_sketch_that_saw_nothing_refuses_to_guess(ask):
    sketch = CostSketch(5, 2)
    sketch.update([], [])
    with pytest.raises(EmptySketchError, match=r"\.total"):
        ask(sketch)
    assert sketch.frequency([1]).tolist() == [0.0]


# --- laws ----------------------------------------------------------------------------------------


@given(BATCHES, SHAPES, st.integers(0, 5))
def test_nothing_is_lost_between_the_exact_keys_and_the_matrices(batches, shape, exact):
    sketch = fed(*batches, exact=exact, **shape)
    parts = parts_of(sketch)
    for row in range(sketch.depth):
        assert sketch.total == parts["counts"][row].sum() + parts["heavy_counts"].sum()
        assert sketch.total_cost == parts["costs"][row].sum() + parts["heavy_costs"].sum()
    assert sketch.total == sum(map(len, batches))
    assert len(parts["heavy_codes"]) <= exact


@given(BATCHES, SHAPES, st.integers(1, 5))
def test_averages_do_not_depend_on_exact_keys(batches, shape, exact):
    expected = fed(*batches, **shape).averages()
    assert expected.tolist() == fed(*batches, exact=exact, **shape).averages().tolist()


@given(BATCHES, SHAPES, st.integers(0, 5))
def test_no_frequency_is_too_low(batches, shape, exact):
    sketch = fed(*batches, exact=exact, **shape)
    counts, _ = counts_and_costs(pair for batch in batches for pair in batch)
    assert (sketch.frequency(list(counts)) >= list(counts.values())).all()


@given(STREAMS, SHAPES, st.randoms(use_true_random=False))
def test_without_exact_keys_neither_order_nor_batches_matter(stream, shape, random):
    shuffled = list(stream)
    random.shuffle(shuffled)
    cut = random.randint(0, len(stream))
    assert fed(stream, **shape) == fed(shuffled[:cut], shuffled[cut:], **shape)


@given(STREAMS, SHAPES, st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_within_a_batch_does_not_matter(stream, shape, exact, random):
    shuffled = list(stream)
    random.shuffle(shuffled)
    assert fed(stream, exact=exact, **shape) == fed(shuffled, exact=exact, **shape)


@given(STREAMS, STREAMS, SHAPES)
def test_without_exact_keys_a_merge_is_the_sketch_of_both_streams(left, right, shape):
    assert fed(left + right, **shape) == fed(left, **shape) | fed(right, **shape)


@given(BATCHES, BATCHES, SHAPES, st.integers(0, 4))
def test_a_merge_keeps_all_counts_and_bounds_all_frequencies(left, right, shape, exact):
    merged = fed(*left, exact=exact, **shape) | fed(*right, exact=exact, **shape)
    plain = fed(*left, *right, **shape)
    assert plain.total == merged.total
    assert plain.total_cost == merged.total_cost
    assert plain.averages().tolist() == merged.averages().tolist()
    assert len(parts_of(merged)["heavy_codes"]) <= exact
    counts, _ = counts_and_costs(pair for batch in [*left, *right] for pair in batch)
    frequencies = merged.frequency(list(counts))
    assert (frequencies >= list(counts.values())).all()
    assert (frequencies <= merged.total).all()


@given(BATCHES, BATCHES, SHAPES, st.integers(0, 4))
def test_merging_is_commutative_and_the_empty_sketch_is_neutral(left, right, shape, exact):
    a, b = (fed(*batches, exact=exact, **shape) for batches in (left, right))
    assert a | b == b | a
    assert a == a | CostSketch(**shape, exact=exact)
    assert a == CostSketch(**shape, exact=exact) | a


def test_a_merge_keeps_the_heaviest_keys_of_both():
    left = fed([(1, 2.0)] * 5 + [(2, 3.0)] * 3, width=1, depth=1, exact=2)
    right = fed([(2, 5.0)] * 3 + [(3, 7.0)] * 4, width=1, depth=1, exact=2)
    merged = left | right
    expected = [[1, 2], [5.0, 6.0], [10.0, 24.0]]
    parts = parts_of(merged)
    assert expected == [
        parts[name].tolist() for name in ("heavy_codes", "heavy_counts", "heavy_costs")
    ]
    assert parts["counts"].tolist() == [[4.0]]
    assert merged.estimate([1, 2, 3]).tolist() == [2.0, 4.0, 7.0]


def test_a_merge_does_not_count_twice_what_both_know_exactly():
    left = fed([(1, 1.0)] * 5 + [(2, 1.0)], width=1, depth=1, exact=1)
    right = fed([(1, 1.0)] * 3 + [(3, 1.0)], width=1, depth=1, exact=1)
    assert (left | right).frequency([1, 2]).tolist() == [8.0, 2.0]


def test_a_newcomer_must_be_strictly_heavier_to_take_a_place():
    sketch = fed([(1, 1.0)] * 2, [(2, 9.0)] * 2, width=100_000, depth=3, exact=1)
    assert parts_of(sketch)["heavy_codes"].tolist() == [1]
    sketch.add(2, 9.0)
    parts = parts_of(sketch)
    assert parts["heavy_codes"].tolist() == [2]
    assert parts["heavy_counts"].tolist() == [1.0]
    assert parts["heavy_before"].tolist() == [2.0]
    assert sketch.estimate([1, 2]).tolist() == [1.0, 9.0]


# --- several tuples at once ----------------------------------------------------------------------

SUMS = st.lists(st.tuples(KEYS, COSTS, st.integers(1, 5)), max_size=20)


@given(st.lists(SUMS, max_size=4), SHAPES, st.integers(0, 5))
def test_the_sum_of_several_tuples_is_the_same_as_each_of_them(batches, shape, exact):
    sketch = CostSketch(**shape, exact=exact)
    for batch in batches:
        sums = [cost * count for _, cost, count in batch]
        sketch.update([key for key, _, _ in batch], sums, [count for _, _, count in batch])
    one_by_one = [[(key, cost) for key, cost, n in batch for _ in range(n)] for batch in batches]
    assert fed(*one_by_one, exact=exact, **shape) == sketch


@EXACT
@pytest.mark.parametrize(
    ("counts", "match"),
    [
        ([1, 0], r"counts\[1\]=0"),
        ([1, -1], r"counts\[1\]"),
        ([1, math.inf], r"counts\[1\]"),
        ([1], "counts of shape"),
        ("12", "counts of type"),
        ([sys.float_info.max, sys.float_info.max], "total"),
    ],
)
def test_sums_of_no_tuples_and_the_like_are_refused(exact, counts, match):
    sketch = fed([(1, 2.0)], width=3, depth=2, exact=exact)
    refuses(sketch, InvalidValueError, lambda s: s.update([1, 2], [1.0, 2.0], counts), match)


@given(BATCHES, st.integers(0, 100), COSTS, st.integers(0, 4))
def test_tuples_of_unknown_keys_count_in_the_mean_and_in_no_key(batches, count, cost, exact):
    # Cells of a power of two share exactly, so that nothing is lost even to rounding.
    sketch = fed(*batches, width=16, depth=3, exact=exact)
    known = sketch.copy()
    sketch.spread(count, cost if count else 0.0)
    assert known.total + count == sketch.total
    assert known.total_cost + (cost if count else 0.0) == sketch.total_cost
    before, after = parts_of(known), parts_of(sketch)
    assert (before["counts"] + count / 16).tolist() == after["counts"].tolist()
    assert (before["costs"] + (cost if count else 0.0) / 16).tolist() == after["costs"].tolist()
    for name in TABLES[2:]:
        assert before[name].tolist() == after[name].tolist()


def test_a_key_among_others_that_nobody_kept_is_taken_for_one_of_them():
    sketch = CostSketch(1 << 10, 4, exact=1)
    sketch.update([1], [900.0], [100])
    sketch.spread(900, 1800.0)
    assert [9.0, 2.0] == sketch.estimate([1, 7]).tolist()
    assert 2.7 == sketch.mean


@pytest.mark.parametrize(
    ("given_", "match"), [((-1, 0), "count"), ((1, -1), "cost"), ((0, 1.0), "of no tuples")]
)
def test_impossible_sums_of_unknown_keys_are_refused(given_, match):
    sketch = fed([(1, 2.0)], width=3, depth=2)
    refuses(sketch, InvalidValueError, lambda sketch: sketch.spread(*given_), match)


# --- the past ------------------------------------------------------------------------------------


@given(st.lists(STREAMS.filter(len), min_size=1, max_size=3), SHAPES, st.integers(0, 4))
def test_decay_keeps_mean_costs_and_scales_the_rest(batches, shape, exact):
    sketch = fed(*batches, exact=exact, **shape)
    old = sketch.copy()
    sketch.decay(0.25)
    asked = list(range(-3, 15))
    assert old.estimate(asked).tolist() == sketch.estimate(asked).tolist()
    assert old.averages().tolist() == sketch.averages().tolist()
    assert (old.frequency(asked) / 4).tolist() == sketch.frequency(asked).tolist()
    assert old.mean == sketch.mean
    assert old.total / 4 == sketch.total
    assert old.total_cost / 4 == sketch.total_cost
    sketch.decay(1.0)
    assert old.total / 4 == sketch.total


@EXACT
def test_decay_lets_new_costs_win(exact):
    sketch = fed([(1, 8.0)] * 8, width=10, depth=2, exact=exact)
    sketch.decay(0.125)
    sketch.add(1, 2.0)
    assert sketch.estimate([1]).tolist() == [5.0]


@EXACT
@pytest.mark.parametrize("steps", [[100] * 10 + [60], [100] * 11], ids=["denormal", "zero"])
def test_what_has_decayed_beyond_the_digits_of_a_double_is_forgotten(exact, steps):
    sketch = fed([(1, 1e300), (2, 3.0)], width=100, depth=2, exact=exact)
    for step in steps:
        sketch.decay(2.0**-step)
    with pytest.raises(EmptySketchError):
        sketch.estimate([1])
    assert not sketch.averages().any()
    sketch.add(3, 7.0)
    assert sketch.estimate([2, 3]).tolist() == [7.0, 7.0]


@EXACT
def test_reset_forgets_everything(exact):
    sketch = fed([(1, 2.0), (1, 3.0), (2, 4.0)], width=5, depth=2, seed=3, exact=exact)
    sketch.reset()
    assert CostSketch(5, 2, 3, exact=exact) == sketch
    sketch.update(["text"], [1.0])
    assert sketch.kind == "str"


def test_relative_change_is_the_sum_of_changes_over_the_sum_before():
    # One row of one cell each: averages are 4 before and 5 after.
    sketch = fed([(1, 4.0)], width=1, depth=2)
    before = sketch.averages()
    assert before.tolist() == [[4.0], [4.0]]
    sketch.add(1, 6.0)
    assert sketch.relative_change(before) == 0.25
    assert fed([(1, 4.0)], width=1, depth=2).relative_change(sketch.averages()) == 0.2


@given(BATCHES, BATCHES, SHAPES, st.integers(0, 4))
def test_relative_change_follows_its_definition(first, second, shape, exact):
    sketch = fed(*first, exact=exact, **shape)
    before = sketch.averages()
    assert sketch.relative_change(before) == 0.0
    for batch in second:
        feed(sketch, batch)
    change, norm = np.abs(before - sketch.averages()).sum(), before.sum()
    expected = change / norm if norm else math.inf if change else 0.0
    # Both are sums of at most 80 terms, rounded once each.
    assert sketch.relative_change(before) == pytest.approx(expected, rel=1e-13)


def test_relative_change_neither_overflows_nor_divides_by_zero():
    empty, sketch = CostSketch(1, 8), fed([(1, 1e308)], width=1, depth=8)
    assert empty.relative_change(empty.averages()) == 0.0
    assert sketch.relative_change(empty.averages()) == math.inf
    assert empty.relative_change(sketch.averages()) == 1.0
    assert sketch.relative_change(sketch.averages()) == 0.0


@pytest.mark.parametrize(
    "previous",
    [
        np.zeros((2, 5)),
        np.zeros((5, 2, 1)),
        np.zeros(10),
        0.0,
        None,
        np.full((5, 2), math.nan),
        np.full((5, 2), math.inf),
        np.full((5, 2), -1.0),
        np.full((5, 2), "1"),
    ],
)
def test_averages_of_another_shape_or_that_are_none_are_refused(previous):
    with pytest.raises(InvalidValueError, match="previous"):
        fed([(1, 2.0)], width=2, depth=5).relative_change(previous)


# --- containers and bytes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "kind"),
    [(["a", "b"], "str"), ([b"a", b"b"], "bytes"), ([(1, "a"), (2, "a")], "(int, str)")],
)
@EXACT
def test_keys_of_every_kind_are_estimated(keys, kind, exact):
    sketch = CostSketch(10_000, 4, exact=exact)
    sketch.update(keys, [1.0, 2.0])
    assert sketch.estimate(keys[::-1]).tolist() == [2.0, 1.0]
    assert kind == sketch.kind
    assert kind == CostSketch.from_bytes(sketch.to_bytes()).kind


# --- all of it, in any order ---------------------------------------------------------------------


class CostSketchAgainstCounters(RuleBasedStateMachine):
    """A sketch beside the true counts and costs of each key."""

    @initialize(shape=SHAPES, exact=st.integers(0, 4))
    def begin(self, shape, exact):
        self.arguments = {**shape, "exact": exact}
        self.plain = CostSketch(**shape)
        self.sketch = CostSketch(**self.arguments)
        self.counts, self.costs = Counter(), Counter()
        self.factor = 1.0

    def count(self, stream):
        feed(self.plain, stream)
        for key, cost in stream:
            self.counts[key] += 1
            self.costs[key] += cost

    @rule(stream=STREAMS)
    def update(self, stream):
        feed(self.sketch, stream)
        self.count(stream)

    @rule(key=KEYS, cost=COSTS)
    def add(self, key, cost):
        self.sketch.add(key, cost)
        self.count([(key, cost)])

    @rule(stream=STREAMS)
    def merge(self, stream):
        self.sketch |= fed(stream, **self.arguments)
        self.count(stream)

    @rule()
    def halve(self):
        for sketch in (self.sketch, self.plain):
            sketch.decay(0.5)
        for counter in (self.counts, self.costs):
            for key in counter:
                counter[key] /= 2

    @rule()
    def travel(self):
        self.sketch = CostSketch.from_bytes(self.sketch.to_bytes())

    @rule(bad=st.sampled_from([([1, 2], [1.0, -1.0]), ([1, 2], [1.0]), ([1, None], [1.0, 2.0])]))
    def refuse(self, bad):
        before = self.sketch.to_bytes()
        with pytest.raises(PenstockError):
            self.sketch.update(*bad)
        assert before == self.sketch.to_bytes()

    @invariant()
    def nothing_is_lost(self):
        assert sum(self.counts.values()) == self.sketch.total
        assert sum(self.costs.values()) == self.sketch.total_cost
        assert self.plain.averages().tolist() == self.sketch.averages().tolist()

    @invariant()
    def frequencies_are_upper_bounds(self):
        frequencies = self.sketch.frequency(list(self.counts))
        assert (frequencies >= list(self.counts.values())).all()
        assert (frequencies <= self.sketch.total).all()


TestCostSketchAgainstCounters = CostSketchAgainstCounters.TestCase
TestCostSketchAgainstCounters.settings = settings(max_examples=60, stateful_step_count=15)
