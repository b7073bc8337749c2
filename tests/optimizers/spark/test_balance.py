"""One thing in a job that is there: rows spread by what they cost."""

import time

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

from grouping.scheduling.longest_first import longest_first
from optimizers.errors import EmptySketchError, InvalidKeyError, InvalidValueError, UnknownNameError
from optimizers.folds import each_row
from optimizers.spark import balance, learn_costs
from sketches.cost_sketch import CostSketch

pytestmark = pytest.mark.spark

COSTS = {author: float(1 + author**2) for author in range(40)}


@pytest.fixture(scope="module")
def rows(spark):
    """Few rows, of which some cost a thousand times as much as others; the costly ones together."""
    random = np.random.default_rng(8)
    authors = np.sort(random.zipf(1.3, 600).clip(1, 40) - 1)
    seconds = np.array([COSTS[author] for author in authors.tolist()])
    words = [f"word {number}" for number in range(600)]
    table = pa.table({"author": authors, "seconds": seconds, "word": words})
    return spark.createDataFrame(table).coalesce(3).cache()


def loads(frame, partitions):
    """The cost of all rows of each partition, as each row says itself."""
    by = functions.spark_partition_id().alias("part")
    found = frame.groupBy(by).agg(functions.sum("seconds").alias("load")).toArrow()
    filled = np.zeros(partitions)
    filled[found.column("part").to_numpy()] = found.column("load").to_numpy()
    return filled


def best(rows, partitions):
    seconds = rows.toArrow().column("seconds").to_numpy()
    return np.bincount(longest_first(seconds, partitions), seconds).max()


@pytest.mark.parametrize("costs", [{"costs": "seconds"}, {"costs": COSTS, "key": "author"}])
@pytest.mark.parametrize("partitions", [1, 4, 8])
def test_partitions_are_done_when_those_are_of_one_who_knows_all(rows, costs, partitions):
    balanced = balance(rows, partitions, **costs)
    assert loads(balanced, partitions).max() == pytest.approx(best(rows, partitions))
    assert rows.schema == balanced.schema
    assert sorted(rows.collect()) == sorted(balanced.collect())


def test_more_rows_than_are_divided_together_are_still_divided_well(rows):
    by_task = loads(balance(rows, 4, costs="seconds", most=100), 4)
    in_turn = loads(rows.repartition(4), 4)
    assert by_task.max() <= 1.1 * best(rows, 4)
    assert by_task.max() < in_turn.max()


def test_a_key_that_nobody_knows_costs_the_mean(spark):
    rows = spark.createDataFrame([("a", 4.0)] * 8 + [("b", 4.0)] * 8, "key string, seconds double")
    balanced = balance(rows, 4, costs={"a": 4.0}, key="key")
    assert [16.0] * 4 == loads(balanced, 4).tolist()


def test_rows_that_were_not_there_when_they_were_counted_are_not_lost(spark):
    # The source gives other rows each time that it is read.
    rows = spark.range(400).select((functions.rand() * 100).alias("seconds"))
    balanced = balance(rows, 4, costs="seconds")
    assert balanced.count() == 400
    found = loads(balanced, 4)
    assert found.max() < 1.1 * found.mean()


def test_rows_of_nothing_stay_nothing(spark):
    empty = spark.createDataFrame([], "seconds double")
    assert balance(empty, 3, costs="seconds").count() == 0


def test_costs_are_learned_by_doing_the_work_on_some_rows(spark):
    rows = spark.createDataFrame([(f"user {n % 3}", n) for n in range(300)], "user string, n long")

    @each_row
    def work(row):
        time.sleep(0.0005 + 0.002 * int(row["user"][-1]))
        return row

    sketch = learn_costs(rows, work, key="user", sample=0.3)
    cheap, middle, costly = sketch.estimate([f"user {n}" for n in range(3)])
    assert 0.0005 <= cheap < middle < costly
    # To sleep takes a little longer than it should, and that is all.
    assert 0.0045 <= costly < 0.02
    assert 40 < sketch.total < 150


def test_learned_costs_are_what_balance_takes(spark):
    rows = spark.createDataFrame([(n % 2, 1.0) for n in range(40)], "key int, seconds double")
    sketch = learn_costs(rows, lambda batch: batch, key="key", sample=1.0)
    assert 40 == sketch.total
    assert 40 == balance(rows, 2, costs=sketch, key="key").count()


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"costs": "second"}, UnknownNameError, "second"),
        ({"costs": "word"}, InvalidValueError, "'word' is of type"),
        ({"costs": "seconds", "key": "author"}, InvalidValueError, "leave it out"),
        ({"costs": COSTS}, InvalidValueError, "key="),
        ({"costs": COSTS, "key": "writer"}, UnknownNameError, "writer"),
        ({"costs": 7.0, "key": "author"}, InvalidValueError, r"costs=7\.0"),
        ({"costs": {3: -1.0}, "key": "author"}, InvalidValueError, "-1"),
        ({"costs": {3: float("nan")}, "key": "author"}, InvalidValueError, "nan"),
        ({"costs": {}, "key": "author"}, EmptySketchError, "nothing is"),
        ({"costs": CostSketch(8, 2), "key": "author"}, EmptySketchError, "nothing is"),
        ({"costs": {"a": 1.0}, "key": "author"}, InvalidKeyError, "int"),
        ({"costs": {1: 1.0}, "key": "seconds"}, InvalidKeyError, "seconds"),
        ({"costs": "seconds", "partitions": 0}, InvalidValueError, "partitions=0"),
        ({"costs": "seconds", "most": -1}, InvalidValueError, "most=-1"),
    ],
)
def test_what_cannot_be_balanced_is_refused(rows, wrong, error, says):
    with pytest.raises(error, match=says):
        balance(rows, **{"partitions": 4, **wrong})


@pytest.mark.parametrize("value", [None, float("nan"), -2.0, float("inf")])
def test_a_cost_that_is_none_is_refused_with_its_value(spark, value):
    rows = spark.createDataFrame([(1.0,), (value,)], "seconds double")
    with pytest.raises(InvalidValueError, match="'seconds' holds"):
        balance(rows, 2, costs="seconds")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"sample": 0.0}, "sample"), ({"work": 3}, "work=3"), ({"most_keys": 0}, "most_keys")],
)
def test_costs_are_not_learned_of_what_makes_no_sense(rows, wrong, says):
    with pytest.raises(InvalidValueError, match=says):
        learn_costs(rows, **{"work": lambda batch: batch, "key": "author", **wrong})
