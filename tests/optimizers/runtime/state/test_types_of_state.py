"""Columns whose types change from batch to batch: what goes on with old state, what is refused."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from any_job import Driver

from optimizers import Operator, Plan, Topology
from optimizers.errors import FoldError, StateError
from optimizers.folds import Count, Distinct, Last, Max, Mean, Sum, TopK
from optimizers.runtime.state import cache

NOON = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
BERLIN, UTC = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")


@pytest.fixture(autouse=True)
def _nothing_is_known():
    cache.forget()


def job(fold=None):
    operator = Operator("a", "k", 3, apply=fold or Count(), key_groups=16)
    return Topology.source("in").then(operator)


def run(folder, fold, *batches):
    """Run batches; between them keys change hands, and nothing stays in memory."""
    plans = [Plan(), *(Plan(parallelism={"a": 2 + number % 3}) for number in range(len(batches)))]
    driver = Driver(folder, job(fold), plans)
    for columns in batches:
        cache.forget()
        driver.batch({"in": pa.table(columns)})
    return driver.results("a")


DAY = dt.date(2026, 7, 1)
KEYS = {
    "int, then bigint": ([pa.int32(), pa.int64(), pa.int8()], [1, 2, 3]),
    "text": ([pa.string(), pa.large_string(), pa.string_view()], ["a", "b", "c"]),
    "decimals": (
        [pa.decimal128(5, 2), pa.decimal128(9, 2)],
        [Decimal("1.50"), Decimal("2.50"), Decimal("-1.00")],
    ),
    "zones": ([UTC, BERLIN], [NOON, NOON + dt.timedelta(1), NOON - dt.timedelta(1)]),
    "times": ([pa.timestamp("us")], [dt.datetime(2026, 1, day) for day in (1, 2, 3)]),  # noqa: DTZ001
    "dates": ([pa.date32()], [DAY, DAY + dt.timedelta(1), DAY + dt.timedelta(2)]),
    "truth": ([pa.bool_(), pa.dictionary(pa.int8(), pa.bool_())], [True, False, True]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_one_type_in_another_form_are_the_same_keys(tmp_path, name):
    kinds, values = KEYS[name]
    batches = [{"k": pa.array(values[:2], kind)} for kind in (*kinds, *kinds)]
    batches.append({"k": pa.array(values, kinds[0])})
    expected = dict.fromkeys(values, 0)
    for batch in batches:
        for value in batch["k"].to_pylist():
            expected[value] += 1

    assert expected == run(tmp_path, Count(), *batches)


FORMS = [
    (Sum("x"), [(pa.int32(), 1), (pa.int64(), 1 << 40)], 1 + (1 << 40)),
    (
        Sum("x"),
        [(pa.decimal128(10, 2), Decimal("1.50")), (pa.decimal128(20, 2), Decimal("2.25"))],
        Decimal("3.75"),
    ),
    (
        Mean("x"),
        [(pa.decimal128(4, 1), Decimal("0.1")), (pa.decimal128(6, 1), Decimal("0.2"))],
        Decimal("0.15000"),
    ),
    (Max("x"), [(pa.int32(), 1), (pa.int64(), 1 << 40)], 1 << 40),
    (Max("x"), [(UTC, NOON), (BERLIN, NOON - dt.timedelta(1))], NOON),
    (Last("x"), [(pa.string(), "a"), (pa.large_string(), "b")], "b"),
    (Distinct("x"), [(pa.int32(), 1), (pa.int64(), 1)], 1),
    (
        Distinct("x"),
        [(pa.decimal128(9, 2), Decimal("1.00")), (pa.decimal128(12, 2), Decimal("1.00"))],
        1,
    ),
    (Distinct("x"), [(UTC, NOON), (BERLIN, NOON)], 1),
    (TopK("x", 1), [(pa.int8(), 7), (pa.int64(), 7)], [{"value": 7, "total": 2}]),
]


@pytest.mark.parametrize(("fold", "forms", "expected"), FORMS)
def test_values_of_one_type_in_another_form_go_on_with_old_state(tmp_path, fold, forms, expected):
    batches = [{"k": ["a"], "x": pa.array([value], kind)} for kind, value in forms]

    assert {"a": expected} == run(tmp_path, fold, *batches)


CHANGES = {
    "another scale": (
        (pa.decimal128(9, 2), Decimal("1.00")),
        (pa.decimal128(9, 3), Decimal("1.000")),
    ),
    "integer, then double": ((pa.int64(), 7), (pa.float64(), 7.0)),
    "double, then float": ((pa.float64(), 0.5), (pa.float32(), 0.5)),
    "date, then time": ((pa.date32(), DAY), (pa.timestamp("us"), dt.datetime(1970, 1, 2))),  # noqa: DTZ001
    "another unit": ((pa.timestamp("us", "UTC"), NOON), (pa.timestamp("ms", "UTC"), NOON)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fold", [Distinct("x"), Max("x"), TopK("x", 1), Last("x")])
def test_another_type_is_refused_by_name(tmp_path, fold, change):
    driver = Driver(tmp_path, job(fold))
    first, second = (
        {"in": pa.table({"k": ["a"], "x": pa.array([value], kind)})}
        for kind, value in CHANGES[change]
    )
    driver.batch(first)
    before = driver.results("a")

    with pytest.raises((FoldError, StateError), match="cast the tuples to the types they had"):
        driver.batch(second)

    assert before == driver.results("a")


def test_what_is_sent_on_has_the_types_of_the_tuples(tmp_path):
    columns = {"k": pa.array([1], pa.int32()), "x": pa.array([NOON], BERLIN)}
    job = Topology.source("in").then("a", key="k", apply=Max("x"))
    job = job.then("b", key="max", apply=Sum("k"))
    driver = Driver(tmp_path, job)
    for _ in range(2):
        driver.batch({"in": pa.table(columns)})

    assert [pa.int32(), BERLIN] == Max("x")(pa.table(columns), "k").schema.types
    assert {NOON: 2} == driver.results("b")
