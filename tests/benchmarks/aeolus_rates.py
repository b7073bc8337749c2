"""Streams at a low, a middle and a high rate on Spark: how long rows wait, and what cores do.

Every row's moment of arrival is known (`paced_source`), and when the batch with it was committed.
Cores are CPU seconds of the driver, the JVM and all workers together, by the clock.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import paced_source
import pyarrow as pa
from aeolus_jobs import JOBS, MOST, SOURCE, RealJob, shipped_to_workers
from page import Json
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from optimizers import Cluster
from optimizers.optimizer import Optimizer
from optimizers.spark.command_session import command_session
from optimizers.spark.cores import slots_of
from optimizers.spark.engine import Run, SparkEngine, StreamingRun
from optimizers.spark.sized import Sized
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.fixed import Fixed
from sketches.arrays import Floats

SHARES = {"low": 0.02, "middle": 0.3, "high": 0.8}
"""Rates, as shares of the highest that the job carries as declared."""

BOUND = 2.0  # seconds that a row may wait, where a variant is given a bound
_SETTLING, _MEASURED = 20.0, 20.0  # seconds
_MOST_ROWS = 200_000  # of a batch, where a plan says nothing: what is behind is caught up with
_CROWDED = 100_000  # rows of a batch that show what is carried at most
_FEWEST, _PATIENCE = 3, 300.0  # batches that are measured, and seconds for them to come
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Variant:
    """A way to run a job.

    Attributes:
        optimizer: who decides.
        by_hand: whether a trigger holds batches back as far as the bound allows.
    """

    optimizer: Callable[[RealJob], Optimizer | None]
    by_hand: bool = False


VARIANTS = {
    "as declared": Variant(lambda job: None),
    f"{MOST} tasks a stage, Spark's default": Variant(lambda job: Fixed(job.wide(MOST))),
    "published": Variant(lambda job: Aeolus.published()),
    "Aeolus": Variant(lambda job: Aeolus()),
    f"as declared, a trigger for {BOUND:g} s": Variant(lambda job: None, by_hand=True),
    f"Aeolus(latency={BOUND:g})": Variant(lambda job: Aeolus(latency=BOUND)),
}


def spark_rates(scale: float) -> Json:
    """Run both jobs at three rates, under each variant."""
    shipped_to_workers()
    cloudpickle.register_pickle_by_value(paced_source)  # type: ignore[no-untyped-call]
    return {job.name: _of_job(job, min(1.0, scale)) for job in JOBS}


def _of_job(job: RealJob, scale: float) -> Json:
    with command_session("*") as session, TemporaryDirectory() as folder:
        bench = Bench(session, job, Path(folder), scale)
        carried = {name: bench.carried(variant) for name, variant in VARIANTS.items()}
        rates = {level: share * carried["as declared"] for level, share in SHARES.items()}
        found = {
            level: {name: bench.at_rate(variant, rate) for name, variant in VARIANTS.items()}
            for level, rate in rates.items()
        }
    return {"carried": carried, "rates": rates, "found": found}


@dataclass(frozen=True)
class Batch:
    """A batch that was committed: how many rows it had, how long it took, and when it ended."""

    rows: int
    seconds: float
    ended: float


class Bench:
    """Runs one job in one session, again and again.

    Args:
        session: the session.
        job: the job.
        folder: for its lines and checkpoints.
        scale: share of the seconds that are measured.
    """

    def __init__(self, session: SparkSession, job: RealJob, folder: Path, scale: float) -> None:
        self._session, self._job, self._folder, self._scale = session, job, folder, scale
        self._runs = 0
        self._each: dict[Variant, float] = {}  # seconds for a row of a large batch
        self._lines = folder / "lines.arrow"
        table = job.lines().combine_chunks()
        with pa.OSFile(str(self._lines), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)

    def carried(self, variant: Variant) -> float:
        """Return how many rows a second a variant works through when more wait at any time."""
        run = _Started(self, variant, rate=1e9, most=_CROWDED)
        with run:
            batches = run.after(_SETTLING * self._scale, _MEASURED * self._scale)
        seconds = sum(batch.seconds for batch in batches)
        rows = sum(batch.rows for batch in batches)
        self._each[variant] = seconds / rows
        return rows / seconds

    def at_rate(self, variant: Variant, rate: float) -> Json:
        """Return how long rows wait at a rate, and how many cores work."""
        run = _Started(self, variant, rate=rate)
        with run:
            settled = run.after(_SETTLING * self._scale, 0.0)
            period = self._period(variant, rate, settled) if variant.by_hand else 0.0
            if period:
                run.begin_again(period)
                run.after(2 * BOUND, 0.0)
            used, began = _cpu_seconds(), time.time()
            batches = run.after(0.0, _MEASURED * self._scale)
            cores = (_cpu_seconds() - used) / (time.time() - began)
        waits = _waits(run, batches)
        late, mean = (
            (float(np.quantile(waits, 0.95)), float(waits.mean())) if len(waits) else (0, 0)
        )
        return {
            "p95": late,
            "mean": mean,
            "cores": cores,
            "period": period or run.period,
            "batch": float(np.median([batch.seconds for batch in batches])) if batches else None,
            "behind": (time.time() - run.began) * rate - run.rows,
            "told": run.told[-1:],
        }

    def _period(self, variant: Variant, rate: float, last: list[Batch]) -> float:
        """Return how rarely batches may begin to keep to the bound, by what they took."""
        each = self._each[variant]
        fixed = float(np.median([max(0.0, b.seconds - each * b.rows) for b in last[-8:]]))
        period = (BOUND - fixed) / (1 + rate * each)
        return max(0.0, period)

    def new_folder(self) -> Path:
        """Return a folder for another checkpoint."""
        self._runs += 1
        return self._folder / f"job-{self._runs}"

    @property
    def session(self) -> SparkSession:
        """The session."""
        return self._session

    @property
    def job(self) -> RealJob:
        """The job."""
        return self._job

    @property
    def lines(self) -> Path:
        """The file of its lines."""
        return self._lines


class _Started:
    """A variant of a job on a stream, and its batches so far."""

    def __init__(
        self, bench: Bench, variant: Variant, *, rate: float, most: int = _MOST_ROWS
    ) -> None:
        self._bench, self._rate, self._most = bench, rate, most
        self._ended: dict[int, float] = {}  # when batches were handed out, by their number
        self._runs: list[Run] = []
        cluster = Cluster.uniform(slots_of(bench.session))
        self._engine = SparkEngine(
            checkpoint=bench.new_folder(), spark=bench.session, every=2, cluster=cluster
        )
        self._optimizer = variant.optimizer(bench.job)
        # Workers are there, and have imported what they need, before the first row comes.
        warm = bench.job.batches(1_000, 2)
        frames = [bench.session.createDataFrame(table) for table in warm]
        self._engine.run(bench.job.topology, frames, None)
        self.began = time.time()
        self._stream = self._start(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.stop()

    def _start(self, period: float | None) -> StreamingRun:
        bench = self._bench

        def read(rows: int) -> DataFrame:
            return paced_source.paced(
                bench.session,
                bench.lines,
                rate=self._rate,
                began=self.began,
                most=rows,
                partitions=bench.job.topology.operator(SOURCE).parallelism,
            )

        trigger: Any = (
            {"processingTime": f"{round(1000 * period)} milliseconds"} if period else None
        )
        started = self._engine.start(
            bench.job.topology,
            {SOURCE: Sized(read, self._most)},
            self._optimizer,
            each_batch=self._note,
            trigger=trigger,
        )
        self._runs.append(started.run)
        return started

    def _note(self, _: DataFrame, number: int) -> None:
        self._ended.setdefault(number, time.time())

    def begin_again(self, period: float) -> None:
        """Go on with a batch each `period` seconds."""
        self._stream.stop()
        self._stream = self._start(period)

    def after(self, settling: float, measured: float) -> list[Batch]:
        """Wait, then wait while batches are measured, and return these; else the last ones."""
        self._stream.wait(settling or None if settling else 0.001)
        first = len(self.batches) if measured else max(0, len(self.batches) - 8)
        until = time.time() + measured
        while measured and (time.time() < until or len(self.batches) < first + _FEWEST):
            if time.time() > until + _PATIENCE:
                raise RuntimeError(f"there were no {_FEWEST} batches in {_PATIENCE:g} s")
            self._stream.wait(0.2)
        return self.batches[first:]

    @property
    def batches(self) -> list[Batch]:
        """All batches of the stream so far, in their order."""
        found = {}
        for run in self._runs:
            for batch in run.batches:
                rows = sum(each.tuples for each in batch.instances if each.operator == SOURCE)
                taken = batch.seconds if batch.time is None else batch.time.seconds
                if batch.batch in self._ended:
                    found[batch.batch] = Batch(rows, taken, self._ended[batch.batch])
        return [found[number] for number in sorted(found)]

    @property
    def rows(self) -> int:
        """How many rows are committed."""
        return sum(batch.rows for batch in self.batches)

    @property
    def rate(self) -> float:
        """How many rows come in a second."""
        return self._rate

    @property
    def told(self) -> list[str]:
        """What was decided."""
        return [str(each) for each in self._stream.run.decisions if each.applied]

    @property
    def period(self) -> float:
        """How many seconds the plan in force has between the beginnings of two batches."""
        return self._stream.run.period


def _waits(run: _Started, measured: list[Batch]) -> Floats:
    """Return how long rows of some batches waited, from their arrival until the commit."""
    found, done = [np.zeros(0)], 0
    for batch in run.batches:
        if batch in measured and batch.rows:
            rows = np.arange(done, done + batch.rows)
            found.append(batch.ended - run.began - rows / run.rate)
        done += batch.rows
    return np.concatenate(found)


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all that it has started."""
    total, parents = dict[int, float](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                total[int(folder.name)] = sum(map(int, fields[11:15])) / _TICKS
    mine, before = {os.getpid()}, 0
    while before < len(mine):
        before = len(mine)
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    return sum(seconds for pid, seconds in total.items() if pid in mine)
