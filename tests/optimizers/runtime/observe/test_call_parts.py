"""Parts of batches that are tried: whose turn it is, and what is in them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.call_parts import part_of, turn_of
from optimizers.runtime.state.table import PLACE

BATCHES = range(8, 8 + 4 * 9 * 6)


def state_of(places):
    return pa.table({PLACE: pa.array(places, pa.uint64())})


def kind_of(part):
    """Which kind of part it is, by what is in it."""
    if not len(part.state):
        return "as if all keys were new"
    return "all tuples" if np.all(np.diff(part.rows) == 1) else "one tuple of four"


@pytest.mark.parametrize("instances", range(1, 10))
def test_one_instance_at_a_time_tries_and_each_tries_every_kind(instances):
    places = np.arange(64, dtype=np.uint64) * 3
    tried = {}
    for batch in BATCHES:
        turns = {number: turn_of(batch, number, instances) for number in range(instances)}
        found = {number: turn for number, turn in turns.items() if turn is not None}
        assert len(found) == (batch % (8 if instances == 1 else 4) == 0)
        for number, turn in found.items():
            part = part_of(turn, instances, np.arange(64), places, state_of(places))
            tried.setdefault(number, []).append(kind_of(part))

    assert set(range(instances)) == set(tried)
    for kinds in tried.values():
        assert 3 == len(set(kinds[:3]))


@pytest.mark.parametrize("instances", range(1, 10))
def test_at_first_each_instance_tries_every_second_time(instances):
    for number in range(instances):
        assert 4 == sum(turn_of(batch, number, instances) is not None for batch in range(8))


@given(
    st.integers(0, 200),
    st.integers(1, 9),
    st.lists(st.integers(1, 50), min_size=2, max_size=60),
    st.sets(st.integers(0, 199)),
)
def test_a_part_has_tuples_of_neighbouring_keys_and_the_state_of_these(turn, instances, of, held):
    keys = len(of)
    numbers = np.repeat(np.arange(keys), of)
    places = np.arange(1, keys + 1, dtype=np.uint64) * 3
    state = state_of(sorted(held))

    part = part_of(turn, instances, numbers, places, state)

    found = np.unique(numbers[part.rows])
    assert len(part.rows) == len(set(part.rows.tolist())) <= len(numbers)
    assert len(found) < keys or keys <= 8
    if len(part.state):
        kept = part.state.column(PLACE).to_numpy()
        known = np.array(sorted(held))
        inside = known[(known >= kept.min()) & (known <= kept.max())]
        assert inside.tolist() == kept.tolist()
        assert set(places[found].tolist()) & held <= set(kept.tolist())


def test_of_one_key_there_is_no_part():
    assert part_of(0, 1, np.zeros(9, dtype=np.int64), np.array([5], dtype=np.uint64), None) is None
