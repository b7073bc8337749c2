"""Sketches that are exchanged with Spark's own functions, on the Spark that is installed."""

import math
from collections import Counter

import datasketches
import numpy as np
import pytest
from pyspark.sql.functions import count_min_sketch, hll_sketch_agg

from sketches.interop import FrequentItems, SparkCountMin

pytestmark = pytest.mark.spark

RANDOM = np.random.default_rng(11)
RANKS = RANDOM.zipf(1.4, 3_000).clip(max=1 << 40).tolist()
COLUMNS = {
    "bigint": [rank - 5 for rank in RANKS],
    "string": [f"tag {rank}" if rank % 3 else f"größe{rank}" for rank in RANKS],
}


def frame(spark, kind, nulls=0):
    rows = [(value,) for value in COLUMNS[kind]] + [(None,)] * nulls
    return spark.createDataFrame(rows, f"item {kind}").repartition(3)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_count_min_sketch_is_what_spark_makes_and_can_be_gone_on_with(spark, kind):
    made = frame(spark, kind).select(count_min_sketch("item", 0.02, 0.95, 17)).first()[0]
    ours = SparkCountMin(0.02, 0.95, 17)
    ours.update(COLUMNS[kind])

    assert bytes(made) == ours.to_spark()

    both = SparkCountMin.from_spark(made) | ours
    jvm = spark._jvm  # noqa: SLF001  # SQL cannot ask such a sketch
    back = jvm.org.apache.spark.util.sketch.CountMinSketch.readFrom(both.to_spark())
    asked = COLUMNS[kind][:20]
    wrapped = [jvm.java.lang.Long.valueOf(str(a)) if kind == "bigint" else a for a in asked]
    assert both.estimate(asked).tolist() == [back.estimateCount(item) for item in wrapped]
    assert 2 * len(RANKS) == back.totalCount()


def estimated(frame, k):
    (found,) = frame.selectExpr(f"approx_top_k_estimate(state, {k})").first()
    return sorted((row["item"], row["count"]) for row in found if row["item"] is not None)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("tracked", [20, 10_000])
def test_frequent_items_are_read_from_spark_and_written_for_it(spark, kind, tracked):
    accumulated = frame(spark, kind, nulls=2).selectExpr(
        f"approx_top_k_accumulate(item, {tracked}) state"
    )

    theirs = FrequentItems.from_spark(accumulated.first()["state"])

    assert estimated(accumulated, tracked) == [
        (hitter.key, hitter.estimate)
        for hitter in sorted(theirs.top(tracked), key=lambda hitter: hitter.key)
    ]
    assert (len(RANKS), 2) == (theirs.total, theirs.nulls)

    ours = FrequentItems(tracked)
    ours.update(COLUMNS[kind], nulls=1)
    state = ours.to_spark()
    written = spark.createDataFrame([tuple(state.values())], ours.spark_schema).selectExpr(
        "struct(*) state"
    )
    assert estimated(written, tracked) == [
        (hitter.key, hitter.estimate)
        for hitter in sorted(ours.top(tracked), key=lambda hitter: hitter.key)
    ]

    both = accumulated.unionAll(written).selectExpr("approx_top_k_combine(state) state")
    combined = FrequentItems.from_spark(both.first()["state"])
    truth = Counter(COLUMNS[kind])
    keys, estimates, errors = combined.arrays()
    assert (2 * len(RANKS), 3) == (combined.total, combined.nulls)
    for key, estimate, error in zip(keys.tolist(), estimates, errors, strict=True):
        assert estimate - error <= 2 * truth[key] <= estimate


def test_distinct_counts_are_read_by_datasketches_itself(spark):
    (made,) = frame(spark, "bigint").select(hll_sketch_agg("item", 12)).first()

    estimate = datasketches.hll_sketch.deserialize(bytes(made)).get_estimate()
    assert math.isclose(len(set(RANKS)), estimate, rel_tol=0.1)
