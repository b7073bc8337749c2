"""What Spark itself measured of a batch: where its tasks ran, and what they fetched from where."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_MOST_TASKS = 100_000
_MILLISECONDS = 1e3


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One task as Spark saw it.

    Attributes:
        partition: which partition of its stage.
        host: where it ran.
        executor: by which executor.
        local: bytes that it fetched from its own host.
        remote: bytes that it fetched from other hosts.
        seconds: how long it ran.
        waited: how long of that it waited for remote bytes.
    """

    partition: int
    host: str
    executor: str
    local: int
    remote: int
    seconds: float
    waited: float


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """One stage: its tasks, by partition.

    Attributes:
        stage: its number in Spark.
        tasks: the tasks that succeeded.
        began: when it began, in seconds of Spark's clock; where it was run again, the last time.
        ended: when it ended.
    """

    stage: int
    tasks: tuple[TaskMetrics, ...]
    began: float
    ended: float

    @property
    def local(self) -> int:
        """Bytes that its tasks fetched from their own hosts."""
        return sum(task.local for task in self.tasks)

    @property
    def remote(self) -> int:
        """Bytes that its tasks fetched from other hosts."""
        return sum(task.remote for task in self.tasks)


def group_metrics(
    session: SparkSession, group: str, batch: int | None = None
) -> list[StageMetrics]:
    """Return what Spark measured of all jobs of a group, stage by stage in their order.

    Spark keeps such numbers of its latest thousand stages, with its web page or without.

    Args:
        session: the session.
        group: the job group, as `SparkContext.setJobGroup` was told; of a query, its ``runId``.
        batch: of a query: only the jobs of this batch, for the next one may have begun.
    """
    context: Any = session.sparkContext
    scala = context._jsc.sc()  # noqa: SLF001  # PySpark has no other way
    # What tasks have measured comes to Spark's books after their results.
    scala.listenerBus().waitUntilEmpty()
    tracker, store = context.statusTracker(), scala.statusStore()
    stages = set()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        told = "" if batch is None else str(store.job(job).description().get())
        if info is not None and (batch is None or told.endswith(f"batch = {batch}")):
            stages |= set(info.stageIds)
    found = [_stage(store, stage) for stage in sorted(stages)]
    # A stage whose result was there already is listed as well, without tasks.
    return [stage for stage in found if stage.tasks]


def _stage(store: Any, stage: int) -> StageMetrics:
    last = store.lastStageAttempt(stage)
    began, ended = (
        when.get().getTime() / _MILLISECONDS if when.isDefined() else 0.0
        for when in (last.submissionTime(), last.completionTime())
    )
    return StageMetrics(stage, _tasks(store, stage, last.attemptId()), began, ended)


def _tasks(store: Any, stage: int, attempt: int) -> tuple[TaskMetrics, ...]:
    listed = store.taskList(stage, attempt, _MOST_TASKS)
    found = [
        _task(listed.apply(number))
        for number in range(listed.size())
        if listed.apply(number).status() == "SUCCESS"
    ]
    return tuple(sorted(found, key=lambda task: task.partition))


def _task(data: Any) -> TaskMetrics:
    metrics = data.taskMetrics().get()
    read = metrics.shuffleReadMetrics()
    return TaskMetrics(
        int(data.partitionId()),
        str(data.host()),
        str(data.executorId()),
        int(read.localBytesRead()),
        int(read.remoteBytesRead()),
        metrics.executorRunTime() / _MILLISECONDS,
        read.fetchWaitTime() / _MILLISECONDS,
    )
