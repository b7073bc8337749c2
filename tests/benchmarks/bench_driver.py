"""What a batch costs the driver of a job with 1,000 instances of each operator: `commit`, whole.

Reports are made up, see `many_reports`. As JSON, and not merged, they took 17 s and 83 MB a batch
without the commit; of 1,000 tasks with 8,192 pairs and 4,096 keys each, 15 s and 526 MB more.
"""

import gc
import statistics
import tempfile
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pyarrow as pa
from harness import Result
from many_reports import ManyReports

from optimizers import Cluster, Optimizer, Plan, Probe, Statistics, Topology
from optimizers.control.settings import Asking
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.parcels import from_batches
from optimizers.runtime.task.reports import Reports
from optimizers.strategies.fixed import Fixed

INSTANCES = 1_000
BATCHES = 5
CHAIN = 8  # files of state that each instance has before
MOST_SECONDS, MOST_MEGABYTES = 1.0, 50.0
MOST_AT_AN_END = 150.0
"""The most megabytes where an epoch ends. Some 50 arrive and are read, and as many are statistics:
131,072 pairs, two times as many keys, and the traffic between a million pairs of groups."""


class Idle(Optimizer):
    """Wants to know everything, and decides nothing."""

    observes = frozenset(Probe)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Return no decision."""
        return Plan()


def run(scale: float) -> list[Result]:
    """Measure the driver's part, without and with all statistics, and where epochs end."""
    instances = max(16, int(INSTANCES * scale))
    return [
        result
        for name, observed, every in (
            ("plain reports", False, 99),
            ("all statistics", True, 99),
            ("all statistics, each batch an epoch", True, 1),
        )
        for result in _batches(name, ManyReports(instances, observed), every)
    ]


def _batches(name: str, many: ManyReports, every: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint.create_or_open(Location(folder), many.job, seed=many.job.seed)
        coordinator = Coordinator(
            many.job,
            many.cluster,
            Idle() if every == 1 else Fixed(Plan()),
            checkpoint,
            asking=Asking(every=every),
        )
        seconds, peaks, sizes = [], [], []
        plain = replace(many, observed=False)
        for batch in range(CHAIN):
            _commit(coordinator, plain.arriving(batch))
        for batch in range(CHAIN, CHAIN + BATCHES):
            arriving = many.arriving(batch)
            gc.collect()
            start = time.process_time()
            _commit(coordinator, arriving)
            seconds.append(time.process_time() - start)
            sizes.append(sum(part.nbytes for part in arriving) / 1e6)
        for batch in range(CHAIN + BATCHES, CHAIN + BATCHES + 2):
            arriving = many.arriving(batch)
            peaks.append(_peak(coordinator, arriving) + sizes[-1])
    label = f"driver's part at {many.instances:,} instances, {name}"
    low: dict[str, Any] = {"better": "lower"}
    return [
        Result(
            name=f"{label}: CPU",
            measured=statistics.median(seconds),
            unit="s",
            goal=MOST_SECONDS,
            **low,
        ),
        Result(name=f"{label}: bytes", measured=sizes[-1], unit="MB", goal=MOST_MEGABYTES, **low),
        Result(
            name=f"{label}: peak, sketches of the epoch included",
            measured=max(peaks),
            unit="MB",
            # How much sketches take depends on the keys, and not on the number of instances.
            goal=MOST_AT_AN_END if every == 1 else None if many.observed else MOST_MEGABYTES,
            **low,
        ),
    ]


def _commit(coordinator: Coordinator, arriving: list[pa.RecordBatch]) -> None:
    assignment = coordinator.assign()
    reports = [Reports.from_parcel(parcel) for parcel in from_batches(arriving)]
    coordinator.commit(assignment, reports, 1.0, timing=ManyReports.clock)


def _peak(coordinator: Coordinator, arriving: list[pa.RecordBatch]) -> float:
    """Return how much memory a commit takes at most beyond what arrived, in megabytes."""
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        _commit(coordinator, arriving)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return (peak + max(0, pa.total_allocated_bytes() - before)) / 1e6
