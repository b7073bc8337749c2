"""SpaceSaving against exact counts, and its own laws."""

from collections import Counter
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Each kind names twelve keys, by number.
from space_saving_streams import (
    BLOCKS,
    CAPACITIES,
    KINDS,
    NUMBERS,
    STREAMS,
    check_against,
    every_kind,
    exact,
    feed,
    same_now_and_later,
)

from sketches import space_saving_block as partial_block
from sketches.errors import InvalidKeyError, InvalidValueError, MergeError
from sketches.keys import Pairs, as_keys
from sketches.space_saving import HeavyHitter, SpaceSaving
from sketches.space_saving_block import PartialBlock


class TestLaws:
    @every_kind
    @given(data=st.data(), capacity=CAPACITIES, block=BLOCKS)
    @settings(max_examples=50)
    def test_every_key_is_in_its_bracket_after_any_updates_and_merges(
        self, name, data, capacity, block
    ):
        steps = data.draw(
            st.lists(st.tuples(st.sampled_from(["update", "merge"]), st.booleans(), STREAMS))
        )
        sketch, truth = SpaceSaving(capacity, block=block), Counter()
        for verb, weighted, stream in steps:
            if verb == "update":
                feed(sketch, name, stream, weighted=weighted)
            else:
                other = SpaceSaving(capacity, block=block + 1)
                feed(other, name, stream, weighted=weighted)
                sketch |= other
            truth.update(exact(stream, weighted=weighted))
            check_against(sketch, truth, name)

    @every_kind
    @given(capacity=CAPACITIES, block=BLOCKS, stream=STREAMS)
    @settings(max_examples=50)
    def test_few_keys_are_counted_exactly(self, name, capacity, block, stream):
        stream = [(n % capacity, weight) for n, weight in stream]
        sketch = SpaceSaving(capacity, block=block)
        feed(sketch, name, stream)
        expected = {name(n): (weight, 0.0) for n, weight in (+exact(stream)).items()}
        assert expected == {key: (count, error) for key, count, error in sketch.top()}
        assert sketch.floor == 0

    @every_kind
    @given(data=st.data(), capacity=CAPACITIES, block=BLOCKS, weighted=st.booleans())
    @settings(max_examples=50)
    def test_the_answer_does_not_depend_on_how_the_stream_was_cut(
        self, name, data, capacity, block, weighted
    ):
        stream = data.draw(STREAMS)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
        whole, pieces = (SpaceSaving(capacity, block=block) for _ in range(2))
        feed(whole, name, stream, weighted=weighted)
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            feed(pieces, name, stream[start:stop], weighted=weighted)
            pieces.top()  # questions change nothing
        assert same_now_and_later(whole, pieces)

    @given(
        stream=st.lists(st.tuples(NUMBERS, st.floats(1e-3, 1e3)), max_size=40),
        cut=st.integers(0, 40),
        block=st.integers(1, 50),
    )
    def test_sums_are_rounded_the_same_however_the_stream_was_cut(self, stream, cut, block):
        whole, pieces = SpaceSaving(3, block=block), SpaceSaving(3, block=block)
        feed(whole, str, stream)
        feed(pieces, str, stream[:cut])
        for row in stream[cut:]:
            feed(pieces, str, [row])
        assert same_now_and_later(whole, pieces)

    @given(data=st.data(), capacity=CAPACITIES, stream=STREAMS, more=STREAMS)
    def test_the_order_within_a_block_changes_nothing(self, data, capacity, stream, more):
        permuted = data.draw(st.permutations(stream))
        sketches = [SpaceSaving(capacity, block=sum(w > 0 for _, w in stream) or 1) for _ in "ab"]
        for sketch, first in zip(sketches, (stream, permuted), strict=True):
            feed(sketch, int, first)
            feed(sketch, int, more)
        assert sketches[0] == sketches[1]

    @every_kind
    @given(
        capacity=CAPACITIES, streams=st.tuples(STREAMS, STREAMS), blocks=st.tuples(BLOCKS, BLOCKS)
    )
    @settings(max_examples=50)
    def test_merging_is_commutative_and_leaves_both_as_they_were(
        self, name, capacity, streams, blocks
    ):
        first, second = (SpaceSaving(capacity, block=block) for block in blocks)
        feed(first, name, streams[0])
        feed(second, name, streams[1])
        before = first.copy(), second.copy()
        merged = first | second
        assert merged == second | first
        assert merged.block == max(blocks)
        merged.update([name(0)] * 20)
        assert same_now_and_later(before[0], first)
        assert same_now_and_later(before[1], second)

    @given(capacity=CAPACITIES, block=BLOCKS, stream=STREAMS)
    def test_an_empty_sketch_is_neutral_in_merges(self, capacity, block, stream):
        sketch, empty = SpaceSaving(capacity, block=block), SpaceSaving(capacity, block=block)
        feed(sketch, str, stream)
        assert sketch | empty == sketch
        assert empty | sketch == sketch

    @given(stream=st.lists(st.tuples(NUMBERS, st.floats(1e-3, 1e3)), min_size=1, max_size=60))
    def test_weights_that_do_not_add_exactly_stay_in_the_bracket_up_to_rounding(self, stream):
        sketch = SpaceSaving(3, block=4)
        feed(sketch, int, stream)
        truth = exact(stream)
        # A sum of n terms is off by less than n * 2^-53 of itself; there are two sums here.
        slack = 2 * len(stream) * 2.0**-53 * sum(truth.values())
        lower, upper = sketch.bracket(range(12))
        for number in range(12):
            assert lower[number] - slack <= truth[number] <= upper[number] + slack

    @given(capacity=CAPACITIES, block=BLOCKS, streams=st.lists(STREAMS, max_size=4))
    def test_packing_pairs_changes_no_answer(self, capacity, block, streams):
        def summarised():
            sketches = [SpaceSaving(capacity, block=block) for _ in streams]
            for sketch, stream in zip(sketches, streams, strict=True):
                feed(sketch, KINDS["pairs of small integers"], stream)
            return reduce(SpaceSaving.__or__, sketches, SpaceSaving(capacity, block=block))

        as_usual = summarised().to_bytes()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partial_block, "packed", lambda keys: keys)
            never_packed = summarised().to_bytes()
        assert as_usual == never_packed


