"""Every built-in fold against plain Python, over streams of any types, cut anywhere."""

import copy
import datetime as dt
import math
import pickle
from collections import defaultdict
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    key_numbers,
)
from optimizers.folds.fold import nothing
from optimizers.folds.keys import take_rows

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001


def whole(kind, low, high):
    """Integers of one width: mostly such as often repeat, sometimes the largest there are."""
    return kind, st.integers(max(low, -3), 3) | st.sampled_from((low, high))


WHOLE = [
    whole(pa.int8(), -(2**7), 2**7 - 1),
    whole(pa.uint16(), 0, 2**16 - 1),
    whole(pa.int32(), -(2**31), 2**31 - 1),
    # Halves of the range, so that some sums fit and some do not.
    whole(pa.int64(), -(2**62), 2**62),
    whole(pa.uint64(), 0, 2**62),
]
FLOATS = [
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats() | st.sampled_from((0.0, -0.0, 0.1, math.nan, math.inf))),
]
OTHERS = [
    (pa.uint64(), st.sampled_from((0, 1, 2**63 - 1, 2**63, 2**64 - 1))),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.binary_view(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.date32(), DAYS),
    (pa.date64(), DAYS),
    (pa.timestamp("us"), MOMENTS),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
    (pa.decimal128(6, 2), st.decimals(-999, 999, places=2)),
]
NEVER = st.nothing()
KEYS = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "name": (pa.string(), TEXT),
    "view": (pa.string_view(), st.text("ab", min_size=9, max_size=15)),
    "word": (pa.dictionary(pa.int8(), pa.string()), TEXT),
}


def column(draw, kind, values, rows, missing=NEVER):
    """Cells of a few different values, so that they often meet."""
    few = st.sampled_from(draw(st.lists(values, min_size=1, max_size=3)))
    return pa.array(draw(st.lists(few | missing, min_size=rows, max_size=rows)), kind)


@st.composite
def streams(draw, kinds):
    """A table with a column ``x`` of one of these kinds, and the columns of its key."""
    kind, values = draw(st.sampled_from(kinds))
    rows = draw(st.integers(0, 12))
    key = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True))
    missing = draw(st.sampled_from((st.none(), NEVER)))
    table = pa.table(
        {name: column(draw, *KEYS[name], rows) for name in key}
        | {
            "x": column(draw, kind, values, rows, missing),
            "weight": column(draw, pa.int32(), st.integers(-3, 3), rows, st.none()),
        }
    )
    if rows and draw(st.booleans()):  # several chunks, and slices of larger arrays
        cut = draw(st.integers(0, rows))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table, tuple(key)


def cuts_of(table):
    return st.lists(st.integers(0, len(table)), max_size=4).map(
        lambda cuts: [0, *sorted(cuts), len(table)]
    )


def run(fold, parts, key):
    """Fold one part after the other, as an engine does; return the state by key."""
    kept = {}
    for part in parts:
        keys, firsts, _ = key_numbers(part, key)
        key_rows = take_rows(part.select(key), firsts)
        names = [tuple(row.values()) for row in key_rows.to_pylist()]
        schema = fold.state(part.schema)
        # A row at a time, so that no state can be mixed up by the fold's own means.
        rows = [kept.get(name, nothing(schema, 1)) for name in names]
        before = pa.concat_tables([schema.empty_table(), *rows])
        as_it_was = exactly(before.to_pylist())
        after = fold.step(part, keys, before, key_rows).state
        assert as_it_was == exactly(before.to_pylist())
        assert after.schema == before.schema
        kept.update({name: after.slice(row, 1) for row, name in enumerate(names)})
    return kept


def seen(fold, kept):
    """What readers see of each key."""
    return {name: fold.results(state).to_pylist()[0] for name, state in kept.items()}


def pieces(table, cuts):
    return [table.slice(start, end - start) for start, end in pairwise(cuts)]


def called(fold, table, key):
    rows = fold(table, key).to_pylist()
    return {tuple(row.pop(name) for name in key): row for row in rows}


def by_key(table, key, column):
    """Return the values of a column for each key, in order of arrival."""
    lists = defaultdict(list)
    for row in table.to_pylist():
        lists[tuple(row[name] for name in key)].append(row[column])
    return lists


