"""Stages, tasks and batches for Spark: fastest, cheapest under a bound, or what a rate takes."""

from dataclasses import dataclass

import numpy as np

from batching.errors import OverloadError
from batching.stage_cuts import fastest_stages, fused
from batching.stages import (
    BatchCost,
    StageCosts,
    StageJob,
    Stages,
    batch_cost,
    slowest_share,
)
from sketches.arrays import Indices, Integers, Marks
from sketches.checks import amount, number, whole
from sketches.values import ArrayValue

MOST_CORES = 4096
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class StagePlan(ArrayValue):
    """How a job is cut into stages, and how much a batch has of it.

    Attributes:
        stages: the stages, and their tasks.
        period: seconds from the beginning of a batch to that of the next.
        rows: how many rows come in a period.
        seconds: what a batch takes; at most a period.
        cores: how many cores work on average.
    """

    stages: Stages
    period: float
    rows: float
    seconds: float
    cores: float

    @property
    def latency(self) -> float:
        """The seconds that a row waits at most: for its batch to begin, and to end."""
        return self.period + self.seconds

    @property
    def mean_latency(self) -> float:
        """The seconds that a row waits on average."""
        return self.period / 2 + self.seconds


def fastest(job: StageJob, costs: StageCosts, *, rate: float, cores: int) -> StagePlan:
    """Return the plan with the least latency: each batch begins when the last has ended.

    Exact: from the best stages for a batch follows the time at which batches settle, from that the
    best stages for their size; each round is an improvement, and there are few stages.

    >>> job = StageJob.of(["parse", "count"], seconds=[4e-6, 1e-6], hottest=[0, 0.1])
    >>> costs = StageCosts(base=0.08, stage=0.05, task=0.06)
    >>> plan = fastest(job, costs, rate=20_000, cores=8)
    >>> plan.stages.tasks.tolist(), round(plan.seconds, 3)
    ([2, 1], 0.215)

    Args:
        job: the operators.
        costs: what a batch takes beside its work.
        rate: rows a second that sources give.
        cores: how many tasks run at once.

    Raises:
        InvalidValueError: a number is out of range.
        OverloadError: batches only grow; the message says what limits them.
    """
    rate, cores = amount("rate", rate), whole("cores", cores, at_least=1, at_most=MOST_CORES)
    # With batches without end only the time of a row counts.
    stages = fastest_stages(job, StageCosts(0, 0, 0, costs.byte, costs.work), cores, 1.0)
    batch = batch_cost(job, costs, stages, cores)
    settled = batch.settled(rate)
    if np.isinf(settled):
        raise OverloadError(_overload(job, costs, rate, cores))
    while True:
        found = fastest_stages(job, costs, cores, rate * settled)
        faster = batch_cost(job, costs, found, cores)
        if not faster.settled(rate) < settled:
            break
        stages, batch, settled = found, faster, faster.settled(rate)
    return _plan(stages, batch, rate, settled)


def cheapest(
    job: StageJob, costs: StageCosts, *, rate: float, cores: int, latency: float
) -> StagePlan:
    """Return the plan with the fewest cores at work in which no row waits longer than a bound.

    Fewer tasks cost less, and so do rarer batches; but a batch has to begin, and end, in time. For
    each number of tasks their best division, and the longest period in which a batch ends in time,
    are found exactly. Operators are in one stage wherever that is possible, or as in the fastest
    plan; other stages are not tried. They could only be cheaper below a hottest key.

    Args:
        job: the operators.
        costs: what a batch takes beside its work.
        rate: rows a second that sources give.
        cores: how many tasks run at once.
        latency: seconds that a row may wait: for its batch to begin, and to end.

    Raises:
        InvalidValueError: a number is out of range.
        OverloadError: the rate is not carried, or not within the bound.
    """
    bound = number("latency", latency, above=0.0)
    best = quickest = fastest(job, costs, rate=rate, cores=cores)
    if quickest.latency > bound:
        raise OverloadError(
            f"latency={bound:g}: the fastest plan of {cores} cores needs {quickest.latency:.3g} s "
            "for a row; allow as much, or more cores"
        )
    structures = [fused(job)]
    if not np.array_equal(structures[0], quickest.stages.begins):
        structures.append(quickest.stages.begins)
    for begins in structures:
        best = _Division(job, costs, begins, rate, cores).cheapest(bound, best)
    return best


