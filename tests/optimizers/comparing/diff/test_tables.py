"""What counts as a difference of results, and what does not."""

import math

import numpy as np
import pyarrow as pa
import pytest
from cut_hash import cut_hash
from hypothesis import given
from hypothesis import strategies as st

from optimizers.comparing.diff.rows import paired_by_key
from optimizers.comparing.diff.tables import output_difference, state_difference
from optimizers.comparing.diff.values import unequal

NUMBERS = pa.schema([("user", pa.string()), ("n", pa.int64())])
FLOATS = st.floats(allow_nan=True, allow_infinity=True)

VALUES = {
    pa.int64(): st.integers(-5, 5),
    pa.string(): st.sampled_from(["", "a", "b", "ä"]),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -1.5, 1e300, math.inf, -math.inf, math.nan]),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=3),
    pa.list_(pa.float64(), 2): st.lists(st.floats(-1, 1), min_size=2, max_size=2),
    pa.map_(pa.string(), pa.int64()): st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 3)), max_size=2
    ),
    pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))]): st.fixed_dictionaries(
        {"x": st.sampled_from([0.0, 2.5]), "y": st.lists(st.sampled_from("pq"), max_size=2)}
    ),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["u", "v"]),
}


def table(users, numbers):
    return pa.table([users, numbers], schema=NUMBERS)


