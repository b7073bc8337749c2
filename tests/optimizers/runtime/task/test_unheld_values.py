"""Values that Arrow holds and Python does not are bad rows: counted, named, and no job ends."""

import json
import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from any_job import Driver, temporary
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wild_columns import COLUMNS, KEYS

from optimizers import PenstockError, Topology
from optimizers.errors import FoldError
from optimizers.folds import Count, EachKey, Emit, each_row
from optimizers.folds.key_codes import take_rows
from optimizers.folds.types import plain
from optimizers.runtime.task.key_reader import key_batch, unfit_keys
from optimizers.runtime.task.row_text import row_texts
from optimizers.statistics import Probe

FAR = pa.array([0, 253_402_300_800 * 10**6], pa.timestamp("us", "UTC"))
MODES = st.sampled_from(["skip", "aside", "fail"])


def named(row):
    return {"k": row["k"]}


def first_fails(batch):
    if pc.any(pc.equal(batch["n"], 0)).as_py():
        raise ValueError("poison")
    return batch


def seen(key, rows, state):
    return (state or 0) + len(rows)


def beside(column):
    """A table with these values, and with keys and numbers that are all right."""
    numbers = range(len(column))
    return pa.table({"w": column, "k": [f"k{n}" for n in numbers], "n": pa.array(numbers)})


def unheld(table):
    """How many rows Python cannot hold."""
    found = 0
    for row in range(len(table)):
        try:
            table.slice(row, 1).to_pylist()
        except Exception:  # noqa: BLE001  # which they are is Arrow's affair
            found += 1
    return found


def outcome(job, table, mode, observes=()):
    """How many rows came through to the last operator, and how many were bad; or the error."""
    with temporary() as folder:
        driver = Driver(folder, job, observes=observes)
        try:
            summary = driver.batch({"s": [table]})
        except PenstockError as error:  # others are let through, and fail the test
            if mode == "fail" and re.search("^[^\n]*on_error='skip'", str(error)):
                return None
            raise
        state = driver.checkpoint.read(job.order[-1])
        counts = state.columns[-1] if len(state) else pa.array([0])
        through = pc.sum(counts).as_py()
        return through, sum({**summary.skipped, **summary.aside}.values())


@settings(max_examples=75)
@given(column=COLUMNS, mode=MODES)
def test_a_function_of_rows_gets_those_that_python_holds(column, mode):
    job = Topology.source("s").then("f", apply=each_row(named), on_error=mode)
    table = beside(column)
    bad = unheld(table)

    found = outcome(job.then("n", key="k", apply=Count()), table, mode)

    assert found == (None if mode == "fail" and bad else (len(table) - bad, bad))


@settings(max_examples=50)
@given(column=COLUMNS, mode=MODES)
def test_whatever_stands_beside_what_is_bad(column, mode):
    """A row on which the function raises, and one without a key, beside any values."""
    job = Topology.source("s").then("f", apply=first_fails, on_error=mode)
    job = job.then("n", key="k", apply=Count(), on_error=mode)
    table = beside(column)
    keys = pa.array([None if n == 1 else f"k{n}" for n in range(len(table))])
    table = table.set_column(1, "k", keys)
    bad = min(2, len(table))

    found = outcome(job, table, mode)

    assert found == (None if mode == "fail" else (len(table) - bad, bad))


@settings(max_examples=50)
@given(column=KEYS, mode=MODES, fold=st.booleans(), observed=st.booleans())
def test_what_no_key_can_be_is_a_bad_row(column, mode, fold, observed):
    apply = EachKey(seen, pa.int64(), emit=Emit.TUPLES) if fold else Count(emit=Emit.TUPLES)
    job = Topology.source("s").then("m", key="w", parallelism=2, apply=apply, on_error=mode)
    job = job.then("n", key="w", apply=Count(), on_error=mode)
    table = beside(column)
    solid = pa.table({"w": pa.chunked_array([column])})
    # A function of keys gets those that Python holds as they are, in their own time zone.
    bad = sum(
        not fits(solid, row) or (fold and unheld(solid.slice(row, 1)) > 0)
        for row in range(len(table))
    )

    found = outcome(job, table, mode, tuple(Probe) if observed else ())

    assert found == (None if mode == "fail" and bad else (len(table) - bad, bad))