def exactly(value):
    """A value such that NaN equals itself, and nothing else than what is bit by bit the same."""
    return repr(value)


def order(value):
    """Where a value stands among others of its type: NaN after all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def identity(value):
    """What values have in common that count as one."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def there(values):
    return [value for value in values if value is not None]


def sum_of(values):
    """One after the other in double precision, or exactly."""
    values = there(values)
    if not values:
        return None
    total = 0.0 if isinstance(values[0], float) else 0
    for value in values:
        total = total + value
    return total


def fits(values):
    return all(-(2**63) <= sum(there(part)) < 2**63 for part in values)


EXPECTED = {
    "count": len,
    "count of a column": lambda values: len(there(values)),
    "min": lambda values: min(there(values), key=order, default=None),
    "max": lambda values: max(there(values), key=order, default=None),
    "last": lambda values: values[-1],
    "distinct": lambda values: len({identity(value) for value in there(values)}),
}
FOLDS = {
    "count": Count(),
    "count of a column": Count("x"),
    "min": Min("x"),
    "max": Max("x"),
    "last": Last("x"),
    "distinct": Distinct("x"),
}


def same(expected, found):
    """Whether two values are one, where the two zeros may stand for each other."""
    return identity(expected) == identity(found) and type(expected) is type(found)


@pytest.mark.parametrize("name", sorted(FOLDS))
@given(stream=streams(WHOLE + FLOATS + OTHERS))
def test_a_fold_gives_what_plain_python_gives(name, stream):
    table, key = stream

    result = called(FOLDS[name], table, key)

    expected = {own: EXPECTED[name](values) for own, values in by_key(table, key, "x").items()}
    assert expected.keys() == result.keys()
    for own, value in expected.items():
        (found,) = result[own].values()
        assert same(value, found), (own, value, found)


@given(stream=streams(WHOLE), fold=st.sampled_from((Sum("x"), Mean("x"))))
def test_sums_of_integers_are_exact_or_refused(stream, fold):
    table, key = stream
    lists = by_key(table, key, "x")

    if not fits(lists.values()):
        with pytest.raises(FoldError, match="the sum of column 'x' does not fit 64 bits"):
            fold(table, key)
        return

    (result,) = fold.results(fold.state(table.schema).empty_table()).column_names
    found = {own: row[result] for own, row in called(fold, table, key).items()}
    if isinstance(fold, Sum):
        assert {own: sum_of(values) for own, values in lists.items()} == found
    else:
        for own, values in lists.items():
            exact = sum_of(values) and Fraction(sum_of(values), len(there(values)))
            if exact is None:
                assert found[own] is None
            else:  # two roundings: of the sum to a double, and of the division
                assert abs(Fraction(found[own]) - exact) <= abs(exact) * Fraction(2, 2**52)


@given(stream=streams(FLOATS))
def test_sums_of_floats_are_added_up_in_the_order_of_arrival(stream):
    table, key = stream

    found = called(Sum("x"), table, key)

    expected = {own: sum_of(values) for own, values in by_key(table, key, "x").items()}
    assert {own: exactly({"sum": value}) for own, value in expected.items()} == {
        own: exactly(row) for own, row in found.items()
    }


@given(stream=streams(FLOATS))
def test_means_of_floats_are_sums_divided_by_numbers(stream):
    table, key = stream

    found = called(Mean("x"), table, key)

    for own, values in by_key(table, key, "x").items():
        number = len(there(values))
        mean = sum_of(values) / number if number else None
        assert exactly({"mean": mean}) == exactly(found[own])


@given(stream=streams(WHOLE + FLOATS + OTHERS), k=st.integers(1, 4), weighed=st.booleans())
def test_the_top_values_are_those_with_the_largest_totals(stream, k, weighed):
    table, key = stream
    fold = TopK("x", k, by="weight" if weighed else None)
    totals = defaultdict(lambda: defaultdict(int))
    for row in table.to_pylist():
        own = tuple(row[name] for name in key)
        weight = row["weight"] if weighed else 1
        totals[own]  # a key is there, whatever it has
        if row["x"] is not None and weight is not None:
            totals[own][order(row["x"])] += weight

    found = called(fold, table, key)

    expected = {
        own: [
            (value, total)
            for value, total in sorted(own_totals.items(), key=lambda pair: (-pair[1], pair[0]))
        ][:k]
        for own, own_totals in totals.items()
    }
    assert expected == {
        own: [(order(entry["value"]), entry["total"]) for entry in row["top"]]
        for own, row in found.items()
    }