def same(one, other):
    """Whether two Python values are alike, told the slow way, without any rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one[name], other[name]) for name in one)
    return one == other


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_values_differ_where_python_says_so(kind, data):
    values = st.none() | VALUES[kind]
    pairs = data.draw(st.lists(st.tuples(values, values), max_size=8))
    left, right = (pa.array([pair[side] for pair in pairs], kind) for side in (0, 1))

    expected = [not same(*pair) for pair in pairs]

    assert expected == unequal(left, right).tolist()
    assert not unequal(left, left).any()


@given(value=st.floats(allow_nan=False, allow_infinity=False), error=st.floats(-0.9e-9, 0.9e-9))
def test_floats_may_be_off_by_rounding(value, error):
    wrong = value * (1 + error)
    if not math.isfinite(wrong):
        wrong = value

    assert not unequal(pa.array([value]), pa.array([wrong])).any()


@given(value=st.floats(1e-300, 1e300), sign=st.sampled_from([1, -1]))
def test_floats_may_not_be_off_by_more(value, sign):
    assert unequal(pa.array([value]), pa.array([value * (1 + sign * 1.2e-9)])).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, 1e-300), (math.inf, 1e308), (math.inf, -math.inf), (math.nan, 0.0), (1.0, -1.0)],
)
def test_what_is_no_rounding_is_a_difference(one, other):
    assert unequal(pa.array([one]), pa.array([other])).all()
    assert unequal(pa.array([other]), pa.array([one])).all()


def test_integers_and_texts_must_be_the_same():
    large = 1 << 60

    assert unequal(pa.array([large]), pa.array([large + 1])).all()
    assert unequal(pa.array(["a"]), pa.array(["a "])).all()


@given(order=st.permutations(range(6)))
def test_the_order_of_keys_does_not_matter(order):
    right = table(list("abcdef"), range(6))

    assert state_difference("count", ["user"], right, right.take(pa.array(order))) is None


@given(
    right=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2)),
    wrong=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2)),
)
def test_every_key_that_differs_is_counted_and_the_first_named(right, wrong):
    both = [table(list(counts), list(counts.values())) for counts in (right, wrong)]
    differing = {key for key in {*right, *wrong} if right.get(key) != wrong.get(key)}

    found = state_difference("count", ["user"], *both)

    assert (found is not None) == bool(differing)
    if found is not None:
        assert found.rows == len(differing)
        assert found.what == "state of operator 'count'"
        assert found.row in {f"user={key!r}" for key in differing}
        key = found.row[6]
        wanted = [f"n={right[key]}" if key in right else "nothing", "nothing"]
        if found.column:
            wanted = [str(right[key]), str(wrong[key])]
        elif key in wrong:
            wanted[1] = f"n={wrong[key]}"
        assert wanted == [found.expected, found.found]


def test_a_difference_is_told_in_a_sentence():
    right, wrong = table(["a", "b"], [1, 2]), table(["b", "c"], [2, 2])

    assert str(state_difference("count", ["user"], right, wrong)) == (
        "state of operator 'count': user='a': there is nothing, where the reference has n=1; "
        "2 rows differ"
    )
    assert str(state_difference("count", ["user"], right[:0], wrong[1:])) == (
        "state of operator 'count': user='c': there is n=2, where the reference has nothing"
    )


def test_a_key_that_is_there_twice_is_a_difference():
    right, wrong = table(["a", "b"], [1, 2]), table(["a", "b", "a"], [1, 2, 1])

    found = state_difference("count", ["user"], right, wrong)

    assert ("user='a'", "nothing", 1) == (found.row, found.expected, found.rows)


def test_keys_of_several_columns_are_told_apart():
    right = pa.table({"x": [1, 2], "y": ["a", "b"], "n": [1, 1]})
    wrong = pa.table({"x": [1, 2], "y": ["b", "a"], "n": [1, 1]})

    assert state_difference("count", ["x", "y"], right, wrong).rows == 4
    assert state_difference("count", ["x", "y"], right, right[::-1]) is None


def test_a_state_without_keys_needs_no_columns():
    nothing = pa.table({"user": pa.nulls(0)})

    assert state_difference("count", ["user"], nothing, table([], [])) is None
    assert state_difference("count", ["user"], nothing, table(["a"], [1])).rows == 1


def test_other_columns_or_types_are_a_difference():
    right = table(["a"], [1])

    retyped = state_difference("count", ["user"], right, right.set_column(1, "n", pa.array([1.0])))
    renamed = state_difference("count", ["user"], right, right.rename_columns(["user", "m"]))

    assert ("user string, n int64", "user string, n double") == (retyped.expected, retyped.found)
    assert "user string, m int64" == renamed.found


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.sampled_from([0.5, 2.0])))


def emitted(rows):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = [pa.string(), pa.int64(), pa.float64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, ["tag", "n", "weight"])


@given(rows=ROWS, data=st.data())
def test_the_order_of_emitted_rows_does_not_matter_nor_does_rounding(rows, data):
    others = data.draw(st.permutations(rows))
    rounded = [
        (tag, n, weight * (1 + data.draw(st.floats(-4e-10, 4e-10)))) for tag, n, weight in others
    ]

    assert output_difference("count", 3, emitted(rows), emitted(rounded)) is None


@given(one=ROWS, other=ROWS)
def test_emitted_rows_differ_if_they_are_not_as_many_of_each(one, other):
    found = output_difference("count", 3, emitted(one), emitted(other))

    assert (sorted(one) != sorted(other)) == (found is not None)


def test_rows_of_lists_with_floats_are_compared_as_well():
    kind = pa.list_(pa.float64())
    right = pa.table({"top": pa.array([[1.0, 2.0], [3.0]], kind)})
    near = pa.table({"top": pa.array([[3.0 + 1e-12], [1.0, 2.0]], kind)})
    wrong = pa.table({"top": pa.array([[1.0, 2.5], [3.0]], kind)})

    assert output_difference("top", 0, right, near) is None
    assert output_difference("top", 0, right, wrong).rows == 1


@pytest.mark.parametrize("together", [True, False])
def test_rounding_in_one_column_does_not_mix_up_rows(together):
    right = [(1.0, 9.0), (1.0, 2.0), (1.0000001, 2.0)]
    near = [(1.0, 9.0), (1.0000001, 2.0), (1.0 + 1e-12, 2.0)]
    tables = [
        pa.table({"xy": pa.array(map(list, rows), pa.list_(pa.float64()))})
        if together
        else pa.table([*map(pa.array, zip(*rows, strict=True))], ["x", "y"])
        for rows in (right, near)
    ]

    assert output_difference("f", 0, *tables) is None


def test_the_order_of_columns_does_not_matter():
    rows = emitted([("a", 1, 0.5), ("b", 2, 0.5)])

    floats = pa.table({"x": [1.0, 2.0], "y": [2.0, 1.0]})

    assert output_difference("f", 0, rows, rows.select(["weight", "n", "tag"])) is None
    assert output_difference("f", 0, floats, floats.select(["y", "x"])) is None


def test_the_first_row_of_the_reference_that_differs_is_named():
    right = pa.table({"k": [3, 1, 2], "n": [0, 0, 0], "m": [0, 0, 0]})
    wrong = pa.table({"k": [1, 2, 3], "n": [0, 1, 1], "m": [1, 0, 0]})

    found = state_difference("count", ["k"], right, wrong)

    assert ("k=3", "n", "0", "1", 3) == (
        found.row,
        found.column,
        found.expected,
        found.found,
        found.rows,
    )


def test_the_largest_and_oddest_floats_are_told_apart_as_well():
    odd = [math.inf, -math.inf, math.nan, 1.7976931348623157e308, 5e-324, -0.0, None]
    rows = pa.table({"x": pa.array(odd, pa.float64())})

    assert output_difference("f", 0, rows, rows[::-1]) is None
    assert output_difference("f", 0, rows[:6], rows[1:]).rows > 0


def test_nulls_among_emitted_rows_are_values_like_others():
    right = pa.table({"x": pa.array([None, 1, None])})

    assert output_difference("f", 0, right, pa.table({"x": pa.array([1, None, None])})) is None
    assert output_difference("f", 0, right, pa.table({"x": pa.array([1, 1, None])})).rows == 2


def test_no_rows_are_no_difference_to_nothing_at_all():
    rows = emitted([("a", 1, 0.5)])

    assert output_difference("f", 0, None, rows[:0]) is None
    assert output_difference("f", 0, None, rows).found == "1 rows"
    assert output_difference("f", 0, rows, None).found == "0 rows"


def test_long_values_are_cut():
    right, wrong = table(["a" * 500], [1]), table(["a" * 500], [2])

    assert len(str(state_difference("count", ["user"], right, wrong))) < 200


def test_many_rows_are_compared_quickly_enough():
    rng = np.random.default_rng(3)
    right = pa.table({"key": rng.permutation(200_000), "sum": rng.random(200_000)})

    assert (
        state_difference("sum", ["key"], right, right.take(pa.array(rng.permutation(200_000))))
        is None
    )


def test_keys_that_share_their_hashes_are_paired_by_themselves():
    texts = [f"key {number}" for number in range(2_000)]
    with cut_hash(8):
        expected = pa.table({"k": texts, "n": range(2_000)})
        rows = paired_by_key(expected, expected.take(pa.array(range(1_999, 0, -1))), ["k"])

    assert [0] == rows.missing.tolist()
    assert [] == rows.extra.tolist()
    assert list(range(1, 2_000)) == rows.expected.tolist()
    assert list(range(1_998, -1, -1)) == rows.found.tolist()


def test_keys_of_two_types_are_never_the_same():
    rows = paired_by_key(pa.table({"k": [1, 2]}), pa.table({"k": ["1", "2", "3"]}), ["k"])

    assert ([0, 1], [0, 1, 2]) == (rows.missing.tolist(), rows.extra.tolist())
    assert [] == rows.expected.tolist()
