"""Measuring micro-batches: jobs with different stages and tasks, batches of different sizes."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from statistics import median
from time import perf_counter, process_time
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batching.calibration import fit
from optimizers.calibration import ROW, Calibration
from optimizers.cluster import Cluster
from optimizers.control.summary import BatchSummary
from optimizers.plan import Plan
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology

NAMES = ("base", "stage", "task", "work", ROW)


@dataclass(frozen=True, slots=True)
class Setting:
    """A job that is measured.

    Attributes:
        stages: how many it has behind its source.
        instances: how many each operator has.
        rows: how many rows a batch has.
        micros: microseconds that each operator works for each of them.
    """

    stages: int
    instances: int
    rows: int
    micros: int = 0


GRID = tuple(
    Setting(stages, instances, rows, 3 * ((number + turn) % 2))
    for number, (stages, instances) in enumerate(itertools.product((1, 3, 6), (1, 2, 4)))
    for turn, rows in enumerate((1_000, 20_000, 100_000))
)
"""What is measured: each constant counts differently in some of them, and rows without work too."""


class Bench(Protocol):
    """A job on which batches can be measured."""

    def measure(self, rows: pa.Table) -> BatchSummary:
        """Run a batch."""


def chain(stages: int, instances: int) -> Topology:
    """Return a job whose rows are dealt out in turn, from stage to stage."""
    job = Topology.source("rows", parallelism=instances)
    for number in range(stages):
        job = job.then(f"step-{number}", parallelism=instances, apply=worked)
    return job


def worked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Work for as long as the rows say, by the clock that an operator's work is measured with."""
    end = process_time() + (pc.sum(batch.column("micros")).as_py() or 0) / 1e6
    while process_time() < end:
        pass
    return batch


def rows_of(count: int, micros: int = 0) -> pa.Table:
    """Return rows with a number, some text, and for how long each operator works for them."""
    numbers = np.arange(count)
    text = pa.array(numbers % 997).cast(pa.string())
    return pa.table({"number": numbers, "text": text, "micros": np.full(count, micros)})


def calibrated(  # noqa: PLR0913
    transport: str,
    where: str,
    cores: int,
    bench_of: Callable[[Topology], Bench],
    *,
    grid: Sequence[Setting] = GRID,
    rounds: int = 3,
    watch: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Measure batches of all settings in turn, several times, and fit the model to them.

    Args:
        transport: what it is called.
        where: on what it is measured.
        cores: how many tasks run at a time.
        bench_of: returns a job ready to run batches.
        grid: what is measured.
        rounds: how many times; the settings take turns, so that a slow minute affects all of them.
        watch: gets how many batches are done, and how many there are.
    """
    jobs = sorted({(each.stages, each.instances) for each in grid})
    benches = {job: bench_of(chain(*job)) for job in jobs}
    for bench in benches.values():  # the first batch loads what the others use
        bench.measure(rows_of(100))
    counted, seconds, groups = [], [], []
    for turn in range(rounds):
        for number, each in enumerate(grid):
            summary = benches[each.stages, each.instances].measure(rows_of(each.rows, each.micros))
            counted.append(features(each, summary, cores))
            seconds.append(summary.seconds)
            groups.append(number)
            if watch is not None:
                watch(turn * len(grid) + number + 1, rounds * len(grid))
    found = fit(NAMES, counted, seconds, groups=groups)
    return Calibration(transport, where, cores, found, _spread(seconds, groups), len(seconds))


def features(setting: Setting, summary: BatchSummary, cores: int) -> list[float]:
    """Return by what each constant counts in a batch; all stages count, that of sources too.

    Work and rows are those of the tasks that follow one another on the core that is done last.
    """
    worked: dict[str, list[float]] = {}
    taken: dict[str, list[float]] = {}
    for instance in summary.instances:
        worked.setdefault(instance.operator, []).append(instance.seconds + instance.shipping)
        taken.setdefault(instance.operator, []).append(instance.tuples)
    work, rows = (
        sum(_longest_chain(each, cores) for each in found.values()) for found in (worked, taken)
    )
    stages = setting.stages + 1
    return [1.0, stages, stages * setting.instances / cores, work, rows]


def _longest_chain(seconds: Sequence[float], cores: int) -> float:
    """Return when tasks are done that begin in their order, each on the core that is free first."""
    free = [0.0] * cores
    for taken in seconds:
        heapreplace(free, free[0] + taken)
    return max(free)


def _spread(seconds: Sequence[float], groups: Sequence[int]) -> float:
    by_group: dict[int, list[float]] = {}
    for taken, group in zip(seconds, groups, strict=True):
        by_group.setdefault(group, []).append(taken)
    return median((max(each) - min(each)) / median(each) for each in by_group.values())


class LocalBench:
    """A job that runs in this process, one task after the other.

    Args:
        folder: where it may keep its state, in a folder of its own.
        topology: the job.
    """

    def __init__(self, folder: str, topology: Topology) -> None:
        self._topology = topology
        instances = topology.operator("rows").parallelism
        location = Location(f"{folder}/{len(topology.operators)}-{instances}")
        checkpoint = Checkpoint.create_or_open(location, topology, seed=0)
        self._coordinator = Coordinator(
            topology,
            Cluster.uniform(1),
            Fixed(Plan()),
            checkpoint,
            settings=Settings(keep_output=False),
        )

    def measure(self, rows: pa.Table) -> BatchSummary:
        """Run a batch."""
        started = perf_counter()
        assignment = self._coordinator.assign()
        parts = self._topology.operator("rows").parallelism
        size = -(-len(rows) // parts)
        slices: Mapping[str, Any] = {
            "rows": [rows.slice(part * size, size).to_batches() for part in range(parts)]
        }
        reports = run_batch(assignment.work, assignment.ticket, slices)
        summary = self._coordinator.commit(assignment, reports, perf_counter() - started)
        return replace(summary, seconds=perf_counter() - started)