class TestBlocks:
    def test_a_block_is_exact_until_its_last_key(self):
        sketch = SpaceSaving(1, block=4)
        sketch.update(["a", "b", "b", "a"])
        # Both weigh 2 at the end of the first block; one is dropped.
        assert (sketch.floor, len(sketch)) == (2, 1)
        kept = sketch.top()[0].key
        other = "b" if kept == "a" else "a"
        sketch.update([other, other, other])
        assert sketch.top() == [HeavyHitter(other, 5.0, 2.0)]
        sketch.update([kept, kept])
        assert sketch.bracket([kept])[1].tolist() == [4.0]

    def test_a_newcomer_inherits_the_floor(self):
        sketch = SpaceSaving(2, block=3)
        sketch.update([8, 9, 9, 7, 7, 7])
        assert sketch.floor == 1
        sketch.update([4, 4, 5])
        assert sketch.top() == [HeavyHitter(7, 3.0, 0.0), HeavyHitter(4, 3.0, 1.0)]
        assert sketch.floor == 2

    def test_a_newcomer_that_is_lighter_than_all_tracked_keys_raises_the_floor(self):
        sketch = SpaceSaving(2, block=8)
        sketch.update([1, 1, 1, 1, 2, 2, 2, 2])
        sketch.update([3, 3, 3, 4, 4, 5, 5, 6])
        assert sketch.top() == [HeavyHitter(n, 4.0, 0.0) for n in (1, 2)]
        assert sketch.floor == 3

    def test_the_floor_is_the_largest_count_dropped(self):
        sketch = SpaceSaving(2, block=10)
        sketch.update([1] * 1 + [2] * 2 + [3] * 3 + [4] * 4)
        assert sketch.floor == 2
        assert [4.0, 3.0, 2.0, 2.0] == sketch.estimate([4, 3, 2, 1]).tolist()

    @pytest.mark.parametrize("newcomer", range(10, 20))
    def test_of_equal_counts_the_surest_stays(self, newcomer):
        sketch = SpaceSaving(2, block=4)
        sketch.update([1, 1, 1, 2])
        sketch.update([3, 3, 3, 3])
        assert sketch.floor == 1
        sketch.update([newcomer, newcomer, 5, 6])  # which makes 2 + 1, and 1 has 3 as well
        assert sketch.floor == 3
        assert sketch.top() == [HeavyHitter(3, 4.0, 0.0), HeavyHitter(1, 3.0, 0.0)]

    def test_equal_counts_are_not_chosen_by_the_size_of_the_key(self):
        sketch = SpaceSaving(500)
        sketch.update(range(1000))
        kept = sketch.arrays()[0]
        # 500 of 1000 at random have a sum with a standard deviation of 4565; this is five of them.
        assert abs(kept.sum() - 249_750) < 5 * 4565

    def test_a_partial_block_has_few_parts_however_small_the_updates_are(self):
        partial = PartialBlock()
        for number in range(1000):
            partial = partial.extended(as_keys([number]), None)
        assert len(partial) == 1000
        assert len(partial.parts) <= 10
        assert list(range(1000)) == partial.rows().keys.values.tolist()


