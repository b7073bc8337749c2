"""What keys cost a function of many rows: as planted, whatever a call takes beside."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.spark.call_costs import CallCosts

COSTS = st.lists(st.floats(0, 10), min_size=1, max_size=6)


def learned(batches, seconds_of, most=100):
    """Have pieces done by a function that takes so long for each, and return what was learned."""
    costs = CallCosts("k", most)
    seen = [
        (costs.note(seconds_of(piece.column("k").to_numpy())), len(piece))
        for piece in costs.pieces(batches)
    ]
    return costs, sum(rows for _, rows in seen)


def sorted_rows(keys):
    return pa.record_batch({"k": pa.array(sorted(keys), pa.int64())})


@given(COSTS, st.floats(0, 100), st.lists(st.integers(0, 5), min_size=2, max_size=200))
def test_costs_are_those_planted_whatever_a_call_takes(planted, price, keys):
    keys = [key % len(planted) for key in keys]
    rows = sorted_rows(keys)
    cuts = [rows.slice(0, len(rows) // 3), rows.slice(len(rows) // 3)]

    costs, _ = learned(cuts, lambda piece: price + sum(planted[key] for key in piece))

    share = price / 10_000
    for row in costs.table().to_pylist():
        assert keys.count(row["key"]) == row["count"]
        expected = row["count"] * (planted[row["key"]] + share)
        assert expected == pytest.approx(row["seconds"], rel=1e-6, abs=1e-6)
    assert sorted(set(keys)) == sorted(costs.table().column("key").to_pylist())


def test_calls_that_take_uneven_times_change_little():
    """A call takes 5 ms, give or take a fifth; rows 0.1 ms, and those of one key in ten 4.8 ms."""
    random = np.random.default_rng(3)
    keys = random.integers(0, 100, 1_000)

    def seconds_of(piece):
        rows = np.where(piece < 10, 4.8e-3, 1e-4).sum()
        return float(rows) + 5e-3 * random.uniform(0.8, 1.2)

    costs, _ = learned([sorted_rows(keys)], seconds_of)

    found = {row["key"]: row["seconds"] / row["count"] for row in costs.table().to_pylist()}
    dear = np.mean([found[key] for key in range(10)])
    cheap = np.mean([found[key] for key in range(10, 100)])
    # Ten rows a call: so a fifth of the price of a call is as much as a cheap row costs.
    assert dear == pytest.approx(4.8e-3, rel=0.05)
    assert cheap == pytest.approx(1e-4, rel=0.5)
    assert costs.price == pytest.approx(5e-3, rel=0.1)


def test_rows_are_done_once_but_for_a_few():
    keys = np.repeat(np.arange(50), 100)
    batches = [sorted_rows(keys)] * 40

    _, done = learned(batches, len)

    assert 40 * 5_000 < done <= 40 * 5_000 + 1 + 32 * 2 * 16


def test_of_more_keys_the_dearest_are_named_and_all_others_added_up():
    costs, _ = learned([sorted_rows([1, 2, 3, 3, 4])], lambda piece: float(sum(piece)), most=2)

    rows = {row["key"]: (row["count"], row["seconds"]) for row in costs.table().to_pylist()}
    assert {3: (2, 6), 4: (1, 4), None: (2, 3)} == rows


def test_of_nothing_nothing_is_told():
    costs, done = learned([sorted_rows([])], len)

    assert (None, 0, 0.0) == (costs.table(), done, costs.price)


@pytest.mark.parametrize(
    "keys", [pa.array(["a", "b"]), pa.array([b"a", b"b"]), pa.array(["a", "b"], pa.large_string())]
)
def test_keys_may_be_texts_and_bytes(keys):
    costs = CallCosts("k", 5)
    for piece in costs.pieces([pa.record_batch({"k": keys})]):
        costs.note(len(piece))

    assert keys.to_pylist() == sorted(costs.table().column("key").to_pylist())
