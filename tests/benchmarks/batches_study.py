"""Micro-batches measured on Spark over a grid, for the simulation's to be held against.

A job of a source, an operator that works on each tuple for as long as the tuple says, and a keyed
count; or without the count. What varies: how many instances the operators have, how many tuples a
batch has and what they cost, on how many cores; or, on hosts behind links of limited speed, how
large tuples are and on how many hosts the operators are.

Each cell is run in every round, in an order of its own, and its quickest batches count: what else
the machine does makes batches slower, never faster.

    python tests/benchmarks/batches_study.py local 2 > local-2.json
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from optimizers import Cluster, Deployment, Fixed, Node, Operator, Plan, Shuffle, Topology
from optimizers.folds import Count
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine, local_session
from optimizers.spark.engine import Run

_CLUSTER = Path(__file__).resolve().parents[1] / "cluster"
KEYS = 1_000
PARTITIONS = 2
ROUNDS = 8  # after one that warms up
MEGABITS = 100.0
WORKERS = (1, 2)  # by their number as hosts; the master is on 0


@dataclass(frozen=True)
class Cell:
    """One setting.

    Attributes:
        cores: how many tasks run at once.
        hosts: on how many hosts the operators are; those of local Spark are on one.
        stages: of the job: 2, or 3 with the count.
        tasks: instances of each operator.
        rows: tuples of a batch.
        micros: microseconds of work for each.
        padding: bytes of each, beside its numbers.
    """

    cores: int
    hosts: int
    stages: int
    tasks: int
    rows: int
    micros: int
    padding: int = 0


def local_cells(cores: int) -> list[Cell]:
    """Return the grid on local Spark."""
    return [
        Cell(cores, 1, stages, tasks, rows, micros)
        for stages, numbers in ((2, (1, 2)), (3, (1, 2, 3, 4)))
        for tasks in numbers
        for rows in (5_000, 20_000, 60_000)
        for micros in (5, 40)
    ]


def host_cells() -> list[Cell]:
    """Return the grid on hosts of one core each."""
    return [
        Cell(len(WORKERS), hosts, 3, tasks, rows, micros, padding)
        for hosts in (1, 2)
        for tasks in (2, 4)
        for rows in (2_000, 8_000, 20_000)
        for micros in (5, 100)
        for padding in (0, 1_000)
    ]


def work(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take as long as the tuples say.

    By waiting: a slot is taken as well as by working, and a machine that others use has no cores
    to give that are as fast from one batch to the next.
    """
    time.sleep((pc.sum(batch.column("micros")).as_py() or 0) / 1e6)
    return batch


def job_of(cell: Cell) -> Topology:
    """Return the job of a cell."""
    job = Topology.source("in", parallelism=PARTITIONS)
    job = job.then("work", parallelism=cell.tasks, grouping=Shuffle(), apply=work)
    return (
        job.then("count", key="key", parallelism=cell.tasks, apply=Count())
        if cell.stages == 3
        else job
    )


def plan_of(cell: Cell, job: Topology, nodes: Sequence[str]) -> Plan:
    """Return the plan that puts the operators of a cell on its hosts."""
    used = nodes[: cell.hosts]
    return Plan(
        placement={
            operator.name: _deployment(operator.parallelism, _groups(operator), used)
            for operator in job.operators
            if operator.name != "in"
        }
    )


def _deployment(instances: int, groups: int, used: Sequence[str]) -> Deployment:
    homes = tuple(used[number % len(used)] for number in range(instances))
    return Deployment(homes, tuple(group % instances for group in range(groups)))


def _groups(operator: Operator) -> int:
    return operator.key_groups if operator.keyed else 0


