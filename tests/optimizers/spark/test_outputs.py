"""What leaves a job: rows of several final operators are told apart, and files stay unread."""

import pyarrow as pa
import pytest

from optimizers import Edge, Operator, Topology
from optimizers.errors import FoldError, InvalidValueError, UnknownNameError
from optimizers.folds import Count
from optimizers.runtime.storage.location import Location
from optimizers.spark import SparkEngine

pytestmark = pytest.mark.spark

JOB = Topology(
    [
        Operator("clicks"),
        Operator("seen", key="user", parallelism=2, apply=Count()),
        Operator("bought", key="user", apply=Count("price")),
    ],
    [Edge("clicks", "seen"), Edge("clicks", "bought")],
)
SEEN = {("ann", 2), ("bob", 1)}
BOUGHT = {("ann", 1), ("bob", 0)}


@pytest.fixture
def clicks(spark):
    rows = {"user": ["ann", "ann", "bob"], "price": [1.0, None, None]}
    return spark.createDataFrame(pa.table(rows))


def run(spark, folder, job, rows, sinks, **options):
    SparkEngine(checkpoint=str(folder), spark=spark).run(job, rows, each_batch=sinks, **options)


def test_one_sink_is_told_whose_each_row_is(spark, tmp_path, clicks):
    handed = []

    run(spark, tmp_path, JOB, clicks, lambda rows, _: handed.append(rows.toArrow()))

    (table,) = handed
    assert ["operator", "user", "count"] == table.column_names
    found = {tuple(row.values()) for row in table.to_pylist()}
    assert {("seen", *row) for row in SEEN} | {("bought", *row) for row in BOUGHT} == found
    assert 4 == len(table)


def test_each_operator_may_have_a_sink_of_its_own(spark, tmp_path, clicks):
    handed = {}

    def keep(name):
        return lambda rows, batch: handed.__setitem__((name, batch), rows.toArrow())

    run(spark, tmp_path / "a", JOB, clicks, {"seen": keep("seen"), "bought": keep("bought")})
    assert {("seen", 0), ("bought", 0)} == handed.keys()
    assert ["user", "count"] == handed["seen", 0].column_names
    assert {tuple(row.values()) for row in handed["seen", 0].to_pylist()} == SEEN
    assert {tuple(row.values()) for row in handed["bought", 0].to_pylist()} == BOUGHT

    handed.clear()
    run(spark, tmp_path / "b", JOB, clicks, {"bought": keep("bought")})
    assert {("bought", 0)} == handed.keys()


def test_rows_of_the_only_final_operator_come_as_they_are(spark, tmp_path, clicks):
    job = Topology.source("clicks").then("seen", key="user", apply=Count())
    handed = []

    run(spark, tmp_path, job, clicks, lambda rows, _: handed.append(rows.toArrow()))

    assert ["user", "count"] == handed[0].column_names


def test_a_column_called_operator_is_not_overwritten(spark, tmp_path):
    job = Topology(
        [Operator("in"), Operator("a"), Operator("b")], [Edge("in", "a"), Edge("in", "b")]
    )
    rows = spark.createDataFrame(pa.table({"operator": ["KLM"]}))
    handed = []

    with pytest.raises(FoldError, match="rows of 'a' have one already; rename it, or give"):
        run(spark, tmp_path, job, rows, lambda rows, _: handed.append(rows))

    sinks = {"b": lambda rows, _: handed.extend(rows.collect())}
    run(spark, tmp_path, job, rows, sinks, resume=True)
    assert ["KLM"] == [row["operator"] for row in handed]


@pytest.mark.parametrize(
    ("sinks", "error", "message"),
    [
        ({"sold": print}, UnknownNameError, "each_batch names 'sold', .* 'seen', 'bought' do"),
        ({"clicks": print}, UnknownNameError, "each_batch names 'clicks', whose rows do not leave"),
        ({"seen": "out"}, InvalidValueError, r"each_batch\['seen'\]='out' is not a function"),
        (["seen"], InvalidValueError, r"each_batch=\['seen'\] is neither a function"),
    ],
)
def test_sinks_that_no_rows_can_be_handed_to_are_refused(spark, tmp_path, sinks, error, message):
    engine = SparkEngine(checkpoint=str(tmp_path / "new"), spark=spark)

    with pytest.raises(error, match=message):
        engine.run(JOB, [], each_batch=sinks)

    assert not (tmp_path / "new").exists()


def test_the_driver_opens_no_file_of_output(spark, tmp_path, clicks, monkeypatch):
    opened = []
    read = Location.read

    def watched(self, name, **options):
        opened.append(name)
        return read(self, name, **options)

    monkeypatch.setattr(Location, "read", watched)
    handed = []

    run(spark, tmp_path, JOB, clicks, lambda rows, _: handed.extend(rows.collect()))

    assert 4 == len(handed)
    assert [] == [name for name in opened if name.startswith("output/")]
