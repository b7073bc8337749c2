"""When the stages of a batch ran: Spark's own record of it, read in a few calls.

Spark keeps for its web pages, also where those are off, when each stage was submitted, when its
first task was launched and when it was done, by the driver's clock. To read a stage takes less than
a millisecond. Spark notes these times a moment after they happen. So that there is hardly ever one
to wait for, the last stage is taken to be done when the driver has what it has brought.
"""

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from optimizers.runtime.driver.time_parts import BatchClock, StageClock

_TIMES = "submissionTime", "firstTaskLaunchedTime", "completionTime"
_TRIES, _MOMENT = 20, 0.002  # to wait for what Spark has not written down yet, in seconds


class Begun(NamedTuple):
    """When a batch was begun: by the wall clock, by one that is never set, and before which job.

    The last is what the trigger of a stream takes around it; None if that is not known.
    """

    wall: float
    steady: float
    job: int
    trigger: float | None = 0.0


class Watch:
    """Tells when batches ran.

    Args:
        session: the session.
    """

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jvm = context._jvm  # noqa: SLF001  # PySpark has no other way
        self._spark = context._jsc.sc()  # noqa: SLF001
        self._store = self._spark.statusStore()
        self._writer = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._writer.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())

    def begin(self, trigger: float | None = 0.0) -> Begun:
        """Note that a batch is begun.

        Args:
            trigger: seconds that the trigger of a stream takes around it; None if not known.
        """
        job = int(self._spark.dagScheduler().numTotalJobs())
        return Begun(time.time(), time.perf_counter(), job, trigger)

    def read(self, begun: Begun, brought: float, stages: Sequence[int]) -> BatchClock | None:
        """Return when a batch ran that is done by now; None if Spark does not know any more.

        Args:
            begun: when it was begun.
            brought: when the driver had what its last stage has brought, by the wall clock.
            stages: Spark's numbers of its stages.
        """
        done, seconds = time.time(), time.perf_counter() - begun.steady
        try:
            ran = [self._stage(number) for number in stages[:-1]]
            ran.append(self._stage(stages[-1], brought))
            job = self._job(begun.job, stages[0])
        except Py4JJavaError as error:
            if "NoSuchElementException" not in str(error.java_exception):
                raise
            return None  # it keeps the last thousand, or as many as it was set to
        clocks = [clock for clock in ran if clock is not None]
        if job is None or len(clocks) < len(stages):
            return None
        own = len(job["stageIds"]) - job["numSkippedStages"]
        return BatchClock(
            seconds,
            begun.wall,
            job["submissionTime"] / 1e3,
            clocks,
            done,
            reads_first=own > len(stages),
            trigger=begun.trigger,
        )

    def _stage(self, number: int, ended: float | None = None) -> StageClock | None:
        """Return when a stage ran; its end as Spark has noted it, if it is not given."""
        for _ in range(_TRIES):
            stage = self._told(self._store.lastStageAttempt(number))
            began, first, done = (stage[name] for name in _TIMES)
            done = done if ended is None else ended * 1e3
            if began is not None and first is not None and done is not None:
                return StageClock(began / 1e3, first / 1e3, done / 1e3)
            time.sleep(_MOMENT)
        return None

    def _job(self, first: int, stage: int) -> dict[str, Any] | None:
        """Return the job that a stage was of, which is not older than some other."""
        for number in range(first, int(self._spark.dagScheduler().numTotalJobs())):
            job = self._told(self._store.job(number))
            if stage in job["stageIds"]:
                return job
        return None

    def _told(self, java: Any) -> dict[str, Any]:
        """Return an object of Java as JSON types: by one call, not by one for each fact."""
        found: dict[str, Any] = json.loads(self._writer.writeValueAsString(java))
        return found
