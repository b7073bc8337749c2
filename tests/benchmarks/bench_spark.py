"""The Spark engine against Spark itself, and what plans and statistics cost a batch.

Times are wall-clock times of micro-batches on local[2], for a batch is work of the JVM, of Python
workers and of the driver; the rivals take turns, and the median batch of each counts. What the
machine does besides is in both.
"""

import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import Result
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming import StatefulProcessor

from optimizers import Cluster, Fields, Operator, Optimizer, Plan, Probe, RoutingTable, Topology
from optimizers.folds import Count, each_row
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine, local_session
from optimizers.spark.engine import Run

ROWS = 1_000_000
KEYS = 100_000
STATE = 1_000_000
MOVED = 0.01
PARTITIONS = 4
WARM = 3  # batches of a query that are not looked at

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_QUIET = Settings(keep_output=False)


def run(scale: float) -> list[Result]:
    """Measure against Spark, and what reconfigurations and statistics cost."""
    # Workers do not find this file by its name.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = local_session(
        2,
        memory="3g",
        settings={
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            "spark.sql.streaming.stateStore.providerClass": _ROCKS,
        },
    )
    rows = max(1_000, int(ROWS * scale))
    # A small run only shows that everything works.
    turns, batches = (4, 12) if scale >= 1 else (1, 2)
    return [
        *_against_spark(spark, rows, turns, batches),
        _fixed_cost(spark, turns, batches),
        *_reconfigurations(spark, rows, max(1_000, int(STATE * scale)), batches),
        *_statistics(spark, rows, batches),
    ]


# Keyed counts, as streams.


