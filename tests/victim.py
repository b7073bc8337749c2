"""A driver of its own that runs a streaming job until it is killed; see `killing`.

It knows the job and its tuples, so `killing` imports it for those, and starts it as a program with
the path of a `Task` to run (`victim_task`). The expected results are in `victim_reference`.
"""

import json
import os
import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from victim_task import Task, keep, keep_aside, note, note_counts

from grouping.routing_table import RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    Edge,
    LocalOrShuffle,
    OnError,
    Operator,
    Optimizer,
    PenstockError,
    Plan,
    Topology,
)
from optimizers.folds import DELETE, Count, EachKey, Emit
from optimizers.spark.engine import SparkEngine
from optimizers.spark.session import LOCAL_SETTINGS, QUICK_START, local_session

USERS = 97
PLACES = 41
GROUPS = 16
COLUMNS = "user bigint, place bigint, spent bigint"

TOO_MUCH = 8
"""What is spent in a tuple that the first operator of a job with bad rows cannot take."""

ROUND = 5
"""What by_user takes from none, in a job with bad rows, is a multiple of this in a batch."""

DONE, REFUSED = 0, 3
"""How a victim ends: with all batches done, or by an error of Penstock."""


def tuples(batch: int, rows: int, *, bad: bool = False) -> pa.Table:
    """Return what a batch has, mostly (see `ends_of`); the stream `_rate` computes the same."""
    value = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64)
    return pa.table(
        {
            "user": pa.array(value * value % 9_973 % USERS, mask=bad & (value % 13 == 5)),
            "place": pa.array(value * 31 % PLACES, mask=bad & (value % 17 == 3)),
            "spent": value % 9,
        }
    )


def write_files(task: Task) -> None:
    """Write the source of a task that reads files, a file for each batch of its stream."""
    folder = Path(task.folder) / "source"
    folder.mkdir(parents=True)
    for batch in range(task.history, task.batches):
        path = folder / f"{batch:05}.parquet"
        pq.write_table(tuples(batch, task.rows, bad=task.bad), path)
        os.utime(path, (1_600_000_000 + 10 * batch,) * 2)  # files come in the order of their age


def topology(task: Task) -> Topology:
    """Return the job; with ``flaky`` or ``slow`` its tasks have troubles, and the same results."""
    trouble = None
    if task.flaky or task.slow:
        trouble = Trouble(task.flaky, task.slow, str(task.attempts))
    if task.job == "chain":
        clean = Clean(trouble, task.bad) if task.bad else trouble
        return Topology(
            operators=(
                Operator("in", parallelism=2),
                Operator("clean", parallelism=2, apply=clean, on_error=_on_error(task, "aside")),
                _by_user(task),
                _by_place(task),
            ),
            edges=(Edge("in", "clean"), Edge("clean", "by_user"), Edge("by_user", "by_place")),
        )
    return Topology(
        operators=(
            Operator("in", parallelism=2),
            Operator(
                "dear",
                parallelism=3,
                apply=Dear(trouble, task.bad),
                on_error=_on_error(task, "skip"),
            ),
            _by_user(task),
            _by_place(task),
            # Goes on in the tasks of by_user, once these have written their state.
            Operator("seen", parallelism=2, apply=Nothing(trouble)),
        ),
        edges=(
            Edge("in", "dear"),
            Edge("dear", "by_user"),
            Edge("in", "by_place", key="place"),
            Edge("by_user", "by_place"),
            Edge("by_user", "seen", grouping=LocalOrShuffle()),
        ),
    )


def _by_user(task: Task) -> Operator:
    return Operator(
        "by_user",
        "user",
        task.declared[0],
        key_groups=GROUPS,
        apply=EachKey(Spending(task.bad), pa.int64(), emit=Emit.TUPLES),
        on_error=_on_error(task, "skip" if task.job == "chain" else "aside"),
    )


def _by_place(task: Task) -> Operator:
    return Operator(
        "by_place",
        "place",
        task.declared[1],
        key_groups=GROUPS,
        apply=Count(emit=Emit.CHANGES),
        on_error=_on_error(task, "aside" if task.job == "chain" else "skip"),
    )


def _on_error(task: Task, how: str) -> OnError:
    return OnError(how) if task.bad else OnError.FAIL


@dataclass(frozen=True)
class Spending:
    """Adds up what a user has spent, and forgets who has come to a multiple of seven."""

    strict: bool

    def __call__(self, key: tuple[int], rows: pa.Table, state: int | None) -> Any:
        spent = pc.sum(rows.column("spent")).as_py()
        if self.strict and spent % ROUND == 0:
            raise ValueError("as planned, a round sum")
        total = (state or 0) + spent
        return total if total % 7 else DELETE


def _refuse_too_much(batch: pa.RecordBatch) -> None:
    if TOO_MUCH in batch.column("spent").to_pylist():
        raise ValueError("as planned, too much")


@dataclass(frozen=True)
class Clean:
    """Gives every batch of tuples back as it is, unless too much was spent in one of them."""

    trouble: "Trouble | None"
    strict: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.strict:
            _refuse_too_much(batch)
        return batch if self.trouble is None else self.trouble(batch)


MOST_SECONDS = 90.0
"""How much longer a slow task waits for one to be tried again."""


