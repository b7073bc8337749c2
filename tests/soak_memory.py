"""Runs a job for thousands of batches, under hundreds of plans, and looks at what grows.

The long run, for half an hour; it prints what it measures, and fails if anything has grown after
the first tenth::

    python tests/soak_memory.py --batches 2000 --plans 200 --keys 100000

Each plan names an owner for as many keys, none of them in the plan before, and every third one
places the instances as well. Measured are the memory of the driver's Python and of its workers, the
heap of Java after it was cleaned up, and the files in the temporary folders of both.

What is not looked at is Spark's own memory of the last thousand jobs, stages and queries
(``spark.ui.retained...``), which grows to that number; the session here keeps few.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from killing import WORKER, tree_of
from pyspark.sql import DataFrame, SparkSession

from grouping.routing_table import RoutingTable
from optimizers import Cluster, Deployment, Optimizer, Plan, Topology
from optimizers.deployment import default_groups
from optimizers.folds import Count, Emit
from optimizers.spark import SparkEngine
from optimizers.spark.session import local_session

INSTANCES = 2
ROWS = 200
LOOKS, PAUSE = 5, 0.25
"""How often files are looked at, and how many seconds apart, before they are held to stay."""

PATIENCE = 300.0
"""Seconds that Spark has for tidying up after a batch."""

SLACK = 0.05
"""By how much of itself a figure may be larger late than early, for no reason."""

NOISE = {"driver_mb": 25.0, "workers_mb": 40.0, "heap_mb": 10.0, "files_mb": 2.0, "files": 20.0}
"""By how much more: what allocators and Spark's shuffles come and go by. Memory that a leak of a
single plan of 100,000 keys would take (18 MB in Python, 5 MB in files) is beyond it in a few."""

FEW: dict[str, str] = {
    f"spark.{kind}.retained{what}": "20"
    for kind, what in (("ui", "Jobs"), ("ui", "Stages"), ("ui", "Tasks"), ("sql.ui", "Executions"))
} | {"spark.cleaner.referenceTracking.blocking.shuffle": "true"}  # it tidies up in one thread


@dataclass(frozen=True)
class Sample:
    """What there was after a batch.

    Attributes:
        batch: its number.
        driver_mb: resident memory of the driver's Python.
        workers_mb: the same of all its Python workers together.
        heap_mb: what Java holds after it was cleaned up.
        files_mb: what lies in the temporary folders of the driver's Python and Java.
        files: in how many files.
    """

    batch: int
    driver_mb: float
    workers_mb: float
    heap_mb: float
    files_mb: float
    files: int


@dataclass
class Restless(Optimizer):
    """Decides for other tables of the same size each time it is asked."""

    keys: int
    asked: int = 0

    def plan(self, topology, cluster, statistics, current) -> Plan:
        self.asked += 1
        names = np.char.add(f"a-tag-that-was-seen-{self.asked}-", np.arange(self.keys).astype(str))
        owners = np.random.default_rng(self.asked).integers(0, INSTANCES, self.keys)
        table = RoutingTable(names, owners, INSTANCES)
        homes = tuple(node.name for node in cluster.nodes)
        count = topology.operator("count")
        turned = Deployment(homes if self.asked % 2 else homes[::-1], default_groups(count))
        placement = {"count": turned} if self.asked % 3 == 0 else {}
        return Plan(routing={"count": table}, placement=placement)


class Gauge:
    """Measures the processes and folders of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm = session._jvm  # noqa: SLF001
        context = session.sparkContext
        folders = [context._temp_dir, session.conf.get("spark.local.dir")]  # noqa: SLF001
        self._folders = [Path(folder) for folder in folders if folder]

    def sample(self, batch: int) -> Sample:
        """Measure, having told Java to clean up and waited until Spark has, too."""
        sizes = self._settled()
        runtime = self._jvm.java.lang.Runtime.getRuntime()
        heap = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
        root, *others = _tree()
        return Sample(batch, root, sum(others), heap, sum(sizes.values()) / 1e6, len(sizes))

    def _settled(self) -> dict[Path, int]:
        """Return the files, once they were the same at several looks one after the other.

        Spark removes files of what Java has found unused, in a thread of its own, when it gets to.
        """
        until, same, sizes = time.monotonic() + PATIENCE, 0, self._sizes()
        while same < LOOKS:
            if time.monotonic() > until:
                raise AssertionError(f"files come and go for {PATIENCE:.0f} s after a batch")
            self._jvm.System.gc()
            time.sleep(PAUSE)
            before, sizes = sizes, self._sizes()
            same = same + 1 if sizes == before else 0
        return sizes

    def _sizes(self) -> dict[Path, int]:
        """Return the size of each file in the folders."""
        sizes = {}
        for file in {file for folder in self._folders for file in folder.rglob("*")}:
            try:
                sizes |= {file: file.stat().st_size} if file.is_file() else {}
            except FileNotFoundError:
                continue  # Spark tidies up meanwhile
        return sizes


