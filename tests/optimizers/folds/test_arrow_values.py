"""Plain Python values as columns: they come back as they were, or are refused."""

import datetime as dt
import functools
import math
import subprocess
import sys
from collections import ChainMap, UserDict
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError
from optimizers.folds.arrow_values import batch_of, column_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
PLAIN = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.floats(width=16)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.binary_view(), st.binary(max_size=3)),
    (pa.binary(1), st.binary(min_size=1, max_size=1)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
    (pa.decimal128(6, 2), st.decimals(-999, 999, places=2)),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(TEXT, st.integers(0, 9)), max_size=2)),
]


@st.composite
def kinds_with_values(draw, depth=2):
    """A type, and a strategy of values of it."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(PLAIN))
    kind, values = draw(kinds_with_values(depth - 1))
    match draw(st.sampled_from(("list", "large_list", "fixed", "view", "map", "struct"))):
        case "list":
            return pa.list_(kind), st.lists(values | st.none(), max_size=3)
        case "large_list":
            return pa.large_list(kind), st.lists(values, max_size=3)
        case "view":
            return pa.list_view(kind), st.lists(values | st.none(), max_size=3)
        case "map":
            entries = st.tuples(TEXT, values | st.none())
            return pa.map_(pa.string(), kind), st.lists(entries, max_size=3)
        case "fixed":
            return pa.list_(kind, 2), st.lists(values, min_size=2, max_size=2)
        case _:
            other, others = draw(st.sampled_from(PLAIN))
            fields = {"a": values | st.none(), "b": others}
            return pa.struct([("a", kind), ("b", other)]), st.fixed_dictionaries(fields)


@given(st.data())
def test_values_of_a_type_come_back_as_they_were(data):
    kind, values = data.draw(kinds_with_values())
    given_values = data.draw(st.lists(values | st.none(), max_size=5))

    column = column_of(given_values, kind, str)

    assert kind == column.type
    assert alike(given_values, column.to_pylist())


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | TEXT
    | st.binary(max_size=2)
    | st.dates()
    | st.datetimes()
    | st.decimals(allow_nan=False, allow_infinity=False, places=1, min_value=-9, max_value=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def alike(given_value, found):
    """Whether a value came back as it was; whole numbers may have become equal floats."""
    if isinstance(given_value, dict) and isinstance(found, dict):
        return given_value.keys() == found.keys() and all(
            alike(given_value[name], found[name]) for name in given_value
        )
    if isinstance(given_value, list) and isinstance(found, list):
        return len(given_value) == len(found) and all(map(alike, given_value, found))
    if isinstance(given_value, bool) or isinstance(found, bool):
        return given_value is found
    if isinstance(given_value, float) and math.isnan(given_value):
        return isinstance(found, float) and math.isnan(found)
    return given_value == found


@given(st.lists(ANYTHING, min_size=1, max_size=4), st.data())
def test_anything_else_is_refused_and_nothing_is_changed(values, data):
    kind, _ = data.draw(kinds_with_values().filter(lambda pair: "float" not in str(pair[0])))

    try:
        column = column_of(values, kind, "value {}".format)
    except FoldError as error:
        place = int(str(error).split()[1].rstrip(":"))
        with pytest.raises(FoldError, match="value 0: "):  # it is this one, whatever the others
            column_of([values[place]], kind, "value {}".format)
    else:
        assert all(map(alike, values, column.to_pylist()))


@given(st.lists(ANYTHING, min_size=1, max_size=4))
def test_types_that_are_not_given_are_found_without_a_change(values):
    try:
        column = column_of(values, None, "value {}".format)
    except FoldError as error:
        refused = str(error)
    else:
        refused = ""
        assert all(map(alike, values, column.to_pylist()))
    assert not refused or refused.startswith("value ")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int64()),
        (1.0, pa.int64()),
        (np.float64(1), pa.int64()),
        (True, pa.int64()),
        (True, pa.float64()),
        (1, pa.bool_()),
        (2**63, pa.int64()),
        (-1, pa.uint8()),
        (300, pa.int8()),
        (2**53 + 1, pa.float64()),
        (1e300, pa.float32()),
        (-1e300, pa.float32()),
        (10**400, pa.float64()),
        (b"a", pa.string()),
        ("a", pa.binary()),
        ("\ud800", pa.string()),
        (b"ab", pa.binary(1)),
        ({"a": 1, "b": 2}, pa.struct([("a", pa.int64())])),
        ({}, pa.struct([("a", pa.int64())])),
        (UserDict(a=1), pa.struct([("a", pa.int64())])),
        (ChainMap({"a": 1}), pa.struct([("a", pa.int64())])),
        ([UserDict(a=1)], pa.list_(pa.struct([("a", pa.int64())]))),
        ([("a", 1)], pa.struct([("a", pa.int64())])),
        ({1, 2}, pa.list_(pa.int64())),
        ([1.5], pa.list_(pa.int64())),
        (np.array([1.5]), pa.list_(pa.int64())),
        ([1], pa.list_(pa.int64(), 2)),
        ("ab", pa.list_(pa.string())),
        (dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC), pa.date32()),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.timestamp("us")),
        (dt.datetime(2020, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC), pa.timestamp("s", "UTC")),
        (5, pa.timestamp("us")),
        (Decimal("1.234"), pa.decimal128(5, 2)),
        (5, pa.string()),
        (5, pa.dictionary(pa.int8(), pa.string())),
        (object(), pa.int64()),
        (5, pa.null()),
        (np.timedelta64(1, "D"), pa.int64()),
        (np.timedelta64(1, "D"), pa.float32()),
        (np.array(1), pa.list_(pa.int64())),
        ({"a": 1}, pa.struct([("a", pa.int64()), ("a", pa.int64())])),
        ({"a": 1}, pa.map_(pa.string(), pa.int64())),
        ([("a", 1.5)], pa.map_(pa.string(), pa.int64())),
        (1, pa.sparse_union([pa.field("a", pa.int64())])),
    ],
)
def test_a_value_that_would_be_changed_is_refused(value, kind):
    with pytest.raises(FoldError, match=r"here: .* is not a value of type "):
        column_of([None, value], kind, lambda _: "here")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (np.int64(3), pa.int64(), 3),
        (np.int8(3), pa.float64(), 3.0),
        (np.float32(0.5), pa.float64(), 0.5),
        (np.bool_(True), pa.bool_(), True),  # noqa: FBT003
        (3, pa.float64(), 3.0),
        (0.1, pa.float32(), float(np.float32(0.1))),
        (math.inf, pa.float32(), math.inf),
        ((1, 2), pa.list_(pa.int64()), [1, 2]),
        (np.array([1, 2]), pa.list_(pa.int64()), [1, 2]),
        (1, pa.decimal128(5, 2), Decimal(1)),
        ([("a", 0.1)], pa.map_(pa.string(), pa.float32()), [("a", float(np.float32(0.1)))]),
    ],
)
def test_what_means_the_same_is_let_in(value, kind, expected):
    assert [expected] == column_of([value], kind, str).to_pylist()


ENDS_THE_PROCESS = [
    "[None], pa.map_(pa.string(), pa.int64())",
    "[('a', 1), None], pa.map_(pa.string(), pa.int64())",
    "[None, (1, 2)], pa.map_(pa.int64(), pa.int64())",
    "['ab'], pa.map_(pa.string(), pa.string())",
    "np.array([None]), pa.map_(pa.string(), pa.int64())",
    "[[None]], pa.list_(pa.map_(pa.string(), pa.int64()))",
    "{'a': [None]}, pa.struct([('a', pa.map_(pa.string(), pa.int64()))])",
    "pa.scalar(1), pa.dictionary(pa.int8(), pa.string())",
    "[pa.scalar(1)], pa.list_(pa.dictionary(pa.int8(), pa.string()))",
    "{1}, pa.list_(pa.int8(), 2)",
    "{1}, pa.fixed_shape_tensor(pa.int64(), [2])",
    "itself, None",
    "[1, {'a': itself}], None",
    "np.array([None, itself], dtype=object), None",
    "deep, None",
]
ONE_BY_ONE = """
import sys
import numpy as np
import pyarrow as pa
from optimizers.errors import FoldError
from optimizers.folds.arrow_values import column_of