class TestUpdates:
    def test_keys_of_weight_zero_are_passed_over(self):
        sketch = SpaceSaving(2, block=2)
        sketch.update(["x", "y"], [0, 0])
        assert (sketch.kind, len(sketch), sketch.total) == (None, 0, 0)
        sketch.update([3, 1, 2], [0, 1.5, 0])
        assert sketch.top() == [HeavyHitter(1, 1.5, 0.0)]
        sketch.update([7, 7], [0, 0.5])
        # The two that weigh something fill the block, and no more.
        sketch.update([8])
        assert sketch.floor == 0.5

    def test_an_empty_batch_has_no_kind_and_changes_nothing(self):
        sketch = SpaceSaving(2)
        sketch.update([])
        assert (sketch.kind, sketch == SpaceSaving(2)) == (None, True)
        sketch.update(["a"])
        sketch.update([])
        sketch.update([], [])
        assert sketch.top() == [HeavyHitter("a", 1.0, 0.0)]
        assert sketch.estimate([]).tolist() == []

    def test_one_key_can_be_added(self):
        sketch = SpaceSaving(3)
        sketch.add(("a", 1))
        sketch.add(("a", 1), 2.5)
        sketch.add(("b", 1), weight=0)
        assert sketch.top() == [HeavyHitter(("a", 1), 3.5, 0.0)]
        assert sketch.kind == "(str, int)"

    def test_weights_of_one_are_as_good_as_none(self):
        first, second = SpaceSaving(2, block=3), SpaceSaving(2, block=3)
        first.update([1, 2, 3, 3, 4])
        second.update([1, 2, 3, 3, 4], np.ones(5))
        assert same_now_and_later(first, second)

    def test_every_container_counts_the_same(self):
        rows = [("a", 1), ("b", 2), ("a", 1)]
        left, right = ["a", "b", "a"], [1, 2, 1]
        containers = [
            rows,
            Pairs(left, right),
            (left, right),
            (pa.array(left), np.array(right)),
            Pairs(np.array(left), pa.chunked_array([right])),
            Pairs(pa.array(left).dictionary_encode(), right),
        ]
        for container in containers:
            sketch = SpaceSaving(5)
            sketch.update(container)
            assert sketch.top() == [
                HeavyHitter(("a", 1), 2.0, 0.0),
                HeavyHitter(("b", 2), 1.0, 0.0),
            ]

    @pytest.mark.parametrize("block", [2, 100], ids=["closed blocks", "unfinished block"])
    @pytest.mark.parametrize(
        "keys",
        [
            np.array([5, 5, 6]),
            np.array([b"five", b"five", b"six"]),
            np.array([[5, 5], [5, 5], [6, 6]]),
            np.array([[-5, 5], [-5, 5], [6, 6]]),
        ],
        ids=["integers", "bytes", "small pairs", "pairs"],
    )
    def test_the_caller_may_write_into_its_arrays_afterwards(self, keys, block):
        keys, weights = keys.copy(), np.array([2.0, 2.0, 3.0])
        sketch = SpaceSaving(5, block=block)
        sketch.update(keys, weights)
        expected = sketch.copy().to_bytes()
        again = SpaceSaving(5, block=block)
        again.update(keys, weights)
        keys[:] = keys[2]
        weights[:] = 100
        assert expected == again.to_bytes()

    @pytest.mark.parametrize("heaviest_first", [True, False])
    def test_nobody_can_write_into_a_sketch_through_its_answers(self, heaviest_first):
        sketch = SpaceSaving(5)
        sketch.update([(1, 2), (3, 4)], [5, 6])
        before = sketch.to_bytes()
        keys, estimates, errors = sketch.arrays(heaviest_first=heaviest_first)
        for array in (keys.left, keys.right, estimates, errors, *sketch.bracket([(1, 2)])):
            array[:] = 0
        assert before == sketch.to_bytes()

        integers = SpaceSaving(5)
        integers.update([1, 2, 3])
        before = integers.to_bytes()
        integers.arrays(heaviest_first=heaviest_first)[0][:] = 0
        assert before == integers.to_bytes()

    @pytest.mark.parametrize("keys", [[3, 1, 3, 2], ["b", "a", "b"], [(1, "x"), (2, "y")]])
    def test_arrays_in_any_order_hold_the_same(self, keys):
        def rows(**how):
            columns = sketch.arrays(**how)
            found = columns[0]
            left = list(zip(found.left, found.right, strict=True)) if paired else found.tolist()
            return list(zip(left, columns[1].tolist(), columns[2].tolist(), strict=True))

        paired = isinstance(keys[0], tuple)
        sketch = SpaceSaving(2)
        sketch.update(keys)

        assert sorted(rows()) == sorted(rows(heaviest_first=False))


