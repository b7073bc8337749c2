"""A stream of files on a cluster, that is fed and watched batch by batch."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from stage_metrics import StageMetrics, group_metrics

from optimizers import Optimizer, Topology
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run, StreamingRun
from optimizers.spark.executors import HostReader

PATIENCE = 600.0
_ABOUT = 1.1


class FileStream:
    """A job on a stream of files, one a batch.

    Args:
        session: the session.
        folder: for its input and its checkpoint.
        job: the job.
        schema: of the tuples, as Spark writes it.
        optimizer: decides what changes.
        made: makes of what is read what is let in; by default that is the same.
        parts: in how many parts of about equal size a file is read, each by a task of its own.
        size: of a file, in bytes, where it is read in parts.
        settings: of the engine.
    """

    def __init__(
        self,
        session: SparkSession,
        folder: Path,
        job: Topology,
        schema: str,
        optimizer: Optimizer,
        *,
        made: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        parts: int = 1,
        size: int = 0,
        **settings: Any,
    ) -> None:
        self._session = session
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        self._parts = parts
        if parts > 1:  # a little more: files are of slightly different sizes
            most = str(int(_ABOUT * size / parts))
            session.conf.set("spark.sql.files.maxPartitionBytes", most)
        self._files = 0
        self.batches = 0
        self._read = HostReader(session)
        engine = SparkEngine(
            checkpoint=str(folder / "job"), spark=session, every=1, drift=None, **settings
        )
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        self.stream: StreamingRun = engine.start(
            job, made(rows.parquet(str(self._input))), optimizer
        )

    @property
    def run(self) -> Run:
        """What has happened so far."""
        return self.stream.run

    @property
    def hosts(self) -> set[str]:
        """Where executors run."""
        return set(self._read())

    def put(self, tuples: pa.Table) -> None:
        """Have tuples come in, in a batch of their own."""
        # A group of rows is read by the task that has the middle of it.
        made = self._input.parent / f"{self._files}.parquet"
        rows = -(-len(tuples) // self._parts)
        pq.write_table(tuples, made, row_group_size=rows, compression="none", use_dictionary=False)
        made.rename(self._input / made.name)
        self._files += 1

    def await_batch(self) -> int:
        """Wait until the next batch is done, and return its number."""
        number, run = self.batches, self.run
        self.wait_for(f"the end of batch {number}", lambda: run.is_noted(number))
        self.batches += 1
        return number

    def ran(self) -> list[list[str]]:
        """Return on which host each task of each stage of the last batch ran, as Spark says."""
        return [[task.host for task in stage.tasks] for stage in self._metrics()]

    def stages(self) -> list[int]:
        """Return by which number Spark knows each stage of the last batch."""
        return [stage.stage for stage in self._metrics()]

    def lasted(self) -> float:
        """Return how many seconds the stages of the last batch took, by Spark's clock, at least."""
        stages = self._metrics()
        return stages[-1].ended - stages[0].began

    def _metrics(self) -> list[StageMetrics]:
        run = str(self.stream.query.runId)
        stages = group_metrics(self._session, run, self.batches - 1)
        return stages[-len(self.run.layout.stages) :]  # a new plan makes anchors first

    def placed(self) -> list[list[str]]:
        """Return on which node each task of each stage is to be."""
        layout = self.run.layout
        return [[layout.node_of(instance) for instance in stage] for stage in layout.stages]

    def await_hosts(self, count: int) -> set[str]:
        """Wait until executors run on a number of hosts, and return which."""
        self.wait_for(f"executors on {count} hosts", lambda: len(self.hosts) == count)
        return self.hosts

    def wait_for(self, what: str, is_there: Callable[[], bool]) -> None:
        """Wait for something.

        Raises:
            TimeoutError: it did not come.
        """
        deadline = time.monotonic() + PATIENCE
        while not is_there():
            if not self.stream.query.isActive:
                self.stream.wait(0.0)  # raises what has ended it
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE:g} s for {what}")
            time.sleep(0.05)
