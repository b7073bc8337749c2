"""Folds: what is sent on, what is refused, folds of one's own, and how large sums may get."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from folding import run, seen

from optimizers.errors import FoldError, InvalidValueError
from optimizers.folds import (
    Count,
    Distinct,
    Emit,
    Fold,
    Last,
    Max,
    Mean,
    Min,
    Sum,
    Together,
    TopK,
)
from optimizers.folds.fold import nothing

TABLE = pa.table({"user": ["a", "b", "a"], "x": [1, 2, 3]})
KEY_ROWS = pa.table({"user": ["a", "b"]})
KEYS_OF_TABLE = np.array([0, 1, 0])


@pytest.mark.parametrize(
    ("emit", "expected"),
    [
        (Emit.TUPLES, {"user": ["a", "b", "a"], "x": [1, 2, 3]}),
        (Emit.CHANGES, {"user": ["a", "b"], "sum": [4, 2]}),
    ],
)
def test_emit_says_what_is_sent_on(emit, expected):
    fold = Sum("x", emit=emit)

    step = fold.step(TABLE, KEYS_OF_TABLE, nothing(fold.state(TABLE.schema), 2), KEY_ROWS)

    assert expected == step.emitted.to_pydict()
    assert {"sum": [4, 2]} == step.state.to_pydict()


def test_with_emit_nothing_no_rows_are_sent_on():
    fold = Sum("x", emit="nothing")

    step = fold.step(TABLE, KEYS_OF_TABLE, nothing(fold.state(TABLE.schema), 2), KEY_ROWS)

    assert step.emitted is None
    assert {"sum": [4, 2]} == step.state.to_pydict()
    assert {"user": ["a", "b"], "sum": [4, 2]} == fold(TABLE, "user").to_pydict()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Count(emit="all"), "emit='all' is none of Emit.TUPLES, Emit.CHANGES"),
        (lambda: Count(emit=Emit.OWN), "Count says no rows of its own"),
        (lambda: TopK("x", 0), "k=0 is out of range"),
        (lambda: TopK("x", 1.5), "k=1.5 is not a whole number"),
        (Together, "Together.. has no folds; name at least one"),
        (lambda: Together(a=sum), "a=<built-in function sum> is not a fold"),
        (lambda: Together({"a.b": Count()}), "'a.b' does not name a fold"),
        (lambda: Together({1: Count()}), "1 does not name a fold"),
        (lambda: Together({"": Count()}), "'' does not name a fold"),
        (lambda: Together({"a": Count()}, a=Sum("x")), "'a' does not name a fold"),
        (
            lambda: Together(a=Count(emit=Emit.TUPLES)),
            "a=Count.emit=Emit.TUPLES. cannot say what is sent on",
        ),
    ],
)
def test_a_fold_that_means_nothing_is_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("fold", "message"),
    [
        (Count("y"), "no column 'y'; their columns: 'user', 'x', 'list', 'none', 'flag'"),
        (Sum("y"), "no column 'y'"),
        (Last("y"), "no column 'y'"),
        (TopK("x", 1, by="y"), "no column 'y'"),
        (Sum("user"), "Sum.column='user'. cannot add up column 'user' of type string; cast it"),
        (
            Sum("flag"),
            "cannot add up column 'flag' of type bool; cast it to int64, float64 or a decimal",
        ),
        (Mean("list"), "cannot add up column 'list' of type list"),
        (TopK("x", 1, by="user"), "cannot add up column 'user' of type string"),
        (Min("list"), "Min.* cannot compare values of column 'list' of type list"),
        (Max("none"), "Max.* cannot compare values of column 'none' of type null"),
        (Distinct("list"), "Distinct.* cannot tell values of column 'list' of type list"),
        (TopK("none", 1), "TopK.* cannot tell values of column 'none' of type null"),
        (Together(a=Count(), b=Sum("user")), "cannot add up column 'user'"),
    ],
)
def test_columns_that_a_fold_cannot_use_are_refused_by_name(fold, message):
    more = {"list": [[1], [2], [3]], "none": [None] * 3, "flag": [True, False, True]}
    table = pa.table(TABLE.to_pydict() | more)

    for fold_them in (fold.state, lambda schema: fold(table, "user")):
        with pytest.raises(FoldError, match=message):
            fold_them(table.schema)


def test_a_column_that_is_there_twice_is_refused():
    table = pa.table([[1], [2]], names=["x", "x"])

    with pytest.raises(FoldError, match="2 columns are called 'x'; rename all but one"):
        Sum("x").state(table.schema)


@pytest.mark.parametrize(
    ("keys", "before", "message"),
    [
        ([0, 1], 2, r"keys of shape \(2,\) do not fit 3 tuples"),
        ([0.0, 1.0, 0.0], 2, "float64 keys"),
        ([0, 2, 0], 2, "keys from 0 to 2 do not fit 2 rows of state"),
        ([0, -1, 0], 2, "keys from -1 to 0 do not fit 2 rows of state"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys, before, message):
    state = nothing(Count().state(TABLE.schema), before)

    for fold in (Count(), Together(a=Count())):
        with pytest.raises(FoldError, match=message):
            fold.absorb(TABLE, np.array(keys), nothing(fold.state(TABLE.schema), len(state)))


def test_state_of_other_columns_than_the_tuples_give_is_refused():
    before = nothing(pa.schema([("sum", pa.float64())]), 2)

    with pytest.raises(FoldError, match=r"keeps sum: int64 .* but its state so far is sum: double"):
        Sum("x").absorb(TABLE, KEYS_OF_TABLE, before)


@pytest.mark.parametrize("fold", [Count(), Sum("x"), Mean("x"), Min("x"), Distinct("x"),
                                  TopK("x", 1), Together(a=Count())])  # fmt: skip
def test_parts_of_state_that_do_not_go_together_are_refused(fold):
    schema = fold.state(TABLE.schema)

    with pytest.raises(FoldError, match=r"2 rows of .* and 3 of .* are not two parts"):
        fold.merge(nothing(schema, 2), nothing(schema, 3))
    with pytest.raises(FoldError, match="are not two parts of one state"):
        fold.merge(nothing(schema, 2), nothing(pa.schema([("other", pa.int8())]), 2))


@pytest.mark.parametrize("fold", [Last("x"), Together(a=Count(), b=Last("x"))])
def test_what_came_last_cannot_be_merged(fold):
    part = nothing(fold.state(TABLE.schema), 1)

    with pytest.raises(FoldError, match=r"Last\(column='x'\) cannot be merged.*partial=False"):
        fold.merge(part, part)


def test_a_result_called_as_the_key_is_refused():
    table = pa.table({"count": [1, 1, 2]})

    with pytest.raises(FoldError, match=r"Count\(\) calls a result 'count' as the key is called"):
        Count()(table, "count")

    assert {"count": [1, 2], "n": [2, 1]} == Together(n=Count())(table, "count").to_pydict()


class Range(Fold):
    """A user's own: two results; written with the base class alone."""

    def state(self, tuples):
        return pa.schema([("low", pa.int64()), ("high", pa.int64())])

    def absorb(self, tuples, keys, before):
        return before


