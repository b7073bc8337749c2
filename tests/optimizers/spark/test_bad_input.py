"""What is not as it must be at the front door: refused in one line of ours, with the remedy."""

import tempfile
import traceback
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions

from optimizers import (
    Cluster,
    Locality,
    PenstockError,
    RoutingTable,
    Topology,
    TopologyError,
    compare,
)
from optimizers.errors import InvalidKeyError, InvalidValueError, SinkError, UnknownNameError
from optimizers.folds import Count
from optimizers.spark import (
    Settings,
    Sized,
    SparkEngine,
    ToParquet,
    balance,
    learn_costs,
    learn_tables,
    repartition,
)
from optimizers.spark.checks import warn_of_many_instances
from optimizers.statistics import Probe

pytestmark = pytest.mark.spark

JOB = Topology.source("in").then("n", key="k", apply=Count())
TABLE = pa.table({"k": ["a"], "v": [1]})
PANDAS = pd.DataFrame({"k": ["a"], "v": [1]})

AGE = "make_ym_interval(1, 2)"

# Libraries that are not there for the tests, told by where their classes are.
POLARS = type("DataFrame", (), {"__module__": "polars.dataframe.frame"})()
CONNECT = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
REMOTE = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()


@pytest.fixture(scope="module")
def given(spark, tmp_path_factory):
    """Frames by name, and an engine in an empty folder."""
    folder = str(tmp_path_factory.mktemp("stream"))
    bounded = spark.createDataFrame([("a", 1, 0.5)], "k string, v int, x double")
    stream = spark.readStream.schema("k string, v int, x double").parquet(folder)

    class Given:
        rows = bounded
        streamed = stream
        dotted = bounded.withColumnRenamed("x", "a.b")
        ticked = bounded.withColumnRenamed("x", "a`b")
        twice = bounded.select("k", "v", "k")
        nearly = bounded.select("k", "v", functions.col("k").alias("K"))
        aged = bounded.withColumn("x", functions.expr(AGE))
        listed = bounded.select("k", functions.array("v").alias("all"))
        engine = property(lambda _: SparkEngine(checkpoint=tempfile.mkdtemp(), spark=spark))

    return Given()


IS_TABLE = r"is a DataFrame of pandas, not a DataFrame; .*spark\.createDataFrame\(rows\)"
IS_ARROW = r"is a Table of pyarrow, not a DataFrame; .*spark\.createDataFrame\(rows\)"
IS_POLARS = r"is a DataFrame of polars, .*createDataFrame\(rows\.to_pandas\(\)\)"
IS_CONNECT = r"is a DataFrame of Spark Connect, .*give one of a session made in the driver"
NO_COLUMN = r"key=Column<'k'> names no column; give the name"

DOORS = {
    "repartition": lambda rows: repartition(rows, 2, key="k"),
    "balance": lambda rows: balance(rows, 2, costs="v"),
    "learn_tables": lambda rows: learn_tables(rows, "k", "v", 2),
    "learn_costs": lambda rows: learn_costs(rows, lambda batch: batch, key="k"),
}


def refused(error, words, door, *arguments):
    """Call a door, which must refuse in one line, with an error that shows nothing of ours."""
    with pytest.raises(error, match=words) as raised:
        door(*arguments)
    assert isinstance(raised.value, PenstockError)
    assert "\n" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("door", DOORS)