@dataclass(frozen=True)
class Trouble:
    """Gives every batch of tuples back as it is, but not at the first attempt of every task."""

    flaky: bool
    slow: float
    attempts: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        context = TaskContext.get()
        name = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
        Path(self.attempts).mkdir(exist_ok=True)
        Path(self.attempts, name).touch()
        # Of slow ones there is one in a stage: two would keep both executors of a small cluster
        # busy, and none would be left to try one of them again.
        troubled = context.partitionId() == 0 if self.slow else context.partitionId() % 2 == 0
        if context.attemptNumber() == 0 and troubled:
            self._dawdle()
            if self.flaky:
                raise RuntimeError("as planned, the first attempt fails")
        return batch

    def _dawdle(self) -> None:
        """Take longer, and on a busy machine as long as it takes Spark to try any task again."""
        time.sleep(self.slow)
        latest = time.monotonic() + (MOST_SECONDS if self.slow else 0)
        while time.monotonic() < latest and not any(Path(self.attempts).glob("*-1")):
            time.sleep(0.1)


@dataclass(frozen=True)
class Dear:
    """Lets tuples through in which much was spent."""

    trouble: Trouble | None
    strict: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        there = Clean(self.trouble, self.strict)(batch)
        return there.filter(pc.greater(there.column("spent"), 4))


@dataclass(frozen=True)
class Nothing:
    """Takes tuples and emits none."""

    trouble: Trouble | None

    def __call__(self, batch: pa.RecordBatch) -> None:
        if self.trouble is not None:
            self.trouble(batch)


@dataclass(frozen=True)
class Restless(Optimizer):
    """Changes everything that can be changed, batch by batch, by a seed."""

    seed: int

    def plan(self, topology, cluster, statistics, current):
        drawn = random.Random(f"{self.seed} {statistics.epoch if statistics else -1}")  # noqa: S311
        found = Plan()
        for operator in topology.operators:
            if operator.keyed and drawn.random() < 0.7:
                found |= self._changed(operator, [node.name for node in cluster.nodes], drawn)
        return found

    def _changed(self, operator: Operator, nodes: list[str], drawn: random.Random) -> Plan:
        name, instances = operator.name, drawn.randint(1, 4)
        parts: dict[str, Any] = {"parallelism": {name: instances}}
        if drawn.random() < 0.6:
            keys = drawn.sample(range(PLACES), 20)
            owners = [drawn.randrange(instances) for _ in keys]
            parts["routing"] = {name: RoutingTable(keys, owners, instances)}
        if drawn.random() < 0.6:
            groups = tuple(drawn.randrange(instances) for _ in range(operator.key_groups))
            homes = tuple(drawn.choice(nodes) for _ in range(instances))
            parts["placement"] = {name: Deployment(homes, groups)}
        return Plan(**parts)


# The program.


def main() -> int:
    task = Task(**json.loads(Path(sys.argv[1]).read_text()))
    task = replace(task, declared=tuple(task.declared))
    note(task, "up")
    note_counts(task)
    engine = SparkEngine(
        checkpoint=task.checkpoint,
        spark=_session(task),
        cluster=Cluster.uniform(2),
        every=1,
        meanwhile=task.meanwhile,
    )
    spark = engine.spark
    stream = _rate(spark, task) if task.source == "rate" else files(spark, task)
    sinks: dict[str, Any] = {"each_batch": lambda rows, number: keep(task, rows, number)}
    if task.bad:
        sinks["each_aside"] = lambda rows, number: keep_aside(task, rows, number)
    totals = []
    try:
        if task.history:
            note(task, "runs")
            days = [tuples(number, task.rows, bad=task.bad) for number in range(task.history)]
            bounded = engine.run(
                topology(task),
                [spark.createDataFrame(day) for day in days],
                Restless(task.seed),
                names=[f"day {number}" for number in range(task.history)],
                **sinks,
            )
            totals.append(bounded.totals)
        started = engine.start(
            topology(task),
            stream,
            Restless(task.seed),
            **sinks,
            trigger={"availableNow": True} if task.source == "files" else None,
        )
        note(task, "runs")
        last = task.handed / f"{task.batches - 1:05}.json"
        while not (last.exists() or started.wait(0.1)):
            pass
        if task.source == "files":
            started.wait()
        started.stop()
        totals.append(started.run.totals)
    except PenstockError as error:
        note(task, f"refused {type(error).__name__}: {error}")
        return REFUSED
    note(task, f"totals {sum(t.skipped for t in totals)} {sum(t.aside for t in totals)}")
    note(task, "done")
    spark.stop()
    return DONE


def _session(task: Task) -> SparkSession:
    kept = {"spark.sql.shuffle.partitions": "2", "spark.local.dir": f"{task.folder}/local"}
    settings = {**kept, **task.settings}
    if task.master.startswith("local["):
        cores = task.master.removeprefix("local[").removesuffix("]")
        return local_session(cores, memory="1g", quick_start=True, settings=settings)
    if task.alone:
        os.environ["PYSPARK_PYTHON"] = _lonely_python(task)
    builder = SparkSession.builder.master(task.master).appName("victim")
    quick = {
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
    }
    for name, value in {**LOCAL_SETTINGS, **quick, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _lonely_python(task: Task) -> str:
    """Write a Python that finds installed packages, but not the Penstock that is worked on."""
    path = Path(task.folder) / "python"
    home = Path(np.__file__).parent.parent  # -S leaves out what points to folders elsewhere
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{home}" exec "{sys.executable}" -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def _rate(spark: SparkSession, task: Task) -> DataFrame:
    before = task.history * task.rows
    bad = str(task.bad).lower()
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", task.rows)
        .option("numPartitions", 2)
        .load()
        .selectExpr(f"value + {before} AS value")
        .selectExpr(
            f"if({bad} and value % 13 = 5, null, value * value % 9973 % {USERS}) AS user",
            f"if({bad} and value % 17 = 3, null, value * 31 % {PLACES}) AS place",
            "value % 9 AS spent",
        )
    )


def files(spark: SparkSession, task: Task) -> DataFrame:
    folder = f"{task.folder}/source"
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(folder)


if __name__ == "__main__":
    sys.exit(main())
