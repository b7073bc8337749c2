"""How often batches of a stream begin, where a plan says it."""

import itertools
import time

import pyarrow as pa
import pytest

from optimizers import Fixed, Plan, Topology
from optimizers.folds import Count
from optimizers.spark import SparkEngine

pytestmark = pytest.mark.spark

JOB = Topology.source("words", parallelism=1).then("count", key="word", apply=Count())
WORDS = pa.table({"word": [f"w{number % 5}" for number in range(60)]})
PERIOD = 2.0


def started(spark, folder, plan, rows=10):
    engine = SparkEngine(checkpoint=folder, spark=spark, every=1)
    begun = []

    def note(_, number):
        begun.append(time.monotonic())

    stream = engine.replay("words", WORDS, rows=rows, partitions=1)
    return engine.start(JOB, stream, Fixed(plan), each_batch=note), begun


def counted(run):
    return dict(zip(*(column.to_pylist() for column in run.state("count").columns), strict=True))


def test_batches_of_a_stream_are_held_back_and_none_of_its_rows_is_lost(spark, tmp_path):
    stream, ended = started(spark, tmp_path / "job", Plan(period=PERIOD))

    deadline = time.monotonic() + 120
    while len(ended) < 4 and time.monotonic() < deadline:
        assert not stream.wait(0.1)
    stream.stop()

    # From the end of one to the end of the next; each takes some tenths of a second.
    assert min(later - first for first, later in itertools.pairwise(ended)) > PERIOD / 2
    assert stream.run.plan.period == PERIOD
    rows = sum(counted(stream.run).values())
    assert rows == 10 * len(stream.run.batches)


def test_a_stop_ends_the_pause_and_the_job_goes_on_where_it_was(spark, tmp_path):
    stream, ended = started(spark, tmp_path / "job", Plan(period=300.0))
    deadline = time.monotonic() + 120
    while not ended and time.monotonic() < deadline:
        assert not stream.wait(0.1)
    time.sleep(1.0)  # it pauses by now
    since = time.monotonic()

    stream.stop()

    assert time.monotonic() - since < 60
    assert len(ended) == 1
    again, _ = started(spark, tmp_path / "job", Plan(period=0.0))
    deadline = time.monotonic() + 120
    while sum(counted(again.run).values()) < len(WORDS) and time.monotonic() < deadline:
        assert not again.wait(0.2)
    again.stop()
    assert dict.fromkeys((f"w{number}" for number in range(5)), 12) == counted(again.run)


def test_bounded_data_is_not_held_back(spark, tmp_path):
    engine = SparkEngine(checkpoint=tmp_path / "job", spark=spark)

    run = engine.run(JOB, spark.createDataFrame(WORDS), Fixed(Plan(period=PERIOD)))

    assert "period=2: bounded data is there already" in run.decisions[0].refused
    assert 60 == sum(counted(run).values())