def cores_for(
    job: StageJob, costs: StageCosts, *, rate: float, latency: float | None = None
) -> int:
    """Return how many cores it takes to carry a rate, and to keep to a latency.

    Args:
        job: the operators.
        costs: what a batch takes beside its work.
        rate: rows a second that sources give.
        latency: seconds that a row may wait.

    Raises:
        OverloadError: no number of cores, up to `MOST_CORES`, is enough.
    """
    bound = np.inf if latency is None else number("latency", latency, above=0.0)

    def missing(cores: int) -> OverloadError | None:
        try:
            plan = fastest(job, costs, rate=rate, cores=cores)
        except OverloadError as error:
            return error
        if plan.latency > bound:
            return OverloadError(
                f"latency={bound:g}: with {cores} cores a row still waits {plan.latency:.3g} s; "
                "allow as much, or a lower rate"
            )
        return None

    failed = missing(MOST_CORES)
    if failed is not None:
        raise failed
    low, high = 1, MOST_CORES
    while low < high:  # more cores are never slower
        middle = (low + high) // 2
        low, high = (low, middle) if missing(middle) is None else (middle + 1, high)
    return low


def highest_rate(job: StageJob, costs: StageCosts, *, cores: int) -> float:
    """Return the rate below which this many cores carry what comes, in batches large enough."""
    cores = whole("cores", cores, at_least=1, at_most=MOST_CORES)
    stages = fastest_stages(job, StageCosts(0, 0, 0, costs.byte, costs.work), cores, 1.0)
    each = batch_cost(job, costs, stages, cores).each
    return 1 / each if each > 0 else np.inf


def _plan(stages: Stages, batch: BatchCost, rate: float, period: float) -> StagePlan:
    rows = rate * period
    # Without a cost a batch takes no time, and neither does the period.
    used = (batch.cores + rows * batch.cores_each) / period if period > 0 else 0.0
    return StagePlan(stages, period, rows, min(batch.seconds(rows), period), used)


class _Division:
    """The division of tasks over given stages.

    What a stage takes falls less with each further task, so that giving each task to the stage that
    gains most is exact, for any number of tasks. How many rows there are does not change the order.
    """

    def __init__(
        self, job: StageJob, costs: StageCosts, begins: Integers, rate: float, cores: int
    ) -> None:
        self._job = job
        self._costs = costs
        self._begins = begins
        self._rate = rate
        self._cores = cores
        self._first = np.flatnonzero(begins == np.arange(len(begins)))
        given = np.zeros(len(begins), np.int64)
        np.maximum.at(given, begins, job.tasks)  # all of a stage that are given are the same
        self._fewest = np.maximum(1, given[self._first])
        self._order = self._stages_by_gain(given[self._first] > 0)

    def _stages_by_gain(self, pinned: Marks) -> Indices:
        """Return the stage that gets each further task, the one that gains most first."""
        work = np.bincount(self._begins, self._job.work, len(self._begins))[self._first]
        sizes = np.arange(1, self._cores + 1)
        share = slowest_share(self._job.hottest[self._first, None], sizes, self._cores)
        gains = -np.diff(work[:, None] * share, axis=1)
        gains[pinned] = -np.inf
        order = np.argsort(-gains, axis=None, kind="stable")
        further = int((~pinned).sum()) * (self._cores - 1)
        return order[:further] // max(1, self._cores - 1)

    def cheapest(self, bound: float, best: StagePlan) -> StagePlan:
        """Return the cheapest plan of these stages, or another that is cheaper."""
        for further in range(len(self._order) + 1):
            tasks = np.zeros(len(self._begins), np.int64)
            given = np.bincount(self._order[:further], minlength=len(self._first))
            tasks[self._first] = self._fewest + given
            stages = Stages(self._begins, tasks[self._begins])
            batch = batch_cost(self._job, self._costs, stages, self._cores)
            # Even at the longest period that there could be, more tasks would cost more.
            if batch.cores / bound + self._rate * batch.cores_each >= best.cores:
                break
            # A batch that begins every so often, and takes what is left, ends just in time.
            period = (bound - batch.fixed) / (1 + self._rate * batch.each)
            if period <= 0 or batch.seconds(self._rate * period) > period * (1 + _ROUNDING):
                continue
            plan = _plan(stages, batch, self._rate, period)
            if plan.cores < best.cores:
                best = plan
        return best


def _overload(job: StageJob, costs: StageCosts, rate: float, cores: int) -> str:
    highest = highest_rate(job, costs, cores=cores)
    said = f"{cores} cores carry {highest:.4g} rows a second at most, and not {rate:g}"
    if highest_rate(job, costs, cores=MOST_CORES) > rate:
        return f"{said}; allow more cores, or limit what is admitted"
    # With all cores that there may be, what is left is on one core each, or on the network.
    stages = fastest_stages(job, StageCosts(0, 0, 0, costs.byte, costs.work), MOST_CORES, 1.0)
    share = slowest_share(job.hottest[stages.begins], stages.tasks, MOST_CORES)
    place = int((job.work * share).argmax())
    begin = int(stages.begins[place])
    return (
        f"{said}, and more cores do not help: {share[place]:.1%} of the rows of "
        f"{job.names[place]!r} are in one task (the hottest key of {job.names[begin]!r}, or the "
        f"number of its tasks), and {job.crossing[stages.first].sum():.3g} bytes a row cross "
        "hosts; split the key, or limit what is admitted"
    )
