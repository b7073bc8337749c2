"""What is no column, fold or function where one is wanted is refused as a fold is made."""

import pandas as pd
import pyarrow as pa
import pytest
from wild_input import WILD, taken_or_refused

from optimizers import Operator, PenstockError
from optimizers.folds import (
    Count,
    Distinct,
    EachKey,
    Last,
    Max,
    Mean,
    Min,
    Sum,
    Together,
    TopK,
    each_row,
)


class SparkColumn:
    """As those of Spark: neither true nor false, not even when compared."""

    __hash__ = None

    def __repr__(self):
        return "Column<'v'>"

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("cannot convert column into bool")

    def __iter__(self):
        raise TypeError("column is not iterable")


class Mute:
    """Has no text to show."""

    def __repr__(self):
        raise ValueError("no text")


FRAME = pd.DataFrame({"v": [1, 2], "w": [3, 4]})
ODD = [SparkColumn(), FRAME, ["v"], ("v",), 5, b"v", Mute(), pa.field("v", pa.int64())]
TABLE = pa.table({"k": ["a"], "v": [1]})

MAKERS = {
    "Count": Count,
    "Sum": Sum,
    "Mean": Mean,
    "Min": Min,
    "Max": Max,
    "Last": Last,
    "Distinct": Distinct,
    "TopK": lambda value: TopK(value, 2),
    "TopK by": lambda value: TopK("v", 2, by=value),
}


@pytest.mark.parametrize("fold", MAKERS)
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_a_column_is_given_by_its_name(fold, value):
    with pytest.raises(PenstockError, match=r"give the name of a column, such as 'v'$") as refused:
        MAKERS[fold](value)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("fold", ["Sum", "Mean", "Min", "Max", "Last", "Distinct", "TopK"])
def test_most_folds_need_a_column(fold):
    with pytest.raises(PenstockError, match=f"^{fold}.column=None.: that does not name a column"):
        MAKERS[fold](None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Together(Count()), r"Together.Count...: its folds have no names; .*seen=Count"),
        (lambda: Together([Count()]), r"its folds have no names; name each"),
        (lambda: Together(a=SparkColumn()), r"a=Column<'v'> is not a fold, such as Count"),
        (lambda: Together(a=Count), r"a=<class .*Count'> is not a fold"),
        (lambda: Count(emit=SparkColumn()), r"emit=Column<'v'> is none of Emit.TUPLES"),
        (lambda: EachKey(FRAME, pa.int64()), r"EachKey.v w 0 1 3 1 2 4.: that is not a function"),
        (lambda: EachKey(len, FRAME), r"state=v w .* is not an Arrow type"),
        (lambda: EachKey(len, pa.int64(), FRAME), r"output=v w .* is not a schema"),
        (lambda: each_row(FRAME), r"each_row.* is not a function"),
        (lambda: each_row(len, output=FRAME), r"output=.* is not a schema"),
        (lambda: Count()(FRAME, "v"), r"is not an Arrow table; .*pa.Table.from_pandas"),
        (lambda: Count()(TABLE, SparkColumn()), r"key=Column<'v'> names no column; give a col"),
        (lambda: Count()(TABLE, 5), r"key=5 names no column"),
        (lambda: Operator("n", on_error=SparkColumn()), r"on_error=Column<'v'> is none of"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_one_line(make, message):
    with pytest.raises(PenstockError, match=message) as refused:
        make()

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("fold", MAKERS)
def test_whatever_is_given_for_a_column(fold):
    taken_or_refused(MAKERS[fold], *ODD)


def test_whatever_is_given_for_folds():
    taken_or_refused(lambda value: Together(a=value), *ODD)
    taken_or_refused(Together, *ODD)
    taken_or_refused(lambda value: Count(emit=value), *ODD)
    taken_or_refused(lambda value: Count()(TABLE, value), *ODD)
    taken_or_refused(lambda value: Count()(value, "k"), *ODD)


@pytest.mark.parametrize("fold", MAKERS)
def test_what_is_taken_can_be_compared_and_shown(fold):
    for value in (*WILD, *ODD):
        try:
            made = MAKERS[fold](value)
        except PenstockError:
            continue
        assert made == MAKERS[fold](value)
        assert hash(made) == hash(MAKERS[fold](value))
        assert type(made).__name__ in repr(made)
