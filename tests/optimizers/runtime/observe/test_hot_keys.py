"""The hottest key of an epoch, from the few that each instance tells of, beside all keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.hot_keys import TOLD, HotKeys, hot_keys
from optimizers.runtime.task.fact_columns import Ragged


def told(batch):
    """Return what the instances of a batch tell; each has counts by key."""
    each = [
        hot_keys(
            np.array(sorted(counts), dtype=np.uint64),
            np.array([counts[key] for key in sorted(counts)], dtype=np.int64),
        )
        for counts in batch
    ]
    return [Ragged.of(column, np.int64) for column in zip(*each, strict=True)]


def found(batches, *, one_owner):
    hot = HotKeys(one_owner=one_owner)
    for batch in batches:
        hot.add(*told(batch))
    return hot.tuples()


def truth(batches):
    sums = {}
    for batch in batches:
        for counts in batch:
            for key, count in counts.items():
                sums[key] = sums.get(key, 0) + count
    return max(sums.values(), default=0)


COUNTS = st.integers(1, 30) | st.integers(1, 10_000)
KEYS = st.integers(0, 60) | st.integers((1 << 64) - 60, (1 << 64) - 1)
PARTS = st.dictionaries(KEYS, COUNTS, max_size=50)


@st.composite
def streams(draw, *, one_owner):
    """Batches of instances: each key at the instance that owns it, or at any."""
    instances = draw(st.integers(1, 3))
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        counts = [draw(PARTS) for _ in range(instances)]
        if one_owner:
            counts = [
                {key: count for key, count in mine.items() if key % instances == place}
                for place, mine in enumerate(counts)
            ]
        batches.append(counts)
    return batches


@pytest.mark.parametrize("one_owner", [True, False])
@given(data=st.data())
def test_what_is_told_is_true_within_a_tenth_or_absent(one_owner, data):
    batches = data.draw(streams(one_owner=one_owner))

    seen = found(batches, one_owner=one_owner)

    if seen is not None:
        assert abs(seen - truth(batches)) <= 0.06 * truth(batches)


@pytest.mark.parametrize("one_owner", [True, False])
@given(data=st.data())
def test_with_few_keys_it_is_exact(one_owner, data):
    batches = data.draw(streams(one_owner=one_owner))
    few = [[dict(list(counts.items())[: TOLD - 1]) for counts in batch] for batch in batches]

    assert truth(few) == found(few, one_owner=one_owner)


def test_keys_that_are_hot_by_turns_are_not_added_up():
    batches = [[{place: 1000, 50: 400}] for place in range(5)]

    assert 2000 == truth(batches) == found(batches, one_owner=True)


def test_a_hot_key_among_many_is_known():
    rest = dict.fromkeys(range(1000, 2000), 10)
    batches = [[{7: 5000, **rest}], [{7: 4000, **rest}]]

    assert 9000 == truth(batches) == found(batches, one_owner=True)


def test_parts_of_a_key_at_several_instances_are_added_up():
    rest = dict.fromkeys(range(1000, 1100), 1)
    batches = [[{7: 500, **rest}, {7: 300, **rest}]]

    assert 800 == found(batches, one_owner=False)


def test_which_of_many_rare_keys_is_the_hottest_is_not_known():
    rng = np.random.default_rng(0)
    batches = [
        [dict(zip(range(3000), rng.poisson(5, 3000).tolist(), strict=True))] for _ in range(9)
    ]

    assert found(batches, one_owner=True) is None


def test_without_tuples_none_is_hot():
    assert 0.0 == found([[{}, {}]], one_owner=True)
    assert 0.0 == HotKeys(one_owner=True).tuples()
