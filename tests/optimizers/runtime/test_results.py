"""Results: state as readers see it, and parts of one key put together."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Operator, PartialKey, Topology
from optimizers.folds import Count, Last, Mean, Together
from optimizers.runtime.results import results_of


def job(fold, *, key="k", partial=False):
    grouping = PartialKey() if partial else None
    return Topology.source("s").then(
        Operator("a", key, 4, partial=partial, apply=fold), grouping=grouping
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=30))
def test_parts_of_a_key_are_put_together_whoever_holds_them(parts):
    rows = pa.table(
        {
            "k": pa.array([key for key, _ in parts], pa.int64()),
            "count": pa.array([count for _, count in parts], pa.int64()),
        }
    )

    found = results_of(job(Count(), partial=True), "a", rows)

    expected = Counter()
    for key, count in parts:
        expected[key] += count
    assert dict(expected) == dict(
        zip(found.column("k").to_pylist(), found.column("count").to_pylist(), strict=True)
    )
    assert len(expected) == len(found)


def test_parts_of_several_folds_and_columns_are_put_together():
    rows = pa.table(
        {
            "k": ["x", "y", "x", "x"],
            "l": [1, 1, 1, 2],
            "sum": pa.array([1, 5, 3, 4], pa.int64()),
            "count": pa.array([1, 2, 3, 1], pa.int64()),
        }
    )

    found = results_of(job(Mean("n"), key=("k", "l"), partial=True), "a", rows)

    means = {(row["k"], row["l"]): row["mean"] for row in found.to_pylist()}
    assert {("x", 1): 1.0, ("y", 1): 2.5, ("x", 2): 4.0} == means


def test_results_take_the_place_of_what_is_kept():
    rows = pa.table({"k": [1, 2], "sum": pa.array([6, 0]), "count": pa.array([4, 0])})

    found = results_of(job(Mean("n")), "a", rows)

    assert {"k": [1, 2], "mean": [1.5, None]} == found.to_pydict()


def test_an_operator_that_says_nothing_counts():
    rows = pa.table({"k": [1, 2], "count": pa.array([4, 0])})

    assert rows == results_of(job(None), "a", rows)


def test_no_state_has_no_results():
    rows = pa.table({"k": pa.nulls(0)})

    assert ["k"] == results_of(job(Mean("n"), partial=True), "a", rows).column_names


def test_names_of_folds_that_are_together_stay():
    fold = Together(seen=Count(), last=Last("n"))
    tuples = pa.table({"k": [1, 1], "n": [4, 5]})
    schema = fold.state(tuples.schema)
    before = pa.table([pa.nulls(1, kept.type) for kept in schema], schema=schema)
    state = fold.absorb(tuples, np.zeros(2, np.int64), before)
    rows = pa.table([pa.array([1]), *state.columns], ["k", *state.column_names])

    assert {"k": [1], "seen": [2], "last": [5]} == results_of(job(fold), "a", rows).to_pydict()


def test_a_result_that_is_called_as_the_key_is_called_as_state_calls_it():
    rows = pa.table({"count": [7, 8], "value_count": pa.array([2, 3], pa.int64())})

    found = results_of(job(Count(), key="count"), "a", rows)

    assert {"count": [7, 8], "value_count": [2, 3]} == found.to_pydict()