class Grid:
    """The cells of one session, and the runs that serve them.

    Args:
        session: on the machines.
        nodes: what these are called; one name for local Spark.
        folder: for checkpoints.
    """

    def __init__(self, session: SparkSession, nodes: Sequence[str], folder: Path) -> None:
        self._session, self._nodes, self._folder = session, nodes, folder
        self._runs: dict[tuple[int, int, int], Run] = {}
        self._frames: dict[tuple[int, int, int], DataFrame] = {}

    def seconds(self, cells: Sequence[Cell], rounds: int) -> dict[Cell, list[float]]:
        """Return how long each batch of each cell took."""
        found: dict[Cell, list[float]] = {cell: [] for cell in cells}
        for number in range(rounds + 1):
            order = list(cells)
            random.Random(number).shuffle(order)  # noqa: S311
            for cell in order:
                frame, run = self._frame(cell), self._run(cell)
                begun = time.perf_counter()
                run.execute(frame)
                taken = time.perf_counter() - begun
                if number:
                    found[cell].append(taken)
            _note(f"round {number} of {rounds} is over")
        return found

    def _run(self, cell: Cell) -> Run:
        key = (cell.hosts, cell.stages, cell.tasks)
        if key not in self._runs:
            job = job_of(cell)
            engine = SparkEngine(
                checkpoint=str(self._folder / "-".join(map(str, key))),
                spark=self._session,
                cluster=Cluster(tuple(map(Node, self._nodes))),
                drift=None,
                every=1 << 20,
                seed=1,
                settings=Settings(keep_output=False),
            )
            plan = plan_of(cell, job, self._nodes)
            run = self._runs[key] = engine.run(job, [], Fixed(plan))
            if any(decision.refused for decision in run.decisions):
                raise RuntimeError(f"{cell} is not laid out as it is to be: {run.decisions}")
        return self._runs[key]

    def _frame(self, cell: Cell) -> DataFrame:
        key = (cell.rows, cell.micros, cell.padding)
        if key not in self._frames:
            made = self._session.createDataFrame(rows_of(cell)).repartition(PARTITIONS).persist()
            made.count()
            self._frames[key] = made
        return self._frames[key]


def rows_of(cell: Cell) -> pa.Table:
    """Return the tuples of a batch; paddings are random, so that nothing makes them smaller."""
    chance = np.random.default_rng([cell.rows, cell.micros, cell.padding])
    columns: dict[str, Any] = {
        "key": chance.integers(0, KEYS, cell.rows),
        "micros": np.full(cell.rows, cell.micros),
    }
    if cell.padding:
        columns["body"] = [chance.bytes(cell.padding) for _ in range(cell.rows)]
    return pa.table(columns)


def measured(where: str, cores: int, rounds: int, share: float = 1.0) -> list[dict[str, Any]]:
    """Measure a grid in this process: of ``"local"`` Spark, or of ``"hosts"``."""
    # Workers do not find this file by its name.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    cells = local_cells(cores) if where == "local" else host_cells()
    cells = cells[:: max(1, round(1 / share))]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if where == "local":
            session, nodes = local_session(cores, memory="3g"), ("here",)
        else:
            session, nodes = stack.enter_context(_on_hosts(folder))
        found = Grid(session, nodes, folder).seconds(cells, rounds)
    return [{**asdict(cell), "seconds": [round(s, 4) for s in found[cell]]} for cell in cells]


def _on_hosts(folder: Path) -> Any:
    """Return a context with a session on hosts behind shaped links, and their names."""
    sys.path.insert(0, str(_CLUSTER))
    from contextlib import contextmanager  # noqa: PLC0415

    from network import DRIVER, network  # noqa: PLC0415
    from standalone import session_on, standalone  # noqa: PLC0415

    settings = {
        "spark_driver_host": DRIVER,
        "spark_driver_bindAddress": DRIVER,
        "spark_executor_memory": "1500m",
        "spark_shuffle_compress": "false",
    }

    @contextmanager
    def opened() -> Iterator[tuple[SparkSession, tuple[str, ...]]]:
        with network(1 + len(WORKERS)) as net:
            hosts = [net.hosts[number] for number in WORKERS]
            cluster = standalone(folder=folder, memory="2g", master=net.hosts[0], hosts=hosts)
            with cluster as url, session_on(url, len(WORKERS), **settings) as session:
                net.shape(WORKERS, MEGABITS)
                yield session, tuple(host.address for host in hosts)

    return opened()


def in_process(where: str, cores: int, rounds: int, share: float) -> list[dict[str, Any]]:
    """Measure a grid in a process of its own, for a session cannot get other cores."""
    command = [sys.executable, __file__, where, str(cores)]
    command += ["--rounds", str(rounds), "--share", str(share)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def local(scale: float) -> list[dict[str, Any]]:
    """Measure local Spark on one core and on two."""
    rounds = max(1, round(ROUNDS * scale))
    return [cell for cores in (1, 2) for cell in in_process("local", cores, rounds, min(1, scale))]


def hosts(scale: float) -> list[dict[str, Any]]:
    """Measure Spark on two hosts behind shaped links; needs root."""
    rounds = max(1, round(ROUNDS * scale))
    return in_process("hosts", len(WORKERS), rounds, min(1, scale))


def _note(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure a grid, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", choices=["local", "hosts"])
    parser.add_argument("cores", type=int)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--share", type=float, default=1.0, help="of the cells")
    options = parser.parse_args(None if arguments is None else list(arguments))
    found = measured(options.where, options.cores, options.rounds, options.share)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