def _numbers(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    stream = spark.readStream.format("rate-micro-batch")
    stream = stream.option("rowsPerBatch", rows).option("numPartitions", 2)
    # Neighbours in the stream are no neighbours among the keys.
    scattered = functions.col("value") * functions.lit(2_654_435_761) % keys
    return stream.load().select(scattered.alias("key"))


def _batches(query: Any, wanted: int) -> list[float]:
    """Return how long each batch of a query took, once enough have run, and stop it."""
    seconds: dict[int, float] = {}
    while len(seconds) < wanted + WARM:
        if query.exception():
            raise query.exception()
        time.sleep(0.05)
        for progress in query.recentProgress:
            taken = progress["durationMs"]["triggerExecution"] / 1_000
            seconds[progress["batchId"]] = taken
    query.stop()
    return [seconds[batch] for batch in sorted(seconds)][WARM:]


def _counted_by_spark(stream: DataFrame) -> Any:
    counted = stream.groupBy("key").count().writeStream.outputMode("update").format("noop")
    return counted.option("checkpointLocation", tempfile.mkdtemp()).start()


def _counted_by_us(stream: DataFrame) -> Any:
    job = Topology.source("in", parallelism=2)
    job = job.then("count", key="key", parallelism=PARTITIONS, apply=Count())
    engine = SparkEngine(checkpoint=tempfile.mkdtemp(), settings=_QUIET)
    return engine.start(job, stream).query


class PerKey(StatefulProcessor):
    """Counts the rows of a key, as one would write it with Spark's API for state."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        from pyspark.sql import Row  # noqa: PLC0415

        known = self._count.get()
        count = (known[0] if known is not None else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(key=key[0], count=count)

    def close(self) -> None:
        """Nothing is held."""


def _counted_per_key(stream: DataFrame) -> Any:
    counted = stream.groupBy("key").transformWithState(
        PerKey(), "key bigint, count bigint", "Update", "None"
    )
    writer = counted.writeStream.outputMode("update").format("noop")
    return writer.option("checkpointLocation", tempfile.mkdtemp()).start()


def _against_spark(spark: SparkSession, rows: int, turns: int, batches: int) -> list[Result]:
    def stream() -> DataFrame:
        return _numbers(spark, rows, KEYS)

    rivals: dict[str, Callable[[DataFrame], Any]] = {
        "spark": _counted_by_spark,
        "ours": _counted_by_us,
    }
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(turns):
        for name in list(rivals)[:: 1 if turn % 2 else -1]:
            seconds[name] += _batches(rivals[name](stream()), batches)
    ours, theirs = (statistics.median(seconds[name]) for name in ("ours", "spark"))
    results = [
        Result(
            name=f"keyed count, {rows:,} rows a batch: against groupBy.count",
            measured=theirs / ours,
            unit="x",
            goal=1.3,
        ),
        Result(name="keyed count: rows", measured=rows / ours / 1e6, unit="M/s"),
    ]
    if _has_protobuf():
        per_key = statistics.median(_batches(_counted_per_key(stream()), 2))
        results.append(
            Result(
                name="keyed count: against transformWithState, row by row",
                measured=per_key / ours,
                unit="x",
                goal=20.0,
            )
        )
    return results


def _has_protobuf() -> bool:
    """Return whether Spark's API for state can be used from Python."""
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


# What a batch costs before there is anything to do.


def _empty(batch: DataFrame, _: int) -> None:
    """Run the same stages with functions that do nothing."""
    columns = "slot int, body binary"
    parts = batch.mapInArrow(_four, columns)
    for _stage in range(2):
        parts = parts.repartition(PARTITIONS, "slot").mapInArrow(_same, columns)
    parts.toArrow()


def _four(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    slots = pa.array(range(PARTITIONS), pa.int32())
    bodies = pa.array([b""] * PARTITIONS, pa.binary())
    yield pa.RecordBatch.from_arrays([slots, bodies], ["slot", "body"])


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _fixed_cost(spark: SparkSession, turns: int, batches: int) -> Result:
    job = Topology.source("in", parallelism=2)
    job = job.then("first", key="key", parallelism=PARTITIONS)
    job = job.then("second", key="key", parallelism=PARTITIONS)

    def empty() -> Any:
        writer = _numbers(spark, 100, 37).writeStream.foreachBatch(_empty)
        return writer.option("checkpointLocation", tempfile.mkdtemp()).start()

    def ours() -> Any:
        engine = SparkEngine(checkpoint=tempfile.mkdtemp(), settings=_QUIET)
        return engine.start(job, _numbers(spark, 100, 37)).query

    seconds: dict[str, list[float]] = {"empty": [], "ours": []}
    for turn in range(turns):
        rivals = [("empty", empty), ("ours", ours)]
        for name, start in rivals[:: 1 if turn % 2 else -1]:
            seconds[name] += _batches(start(), batches)
    return Result(
        name="fixed cost of a batch: against empty functions in the same stages",
        measured=statistics.median(seconds["ours"]) / statistics.median(seconds["empty"]),
        unit="x",
        goal=1.3,
        better="lower",
    )


# What plans and statistics cost.


@dataclass(frozen=True)
class Moving(Optimizer):
    """Moves some keys to and fro, in every second epoch."""

    tables: tuple[RoutingTable, RoutingTable]

    def plan(self, topology: Topology, cluster: Cluster, statistics: Any, current: Plan) -> Plan:
        """Move the keys back or forth."""
        if not statistics or statistics.epoch % 2:
            return Plan()
        return Plan(routing={"count": self.tables[statistics.epoch // 2 % 2]})


@dataclass(frozen=True)
class Looking(Optimizer):
    """Decides nothing, whatever it sees."""

    probes: frozenset[Probe]

    @property
    def observes(self) -> frozenset[Probe]:
        """What it is told to look at."""
        return self.probes

    def plan(self, topology: Topology, cluster: Cluster, statistics: Any, current: Plan) -> Plan:
        """Decide nothing."""
        return Plan()


def _rows(spark: SparkSession, batch: int, rows: int, keys: int) -> DataFrame:
    numbers = spark.range(batch * rows, (batch + 1) * rows, 1, 2)
    scattered = functions.col("id") * functions.lit(2_654_435_761) % keys
    other = functions.col("id") * functions.lit(40_503) % 5_000
    return numbers.select(scattered.alias("key"), other.alias("other"))


def _timed(run_of: Run, frame: DataFrame) -> float:
    start = time.perf_counter()
    run_of.execute(frame)
    return time.perf_counter() - start


def _reconfigurations(spark: SparkSession, rows: int, keys: int, batches: int) -> list[Result]:
    moved = np.arange(0, keys, int(1 / MOVED))
    home = Fields().router(8).route(len(moved), moved)
    tables = RoutingTable(moved, (home + 1) % 8, 8), RoutingTable(moved, (home + 2) % 8, 8)
    operator = Operator("count", "key", parallelism=8, apply=Count())
    job = Topology.source("in", parallelism=2).then(operator)
    engine = SparkEngine(checkpoint=tempfile.mkdtemp(), spark=spark, every=1, settings=_QUIET)
    run_of = engine.run(job, [], Moving(tables))
    seconds, taken_over = [], []
    for batch in range(WARM + 4 * batches + 1):
        seconds.append(_timed(run_of, _rows(spark, batch, rows, keys)))
        taken_over.append(run_of.batches[-1].taken_over)
    # Every other batch is one after a reconfiguration: each is compared with those beside it.
    moving = [batch for batch in range(WARM, len(seconds) - 1) if taken_over[batch]]
    share = statistics.median(
        2 * seconds[batch] / (seconds[batch - 1] + seconds[batch + 1]) - 1 for batch in moving
    )
    return [
        Result(
            name=f"reconfiguration: {MOVED:.0%} of {keys:,} keys moved, of a batch",
            measured=100 * share,
            unit="%",
            goal=10.0,
            better="lower",
        ),
        Result(name="reconfigurations timed", measured=len(moving), unit="batches"),
    ]


def _statistics(spark: SparkSession, rows: int, batches: int) -> list[Result]:
    """Measure all statistics where they have most to do: each job is one of little work a tuple."""

    def added(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("sum", pc.add(batch.column("key"), batch.column("other")))

    def same(row: dict[str, Any]) -> dict[str, Any]:
        return row

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        until = time.process_time() + 1e-5 * len(batch)
        while time.process_time() < until:
            pass
        return batch

    source = Topology.source("in", parallelism=2)
    first = Operator("first", "key", parallelism=PARTITIONS)
    without_key = {
        "a vectorised function": (rows, added),
        "a function of rows": (rows // 4, each_row(same)),
        "a function of 10 us a tuple": (rows // 10, slow),
    }
    jobs = {"two hops": (rows, source.then(first))} | {
        name: (many, source.then("work", edge_key="key", apply=function, parallelism=PARTITIONS))
        for name, (many, function) in without_key.items()
    }
    return [
        _with_statistics(
            spark, name, job.then("second", key="other", parallelism=PARTITIONS), many, batches
        )
        for name, (many, job) in jobs.items()
    ]


def _with_statistics(
    spark: SparkSession, name: str, job: Topology, rows: int, batches: int
) -> Result:
    runs = {}
    for observes, probes in (("off", frozenset[Probe]()), ("on", frozenset(Probe))):
        engine = SparkEngine(checkpoint=tempfile.mkdtemp(), spark=spark, settings=_QUIET)
        runs[observes] = engine.run(job, [], Looking(probes))
    # Of each two batches that follow each other one is with statistics, so that a busy moment of
    # the machine is in both.
    times_as_long = []
    for batch in range(WARM + 8 * batches):
        seconds = {
            observes: _timed(runs[observes], _rows(spark, batch, rows, KEYS))
            for observes in list(runs)[:: 1 if batch % 2 else -1]
        }
        if batch >= WARM:
            times_as_long.append(seconds["on"] / seconds["off"])
    return Result(
        name=f"statistics on, against off: {name}, of a batch",
        measured=100 * (statistics.median(times_as_long) - 1),
        unit="%",
        goal=5.0,
        better="lower",
    )
