"""Stateless functions: of record batches, whatever they return, and of single rows."""

import pickle
import sys
from types import MappingProxyType, ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Operator
from optimizers.errors import FoldError
from optimizers.folds import as_batches, each_row
from optimizers.import_paths import function_at, reference_to

BATCH = pa.record_batch({"x": [1, 2, 3]})
TABLE = pa.Table.from_batches([BATCH])
SCHEMA = pa.schema([("x", pa.int64())])


def outcome(function, *batches, **options):
    """Return what comes out, batch by batch."""
    normal = as_batches(function, **options)
    return [made.to_pydict()["x"] for batch in batches for made in normal(batch)]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (BATCH, [[1, 2, 3]]),
        (TABLE, [[1, 2, 3]]),
        (pa.concat_tables([TABLE, TABLE]), [[1, 2, 3]] * 2),
        (None, []),
        ([], []),
        ([BATCH, TABLE], [[1, 2, 3]] * 2),
        ((BATCH, BATCH.slice(1)), [[1, 2, 3], [2, 3]]),
        (BATCH.slice(3), []),
        (TABLE.slice(3), []),
        (pa.table({"other": pa.array([], pa.int8())}), []),
    ],
)
def test_what_a_function_may_return_comes_out_as_batches(returned, expected):
    assert expected == outcome(lambda batch: returned, BATCH)


def test_a_generator_is_drawn_from_as_needed():
    drawn = []

    def function(batch):
        for number in range(3):
            drawn.append(number)
            yield batch.slice(number)

    results = as_batches(function)(BATCH)

    assert [1, 2, 3] == next(results).to_pydict()["x"]
    assert [0] == drawn
    assert 2 == len(list(results))


@pytest.mark.parametrize(
    "returned", [5, "text", b"bytes", {"x": 1}, [{"x": 1}], [BATCH, None], [[BATCH]], [5]]
)
def test_anything_else_is_refused_with_the_name_of_the_function(returned):
    def careless(batch):
        return returned

    with pytest.raises(FoldError, match=r"careless returned a .*; it must return a RecordBatch"):
        outcome(careless, BATCH)


def test_all_that_comes_out_has_one_schema():
    answers = iter([BATCH, pa.record_batch({"x": [1.5]})])
    normal = as_batches(lambda batch: next(answers))

    assert normal.schema is None
    assert 1 == len(list(normal(BATCH)))
    assert SCHEMA == normal.schema
    with pytest.raises(FoldError, match=r"columns \(x: double\), but they must be \(x: int64\)"):
        list(normal(BATCH))
    with pytest.raises(FoldError, match="but they must be"):
        outcome(lambda batch: BATCH, BATCH, schema=pa.schema([("x", pa.int32())]))


@given(st.lists(st.integers(-9, 9), max_size=6))
def test_a_function_of_rows_gives_what_it_gives_row_by_row(values):
    def several(row):
        return ({"x": row["x"], "n": n} for n in range(max(row["x"], 0)))

    (*batches,) = as_batches(each_row(several))(pa.record_batch({"x": pa.array(values, "int64")}))

    assert [{"x": x, "n": n} for x in values for n in range(max(x, 0))] == [
        row for batch in batches for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ({"x": 1}, [{"x": 1}]),
        (MappingProxyType({"x": 1}), [{"x": 1}]),
        (None, []),
        ([], []),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 2}]),
        (({"x": n} for n in (1, 2)), [{"x": 1}, {"x": 2}]),
    ],
)
def test_a_function_of_rows_may_return_one_row_several_or_none(returned, expected):
    results = as_batches(each_row(lambda row: returned))(pa.record_batch({"y": [0]}))

    assert expected == [row for batch in results for row in batch.to_pylist()]


@pytest.mark.parametrize(("returned", "name"), [(5, "int"), ("abc", "str"), ([5], "int")])
def test_a_function_of_rows_that_returns_something_else_is_refused(returned, name):
    def careless(row):
        return returned if row["x"] == 3 else None

    with pytest.raises(
        FoldError, match=f"careless made of row 2 of the batch: .* a {name}; it must return a dict"
    ):
        outcome(each_row(careless), BATCH)


def test_the_first_batch_says_the_types_for_those_that_follow():
    function = each_row(lambda row: {"x": row["x"] / 2 if row["x"] > 2 else row["x"]})

    assert [[1.0, 2.0, 1.5], [1.0]] == outcome(function, BATCH, BATCH.slice(0, 1))
    with pytest.raises(FoldError, match=r"of row 0 of the batch, column 'x': 1.5 \(float\) is not"):
        outcome(function, BATCH.slice(0, 2), BATCH.slice(2))


def test_rows_are_counted_as_they_came_in_not_as_they_go_out():
    def function(row):
        return [{"x": "late" if row["x"] == 3 else 1}] * 2

    with pytest.raises(FoldError, match="of row 2 of the batch, column 'x': 'late'"):
        outcome(each_row(function), BATCH)


def test_declared_columns_are_those_that_come_out():
    schema = pa.schema([("x", pa.float32()), ("y", pa.string())])
    (batch,) = as_batches(each_row(lambda row: {"x": row["x"]}, output=schema))(BATCH)

    assert schema == batch.schema
    assert {"x": [1.0, 2.0, 3.0], "y": [None] * 3} == batch.to_pydict()


def test_columns_that_are_there_twice_are_refused():
    batch = pa.record_batch([[1], [2]], names=["x", "x"])

    with pytest.raises(FoldError, match="not all different; rename some"):
        each_row(lambda row: row)(batch)


@pytest.mark.parametrize("make", [lambda: each_row(5), lambda: each_row(len, output=dict)])
def test_what_is_no_function_or_no_schema_is_refused(make):
    with pytest.raises(FoldError, match=r"5.: that is not a function|output=.* is not a schema"):
        make()


@pytest.fixture
def module(monkeypatch):
    """A module of the user's, with a plain function and one that is wrapped where it stands."""
    module = ModuleType("users_own")
    code = (
        "from optimizers.folds import each_row\n"
        "def plain(row): return row\n"
        "@each_row\n"
        "def wrapped(row):\n"
        "    'What it does.'\n"
        "    return row\n"
    )
    exec(code, module.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "users_own", module)
    return module


def test_a_function_of_rows_is_a_value(module):
    function = each_row(module.plain, output=SCHEMA)
    again = pickle.loads(pickle.dumps(function))  # noqa: S301

    assert function == again
    assert hash(function) == hash(again)
    assert each_row(module.plain) != function
    assert "each_row(users_own.plain)" == repr(again)


def test_as_a_decorator_it_is_found_where_it_stands(module):
    again = pickle.loads(pickle.dumps(module.wrapped))  # noqa: S301

    assert module.wrapped is again
    assert "What it does." == again.__doc__
    assert "users_own:wrapped" == reference_to(module.wrapped)
    assert module.wrapped is function_at("users_own:wrapped")
    assert module.wrapped is Operator("parse", apply=module.wrapped).function()
