"""Bad rows on Spark: a stream that has some goes on, and they are handed out with the reason."""

import json
from collections import Counter

import pyarrow as pa
import pytest

from optimizers import Topology
from optimizers.errors import FoldError, FunctionError, InvalidValueError, UnknownNameError
from optimizers.folds import Count, each_row
from optimizers.spark import SparkEngine

pytestmark = pytest.mark.spark

ROWS = [("ann", 4), (None, 2), ("bob", 0), ("ann", 1), (None, 8)]


def inverse(row):
    return {"k": row["k"], "y": 8 // row["x"]}


def job(on_error):
    source = Topology.source("s").then("f", apply=each_row(inverse), on_error=on_error)
    return source.then("n", key="k", parallelism=2, apply=Count(), on_error=on_error)


@pytest.fixture
def folder(tmp_path):
    files = tmp_path / "in"
    files.mkdir()
    for number in range(3):
        lines = [json.dumps({"k": k, "x": x}) for k, x in ROWS]
        (files / f"{number}.json").write_text("\n".join(lines))
    return files


def stream(spark, folder):
    reader = spark.readStream.schema("k string, x long").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def test_a_stream_goes_on_and_hands_each_bad_row_out_once(spark, tmp_path, folder):
    aside, counts = Counter(), {}

    def keep(rows, batch):
        for row in rows.collect():
            assert batch == row["batch"]
            aside[batch, row["operator"], row["reason"], row["row"]] += 1

    engine = SparkEngine(checkpoint=str(tmp_path / "kept"), spark=spark)
    started = engine.start(
        job("aside"),
        stream(spark, folder),
        each_batch=lambda rows, _: counts.update(rows.collect()),
        each_aside=keep,
        trigger={"availableNow": True},
    )
    assert started.wait(120)

    assert {"ann": 6} == counts
    assert [{"f": 1, "n": 2}] * 3 == [dict(batch.aside) for batch in started.run.batches]
    assert (9, 0) == (started.run.totals.aside, started.run.totals.skipped)
    null = "key 'k' is null on edge f -> n"
    assert {
        (batch, *row): 1
        for batch in range(3)
        for row in (
            ("f", "ZeroDivisionError: integer division or modulo by zero", '{"k": "bob", "x": 0}'),
            ("n", null, '{"k": null, "y": 4}'),
            ("n", null, '{"k": null, "y": 1}'),
        )
    } == aside


def test_what_is_handed_aside_is_handed_out_again_if_it_was_not_taken(spark, tmp_path):
    rows = spark.createDataFrame(ROWS, "k string, x long")
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)

    def refuse(rows, batch):
        raise RuntimeError("no room")

    with pytest.raises(Exception, match="no room"):
        engine.run(job("aside"), rows, each_aside=refuse)
    handed = []

    def keep(rows, _):
        handed.append(rows.toArrow())

    engine.run(job("aside"), rows, each_aside=keep, resume=True)

    assert [3] == [len(table) for table in handed]
    assert pa.int64() == handed[0].schema.field("batch").type


def test_each_operator_may_have_a_sink_for_its_bad_rows(spark, tmp_path):
    rows = spark.createDataFrame(ROWS, "k string, x long")
    handed = {}

    def sink(name):
        return lambda rows, _: handed.__setitem__(name, rows.count())

    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)
    engine.run(job("aside"), rows, each_aside={"f": sink("f"), "n": sink("n")})

    assert {"f": 1, "n": 2} == handed


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (("bob", 0), FunctionError, r"operator 'f' raised ZeroDivisionError: .*\"k\": \"bob\""),
        ((None, 1), FoldError, r"operator 'n': key 'k' is null on .*\"y\": 8.*on_error='skip'"),
    ],
)
def test_by_default_the_job_ends_and_says_so_in_one_line(spark, tmp_path, row, error, message):
    rows = spark.createDataFrame([row], "k string, x long")

    with pytest.raises(error, match=message) as failed:
        SparkEngine(checkpoint=str(tmp_path), spark=spark).run(job("fail"), rows)

    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("on_error", "sinks", "message"),
    [
        ("aside", None, "operator 'f' hands bad rows aside, but no sink takes"),
        ("aside", {"f": print}, "operator 'n' hands bad rows aside, but no"),
        ("aside", {"s": print}, "each_aside names 's', .* 'f', 'n' do"),
        ("skip", print, "each_aside is given, but no operator hands rows aside"),
    ],
)
def test_rows_are_not_handed_aside_to_none(spark, tmp_path, on_error, sinks, message):
    engine = SparkEngine(checkpoint=str(tmp_path / "new"), spark=spark)

    with pytest.raises((InvalidValueError, UnknownNameError), match=message):
        engine.run(job(on_error), [], each_aside=sinks)

    assert not (tmp_path / "new").exists()
