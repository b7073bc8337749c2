"""Running a batch in this process, task by task: for tests, and to compare Spark with."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from optimizers.runtime.task.parcels import REPORT, from_batches
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.task.task import run_source, run_task
from optimizers.runtime.work import JobContext, Ticket

Partitions = Sequence[Sequence[pa.RecordBatch]]
"""The tuples of one source: partitions of batches."""


def run_batch(work: JobContext, ticket: Ticket, sources: Mapping[str, Partitions]) -> list[Reports]:
    """Run all tasks of a batch, one after the other, and return their reports."""
    arriving = [
        batch
        for source, partitions in sources.items()
        for sender, batches in enumerate(partitions)
        for batch in run_source(work, ticket, source, sender, batches)
    ]
    for stage, tasks in list(enumerate(work.layout.stages))[1:]:
        parts = [_for_task(arriving, task) for task in range(len(tasks))]
        arriving = [
            batch
            for task, batches in enumerate(parts)
            for batch in run_task(work, ticket, stage, task, batches)
        ]
    return [
        Reports.from_parcel(parcel) for parcel in from_batches(arriving) if parcel.edge == REPORT
    ]


def _for_task(batches: Sequence[pa.RecordBatch], task: int) -> list[pa.RecordBatch]:
    """Return the parcels of one task, as an exchange would bring them."""
    found = []
    for batch in batches:
        rows = np.flatnonzero(batch.column("task").to_numpy() == task)
        if len(rows):
            found.append(batch.take(pa.array(rows)))
    return found