ANY = st.sampled_from(
    (
        *FOLDS.values(),
        TopK("x", 2),
        TopK("x", 2, by="weight"),
        TopK("x", 1, by="float"),
        Sum("float"),
        Mean("float"),
        Sum("weight"),
        Mean("weight"),
        Together(seen=Count(), least=Min("x"), mean=Mean("float"), top=TopK("x", 2)),
        Together({"in": Together(a=Sum("weight"), b=Distinct("x")), "out": Count("x")}),
    )
)


@st.composite
def float_streams(draw):
    """A stream with a column of floats whose sums depend on their order."""
    table, key = draw(streams(WHOLE + FLOATS + OTHERS))
    sizes = st.sampled_from((0.1, 1e16, -1e16, 1.0, 1e-9, math.nan, None))
    floats = draw(st.lists(sizes, min_size=len(table), max_size=len(table)))
    return table.append_column("float", pa.array(floats, pa.float64())), key


@given(st.data(), float_streams(), ANY)
def test_where_a_stream_is_cut_makes_no_difference_not_even_in_the_last_bit(data, stream, fold):
    table, key = stream
    cuts = data.draw(cuts_of(table))

    whole_state = run(fold, [table], key)
    cut_state = run(fold, pieces(table, cuts), key)

    assert {own: exactly(s.to_pylist()) for own, s in whole_state.items()} == {
        own: exactly(s.to_pylist()) for own, s in cut_state.items()
    }
    assert {own: exactly(row) for own, row in called(fold, table, key).items()} == {
        own: exactly(row) for own, row in seen(fold, cut_state).items()
    }


MERGING = ANY.filter(lambda fold: not isinstance(fold, Last))


SIZES = st.sampled_from((0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -1.0))
SUMS_OF_FLOATS = (Sum("x"), Mean("x"), TopK("one", 1, by="x"), Together(a=Sum("x")))


@given(st.lists(SIZES, min_size=1, max_size=9), st.data(), st.sampled_from(SUMS_OF_FLOATS))
def test_sums_that_depend_on_the_order_do_not_depend_on_the_cuts(values, data, fold):
    table = pa.table({"k": [0] * len(values), "x": values, "one": [1] * len(values)})

    parts = pieces(table, data.draw(cuts_of(table)))

    (total,) = run(fold, parts, ("k",))[(0,)].to_pylist()
    assert f"{sum_of(values)!r}" in repr(total)


def test_all_nan_are_one_value_and_so_are_the_zeros():
    odd_nan = np.array([-1], dtype=np.int64).view(np.float64)[0]
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        cells = np.array([0.0, -0.0, math.nan, odd_nan, -math.nan], kind.to_pandas_dtype())
        table = pa.table({"k": [1] * 5, "x": pa.array(cells)})

        assert [2] == Distinct("x")(table, "k")["distinct"].to_pylist()
        assert [3, 2] == [top["total"] for top in TopK("x", 9)(table, "k")["top"][0].as_py()]
        assert ["0.0"] == [repr(least) for least in Min("x")(table, "k")["min"].to_pylist()]
        assert ["nan"] == [repr(most) for most in Max("x")(table, "k")["max"].to_pylist()]


@given(st.data(), streams(WHOLE + FLOATS + OTHERS), MERGING)
def test_merging_states_is_folding_one_stream_after_the_other(data, stream, fold):
    table, key = stream
    # Whole numbers as floats, whose sums are exact in any order.
    table = table.append_column("float", table["weight"].cast(pa.float64()))
    middle = data.draw(st.integers(0, len(table)))

    first, second = (run(fold, [part], key) for part in pieces(table, [0, middle, len(table)]))
    merged = {
        own: fold.merge(
            first.get(own, nothing(fold.state(table.schema), 1)),
            second.get(own, nothing(fold.state(table.schema), 1)),
        )
        for own in {**first, **second}
    }

    expected = run(fold, [table], key)
    assert {own: exactly(state.to_pylist()) for own, state in expected.items()} == {
        own: exactly(state.to_pylist()) for own, state in merged.items()
    }
    assert all(state.schema == fold.state(table.schema) for state in merged.values())