class TestRowsAtADoor:
    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (PANDAS, IS_TABLE),
            (TABLE, IS_ARROW),
            (POLARS, IS_POLARS),
            (CONNECT, IS_CONNECT),
            (None, "rows is None, not a DataFrame"),
            ("table", "rows is 'table', not a DataFrame"),
        ],
    )
    def test_must_be_a_frame(self, door, rows, words):
        refused(InvalidValueError, words, DOORS[door], rows)

    @pytest.mark.parametrize(
        ("frame", "words"),
        [
            ("dotted", r"rows: column 'a\.b' has a '\.' in its name.*rename it"),
            ("ticked", "rows: column 'a`b' has a '`' in its name.*rename it"),
            ("twice", "rows: 2 columns are called 'k'; rename all but one"),
            ("nearly", "rows: 2 columns are called 'k'; rename all but one"),
        ],
    )
    def test_must_have_columns_that_spark_can_tell_apart(self, given, door, frame, words):
        refused(InvalidValueError, words, DOORS[door], getattr(given, frame))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: repartition(g.rows, 2, key=functions.col("k")), InvalidValueError, NO_COLUMN),
        (
            lambda g: balance(g.rows, 2, costs={"a": 1.0}, key=functions.col("k")),
            InvalidValueError,
            NO_COLUMN,
        ),
        (
            lambda g: learn_costs(g.rows, len, key=functions.col("k")),
            InvalidValueError,
            NO_COLUMN,
        ),
        (
            lambda g: learn_tables(g.rows, functions.col("k"), "v", 2),
            InvalidValueError,
            r"key=\(Column<'k'>, 'v'\) names no column",
        ),
        (lambda g: repartition(g.rows, 2, key=7), InvalidValueError, "key=7 names no column"),
        (lambda g: repartition(g.rows, 2, key=()), InvalidValueError, "one column or several"),
        (
            lambda g: repartition(g.rows, 2, key=("k", "k")),
            InvalidValueError,
            "name each once",
        ),
        (lambda g: repartition(g.rows, 2, key="who"), UnknownNameError, "unknown column 'who'"),
        (lambda g: learn_tables(g.rows, "k", "who", 2), UnknownNameError, "column 'who'"),
        (
            lambda g: repartition(g.rows, 2, key="x"),
            InvalidKeyError,
            r"key column 'x' is of type double: .*round them",
        ),
        (
            lambda g: repartition(g.listed, 2, key="all"),
            InvalidKeyError,
            r"key column 'all' is of type array<int>: ",
        ),
        (
            lambda g: balance(g.rows, 2, costs={0.5: 1.0}, key="x"),
            InvalidKeyError,
            "key column 'x' is of type double",
        ),
        (
            lambda g: learn_costs(g.rows, lambda batch: batch, key="x"),
            InvalidKeyError,
            "key column 'x' is of type double",
        ),
        (lambda g: learn_tables(g.rows, "k", "x", 2), InvalidKeyError, "key column 'x'"),
        (
            lambda g: repartition(g.rows, 2, RoutingTable(["a"], [1], instances=2), key="v"),
            InvalidKeyError,
            "key='v' is of type int32, and ",
        ),
        (
            lambda g: balance(g.streamed, 2, costs="v"),
            InvalidValueError,
            r"rows is a stream, which has no end; use repartition\(\)",
        ),
        (
            lambda g: learn_tables(g.streamed, "k", "v", 2),
            InvalidValueError,
            "rows is a stream.*last week",
        ),
        (
            lambda g: learn_costs(g.streamed, len, key="k"),
            InvalidValueError,
            "rows is a stream.*last week",
        ),
        (
            lambda g: repartition(g.rows, 2, "hash", key="k"),
            InvalidValueError,
            "grouping='hash' is not a grouping",
        ),
        (
            lambda g: learn_costs(g.rows, "work", key="k"),
            InvalidValueError,
            "work='work' is not a function",
        ),
        (lambda g: g.engine.run(JOB, PANDAS), InvalidValueError, IS_TABLE),
        (lambda g: g.engine.run(JOB, TABLE), InvalidValueError, IS_ARROW),
        (lambda g: g.engine.run(JOB, [TABLE]), InvalidValueError, f"source 'in' .*{IS_ARROW}"),
        (lambda g: g.engine.run(JOB, [CONNECT]), InvalidValueError, IS_CONNECT),
        (lambda g: g.engine.run(JOB, {"in": PANDAS}), InvalidValueError, IS_TABLE),
        (lambda g: g.engine.run(JOB, 7), InvalidValueError, "batches is 7, not a DataFrame"),
        (
            lambda g: g.engine.run(JOB, functions.col("k")),
            InvalidValueError,
            "batches is a Column of pyspark, not a DataFrame",
        ),
        (
            lambda g: g.engine.run(JOB, [functions.col("k")]),
            InvalidValueError,
            "source 'in' is given is a Column of pyspark, not a DataFrame",
        ),
        (
            lambda g: g.engine.run(JOB, g.aged),
            InvalidValueError,
            r"source 'in' is given: column 'x' is of type interval year to month, .*cast it to st",
        ),
        (
            lambda g: g.engine.start(JOB, g.streamed.withColumn("x", functions.expr(AGE))),
            InvalidValueError,
            "column 'x' is of type interval year to month, which pyarrow cannot read; cast it",
        ),
        (
            lambda g: compare(JOB, [g.aged], {"hash": None}, engine=g.engine, warm_up=0),
            InvalidValueError,
            "column 'x' is of type interval year to month",
        ),
        (
            lambda g: compare(JOB, [TABLE], {"hash": None}, engine="spark", warm_up=0),
            InvalidValueError,
            r"engine='spark' is not an engine; give one, such as SparkEngine\(checkpoint=\.\.\.\)",
        ),
        (
            lambda g: compare(JOB, [TABLE], {"hash": None}, engine=SparkEngine, warm_up=0),
            InvalidValueError,
            r"is not an engine; make one, by SparkEngine\(\.\.\.\)",
        ),
        (
            lambda g: g.engine.run(JOB, g.rows).state(5),
            UnknownNameError,
            "operator with a key 5; kno",
        ),
        (lambda g: g.engine.run(JOB, g.rows).state("in"), UnknownNameError, "'in'; known: 'n'"),
        (lambda g: g.engine.run(JOB, g.rows).state(["n"]), UnknownNameError, "known: 'n'"),
        (lambda g: g.engine.run(JOB, [g.twice]), InvalidValueError, "2 columns are called 'k'"),
        (
            lambda g: g.engine.run(JOB, g.streamed),
            InvalidValueError,
            r"source 'in' is given is a stream, which has no end; use start\(\)",
        ),
        (
            lambda g: g.engine.start(JOB, g.rows),
            InvalidValueError,
            r"is bounded, and no stream; use run\(\)",
        ),
        (lambda g: g.engine.start(JOB, PANDAS), InvalidValueError, IS_TABLE),
        (
            lambda g: g.engine.start(JOB, Sized(lambda _: g.rows, 5)),
            InvalidValueError,
            r"is bounded, and no stream; use run\(\)",
        ),
        (
            lambda g: g.engine.start(JOB, Sized(lambda _: None, 5)),
            InvalidValueError,
            "source 'in' is given is None, not a DataFrame",
        ),
        (
            lambda g: g.engine.start(JOB, g.streamed, trigger="1 minute"),
            InvalidValueError,
            "trigger='1 minute' is not a trigger; give a dict",
        ),
        (
            lambda g: g.engine.start(JOB, g.streamed, trigger={"every": "1 minute"}),
            InvalidValueError,
            "is not a trigger; give a dict with one of processingTime",
        ),
        (
            lambda g: g.engine.run(JOB, g.rows, Locality),
            InvalidValueError,
            r"optimizer=<class .*Locality'> is not an Optimizer; make one: Locality\(\)",
        ),
        (
            lambda g: g.engine.run(JOB, g.rows, "locality"),
            InvalidValueError,
            r"optimizer='locality' is not an Optimizer; give one, such as Locality\(\)",
        ),
        (
            lambda g: g.engine.start(JOB, g.streamed, {"ours": Locality()}),
            InvalidValueError,
            r"is not an Optimizer; .*compare\(\)",
        ),
        (lambda g: g.engine.run("job", g.rows), InvalidValueError, "topology='job' is not a Topol"),
        (lambda g: g.engine.run(JOB, {"out": g.rows}), UnknownNameError, "unknown source 'out'"),
        (
            lambda g: g.engine.run(JOB.also("other"), g.rows),
            TopologyError,
            "give a dict with one for each",
        ),
        (
            lambda g: g.engine.replay("in", PANDAS, rows=5),
            InvalidValueError,
            "tuples are a DataFrame; give an Arrow table",
        ),
        (
            lambda g: compare(JOB, PANDAS, {"hash": None}, warm_up=0),
            InvalidValueError,
            "source is a DataFrame of pandas; give a DataFrame of Spark, or an Arrow table",
        ),
        (
            lambda g: g.engine.run(JOB, g.rows, each_batch=ToParquet("/proc/nowhere")),
            SinkError,
            r"batch 0 cannot be written to /proc/nowhere/batch=0: .*give another path",
        ),
    ],
)
def test_a_door_refuses(given, call, error, words):
    with pytest.raises(error, match=words) as raised:
        call(given)

    assert isinstance(raised.value, PenstockError)
    assert "\n" not in str(raised.value)
    assert raised.value.__suppress_context__
    assert 3 > len(traceback.extract_tb(raised.value.__traceback__)[1:])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"checkpoint": None}, "checkpoint=None is not a folder"),
        ({"checkpoint": 7}, "checkpoint=7 is not a folder"),
        ({"checkpoint": b"/here"}, "checkpoint=b'/here' is not a folder"),
        ({"checkpoint": ""}, "checkpoint='' is not a folder; give its path, or its URI"),
        ({"keep": "2"}, "keep='2' is not a whole number; give an int"),
        ({"keep": 0}, "keep=0 is out of range; it must be at least 1"),
        ({"seed": "x"}, "seed='x' is not a whole number; give an int"),
        ({"seed": -1}, "seed=-1 is out of range"),
        ({"cluster": 4}, r"cluster=4 is not a Cluster; make one, such as Cluster.uniform\(4\)"),
        ({"cluster": ["a"]}, "is not a Cluster"),
        ({"spark": "local"}, "spark='local' is not a session"),
        ({"spark": REMOTE}, "a session of Spark Connect"),
        ({"settings": {}}, "settings={} are not Settings"),
        ({"settings": Settings(sharing=3)}, "sharing=3 is said by the engine; leave sharing out"),
        (
            {"settings": Settings(observes=frozenset({Probe.PAIRS}))},
            "is said by the optimizer; leave observes out",
        ),
    ],
)
def test_an_engine_refuses_settings(settings, words):
    with pytest.raises(InvalidValueError, match=words):
        SparkEngine(**{"checkpoint": "/nowhere", **settings})