BAD_UPDATES = {
    "a float as key": (lambda s: s.update([1.5]), InvalidKeyError, "float"),
    "another kind in the batch": (lambda s: s.update([1, "x"]), InvalidKeyError, "'x'"),
    "another kind than before": (lambda s: s.update(["x"]), InvalidKeyError, "str .* int keys"),
    "pairs after integers": (lambda s: s.update([(1, 2)]), InvalidKeyError, r"\(int, int\) .* int"),
    "another kind of weight 0": (lambda s: s.update(["x"], [0]), InvalidKeyError, "str .* int"),
    "one key": (lambda s: s.update(7), InvalidKeyError, r"write \[7\]"),
    "too wide": (lambda s: s.update([1, 2**63]), InvalidKeyError, "64 bits"),
    "a list as key": (lambda s: s.add([1]), InvalidKeyError, "list"),
    "weights that are too few": (lambda s: s.update([1, 2], [1]), InvalidValueError, "2 keys"),
    "a negative weight": (lambda s: s.update([1, 2], [1, -1]), InvalidValueError, r"weights\[1\]"),
    "a weight that is no number": (lambda s: s.update([1], [np.nan]), InvalidValueError, "nan"),
    "an infinite weight": (lambda s: s.update([1], [np.inf]), InvalidValueError, "inf"),
    "a weight of text": (lambda s: s.update([1], ["1"]), InvalidValueError, "not numbers"),
    "too much weight": (lambda s: s.update([1], [2e301]), InvalidValueError, "scale them down"),
    "overflow": (lambda s: s.update([1, 2], [1e308] * 2), InvalidValueError, "scale them down"),
    "a question of another kind": (lambda s: s.estimate(["x"]), InvalidKeyError, "str .* int"),
    "a bracket of another kind": (lambda s: s.bracket([("x", 1)]), InvalidKeyError, "str, int"),
    "a negative top": (lambda s: s.top(-1), InvalidValueError, "k=-1"),
    "half a top": (lambda s: s.top(1.5), InvalidValueError, "k=1.5"),
}


