"""Costs are learned of functions as people have them, and are close to those planted."""

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from optimizers.errors import FunctionError, InvalidValueError
from optimizers.spark import learn_costs
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
        ({"key": "at"}, "costs cannot be counted by column 'at' of type date"),
    ],
)
def test_what_makes_no_sense_is_refused(spark, wrong, message):
    rows = spark.sql("select 'ann' as user, date'2026-01-01' as at")

    with pytest.raises(InvalidValueError, match=message):
        learn_costs(rows, print, **{"key": "user", **wrong})