def fits(table, row):
    column = table.slice(row, 1)["w"]
    try:
        key_batch(pa.table({"w": column.cast(plain(column.type))}), ["w"], "here")
    except FoldError:
        return False
    return True


@settings(max_examples=100)
@given(column=KEYS)
def test_unfit_keys_are_just_those_that_are_refused_one_by_one(column):
    there = pa.chunked_array([column.drop_null()])
    table = pa.table({"w": there})
    wrong = [False] * len(there)
    for mask, why in unfit_keys(there):
        assert why
        wrong = [one or bool(other) for one, other in zip(wrong, mask, strict=True)]

    assert wrong == [not fits(table, row) for row in range(len(table))]


@settings(max_examples=100)
@given(column=COLUMNS)
def test_each_row_has_a_text(column):
    table = beside(column)

    texts = row_texts(table)

    assert [f"k{n}" for n in range(len(table))] == [json.loads(text)["k"] for text in texts]
    again = row_texts(take_rows(table, list(range(len(table)))))
    assert texts == again
    alone = [row_texts(table.slice(row, 1))[0] for row in range(len(table))]
    assert texts == alone


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.timestamp("us", "UTC"), 253_402_300_800 * 10**6, "10000-01-01T00:00:00.000000Z"),
        (pa.timestamp("s", "Asia/Tokyo"), 253_402_300_800, "10000-01-01T00:00:00Z"),
        (pa.timestamp("ms"), -(10**14), "-1199-02-15T14:13:20.000"),
        (pa.timestamp("us"), 1_700_000_000_000 * 10**6, "55840-11-08T22:13:20.000000"),
        (pa.timestamp("ns", "Nowhere/No"), 1, "1970-01-01T00:00:00.000000001Z"),
        (pa.date64(), 253_402_300_800 * 10**3, "10000-01-01"),
        (pa.duration("s"), 2**50, f"{2**50} (duration[s])"),
        (pa.time64("us"), 2**60, f"{2**60} (time64[us])"),
    ],
)
def test_a_time_beyond_pythons_is_written_as_it_is(kind, value, text):
    column = pa.array([value], pa.int64()).view(kind)

    assert [{"t": text}] == [json.loads(row) for row in row_texts(pa.table({"t": column}))]


CYCLE = 146_097 * 86_400  # seconds, after which the Gregorian calendar begins again


@given(st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**12), 10**12))
@example(-62_167_219_201)  # the last second of the year -1
def test_its_date_is_that_of_the_calendar(seconds):
    column = pa.array([seconds]).view(pa.timestamp("s"))

    cycles, rest = divmod(seconds, CYCLE)
    near = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=rest)
    year = near.year + 400 * cycles
    text = f"{'-' * (year < 0)}{abs(year):04}-{near:%m-%dT%H:%M:%S}"
    assert [{"t": text}] == [json.loads(row) for row in row_texts(pa.table({"t": column}))]


def test_such_a_row_is_refused_by_column_value_and_remedy():
    batch = pa.record_batch({"k": ["a", "b"], "t": FAR})

    with pytest.raises(FoldError, match=r"column 't' holds '10000-01-01T.*cast the column to text"):
        each_row(named)(batch)


def test_a_key_beyond_pythons_names_edge_row_and_remedy(tmp_path):
    driver = Driver(tmp_path, Topology.source("s").then("m", key="t", apply=Count()))

    message = r"'m': key 't' is not from year 1 to 9999 on edge s -> m; the row .*10000.*='skip'"
    with pytest.raises(FoldError, match=message):
        driver.batch({"s": [pa.table({"t": FAR})]})
