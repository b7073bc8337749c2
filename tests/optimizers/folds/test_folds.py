"""Every built-in fold against plain Python, over streams of any types, cut anywhere."""

import copy
import datetime as dt
import math
import pickle
from collections import defaultdict
from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from folding import exactly, run, seen
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError
from optimizers.folds import (
    Count,
    Distinct,
    Emit,
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
from optimizers.folds.key_codes import take_rows

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
def test_what_is_sent_on_has_the_columns_of_the_whole(stream, fold):
    table, key = stream
    keys, firsts, _ = key_numbers(table, key)
    key_rows = take_rows(table.select(key), firsts)
    before = nothing(fold.state(table.schema), len(firsts))

    step = fold.step(table, keys, before, key_rows)

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
