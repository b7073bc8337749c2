"""The stages and tasks with which a batch of a given size takes least time."""

import numpy as np

from batching.stages import ALONE, StageCosts, StageJob, Stages, slowest_share
from sketches.arrays import Floats, Integers


def fused(job: StageJob) -> Integers:
    """Return, for each operator, the one that begins its stage if no exchange is that need not be.

    An operator that has to have another number of tasks than its stage begins one of its own.
    """
    begins = np.arange(len(job.names))
    for operator, feeder in enumerate(job.feeders.tolist()):
        if feeder != ALONE:
            start = begins[feeder]
            if job.tasks[operator] in {0, job.tasks[start]}:
                begins[operator] = start
    return begins


def fastest_stages(job: StageJob, costs: StageCosts, cores: int, rows: float) -> Stages:
    """Return the stages and tasks with which a batch of this many rows takes least.

    Exact. With the operator that begins a stage, and its tasks, what another operator adds to the
    stage does not depend on any other; so the best below each operator is put together from the
    best below those that it feeds, from the last operator to the first. More tasks than cores never
    help, and are only tried if they are given.

    Args:
        job: the operators.
        costs: what a batch takes beside its work.
        cores: how many tasks run at once.
        rows: how many rows the sources give.
    """
    search = _Cuts(job, costs, cores, rows)
    for operator in range(len(job.names) - 1, -1, -1):
        search.reckon(operator)
    return search.chosen()


class _Cuts:
    def __init__(self, job: StageJob, costs: StageCosts, cores: int, rows: float) -> None:
        self._job = job
        self._costs = costs
        self._cores = cores
        self._rows = rows
        # A stage has more tasks than cores only because one of its operators has to.
        given = np.unique(job.tasks[job.tasks > cores])
        self._free = np.concatenate([np.arange(1, cores + 1), given])
        self._fed: list[list[int]] = [[] for _ in job.names]
        for operator, feeder in enumerate(job.feeders.tolist()):
            if feeder != ALONE:
                self._fed[feeder].append(operator)
        # What an operator and all that it feeds take, by the operator that begins its stage, for
        # each number of tasks.
        self._inside: dict[tuple[int, int], Floats] = {}
        # The least that they take if it begins a stage itself, and the place of its tasks.
        self._apart: dict[int, float] = {}
        self._best: dict[int, int] = {}

    def _sizes(self, begin: int) -> Integers:
        pinned = int(self._job.tasks[begin])
        return np.array([pinned]) if pinned else self._free

    def reckon(self, operator: int) -> None:
        """Reckon for an operator what is known for all that it feeds."""
        job, costs = self._job, self._costs
        begin = operator
        while begin != ALONE:
            sizes = self._sizes(begin)
            share = slowest_share(job.hottest[begin], sizes, self._cores)
            taken = self._rows * costs.work * job.work[operator] * share
            for consumer in self._fed[operator]:
                taken = taken + np.minimum(self._inside[begin, consumer], self._apart[consumer])
            pinned = job.tasks[operator]
            if pinned:
                taken = np.where(sizes == pinned, taken, np.inf)
            self._inside[begin, operator] = taken
            begin = int(job.feeders[begin])
        sizes = self._sizes(operator)
        total = self._inside[operator, operator] + costs.task * sizes / self._cores
        self._best[operator] = int(total.argmin())
        crossed = self._rows * costs.byte * job.crossing[operator]
        self._apart[operator] = float(total.min()) + costs.stage + crossed

    def chosen(self) -> Stages:
        """Return what was best, from the first operator to the last."""
        begins = np.arange(len(self._job.names))
        places, tasks = begins.copy(), begins.copy()
        for operator, feeder in enumerate(self._job.feeders.tolist()):
            begin, place = operator, self._best[operator]
            if feeder != ALONE:
                inside = self._inside[int(begins[feeder]), operator][places[feeder]]
                if inside <= self._apart[operator]:
                    begin, place = int(begins[feeder]), int(places[feeder])
            begins[operator], places[operator] = begin, place
            tasks[operator] = self._sizes(begin)[place]
        return Stages(begins, tasks)
