"""Whether other stages and tasks are worth it, beside those in force."""

import math
from dataclasses import dataclass, replace

import numpy as np

from batching.errors import OverloadError
from batching.stage_planner import cheapest, fastest, highest_rate
from batching.stages import BatchCost, StageCosts, StageJob, Stages, batch_cost
from sketches.checks import amount, number
from sketches.values import ArrayValue

NEARLY = 0.95
"""Of the highest rate that is carried: at it, batches only grow."""

_STEPS = 6  # rates that are tried, from the present one to the one that is to be carried


@dataclass(frozen=True)
class Worth:
    """What makes other stages worth it.

    Attributes:
        latency: how many seconds a row may wait, for the fewest cores; None for the fastest
            batches.
        headroom: by what share more than comes is to be carried.
        change: by what share what is new has to be better than what is in force.
        moving: by what share what moves state has to be better than what moves none.
    """

    latency: float | None = None
    headroom: float = 0.25
    change: float = 0.05
    moving: float = 0.3

    def __post_init__(self) -> None:
        if self.latency is not None:
            number("latency", self.latency, above=0.0)
        for name in ("headroom", "change", "moving"):
            amount(name, getattr(self, name))


@dataclass(frozen=True, eq=False)
class Choice(ArrayValue):
    """A way to run a job in micro-batches.

    Attributes:
        stages: how it is cut into stages.
        batch: what a batch costs.
        score: what counts, the less the better: the seconds of a batch, or cores under a bound.
        period: seconds from the beginning of a batch to that of the next; infinite if batches only
            grow, or do not keep to the bound.
        cores: how many cores work on average; infinite if that is not known.
    """

    stages: Stages
    batch: BatchCost
    score: float
    period: float
    cores: float = math.inf


def needed_rate(job: StageJob, costs: StageCosts, rate: float, cores: int, share: float) -> float:
    """Return the rate that is to be carried: by a share more than comes, as far as cores do."""
    highest = NEARLY * highest_rate(job, costs, cores=cores)
    return max(rate, min(rate * (1 + share), highest))


@dataclass(frozen=True)
class Chooser:
    """Chooses between the stages in force, the best that move no state, and the best.

    Attributes:
        costs: what a batch takes beside its work.
        cores: how many tasks run at once.
        rate: rows a second that come.
        needed: rows a second that are to be carried, at least as many.
        worth: what is worth it.
    """

    costs: StageCosts
    cores: int
    rate: float
    needed: float
    worth: Worth

    def choose(self, job: StageJob, calm: StageJob, present: Stages) -> Choice:
        """Return what is in force unless other stages are worth it, with state moved or not.

        >>> job = StageJob.of(["parse", "count"], seconds=[4e-6, 1e-6], hottest=[0, 0.1])
        >>> chooser = Chooser(StageCosts(0.08, 0.05, 0.06), 8, 20_000, 25_000, Worth())
        >>> present = Stages(np.array([0, 1]), np.array([2, 8]))
        >>> chooser.choose(job, job, present).stages.tasks.tolist()
        [2, 1]

        Args:
            job: the operators.
            calm: the same, those with state with the tasks that they have.
            present: the stages in force.

        Raises:
            OverloadError: the rate is not carried, or not within the bound.
        """
        best = self.best(job)
        as_it_is = self.as_it_is(job, present)
        if as_it_is.score <= best.score * (1 + self.worth.change):
            return as_it_is
        try:
            unmoved = self.best(calm)
        except OverloadError:
            return best
        return unmoved if unmoved.score <= best.score * (1 + self.worth.moving) else best

    def best(self, job: StageJob) -> Choice:
        """Return the fastest stages that carry what is needed, or the cheapest under the bound.

        Of those that are as fast, but for a gain that is not worth a change, the ones that carry
        most are taken; they are scored as the fastest.

        Raises:
            OverloadError: the rate is not carried, or not within the bound.
        """
        bound = self.worth.latency
        if bound is not None:
            needed, costs, cores = self.needed, self.costs, self.cores
            stages = cheapest(job, costs, rate=needed, cores=cores, latency=bound).stages
            return self.as_it_is(job, stages)
        # What is the fastest for more carries more, and the last of them what is needed.
        rates = np.linspace(self.rate, self.needed, _STEPS).tolist()
        found = [
            self.as_it_is(job, fastest(job, self.costs, rate=rate, cores=self.cores).stages)
            for rate in rates
        ]
        least = min(each.score for each in found)
        enough = [each for each in found if each.score <= least * (1 + self.worth.change)]
        return replace(min(enough, key=lambda each: each.batch.each), score=least)

    def as_it_is(self, job: StageJob, stages: Stages) -> Choice:
        """Return what stages are worth; infinitely little if they do not carry what is needed."""
        batch = batch_cost(job, self.costs, stages, self.cores)
        bound, rate = self.worth.latency, self.rate if self.worth.latency is None else self.needed
        if bound is None:
            carried = math.isfinite(batch.settled(self.needed))
            period = batch.settled(rate) if carried else math.inf
        else:
            # A batch that begins every so often, and takes what is left, ends just in time.
            period = (bound - batch.fixed) / (1 + rate * batch.each)
            if period <= 0 or batch.seconds(rate * period) > period * (1 + 1e-9):
                period = math.inf
        if period in {0, math.inf}:
            return Choice(stages, batch, period, period)
        used = batch.cores / period + rate * batch.cores_each
        return Choice(stages, batch, period if bound is None else used, period, used)