def test_results_of_several_columns_are_named_after_the_fold_and_themselves():
    together = Together(span=Range(), n=Count())

    assert ["span.low", "span.high", "n.count"] == together.state(TABLE.schema).names
    assert ["user", "span_low", "span_high", "n"] == together(TABLE, "user").column_names
    with pytest.raises(FoldError, match="two results called 'span_low'"):
        Together(span=Range(), span_low=Count())(TABLE, "user")


def test_a_fold_of_ones_own_needs_two_methods_and_cannot_be_merged_unless_it_says_how():
    part = nothing(Range().state(TABLE.schema), 1)

    assert {"user": ["a", "b"], "low": [None, None], "high": [None, None]} == Range()(
        TABLE, "user"
    ).to_pydict()
    with pytest.raises(FoldError, match=r"Range\(\) cannot be merged"):
        Range().merge(part, part)


def test_a_sum_that_is_too_large_only_on_the_way_is_exact():
    table = pa.table({"k": [1, 1, 1, 1], "x": [2**62, 2**62, -(2**62), -3]})

    assert {"k": [1], "sum": [2**62 - 3]} == Sum("x")(table, "k").to_pydict()


@pytest.mark.parametrize(
    ("kept", "added", "fits"),
    [
        (2**63 - 1, 0, True),
        (2**63 - 1, 1, False),
        (-(2**63), 0, True),
        (-(2**63), -1, False),
        (2**63 - 1, -(2**63), True),
        (-(2**63), 2**63 - 1, True),
        (0, 2**63 - 1, True),
    ],
)
def test_sums_fill_64_bits_and_no_more(kept, added, fits):
    fold = Sum("x")
    table = pa.table({"x": pa.array([added], pa.int64())})
    before = pa.table({"sum": pa.array([kept], pa.int64())})
    parts = (before, pa.table({"sum": pa.array([added], pa.int64())}))

    for step in (lambda: fold.absorb(table, np.array([0]), before), lambda: fold.merge(*parts)):
        if fits:
            assert {"sum": [kept + added]} == step().to_pydict()
        else:
            with pytest.raises(FoldError, match="does not fit 64 bits for 1 of 1 keys"):
                step()


def test_unsigned_numbers_beyond_the_signed_ones_are_added_up_as_they_are():
    table = pa.table({"k": [1, 2], "x": pa.array([2**63 - 1, 2**64 - 1], pa.uint64())})

    with pytest.raises(FoldError, match="does not fit 64 bits for 1 of 2 keys"):
        Sum("x")(table, "k")
    assert [2**63 - 1] == Sum("x")(table.slice(0, 1), "k")["sum"].to_pylist()


def test_sums_of_many_tuples_carry_over():
    many = 1 << 16
    table = pa.table(
        {"k": np.zeros(many, np.int64), "x": np.full(many, (2**46) + 2**32 - 1, np.int64)}
    )

    assert [many * (2**46 + 2**32 - 1)] == Sum("x")(table, "k")["sum"].to_pylist()
    assert [-many * (2**46 + 2**32 - 1)] == Sum("x")(
        table.set_column(1, "x", pa.array(-table["x"].to_numpy())), "k"
    )["sum"].to_pylist()


def test_decimals_are_told_apart_in_every_batch():
    fold = Distinct("x")
    batches = [
        pa.table({"k": [1, 1], "x": pa.array([Decimal("1.10"), Decimal("2.00")])}),
        pa.table({"k": [1, 1], "x": pa.array([Decimal("1.10"), Decimal("3.00")])}),
    ]

    assert {(1,): {"distinct": 3}} == seen(fold, run(fold, batches, ("k",)))
