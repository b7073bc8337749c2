"""What Spark's log and ours say of a job that fails, and what they go on saying of others."""

import logging
import time

import pytest

from optimizers import Topology
from optimizers.folds import Count
from optimizers.spark import SparkEngine
from optimizers.spark.muted_logs import _Loggers, hush_end, muted

pytestmark = pytest.mark.spark

JOB = Topology.source("in").then("n", key="k", apply=Count())
EXECUTOR = "org.apache.spark.executor.Executor"
LOUD = "org.apache.spark.scheduler.TaskSetManager"
QUERY = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


class OwnError(Exception):
    """Of the user's own."""


@pytest.fixture
def log4j(spark, monkeypatch):
    """Loggers as in a session that another program has made."""
    monkeypatch.delenv("PENSTOCK_DEBUG", raising=False)
    context = spark.sparkContext
    own = _Loggers(context)
    monkeypatch.setattr("optimizers.spark.muted_logs._LOGGERS", {context: own})
    java = context._jvm.org.apache.logging.log4j  # noqa: SLF001
    everything = java.LogManager.getContext(False)  # noqa: FBT003
    configuration = everything.getConfiguration()
    configurator = java.core.config.Configurator
    configuration.removeLogger(EXECUTOR)
    configurator.setLevel(LOUD, java.Level.DEBUG)

    def level(name):
        """Return the level of a logger, and whether it is its own."""
        found = configuration.getLoggers().get(name)
        return str(java.LogManager.getLogger(name).getLevel().toString()), found is not None

    yield level
    for name in (EXECUTOR, LOUD):  # as `hush` has them in a session of ours
        configurator.setLevel(name, java.Level.OFF)


def test_loggers_are_silent_while_a_job_runs_and_then_as_they_were(spark, log4j):
    before = log4j(EXECUTOR)

    with muted(spark):
        assert log4j(EXECUTOR) == log4j(LOUD) == ("OFF", True)
        with muted(spark, writing=True):
            assert log4j("org.apache.spark.util.Utils") == ("OFF", True)
        assert log4j("org.apache.spark.util.Utils")[0] != "OFF"
        assert log4j(EXECUTOR) == log4j(LOUD) == ("OFF", True)

    assert log4j(EXECUTOR) == before
    assert not before[1]
    assert log4j(LOUD) == ("DEBUG", True)


def test_they_speak_again_after_an_error(spark, log4j):
    with pytest.raises(OwnError), muted(spark):
        raise OwnError

    assert log4j(LOUD) == ("DEBUG", True)


def test_they_are_left_alone_under_the_debug_setting(spark, log4j, monkeypatch):
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")

    with muted(spark):
        assert log4j(LOUD) == ("DEBUG", True)


def test_the_log_of_queries_is_silent_until_the_query_has_ended(spark, log4j):
    class Query:
        isActive = True  # noqa: N815  # as Spark calls it

    query, before = Query(), log4j(QUERY)
    hush_end(spark, query)
    assert log4j(QUERY) == ("OFF", True)

    query.isActive = False
    deadline = time.monotonic() + 30
    while log4j(QUERY) != before and time.monotonic() < deadline:
        time.sleep(0.02)

    assert log4j(QUERY) == before


def test_a_stream_that_nobody_waits_for_says_in_a_line_how_it_ended(spark, tmp_path, caplog):
    spark.createDataFrame([("a",)], "k string").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string").parquet(str(tmp_path / "in"))

    def sink(_rows, _batch):
        raise OwnError("no\nroom")

    with caplog.at_level(logging.ERROR, logger="optimizers"):
        engine = SparkEngine(checkpoint=tmp_path / "ck", spark=spark)
        started = engine.start(JOB, stream, each_batch=sink)
        deadline = time.monotonic() + 60
        while started.query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("batch 0 failed, which ends the job: ")
    assert line.endswith("OwnError: no room; wait() raises it")
    with pytest.raises(OwnError, match="no\nroom"):
        started.wait()
    with pytest.raises(OwnError):
        started.wait()  # as often as it is asked
    assert "OwnError: no room" in str(started.query.exception())
    assert len(str(started.query.exception())) < 4000
