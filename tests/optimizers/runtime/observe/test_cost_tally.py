"""Costs by key: what a table tells is what was counted, and nothing of it is lost."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError
from optimizers.folds.key_codes import codes_of
from optimizers.runtime.observe.cost_tally import CostTally, KeyedRows, count_costs
from sketches.cost_sketch import CostSketch

# Quarters of seconds add up exactly in any order.
SECONDS = st.integers(0, 1 << 20).map(lambda quarters: quarters / 4)
BATCHES = st.lists(st.lists(st.tuples(st.integers(-3, 5) | st.none(), SECONDS), max_size=20))


def tallied(batches, most_keys=100):
    tally = CostTally(most_keys)
    for keys, seconds in batches:
        batch = pa.record_batch({"k": pa.array(keys, pa.int64())})
        tally.add(KeyedRows.of(batch, ["k"], "here"), np.array(seconds, dtype=float))
    return tally


def rows_of(tally):
    return [row for _, table in tally.tables() for row in table.to_pylist()]


def apart(batches):
    return [([key for key, _ in batch], [cost for _, cost in batch]) for batch in batches]


def true_sums(batches):
    counts, seconds = Counter(), Counter()
    for key, cost in (tuple_ for batch in batches for tuple_ in batch):
        if key is not None:
            counts[key] += 1
            seconds[key] += cost
    return {key: (float(counts[key]), seconds[key]) for key in counts}


@given(BATCHES)
def test_each_key_has_its_tuples_and_their_seconds_and_null_is_no_key(batches):
    found = rows_of(tallied(apart(batches)))

    assert true_sums(batches) == {row["key"]: (row["count"], row["seconds"]) for row in found}


@given(BATCHES, st.integers(1, 4))
def test_the_heaviest_keys_are_told_and_the_others_summed_up(batches, most):
    found = rows_of(tallied(apart([[t for batch in batches for t in batch]]), most))
    true = true_sums(batches)

    named = {row["key"]: (row["count"], row["seconds"]) for row in found if row["key"] is not None}
    rest = [(row["count"], row["seconds"]) for row in found if row["key"] is None]
    assert named == {key: true[key] for key in named}
    assert min(most, len(true)) == len(named)
    left = [sums for key, sums in true.items() if key not in named]
    assert all(cost <= min(named.values(), key=lambda s: s[1])[1] for _, cost in left)
    summed = [(float(sum(n for n, _ in left)), float(sum(cost for _, cost in left)))]
    assert (summed if left else []) == rest


@given(BATCHES)
def test_no_tuple_is_lost_where_keys_have_to_go_before_the_end(batches):
    found = rows_of(tallied(apart(batches), most_keys=1))
    true = true_sums(batches).values()

    assert sum(n for n, _ in true) == sum(row["count"] for row in found)
    assert sum(cost for _, cost in true) == sum(row["seconds"] for row in found)


@given(BATCHES, st.integers(1, 100))
def test_a_sketch_of_a_table_counts_what_was_tallied(batches, most):
    tally = tallied(apart(batches), most)
    sketch = CostSketch(1 << 10, 4, exact=100)
    for _, table in tally.tables():
        count_costs(sketch, table)

    true = true_sums(batches)
    assert sum(n for n, _ in true.values()) == sketch.total
    assert sum(cost for _, cost in true.values()) == sketch.total_cost
    if most == 100 and true:
        means = [cost / n for n, cost in true.values()]
        assert means == sketch.estimate(list(true)).tolist()


KINDS = {
    "str": (["a", "ü", "a"], pa.string(), ["a", "ü"]),
    "bytes": ([b"a", b"\0", b"a"], pa.large_binary(), [b"a", b"\0"]),
    "int": ([1, 2, 1], pa.int16(), [1, 2]),
}


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize(("kind", "given_"), KINDS.items())
def test_keys_of_any_kind_come_through(kind, given_, encoded):
    values, type_, distinct = given_
    column = pa.array(values, type_)
    batch = pa.record_batch({"k": column.dictionary_encode() if encoded else column})
    tally = CostTally(10)
    tally.add(KeyedRows.of(batch, ["k"], "here"), np.array([1.0, 2.0, 4.0]))

    ((told, table),) = tally.tables()

    assert kind == told
    sketch = CostSketch(100, 4, exact=5)
    count_costs(sketch, table)
    assert [2.5, 2.0] == sketch.estimate(distinct).tolist()
    assert kind == sketch.kind


def test_keys_of_two_columns_are_pairs_and_those_of_more_their_codes():
    batch = pa.record_batch({"a": [1, 1, 2], "b": ["x", "x", "y"], "c": [0, 0, 0]})
    sketches = []
    for columns in (("a", "b"), ("a", "b", "c")):
        tally = CostTally(1)
        tally.add(KeyedRows.of(batch, columns, "here"), np.array([1.0, 2.0, 4.0]))
        ((_, table),) = tally.tables()
        sketch = CostSketch(100, 4, exact=5)
        count_costs(sketch, table)
        sketches.append(sketch)

    assert "(int, str)" == sketches[0].kind
    assert [4.0] == sketches[0].estimate([(2, "y")]).tolist()
    codes = codes_of(pa.Table.from_batches([batch]), ("a", "b", "c")).view(np.int64)
    assert [4.0] == sketches[1].estimate(codes[2:]).tolist()
    assert [3.0, 3.0] == [sketch.total for sketch in sketches]


def test_keys_of_several_kinds_have_a_table_each():
    tally = CostTally(10)
    for keys in ([1, 1], ["x"]):
        batch = pa.record_batch({"k": keys})
        tally.add(KeyedRows.of(batch, ["k"], "here"), np.ones(len(keys)))

    assert {"int": [2.0], "str": [1.0]} == {
        kind: table.column("count").to_pylist() for kind, table in tally.tables()
    }


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ({"x": [1]}, r"here: tuples have no column 'k' to take the key from; they have 'x'"),
        ({"k": [1.5]}, r"here: key column k: .*double"),
    ],
)
def test_a_key_that_is_not_there_or_is_none_is_refused_by_name(tuples, message):
    with pytest.raises(FoldError, match=message):
        KeyedRows.of(pa.record_batch(tuples), ["k"], "here")


@given(st.lists(st.integers(0, 2) | st.none(), min_size=1, max_size=30))
def test_runs_begin_where_the_key_changes(keys):
    rows = KeyedRows.of(pa.record_batch({"k": pa.array(keys, pa.int64())}), ["k"], "here")

    expected = [place for place in range(len(keys)) if place == 0 or keys[place] != keys[place - 1]]
    assert expected == rows.runs().tolist()
