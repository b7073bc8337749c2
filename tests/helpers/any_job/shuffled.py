"""A batch as a cluster would run it: tasks and parcels in any order, in batches of any size."""

import numpy as np
import pyarrow as pa
from report_rows import reports_in

from optimizers.runtime.state import cache
from optimizers.runtime.task.parcels import REPORT
from optimizers.runtime.task.task import run_source, run_task


def run_shuffled(work, ticket, sources, seed, *, attempts=1, last=None, tamper=None):
    """Run a batch as a cluster would: tasks and parcels in any order, in batches of any size.

    Args:
        work: the job.
        ticket: the batch.
        sources: its tuples.
        seed: for all that is left to chance.
        attempts: how often a task may run. Parcels are taken from one attempt, reports from one.
        last: with which task of the batch the machines fail; None if they do not.
        tamper: gets what arrives at a stage, and which, and returns what is to arrive instead.
    """
    random = np.random.default_rng(seed)
    left = iter(range(last)) if last is not None else iter(int, 1)

    def run(task, *arguments):
        next(left)
        tries = [list(task(*arguments)) for _ in range(int(random.integers(1, attempts + 1)))]
        tuples, reports = (tries[int(random.integers(len(tries)))] for _ in range(2))
        return [*_only(tuples, reports=False), *_only(reports, reports=True)]

    starts = [
        (source, sender, batches)
        for source, partitions in sources.items()
        for sender, batches in enumerate(partitions)
    ]
    arriving = []
    for place in random.permutation(len(starts)):
        arriving += run(run_source, work, ticket, *starts[place])
    for stage, tasks in list(enumerate(work.layout.stages))[1:]:
        arriving = tamper(arriving, stage) if tamper is not None else arriving
        parts = dealt(arriving, len(tasks), random)
        arriving = []
        for task in random.permutation(len(tasks)).tolist():
            if random.random() < 0.3:
                cache.forget()
            arriving += run(run_task, work, ticket, stage, task, parts[task])
    end = len(work.layout.stages)
    return reports_in(tamper(arriving, end) if tamper is not None else arriving)


def _only(batches, *, reports):
    return [
        batch.filter(pa.array((batch.column("edge").to_numpy() == REPORT) == reports))
        for batch in batches
    ]


def dealt(batches, tasks, random):
    """What arrives at each task: its parcels, in any order and in batches of any size."""
    rows = pa.Table.from_batches(batches).combine_chunks() if batches else None
    if rows is None:
        return [[] for _ in range(tasks)]
    numbers = rows.column("task").to_numpy()
    assert not len(numbers) or 0 <= numbers.min() <= numbers.max() < tasks
    parts = []
    for task in range(tasks):
        mine = random.permutation(np.flatnonzero(numbers == task))
        part = rows.take(pa.array(mine))
        parts.append(part.combine_chunks().to_batches(max_chunksize=int(random.integers(1, 9))))
    return parts