def _tree() -> list[float]:
    """Return the resident megabytes of this process, and of the workers it has."""
    root = os.getpid()
    workers = [pid for pid, (_, words) in tree_of(root).items() if WORKER in words and pid != root]
    return [_resident(root), *map(_resident, workers)]


def _resident(pid: int) -> float:
    command = (shutil.which("ps") or "ps", "-o", "rss=", "-p", str(pid))
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(told) / 1e3 if told else 0.0  # a worker may have ended since


def soak(
    session: SparkSession, folder: Path, *, batches: int, plans: int, keys: int, samples: int
) -> Iterator[Sample]:
    """Run a job, and yield what there is now and then.

    Args:
        session: by which session.
        folder: for the checkpoint.
        batches: how many batches.
        plans: how many of them are followed by another plan.
        keys: how many keys each plan names.
        samples: how often it is measured.
    """
    job = Topology.source("tags").then(
        "count", key="k", parallelism=INSTANCES, apply=Count(emit=Emit.CHANGES)
    )
    cluster = Cluster.uniform(INSTANCES)
    every = max(batches // plans, 1)
    engine = SparkEngine(
        checkpoint=str(folder / "job"), spark=session, every=every, cluster=cluster
    )
    handed: list[int] = []

    def each_batch(rows: DataFrame, number: int) -> None:
        handed.append(len(rows.collect()))

    run = engine.run(job, [], Restless(keys), each_batch=each_batch)
    gauge = Gauge(session)
    due = {round(batches * (n + 1) / samples) - 1 for n in range(samples)}
    frame = session.range(ROWS).selectExpr("concat('tag-', id) as k")
    for number in range(batches):
        run.execute(frame)
        if number in due:
            yield gauge.sample(number)
    if sum(handed) != batches * ROWS or run.totals.applied < plans:
        raise AssertionError(f"{sum(handed)} rows came, under {run.totals}; the run is not as said")


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return what is larger at the end than after the first tenth, in sentences."""
    start = max(1, len(samples) // 10)
    width = max(2, len(samples) // 5)
    found = []
    for name, noise in NOISE.items():
        values = [float(asdict(sample)[name]) for sample in samples]
        early = statistics.median(values[start : start + width])
        late = statistics.median(values[-width:])
        if late > early * (1 + SLACK) + noise:
            found.append(f"{name} has grown from {early:.1f} to {late:.1f}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the job, print what was measured, and return 1 if anything has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=40)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        settings = {**FEW, "spark.local.dir": f"{place}/spark"}
        session = local_session(2, quick_start=True, settings=settings)
        started, samples = time.monotonic(), []
        _tell("   batch driver workers   heap  files MB  files  seconds")
        for sample in soak(session, Path(place), **vars(options)):
            samples.append(sample)
            _tell(
                f"{sample.batch:8} {sample.driver_mb:6.0f} {sample.workers_mb:7.0f} "
                f"{sample.heap_mb:6.1f} {sample.files_mb:9.1f} {sample.files:6} "
                f"{time.monotonic() - started:8.0f}"
            )
        session.stop()
    found = grown(samples)
    _tell("\n".join(found) or "nothing has grown after the first tenth")
    return bool(found)


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # what the command is for


if __name__ == "__main__":
    sys.exit(main())
