"""Sums and means of decimals against Python's own, exact to the last digit."""

from collections import defaultdict
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from folding import run, seen
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError
from optimizers.folds import Max, Mean, Min, Sum, Together, TopK

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
LARGEST = 10**38 - 1


@st.composite
def streams(draw):
    """Tables of decimals of one scale and several precisions, such that sums and means fit."""
    scale = draw(st.integers(0, 6))
    few = draw(st.sampled_from([10**6, 10**20, LARGEST // 10**4]))  # means have 4 digits more
    digits = st.integers(-few, few) | st.integers(-5, 5)
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(st.tuples(st.integers(0, 2), st.none() | digits), max_size=10))
        kind = pa.decimal128(draw(st.integers(37, 38)), scale)
        values = [None if n is None else Decimal(n).scaleb(-scale, EXACT) for _, n in rows]
        tables.append(
            pa.table(
                {"k": [k for k, _ in rows], "x": pa.array(values, kind)},
                schema=pa.schema({"k": pa.int64(), "x": kind}),
            )
        )
    return tables, scale


def by_key(tables):
    found = defaultdict(list)
    for table in tables:
        for row in table.to_pylist():
            found[row["k"],] += [] if row["x"] is None else [row["x"]]
    return found


def total(values):
    whole = Decimal(0)
    for value in values:
        whole = EXACT.add(whole, value)
    return whole


@given(streams())
def test_sums_means_and_extremes_are_those_of_python(drawn):
    tables, scale = drawn
    fold = Together(sum=Sum("x"), mean=Mean("x"), low=Min("x"), high=Max("x"))

    found = seen(fold, run(fold, tables, ("k",)))

    unit = Decimal(1).scaleb(-scale - 4, EXACT)
    expected = {
        key: {
            "sum": total(values) if values else None,
            "mean": EXACT.divide(total(values), len(values)).quantize(unit, context=EXACT)
            if values
            else None,
            "low": min(values, default=None),
            "high": max(values, default=None),
        }
        for key, values in by_key(tables).items()
    }
    assert expected == found


@given(st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=6))
def test_a_sum_fits_or_is_refused(numbers):
    table = pa.table(
        {"k": [1] * len(numbers), "x": pa.array(map(Decimal, numbers), pa.decimal128(38, 0))}
    )

    if abs(sum(numbers)) <= LARGEST:
        assert [sum(numbers)] == Sum("x")(table, "k")["sum"].to_pylist()
    else:
        with pytest.raises(FoldError, match="'x' has more than 38 digits for 1 of 1 keys; cast"):
            Sum("x")(table, "k")


@pytest.mark.parametrize("numbers", [[LARGEST, 1], [-LARGEST, -1], [LARGEST] * 5, [-LARGEST] * 5])
def test_a_sum_just_beyond_is_refused(numbers):
    table = pa.table(
        {"k": [1] * len(numbers), "x": pa.array(map(Decimal, numbers), pa.decimal128(38, 0))}
    )

    with pytest.raises(FoldError, match="more than 38 digits"):
        Sum("x")(table, "k")
    back = pa.concat_tables(
        [
            table,
            table.set_column(
                1,
                "x",
                pa.array(
                    [value.as_py().copy_negate() for value in table["x"]], pa.decimal128(38, 0)
                ),
            ),
        ]
    )
    assert [0] == Sum("x")(back, "k")["sum"].to_pylist()


def test_a_mean_that_has_no_room_for_its_digits_is_refused():
    table = pa.table({"k": [1], "x": pa.array([Decimal(LARGEST)], pa.decimal128(38, 0))})

    with pytest.raises(FoldError, match=r"a mean of decimals .* more than 38 digits with the 4"):
        Mean("x")(table, "k")
    kind = pa.decimal128(38, 36)  # of four digits more there is room for two
    table = pa.table({"k": [1, 1], "x": pa.array([Decimal(1).scaleb(-36), Decimal(0)], kind)})
    assert [Decimal(5).scaleb(-37)] == Mean("x")(table, "k")["mean"].to_pylist()


@given(st.integers(-(10**9), 10**9), st.integers(1, 50))
def test_means_are_rounded_half_away_from_zero(number, count):
    values = [Decimal(number).scaleb(-2), *[Decimal("0.00")] * (count - 1)]
    table = pa.table({"k": [1] * count, "x": pa.array(values, pa.decimal128(20, 2))})

    (mean,) = Mean("x")(table, "k")["mean"].to_pylist()

    exact = Fraction(number, 100 * count)
    assert abs(Fraction(mean) - exact) <= Fraction(1, 2 * 10**6)
    if abs(Fraction(mean) - exact) == Fraction(1, 2 * 10**6):
        assert abs(mean) > abs(exact)


def test_values_are_ranked_by_sums_of_decimals():
    x = pa.array(map(Decimal, ["1.10", "2.20", "-0.05", "3.30"]), pa.decimal128(6, 2))
    table = pa.table({"k": [1] * 4, "page": ["a", "b", "a", "c"], "x": x})

    top = TopK("page", 2, "x")(table, "k")["top"].to_pylist()

    assert [
        [{"value": "c", "total": Decimal("3.30")}, {"value": "b", "total": Decimal("2.20")}]
    ] == top


def test_decimals_of_256_bits_are_refused_with_a_remedy():
    table = pa.table({"k": [1], "x": pa.array([Decimal(1)], pa.decimal256(50, 2))})

    with pytest.raises(FoldError, match=r"cannot add up .* cast it to decimal128\(38, 2\)"):
        Sum("x")(table, "k")
