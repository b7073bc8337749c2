"""What a micro-batch takes on Spark, whose stages run one after another.

::

    T = t0 + t_stage * S + sum over stages of
          [t_task * P / C + work of the slowest task + bytes that cross hosts / bandwidth]

The rows of a stage are divided over its ``P`` tasks evenly, or as its hottest key wants it. ``C``
cores take them in ``ceil(P / C)`` turns: three tasks on two cores take two, as four do. Work and
bytes grow with the rows of the batch: ``T = fixed + rows * each``.
Rows that come at a rate ``R`` are carried if ``T(b) <= b / R``, which needs ``R * each < 1``;
batches that begin as soon as the last one ended settle at ``b = R * T``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from batching.checks import amounts, counts
from batching.dataflow import Dataflow
from batching.errors import DataflowError
from batching.tuple_costs import FULL
from sketches.arrays import Floats, Integers
from sketches.checks import amount, whole
from sketches.values import ArrayValue, listed, protect

ALONE = -1
"""For an operator that begins a stage in any case."""


@dataclass(frozen=True)
class StageCosts:
    """What a batch takes beside its work; `batching.calibration` fits these to measured batches.

    Attributes:
        base: seconds for a batch (t0).
        stage: seconds for a stage (t_stage).
        task: seconds of a core for a task (t_task).
        byte: seconds for a byte that crosses hosts: one over the bandwidth.
        work: seconds that a batch takes for a second of measured work.
    """

    base: float
    stage: float
    task: float
    byte: float = 0.0
    work: float = 1.0

    def __post_init__(self) -> None:
        for name in ("base", "stage", "task", "byte", "work"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))


@dataclass(frozen=True, eq=False)
class StageJob(ArrayValue):
    """The operators of a job that runs in micro-batches.

    Attributes:
        names: the name of each operator.
        seconds: what an operator works for one of its rows.
        visits: how many rows it gets for one row of the sources.
        hottest: the share of its hottest key; of sources, of the largest partition.
        crossing: bytes that cross hosts before it, for one row of the sources, if it begins a
            stage.
        feeders: the operator in whose stage it may be; `ALONE` if a key, or several producers,
            force an exchange.
        tasks: how many tasks its stage has to have; 0 if that is planned.
    """

    names: tuple[str, ...]
    seconds: Floats
    visits: Floats
    hottest: Floats
    crossing: Floats
    feeders: Integers
    tasks: Integers

    def __post_init__(self) -> None:
        protect(self, "seconds", "visits", "hottest", "crossing", "feeders", "tasks")

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        names: Iterable[str],
        *,
        seconds: Any,
        visits: Any = 1.0,
        hottest: Any = 0.0,
        crossing: Any = 0.0,
        feeders: Any = ALONE,
        tasks: Any = 0,
    ) -> "StageJob":
        """Check and build a job; a single number stands for each operator.

        Raises:
            InvalidValueError: a number is out of range, or columns do not fit.
            DataflowError: no operator, or a feeder that comes later.
        """
        operators = listed("names", names)
        if not operators:
            raise DataflowError("a job without an operator cannot be planned; name one")
        length = len(operators)
        fed = counts("feeders", feeders, length, "operator", at_least=ALONE)
        late = np.flatnonzero(fed >= np.arange(length))
        if len(late):
            raise DataflowError(
                f"feeders[{late[0]}]={fed[late[0]]}: what feeds {operators[late[0]]!r} has to come "
                "before it; order the operators along the dataflow"
            )
        return cls(
            names=operators,
            seconds=amounts("seconds", seconds, length, "operator"),
            visits=amounts("visits", visits, length, "operator"),
            hottest=amounts("hottest", hottest, length, "operator", at_most=1.0),
            crossing=amounts("crossing", crossing, length, "operator"),
            feeders=fed,
            tasks=counts("tasks", tasks, length, "operator"),
        )

    @classmethod
    def of_dataflow(cls, flow: Dataflow, *, hosts: int = 1) -> "StageJob":
        """Build the job that a dataflow is on Spark, its operators in the order of the dataflow.

        Instances that are given for sources are their tasks. Rows of an exchange are spread over
        hosts evenly.

        Raises:
            DataflowError: sources give nothing, or without end: there is no row to reckon by.
        """
        hosts = whole("hosts", hosts, at_least=1)
        total = float(flow.rates.sum())
        if not 0 < total < np.inf:
            raise DataflowError(
                f"the rates of sources add up to {total}; give what comes in, to reckon by"
            )
        order = np.array(flow.order)
        place = np.argsort(order)
        visits = flow.arrivals(flow.rates) / total
        along = visits[flow.producers] * flow.selectivity
        crossing = np.bincount(flow.consumers, along * flow.sizes, flow.operators)
        feeders = np.full(flow.operators, ALONE)
        feeders[flow.consumers] = place[flow.producers]
        several = np.bincount(flow.consumers, minlength=flow.operators) > 1
        by_key = np.zeros(flow.operators, np.bool_)
        by_key[flow.consumers[flow.keyed]] = True
        feeders[several | by_key] = ALONE
        return cls(
            names=tuple(flow.names[operator] for operator in flow.order),
            seconds=flow.seconds[order],
            visits=visits[order],
            hottest=np.where(by_key | flow.sources, flow.hottest, 0.0)[order],
            crossing=(crossing * (1 - 1 / hosts))[order],
            feeders=feeders[order],
            tasks=np.where(flow.sources, flow.given, 0)[order],
        )

    @cached_property
    def work(self) -> Floats:
        """The seconds that each operator works for one row of the sources."""
        found: Floats = self.seconds * self.visits
        return found


@dataclass(frozen=True, eq=False)
class Stages(ArrayValue):
    """How a job is cut into stages.

    Attributes:
        begins: for each operator, the one that begins its stage.
        tasks: how many tasks the stage of each operator has.
    """

    begins: Integers
    tasks: Integers

    def __post_init__(self) -> None:
        protect(self, "begins", "tasks")

    @cached_property
    def first(self) -> Integers:
        """The operators that begin a stage."""
        found: Integers = np.flatnonzero(self.begins == np.arange(len(self.begins)))
        return found


@dataclass(frozen=True)
class BatchCost:
    """What a batch of a job takes by the model: `fixed + rows * each` seconds, and cores for them.

    Attributes:
        fixed: seconds for a batch without a row.
        each: seconds for each row of the sources.
        cores: core-seconds for a batch without a row.
        cores_each: core-seconds for each row.
    """

    fixed: float
    each: float
    cores: float
    cores_each: float

    def seconds(self, rows: float) -> float:
        """Return what a batch of this many rows takes."""
        return self.fixed + rows * self.each

    def settled(self, rate: float) -> float:
        """Return the time at which batches settle that begin when the last ended.

        Infinite if they only grow, or would but for rounding.
        """
        usage = rate * self.each
        return self.fixed / (1 - usage) if usage <= FULL else np.inf


def slowest_share(hottest: Any, tasks: Any, cores: int) -> Any:
    """Return the share of a stage's work that its slowest core has.

    With no more tasks than cores that is one task of them, else as many as there are turns. So more
    tasks than cores never make it less.
    """
    return np.maximum(hottest, -(-tasks // cores) / tasks)


FEATURES = ("base", "stage", "task", "byte", "work")


def features(job: StageJob, stages: Stages, cores: int, rows: float) -> Floats:
    """Return by what the constants of `FEATURES` count in a batch: a row to fit them to.

    Args:
        job: the operators.
        stages: how they were cut into stages.
        cores: how many tasks ran at once.
        rows: how many rows the sources gave.
    """
    first = stages.first
    share = slowest_share(job.hottest[stages.begins], stages.tasks, cores)
    return np.array(
        [
            1.0,
            len(first),
            stages.tasks[first].sum() / cores,
            rows * job.crossing[first].sum(),
            rows * float(job.work @ share),
        ]
    )


def batch_cost(job: StageJob, costs: StageCosts, stages: Stages, cores: int) -> BatchCost:
    """Return what a batch takes when a job is cut into these stages."""
    constants = np.array([getattr(costs, name) for name in FEATURES])
    fixed = float(features(job, stages, cores, 0.0) @ constants)
    each = float(features(job, stages, cores, 1.0)[3:] @ constants[3:])
    used = costs.base + costs.stage * len(stages.first)
    used += costs.task * float(stages.tasks[stages.first].sum())
    return BatchCost(fixed, each, used, costs.work * float(job.work.sum()))