@given(stream=streams(WHOLE), fold=MERGING.filter(lambda fold: "float" not in repr(fold)))
def test_many_keys_are_merged_row_by_row(stream, fold):
    table, key = stream
    kept = run(fold, [table], key)
    states = [*kept.values(), nothing(fold.state(table.schema), 1)]
    one = pa.concat_tables([*states, *states])
    other = pa.concat_tables([*states, *reversed(states)])

    merged = fold.merge(one, other)

    alone = [
        fold.merge(one.slice(row, 1), other.slice(row, 1)).to_pylist()[0] for row in range(len(one))
    ]
    assert exactly(alone) == exactly(merged.to_pylist())


@given(ANY)
def test_a_fold_is_a_value(fold):
    again = pickle.loads(pickle.dumps(fold))  # noqa: S301

    assert fold == again
    assert hash(fold) == hash(again)
    assert repr(fold) == repr(again)
    assert fold == copy.deepcopy(fold)
    with pytest.raises(FrozenInstanceError):
        fold.emit = Emit.NOTHING


def test_folds_of_other_fields_are_not_equal():
    folds = [
        Count(),
        Count("x"),
        Count(emit=Emit.NOTHING),
        Sum("x"),
        Sum("y"),
        Mean("x"),
        Min("x"),
        Max("x"),
        Last("x"),
        Distinct("x"),
        TopK("x", 1),
        TopK("x", 2),
        TopK("x", 1, by="y"),
        Together(a=Count()),
        Together(b=Count()),
        Together(a=Count("x")),
    ]

    assert len(folds) == len(set(folds)) == len({repr(fold) for fold in folds})


@given(streams(WHOLE + FLOATS + OTHERS), ANY.filter(lambda fold: "float" not in repr(fold)))
def test_what_is_sent_on_has_the_columns_that_were_announced(stream, fold):
    table, key = stream
    keys, firsts, _ = key_numbers(table, key)
    key_rows = take_rows(table.select(key), firsts)
    before = nothing(fold.state(table.schema), len(firsts))

    step = fold.step(table, keys, before, key_rows)

    assert fold.emitted_schema(table.schema, key) == step.emitted.schema
    assert called(fold, table, key).keys() == {
        tuple(row[name] for name in key) for row in step.emitted.to_pylist()
    }
    assert fold(table, key).schema == step.emitted.schema


@given(streams(WHOLE))
def test_a_whole_table_is_folded_in_the_order_in_which_keys_first_came(stream):
    table, key = stream

    folded = Count()(table, key)

    assert list(by_key(table, key, "x")) == [
        tuple(row.values()) for row in folded.select(key).to_pylist()
    ]


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
    assert step.emitted.schema == fold.emitted_schema(TABLE.schema, "user")
    assert {"sum": [4, 2]} == step.state.to_pydict()


def test_with_emit_nothing_no_rows_are_sent_on():
    fold = Sum("x", emit="nothing")

    step = fold.step(TABLE, KEYS_OF_TABLE, nothing(fold.state(TABLE.schema), 2), KEY_ROWS)

    assert step.emitted is None
    assert fold.emitted_schema(TABLE.schema, "user") is None
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
        (Sum("flag"), "cannot add up column 'flag' of type bool; cast it to int64 or float64"),
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
    with pytest.raises(FoldError, match="as the key is called"):
        Count().emitted_schema(table.schema, "count")

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


def test_codes_kept_of_values_never_change():
    # Stored states hold them.
    table = pa.table(
        {
            "k": [1] * 2,
            "int": [-1, 7],
            "text": ["", "a"],
            "float": [1.5, math.nan],
            "when": pa.array([0, 86_400_000_000], pa.timestamp("us")),
        }
    )
    codes = {
        name: run(Distinct(name), [table], ("k",))[(1,)].to_pylist()[0]["codes"]
        for name in ("int", "text", "float", "when")
    }

    assert {
        "int": [7, 2**64 - 1],
        "text": [3463746749091146600, 15422873498816606983],
        "float": [4609434218613702656, 9221120237041090560],
        "when": [0, 86_400_000_000],
    } == codes
