"""Key counts: the keys of one operator, each once."""

import pickle

import pytest

from grouping.keygraph.key_counts import KeyCounts
from sketches import SpaceSaving
from sketches.errors import InvalidKeyError, InvalidValueError


@pytest.mark.parametrize("keys", [[3, 1, 3, 3], ["b", "a", "b", "b"], [b"b", b"a", b"b", b"b"]])
def test_the_counts_of_a_sketch_with_room_are_exact(keys):
    sketch = SpaceSaving(8)
    sketch.update(keys)

    counts = KeyCounts.of(sketch)

    assert {keys[0]: 3.0, keys[1]: 1.0} == dict(zip(counts.keys, counts.counts, strict=True))
    assert (2, 4.0) == (len(counts), counts.total)
    assert counts == pickle.loads(pickle.dumps(counts))  # noqa: S301


def test_of_a_full_sketch_each_count_is_the_middle_of_what_it_can_be():
    sketch = SpaceSaving(2, block=2)
    for key in (1, 2, 3, 1) * 3:
        sketch.update([key] * key)
    _, estimates, errors = sketch.arrays()
    assert errors.any()

    assert sorted(estimates - errors / 2) == sorted(KeyCounts.of(sketch).counts)


def test_nobody_can_write_into_counts():
    counts = KeyCounts([1, 2], [3, 4])

    for array in (counts.keys, counts.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


@pytest.mark.parametrize(
    ("keys", "counts", "error", "words"),
    [
        ([1, 1], [2, 3], InvalidValueError, "key 1 is counted twice"),
        (["a", "b", "a"], [1, 1, 1], InvalidValueError, "key 'a' is counted twice"),
        ([1, 2], [1], InvalidValueError, "do not fit 2 keys"),
        ([1], [-1], InvalidValueError, r"counts\[0\]=-1"),
        ([1], [float("nan")], InvalidValueError, "nan"),
        ([1.5], [1], InvalidKeyError, "1.5"),
    ],
)
def test_what_cannot_be_counts_is_refused(keys, counts, error, words):
    with pytest.raises(error, match=words):
        KeyCounts(keys, counts)


def test_a_sketch_of_pairs_holds_no_counts_of_keys():
    sketch = SpaceSaving(2)
    sketch.update([(1, 2)])

    with pytest.raises(InvalidKeyError, match=r"\(int, int\), which are pairs"):
        KeyCounts.of(sketch)
    with pytest.raises(InvalidValueError, match="not a SpaceSaving"):
        KeyCounts.of({1: 2})