def test_a_session_that_was_stopped_is_said_to_be(spark, given, monkeypatch):
    engine = given.engine
    with monkeypatch.context() as stopped:
        stopped.setattr(spark.sparkContext, "_jsc", None)  # as stop() leaves it
        for call in (
            lambda: engine.run(JOB, given.rows),
            lambda: engine.start(JOB, given.streamed),
            lambda: engine.replay("in", TABLE, rows=1),
            lambda: compare(JOB, [TABLE], {"hash": None}, engine=engine, warm_up=0),
        ):
            with pytest.raises(InvalidValueError, match=r"Spark was stopped; make another by"):
                call()

    assert [{"k": "a", "count": 1}] == engine.run(JOB, given.rows).state("n").to_pylist()


def test_paths_are_taken_as_paths(spark, given, tmp_path):
    engine = SparkEngine(checkpoint=tmp_path / "ck", spark=spark, cluster=Cluster.uniform(2))

    run = engine.run(JOB, given.rows, each_batch=ToParquet(tmp_path / "out"))

    assert [{"k": "a", "count": 1}] == run.state("n").to_pylist()
    assert (tmp_path / "out" / "batch=0").is_dir()
    assert str(tmp_path / "ck") == engine.checkpoint


@pytest.mark.parametrize("path", [None, 7, ""])
def test_a_sink_refuses_what_is_no_path(path):
    with pytest.raises(InvalidValueError, match="is not a folder; give its path or its URI"):
        ToParquet(path)


def test_names_that_differ_in_case_are_two_where_spark_says_so(spark, given):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert repartition(given.nearly, 2, key="k").count() == 1
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_checkpoint_that_is_a_file_or_cannot_be_made_says_so(spark, given, tmp_path):
    (tmp_path / "file").write_text("notes")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        engine = SparkEngine(checkpoint=folder, spark=spark)

        with pytest.raises(PenstockError, match=str(folder)) as raised:
            engine.run(JOB, given.rows)

        assert "give another path" in str(raised.value)


@pytest.mark.parametrize(("parallelism", "said"), [(128, False), (129, True)])
def test_far_more_instances_than_cores_are_remarked_upon(caplog, parallelism, said):
    job = Topology.source("in").then("n", key="k", parallelism=parallelism, key_groups=1000)

    warn_of_many_instances(job, 2)

    remark = "operator 'n': parallelism=129 is more than 64 times the 2 cores"
    assert said == (remark in caplog.text)