class TestRefusals:
    @pytest.mark.parametrize(("act", "error", "words"), BAD_UPDATES.values(), ids=BAD_UPDATES)
    def test_what_cannot_be_counted_is_refused_and_changes_nothing(self, act, error, words):
        sketch = SpaceSaving(2, block=4)
        sketch.update([1, 2, 3, 1, 2, 3])
        before = sketch.copy()
        with pytest.raises(error, match=words):
            act(sketch)
        assert same_now_and_later(before, sketch)

    def test_the_first_batch_sets_no_kind_if_it_is_refused(self):
        sketch = SpaceSaving(2)
        with pytest.raises(InvalidValueError):
            sketch.update(["a"], [-1])
        sketch.update([1])
        assert sketch.kind == "int"

    @pytest.mark.parametrize("block", [1, 2, 100])
    def test_weights_that_come_little_by_little_cannot_overflow_either(self, block):
        sketch = SpaceSaving(2, block=block)
        sketch.update([1], [0.5e301])
        sketch.update([1], [0.5e301])
        with pytest.raises(InvalidValueError, match="scale them down"):
            sketch.update([1], [0.5e301])
        with pytest.raises(InvalidValueError, match="scale them down"):
            sketch | sketch
        assert sketch.total == 1e301

    @pytest.mark.parametrize("capacity", [0, -1, 1.0, "10", None, True])
    def test_a_capacity_is_a_whole_number_of_at_least_one(self, capacity):
        with pytest.raises(InvalidValueError, match="capacity="):
            SpaceSaving(capacity)

    def test_a_block_is_twice_the_capacity_but_never_small_unless_said(self):
        assert (1 << 18, 1 << 18) == (SpaceSaving(1).block, SpaceSaving(1 << 17).block)
        assert 400_000 == SpaceSaving(200_000).block
        assert 7 == SpaceSaving(200_000, block=7).block

    @pytest.mark.parametrize("block", [0, -1, 1.0, "10", True])
    def test_a_block_is_a_whole_number_of_at_least_one(self, block):
        with pytest.raises(InvalidValueError, match="block="):
            SpaceSaving(1, block=block)

    def test_sketches_of_other_capacities_do_not_merge(self):
        with pytest.raises(MergeError, match=r"capacity 2 .* 3; merging sketches of other shape"):
            SpaceSaving(2) | SpaceSaving(3)

    def test_sketches_of_other_kinds_do_not_merge(self):
        first, second = SpaceSaving(2), SpaceSaving(2)
        first.update([1])
        second.update(["a"])
        with pytest.raises(MergeError, match=r"int keys .* str keys"):
            first | second

    def test_a_sketch_merges_with_sketches_only(self):
        with pytest.raises(TypeError):
            SpaceSaving(2) | {1: 2}

    def test_a_sketch_is_not_hashable(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(SpaceSaving(2))


class TestAnswers:
    def test_an_empty_sketch_answers_zero_for_any_kind(self):
        sketch = SpaceSaving(3)
        for keys in ([1], ["a"], [(1, b"b")]):
            assert [0.0] == sketch.estimate(keys).tolist()
        assert (sketch.top(), sketch.floor, sketch.total, len(sketch)) == ([], 0.0, 0.0, 0)
        assert [0, 0, 0] == [len(array) for array in sketch.arrays()]
        assert (sketch.kind, sketch.nbytes) == (None, 0)

    def test_the_heaviest_come_first_and_ties_have_an_order_of_their_own(self):
        sketch = SpaceSaving(10)
        sketch.update(["x", "y", "z", "w", "y", "w", "w"])
        assert ["w", "y"] == [row.key for row in sketch.top(2)]
        backwards = SpaceSaving(10)
        backwards.update(["w", "w", "y", "w", "z", "y", "x"])
        assert sketch.top() == backwards.top()
        assert [[], 4, 4] == [sketch.top(0), len(sketch.top(99)), len(sketch.top())]

    @pytest.mark.parametrize(
        ("keys", "kind", "left", "right"),
        [
            ([(1, 2), (1, 2), (-3, 4)], "(int, int)", np.int64, np.int64),
            ([(1, 2), (1, 2), (3, 4)], "(int, int)", np.int64, np.int64),
            ([("a", 2), ("a", 2), ("b", 4)], "(str, int)", object, np.int64),
            ([("a", b"2"), ("a", b"2"), ("b", b"4")], "(str, bytes)", object, object),
        ],
    )
    def test_pairs_come_back_as_two_arrays(self, keys, kind, left, right):
        sketch = SpaceSaving(5)
        sketch.update(keys)
        pairs, estimates, errors = sketch.arrays()
        assert sketch.kind == kind
        assert (pairs.left.dtype, pairs.right.dtype) == (left, right)
        assert keys[1:] == list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
        assert ([2.0, 1.0], [0.0, 0.0]) == (estimates.tolist(), errors.tolist())

    @pytest.mark.parametrize(
        ("keys", "dtype"), [([-1, 5], np.int64), (["é", ""], object), ([b"\0", b""], object)]
    )
    def test_single_keys_come_back_as_one_array(self, keys, dtype):
        sketch = SpaceSaving(5)
        sketch.update(keys, [2, 1])
        array = sketch.arrays()[0]
        assert (array.dtype, array.tolist()) == (dtype, keys)
        assert [type(keys[0])] * 2 == [type(row.key) for row in sketch.top()]

    @pytest.mark.parametrize("keys", [[1], [(1, 2)]], ids=["integers", "small pairs"])
    def test_a_counter_of_integers_or_small_pairs_takes_24_bytes(self, keys):
        sketch = SpaceSaving(5)
        sketch.update(keys)
        assert sketch.nbytes == 24

    def test_text_of_dropped_keys_is_not_kept(self):
        sketch = SpaceSaving(2, block=100)
        sketch.update([f"a key of thirty bytes {i:08}" for i in range(100)])
        sketch.update(["b"] * 3 + ["c"] * 3 + ["d"] * 94)
        assert sketch.nbytes < 200

    def test_a_question_of_large_pairs_does_not_confuse_small_ones(self):
        sketch = SpaceSaving(50, block=1)
        small = [(n % 5, n) for n in range(1, 31)]
        sketch.update(small, range(1, 31))
        large = [(-1, 0), (0, 2**32 + 5), (2**32, 5), (7, 7)]
        assert [*range(1, 31), 0, 0, 0, 0] == sketch.estimate(small + large).tolist()

    def test_it_says_what_it_holds(self):
        sketch = SpaceSaving(1, block=3)
        sketch.update(["a", "a", "b", "c"])
        expected = "SpaceSaving(capacity=1, block=3): 1 keys of kind str, total 4, floor 2"
        assert expected == repr(sketch)
