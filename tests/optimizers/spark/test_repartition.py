"""One thing in a job that is there: rows spread by a grouping, by a table that was learned."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

from grouping.hashing import hash_parts
from optimizers import PartialKey, RoutingTable, Shuffle
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.spark.repartition import learn_tables, repartition

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(spark):
    random = np.random.default_rng(4)
    places = random.integers(0, 40, 4_000)
    tags = [
        f"#{place * 3 % 40 + number}"
        for place, number in zip(places, random.integers(0, 2, 4_000), strict=True)
    ]
    table = pa.table(
        {"place": places, "tag": tags, "at": pa.array(range(4_000), pa.timestamp("us"))}
    )
    return spark.createDataFrame(table).coalesce(3)


def partitions_of(frame, column):
    """Return for each value of a column the partitions that have it."""
    found = frame.select(column, functions.spark_partition_id().alias("part")).distinct().toArrow()
    parts = {}
    for value, part in zip(
        *(found.column(name).to_pylist() for name in (column, "part")), strict=True
    ):
        parts.setdefault(value, set()).add(part)
    return parts


def test_each_row_is_in_the_partition_that_a_table_says(rows):
    table = RoutingTable(np.arange(20), np.arange(20) % 4, 5)

    spread = repartition(rows, 5, table, key="place")

    expected = dict(enumerate(table.assign(np.arange(40)).tolist()))
    assert {place: {part} for place, part in expected.items()} == partitions_of(spread, "place")
    assert sorted(rows.collect()) == sorted(spread.collect())
    assert rows.schema == spread.schema


def test_without_a_grouping_it_is_our_hash(rows):
    spread = repartition(rows, 7, key="tag")

    tags = sorted(partitions_of(rows, "tag"))
    expected = dict(zip(tags, hash_parts(tags, 7).tolist(), strict=True))
    assert {tag: {part} for tag, part in expected.items()} == partitions_of(spread, "tag")


def test_rows_are_dealt_out_evenly_and_heavy_keys_split(rows):
    counts = repartition(rows, 4, Shuffle()).groupBy(functions.spark_partition_id()).count()
    assert all(abs(row["count"] - 1_000) <= 3 for row in counts.collect())

    split = partitions_of(repartition(rows, 6, PartialKey(), key="place"), "place")
    assert {1, 2} >= {len(parts) for parts in split.values()}
    assert 2 in {len(parts) for parts in split.values()}


def test_learned_tables_bring_keys_of_one_row_together(rows):
    learned = learn_tables(rows, "place", "tag", 4, imbalance=1.2)

    by_place = partitions_of(repartition(rows, 4, learned.tables[0], key="place"), "place")
    by_tag = partitions_of(repartition(rows, 4, learned.tables[1], key="tag"), "tag")
    seen = rows.select("place", "tag").collect()
    together = [by_place[place] == by_tag[tag] for place, tag in seen]
    assert learned.locality == pytest.approx(sum(together) / len(together))
    assert learned.locality > 0.9
    assert 1.0 == learned.looked_at
    hashed = [hash_parts([place], 4)[0] == hash_parts([tag], 4)[0] for place, tag in seen]
    assert learned.hash_locality == pytest.approx(sum(hashed) / len(hashed))
    assert max(learned.imbalance) <= 1.2 + 1e-6


def test_locality_is_that_of_all_rows_though_few_pairs_were_looked_at(spark):
    random = np.random.default_rng(5)
    table = pa.table({"user": random.integers(0, 3_000, 9_000), "shop": random.zipf(1.4, 9_000)})
    rows = spark.createDataFrame(table).coalesce(3)

    learned = learn_tables(rows, "user", "shop", 8, most_pairs=100)

    by_user, by_shop = (
        grouping.assign(table.column(name).to_numpy())
        for name, grouping in zip(("user", "shop"), learned.tables, strict=True)
    )
    by_hash = [hash_parts(table.column(name).to_numpy(), 8) for name in ("user", "shop")]
    assert (by_user == by_shop).mean() == learned.locality
    assert (by_hash[0] == by_hash[1]).mean() == learned.hash_locality
    pairs = np.unique(np.stack([table["user"], table["shop"]]), axis=1, return_counts=True)[1]
    assert np.sort(pairs)[-100:].sum() / 9_000 == learned.looked_at
    assert learned.looked_at < learned.locality < 0.9


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"key": "colour"}, UnknownNameError, "unknown column 'colour'"),
            ({}, InvalidValueError, "fields chooses by a key"),
            ({"grouping": "hash", "key": "place"}, InvalidValueError, "grouping='hash'"),
            (
                {"grouping": RoutingTable([1], [0], 3), "key": "place"},
                InvalidValueError,
                "made for 3",
            ),
        ],
    )
    def test_what_cannot_be_spread_so(self, rows, arguments, error, message):
        with pytest.raises(error, match=message):
            repartition(rows, 4, **arguments)

    def test_keys_that_are_missing(self, rows):
        gaps = rows.withColumn("place", functions.when(functions.col("place") > 3, 1))

        with pytest.raises(Exception, match=r"FoldError: repartition: .* is null"):
            repartition(gaps, 4, key="place").count()

    def test_nothing_to_learn_from(self, rows):
        with pytest.raises(InvalidValueError, match="nothing to learn"):
            learn_tables(rows.limit(0), "place", "tag", 4)
