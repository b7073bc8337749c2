"""Costs are learned of functions as people have them, and are close to those planted."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from optimizers.errors import FunctionError, InvalidKeyError, InvalidValueError
from optimizers.folds import each_row
from optimizers.spark import balance, learn_costs
from optimizers.spark.costs import _TimingFrames

pytestmark = pytest.mark.spark

CALL, CHEAP, COSTLY = 0.02, 0.001, 0.048  # seconds
USERS = [f"user {number}" for number in range(10)]


def planted():  # made again each time, as workers cannot import this module
    def seconds(users, costly=COSTLY, cheap=CHEAP):
        return sum(costly if user in {"user 3", "user 7"} else cheap for user in users)

    return seconds


@pytest.fixture(scope="module")
def rows(spark):
    users = [user for user in USERS for _ in range(5)]
    random = np.random.default_rng(1)
    return spark.createDataFrame(pa.table({"user": random.permutation(users).tolist()}))


def of_frames(seconds, call):
    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(call + seconds(frame.user))
            yield frame

    return work


def of_streams(seconds, call):
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(call + seconds(batch["user"].to_pylist()))
            yield batch

    return work


def of_batches(seconds, call):
    def work(batch):
        time.sleep(call + seconds(batch["user"].to_pylist()))
        return batch

    return work


@pytest.mark.parametrize("kind", [of_frames, of_streams, of_batches])
def test_they_are_those_planted_though_calls_are_dear(rows, kind):
    """A call takes twenty times as long as a cheap row: with it, 48 times as costly seemed 9."""
    sketch = learn_costs(rows, kind(planted(), CALL), key="user", sample=1.0)

    found = sketch.estimate(USERS)
    truth = np.array([planted()([user]) for user in USERS])
    costly, cheap = (found[truth == cost].mean() for cost in (COSTLY, CHEAP))
    assert 50 == sketch.total
    assert np.corrcoef(found, truth)[0, 1] > 0.98
    # To sleep takes some tenth of a millisecond longer than it should, more where others work.
    assert 48 / 1.5 < costly / cheap < 48 * 1.5
    assert costly == pytest.approx(COSTLY, rel=0.1)


@pytest.mark.parametrize("kind", [of_frames, of_streams, of_batches])
def test_a_small_sample_tells_them_as_well(spark, kind):
    """At .02 of the rows, what is learned of functions of batches had been 2 for these 48."""
    users = np.random.default_rng(1).permutation([user for user in USERS for _ in range(250)])
    rows = spark.createDataFrame(pa.table({"user": users.tolist()}))

    sketch = learn_costs(rows, kind(planted(), CALL), key="user", sample=0.02)

    # Of 2,500 rows about 50, within six standard deviations, of which each is 7.
    assert 8 <= sketch.total <= 92
    truth = np.array([planted()([user]) for user in USERS])
    found = sketch.estimate(USERS)
    costly, cheap = (found[truth == cost].mean() for cost in (COSTLY, CHEAP))
    assert 48 / 1.5 < costly / cheap < 48 * 1.5
    assert costly == pytest.approx(COSTLY, rel=0.1)


KEYS = {
    "date": (
        "date_add(date'2026-01-01', cast(id % 2 as int))",
        [date(2026, 1, 1), date(2026, 1, 2)],
    ),
    "timestamp": (
        "timestamp_seconds(1767225600 + id % 2)",
        [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(2)],
    ),
    "timestamp_ntz": (
        "timestamp_ntz'2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id % 2)",
        [datetime(2026, 1, 1, 0, 0, second) for second in range(2)],  # noqa: DTZ001
    ),
    "boolean": ("id % 2 = 1", [False, True]),
    "decimal": ("cast(9.5 + id % 2 as decimal(10, 2))", [Decimal("9.50"), Decimal("10.50")]),
}


def odd_ones(kind):  # made again each time, as those planted
    def seconds(numbers):
        return sum(0.002 + 0.02 * (number % 2) for number in numbers)

    def of_rows(row):
        time.sleep(seconds([row["id"]]))

    def of_batches(batch):
        time.sleep(seconds(batch["id"].to_pylist()))

    def of_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(seconds(frame.id))
            yield frame

    return {"rows": each_row(of_rows), "batches": of_batches, "frames": of_frames}[kind]


@pytest.fixture(scope="module")
def dated(spark):
    columns = [f"{made} as `{name}`" for name, (made, _) in KEYS.items()]
    return spark.range(20).selectExpr("id", *columns).cache()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["rows", "batches", "frames"])
def test_all_kinds_of_keys_have_costs(dated, key, kind):
    """In the session's time zone, whatever that is, and for `balance` as for the engine."""
    sketch = learn_costs(dated, odd_ones(kind), key=key, sample=1.0)

    even, odd = sketch.estimate(KEYS[key][1])
    assert 20 == sketch.total
    assert 11 / 1.5 < odd / even < 11 * 1.5
    assert 20 == balance(dated, 2, costs=sketch, key=key).count()


def test_large_keys_stay_as_they_are_where_others_are_added_up():
    keys = [2**60 + number for number in range(4)]
    timing = _TimingFrames(of_frames(lambda users: 0.001 * len(users), 0.0), "user", 2)

    (told,) = timing([pd.DataFrame({"user": keys})])

    assert 3 == len(told)
    assert {None, *keys} > set(told["key"])
    assert {None} < set(told["key"])
    assert [2.0] == told["count"][told["key"].isna()].tolist()


def test_a_function_without_annotations_says_what_it_is_given_to(rows):
    def plain(frames):
        for frame in frames:
            yield frame[frame.user != "nobody"]

    assert 50 == learn_costs(rows, plain, key="user", given_to="mapInPandas", sample=1.0).total

    with pytest.raises(FunctionError, match=r"work raised AttributeError.*given_to='mapInPandas'"):
        learn_costs(rows, plain, key="user", sample=1.0)


def test_a_function_that_reads_all_rows_first_is_refused(rows):
    def greedy(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        everything = pd.concat(list(frames))
        time.sleep(0.5)
        yield everything

    with pytest.raises(InvalidValueError, match="reads all rows before it works on them"):
        learn_costs(rows, greedy, key="user", sample=1.0)


def of_one_answer(frames):
    total = 0
    for frame in frames:
        total += len(frame)
    yield pd.DataFrame({"rows": [total]})


@pytest.mark.parametrize("work", [of_frames(lambda users: 0, 0.0), of_one_answer])
def test_work_that_takes_no_time_is_not_taken_for_one_that_reads_all_rows_first(work):
    for _ in range(100):  # to end takes about as long as the work, now more and now less
        (told,) = _TimingFrames(work, "user", 9)([pd.DataFrame({"user": USERS})])

        assert 10 == told["count"].sum()


def test_frames_are_those_that_spark_makes(spark):
    rows = spark.sql("select 1 as k, timestamp'2026-01-01 12:00:00' as t from range(3)")

    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if frame.t.dt.tz is not None or list(frame.index) != [*range(len(frame))]:
                raise ValueError(f"{frame.t.dtype} {list(frame.index)}")
            yield frame

    assert 3 == learn_costs(rows, work, key="k", sample=1.0).total


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"given_to": "map"}, "given_to='map' is neither 'mapInPandas' nor 'mapInArrow'"),
        ({"key": "at"}, "key column 'at' is of type double"),
    ],
)
def test_what_makes_no_sense_is_refused(spark, wrong, message):
    rows = spark.sql("select 'ann' as user, 1e0 as at")

    with pytest.raises((InvalidValueError, InvalidKeyError), match=message):
        learn_costs(rows, print, **{"key": "user", **wrong})