itself, deep = [], []
itself.append(itself)
for _ in range(5000):
    deep = [deep]
for case in sys.argv[1:]:
    value, kind = eval(case)
    try:
        column_of([None, value], kind, "value {}".format)
    except FoldError as error:
        print("value 1: " in str(error), flush=True)
"""


def test_values_that_make_arrow_end_the_whole_process_are_refused_before_it_sees_them():
    tried = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE, *ENDS_THE_PROCESS],
        capture_output=True,
        text=True,
        check=False,
    )
    printed = len(tried.stdout.split())

    assert printed == len(ENDS_THE_PROCESS), (ENDS_THE_PROCESS[printed], tried.stderr[-500:])
    assert set(tried.stdout.split()) == {"True"}
    assert tried.returncode == 0


def test_values_nested_sixty_levels_deep_are_let_in():
    deep = 1
    for _ in range(60):
        deep = [deep]

    assert [deep] == column_of([deep], None, str).to_pylist()


def test_messages_say_what_to_do():
    with pytest.raises(FoldError, match=r"<pyarrow.*: 3> \(Int64Scalar\).*\.as_py\(\)"):
        column_of([pa.scalar(3)], pa.int64(), str)
    with pytest.raises(FoldError, match="so far there were only nulls; say the type beforehand"):
        column_of([3], pa.null(), str)
    with pytest.raises(FoldError, match=r"^2: 'a' \(str\) has no type in common with the values"):
        column_of([1, 2, "a", 4, "b"], None, str)
    with pytest.raises(FoldError, match=r"^0: a value is nested more than 64 levels .* flatten it"):
        column_of([functools.reduce(lambda inner, _: [inner], range(70), 1)], None, str)
    with pytest.raises(FoldError, match=r"'x{79} \(str\)"):
        column_of(["x" * 500], pa.int64(), str)


SCHEMA = pa.schema([("a", pa.int64()), pa.field("b", pa.string(), nullable=False)])


def test_rows_become_a_batch():
    batch = batch_of([{"b": "x", "a": 1}, {"b": "y"}], SCHEMA, str)

    assert SCHEMA == batch.schema
    assert {"a": [1, None], "b": ["x", "y"]} == batch.to_pydict()
    assert {"a": [1.0, 2.5]} == batch_of([{"a": 1}, {"a": 2.5}], None, str).to_pydict()
    assert {"a": [1, 2], "b": [3, 4]} == batch_of(
        [{"a": 1, "b": 3}, {"b": 4, "a": 2}], None, str
    ).to_pydict()


@pytest.mark.parametrize(
    ("rows", "schema", "message"),
    [
        ([{"b": "x"}, {"b": "x", "c": 1}], SCHEMA, "^1 has a column 'c', but the columns are 'a'"),
        ([{"b": "x"}, {"a": 1}], SCHEMA, "^1, column 'b': there is no value, but .* not null"),
        ([{"b": None}], SCHEMA, "^0, column 'b': there is no value"),
        ([{"b": "x"}, {"b": 5}], SCHEMA, r"^1, column 'b': 5 \(int\) is not a value of type str"),
        ([{"a": 1, "b": 2}, {"a": 1}], None, r"^1 has only columns \['a'\], but the columns are "),
        ([{"a": 1}, {"b": 1}], None, "^1 has a column 'b'"),
        ([{"a": 1}, {"a": "x"}], None, r"^1, column 'a': 'x' \(str\) has no type in common"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_row_and_column(rows, schema, message):
    with pytest.raises(FoldError, match=message):
        batch_of(rows, schema, str)
