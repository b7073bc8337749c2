"""A driver of its own that runs a streaming job until it is killed; see `killing`.

It knows the job, its tuples and what they have to come to, so `killing` imports it for those, and
starts it as a program with the path of a `Task` to run.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from grouping.routing_table import RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    Edge,
    LocalOrShuffle,
    Operator,
    Optimizer,
    PenstockError,
    Plan,
    Topology,
)
from optimizers.folds import DELETE, Count, EachKey, Emit
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark.engine import SparkEngine
from optimizers.spark.session import LOCAL_SETTINGS, QUICK_START, local_session

USERS = 97
PLACES = 41
GROUPS = 16
COLUMNS = "user bigint, place bigint, spent bigint"

DONE, REFUSED = 0, 3
"""How a victim ends: with all batches done, or by an error of Penstock."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a victim has to do.

    Attributes:
        folder: where all it writes goes.
        job: which job: "chain" or "fork".
        source: where tuples come from: "rate" or "files".
        master: what runs tasks, as Spark names it.
        batches: how many batches are wanted.
        rows: of each batch.
        seed: of what the optimizer decides.
        flaky: whether tasks fail at their first attempt, some early and some late.
        slow: seconds that some tasks take longer at their first attempt.
        settings: settings of Spark.
        meanwhile: whether batches go on while the optimizer thinks.
        alone: whether executors find nothing on their own but what Spark and Penstock need.
        kept: where the checkpoint is, if not in the folder.
        history: how many of the batches are bounded ones, which are run before the stream begins.
        restless: whether each driver declares other numbers of instances than the one before.
        declared: the parallelism of by_user and of by_place in the code.
    """

    folder: str
    job: str = "chain"
    source: str = "rate"
    master: str = "local[2]"
    batches: int = 12
    rows: int = 600
    seed: int = 0
    flaky: bool = False
    slow: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    meanwhile: bool = False
    alone: bool = False
    kept: str | None = None
    history: int = 0
    restless: bool = False
    declared: tuple[int, int] = (2, 2)

    @property
    def checkpoint(self) -> str:
        return self.kept or f"{self.folder}/checkpoint"

    @property
    def handed(self) -> Path:
        """Where what is handed out goes, a file for each batch."""
        return Path(self.folder) / "handed"

    @property
    def attempts(self) -> Path:
        """Where tasks that have troubles tell of themselves: stage, partition, attempt."""
        return Path(self.folder) / "attempts"

    @property
    def journal(self) -> Path:
        return Path(self.folder) / "journal"


# What a victim does.


def tuples(batch: int, rows: int) -> pa.Table:
    """Return what a batch has, mostly (see `ends_of`); the stream `_rate` computes the same."""
    value = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64)
    return pa.table(
        {"user": value * value % 9_973 % USERS, "place": value * 31 % PLACES, "spent": value % 9}
    )


def write_files(task: Task) -> None:
    """Write the source of a task that reads files, a file for each batch of its stream."""
    folder = Path(task.folder) / "source"
    folder.mkdir(parents=True)
    for batch in range(task.history, task.batches):
        path = folder / f"{batch:05}.parquet"
        pq.write_table(tuples(batch, task.rows), path)
        os.utime(path, (1_600_000_000 + 10 * batch,) * 2)  # files come in the order of their age


def topology(task: Task) -> Topology:
    """Return the job; with ``flaky`` or ``slow`` its tasks have troubles, and the same results."""
    trouble = None
    if task.flaky or task.slow:
        trouble = Trouble(task.flaky, task.slow, str(task.attempts))
    if task.job == "chain":
        return Topology(
            operators=(
                Operator("in", parallelism=2),
                Operator("clean", parallelism=2, apply=trouble),
                _by_user(task),
                _by_place(task),
            ),
            edges=(Edge("in", "clean"), Edge("clean", "by_user"), Edge("by_user", "by_place")),
        )
    return Topology(
        operators=(
            Operator("in", parallelism=2),
            Operator("dear", parallelism=3, apply=Dear(trouble)),
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
    fold = EachKey(Spending(), pa.int64(), emit=Emit.TUPLES)
    return Operator("by_user", "user", task.declared[0], key_groups=GROUPS, apply=fold)


def _by_place(task: Task) -> Operator:
    fold = Count(emit=Emit.CHANGES)
    return Operator("by_place", "place", task.declared[1], key_groups=GROUPS, apply=fold)


@dataclass(frozen=True)
class Spending:
    """Adds up what a user has spent, and forgets who has come to a multiple of seven."""

    def __call__(self, key: tuple[int], rows: pa.Table, state: int | None) -> Any:
        total = (state or 0) + pc.sum(rows.column("spent")).as_py()
        return total if total % 7 else DELETE


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
        if context.attemptNumber() == 0 and context.partitionId() % 2 == 0:
            time.sleep(self.slow)
            if self.flaky:
                raise RuntimeError("as planned, the first attempt fails")
        return batch


@dataclass(frozen=True)
class Dear:
    """Lets tuples through in which much was spent."""

    trouble: Trouble | None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        there = batch if self.trouble is None else self.trouble(batch)
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


# What that has to come to.


@dataclass
class Reference:
    """The job done in plain Python, one tuple after the other.

    Attributes:
        states: by operator, after each batch, its results by key.
        handed: what each batch hands out.
    """

    states: dict[str, list[dict[int, int]]]
    handed: list[list[list[int]]]

    @classmethod
    def of(cls, task: Task, ends: Sequence[int]) -> "Reference":
        """Do the job.

        Args:
            task: the job.
            ends: up to which of its `tuples` each batch went.
        """
        spent, seen = Counter[int](), Counter[int]()
        found = cls({"by_user": [], "by_place": []}, [])
        for start, end in pairwise([0, *ends]):
            changed, came = set(), set()
            rows = (row for part in range(start, end) for row in _rows(tuples(part, task.rows)))
            for user, place, price in rows:
                visits = 1
                if task.job == "chain" or price > 4:
                    spent[user] += price
                    came.add(user)
                    visits += task.job == "fork"
                seen[place] += visits
                changed.add(place)
            for user in came:
                if spent[user] % 7 == 0:
                    del spent[user]
            found.states["by_user"].append(dict(spent))
            found.states["by_place"].append(dict(seen))
            found.handed.append(sorted([place, seen[place]] for place in changed))
        return found


def ends_of(task: Task, batches: int) -> list[int]:
    """Return up to which of its `tuples` each batch went, as Spark's log of offsets has it.

    Mostly each has one. But a file that Spark had written down when it was killed, though not yet
    that a batch has it, comes with the next one.
    """
    if task.source != "files" or not Path(task.checkpoint, "spark").exists():
        return list(range(1, batches + 1))
    offsets = Path(task.checkpoint, "spark", "offsets")
    bounded = min(batches, task.history)
    streamed = range(batches - bounded)
    lines = ((offsets / str(batch)).read_text().splitlines()[-1] for batch in streamed)
    ends = [bounded + json.loads(line)["logOffset"] + 1 for line in lines]
    return [*range(1, bounded + 1), *ends]


def _rows(table: pa.Table) -> Iterator[tuple[int, int, int]]:
    return zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)


# The program.


def main() -> int:
    task = Task(**json.loads(Path(sys.argv[1]).read_text()))
    task = replace(task, declared=tuple(task.declared))
    note(task, "up")
    engine = SparkEngine(
        checkpoint=task.checkpoint,
        spark=_session(task),
        cluster=Cluster.uniform(2),
        every=1,
        meanwhile=task.meanwhile,
    )
    spark = engine.spark
    stream = _rate(spark, task) if task.source == "rate" else files(spark, task)
    try:
        if task.history:
            note(task, "runs")
            engine.run(
                topology(task),
                [spark.createDataFrame(tuples(n, task.rows)) for n in range(task.history)],
                Restless(task.seed),
                names=[f"day {number}" for number in range(task.history)],
                each_batch=lambda rows, number: keep(task, rows, number),
            )
        started = engine.start(
            topology(task),
            stream,
            Restless(task.seed),
            each_batch=lambda rows, number: keep(task, rows, number),
            trigger={"availableNow": True} if task.source == "files" else None,
        )
        note(task, "runs")
        last = task.handed / f"{task.batches - 1:05}.json"
        while not (last.exists() or started.wait(0.1)):
            pass
        if task.source == "files":
            started.wait()
        started.stop()
    except PenstockError as error:
        note(task, f"refused {type(error).__name__}: {error}")
        return REFUSED
    note(task, "done")
    spark.stop()
    return DONE


def note(task: Task, text: str) -> None:
    """Add a line to the journal."""
    with task.journal.open("a") as journal:
        journal.write(f"{time.time():.3f} {text}\n")


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
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", task.rows)
        .option("numPartitions", 2)
        .load()
        .selectExpr(f"value + {before} AS value")
        .selectExpr(
            f"value * value % 9973 % {USERS} AS user",
            f"value * 31 % {PLACES} AS place",
            "value % 9 AS spent",
        )
    )


def files(spark: SparkSession, task: Task) -> DataFrame:
    folder = f"{task.folder}/source"
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(folder)


def keep(task: Task, rows: DataFrame, batch: int) -> None:
    """Keep what was handed out; if a batch comes again, it must be the same."""
    found = sorted([row["place"], row["count"]] for row in rows.toArrow().to_pylist())
    path = task.handed / f"{batch:05}.json"
    if path.exists():
        if json.loads(path.read_text()) != found:
            path.with_suffix(".again").write_text(json.dumps(found))
        note(task, f"again {batch}")
        return
    task.handed.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(found))
    temporary.replace(path)
    commit = Checkpoint.open(Location(task.checkpoint)).last_commit()
    note(task, f"batch {batch} under {commit.plan}")


def written(task: Task) -> Path:
    """Write a task where a victim reads it."""
    path = Path(task.folder) / "task.json"
    path.write_text(json.dumps(asdict(task)))
    return path


if __name__ == "__main__":
    sys.exit(main())
