"""Columns that a function filled with nothing but None in some batch: nothing depends on it."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from any_job import Driver, temporary
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import Topology
from optimizers.errors import FoldError
from optimizers.folds import Count, Distinct, EachKey, Last, Max, Mean, Min, Sum, Together, TopK
from optimizers.folds import each_row as of_rows
from optimizers.runtime.results import results_of

VALUES = {
    "int": st.integers(-9, 9),
    "float": st.integers(-9, 9).map(float),
    "text": st.sampled_from(["a", "b", "ä"]),
    "time": st.integers(0, 9).map(lambda day: dt.datetime(2026, 1, 1 + day)),  # noqa: DTZ001
    "decimal": st.integers(0, 9).map(lambda cents: Decimal(cents) / 100 + Decimal("0.00")),
}
ORDERED = {
    "n": Count("x"),
    "first": Min("x"),
    "last": Max("x"),
    "latest": Last("x"),
    "kinds": Distinct("x"),
    "most": TopK("x", 2),
}
NUMBERS = {"sum": Sum("x"), "mean": Mean("x"), "by": TopK("y", 3, by="x")}


def as_it_is(row):
    return dict(row)


def job(folds, parallelism=3):
    parsed = Topology.source("s").then("p", apply=of_rows(as_it_is))
    return parsed.then("f", key="k", parallelism=parallelism, apply=Together(folds))


def table(rows, kind):
    return pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "y": pa.array([None if x is None else str(x) for _, x in rows], pa.string()),
            "x": pa.array([x for _, x in rows], kind),
        }
    )


def results(driver):
    found = results_of(driver.job, "f", driver.checkpoint.read("f")).to_pylist()
    return {row["k"]: row for row in found}


@settings(max_examples=6)
@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_batches_without_a_value_change_nothing(kind, data):
    """The first batch has a value; from then on a batch may hold nothing but nulls."""
    folds = ORDERED if kind in {"text", "time"} else {**ORDERED, **NUMBERS}
    value = VALUES[kind]
    keys = st.sampled_from("abcdef")
    first = data.draw(st.lists(st.tuples(keys, value), min_size=1, max_size=5))
    others = st.lists(st.tuples(keys, value | st.none()), min_size=1, max_size=6)
    nulls = st.lists(st.tuples(keys, st.none()), min_size=1, max_size=6)
    batches = [first, *data.draw(st.lists(others | nulls, max_size=3))]
    declared = pa.array([x for _, x in first]).type
    with temporary() as folder, temporary() as other:
        driver, sequential = Driver(folder, job(folds)), Driver(other, job(folds))
        for rows in batches:
            driver.batch({"s": [table(rows, declared)]})
        whole = [row for rows in batches for row in rows]
        sequential.batch({"s": [table(whole, declared)]})

        assert results(sequential) == results(driver)


def test_within_a_task_later_rows_may_tell_the_type(tmp_path):
    driver = Driver(tmp_path, job({"sum": Sum("x")}, parallelism=1))
    rows = table([("a", None), ("a", None), ("b", 1.5), ("a", None), ("b", 2.0)], pa.float64())

    batches = pa.Table.from_batches(rows.to_batches(max_chunksize=1))
    driver.batch({"s": [batches]})

    assert {"a": None, "b": 3.5} == {k: row["sum"] for k, row in results(driver).items()}


def test_an_instance_without_state_goes_by_what_others_keep(tmp_path):
    driver = Driver(tmp_path, job({"sum": Sum("x")}, parallelism=8))
    driver.batch({"s": [table([("a", 2.5)], pa.float64())]})

    driver.batch({"s": [table([(k, None) for k in "abcdefgh"], pa.float64())]})
    driver.batch({"s": [table([(k, 1.0) for k in "abcdefgh"], pa.float64())]})

    sums = {k: row["sum"] for k, row in results(driver).items()}
    assert {"a": 3.5, **dict.fromkeys("bcdefgh", 1.0)} == sums


def test_where_there_was_no_value_yet_it_is_said_what_to_do(tmp_path):
    driver = Driver(tmp_path, job({"n": Count(), "sum": Sum("x")}))

    with pytest.raises(
        FoldError, match=r"of 'y', 'x' there was nothing but nulls so far.*output=pa.sch"
    ):
        driver.batch({"s": [table([("a", None)], pa.int64())]})


@pytest.mark.parametrize("fold", [Count(), Count("x"), EachKey(lambda k, r, s: len(r), pa.int64())])
def test_folds_that_need_no_type_do_without(tmp_path, fold):
    job = Topology.source("s").then("p", apply=of_rows(as_it_is))
    driver = Driver(tmp_path, job.then("f", key="k", apply=fold))
    for x in (None, 1, None):
        driver.batch({"s": [table([("a", x)], pa.int64())]})

    assert 1 == len(results(driver))


def test_functions_of_batches_may_lose_a_type_too(tmp_path):
    def untyped(batch):
        for start in range(len(batch)):
            row = batch.slice(start, 1)
            if row["x"].null_count:
                row = row.set_column(row.schema.names.index("x"), "x", pa.nulls(1))
            yield row

    job = Topology.source("s").then("p", apply=untyped)
    driver = Driver(tmp_path, job.then("f", key="k", apply=Sum("x")))
    rows = [("a", None), ("a", 3), ("b", None), ("b", 4)]

    driver.batch({"s": [table(rows, pa.int64())]})

    assert {"a": 3, "b": 4} == {k: row["sum"] for k, row in results(driver).items()}
