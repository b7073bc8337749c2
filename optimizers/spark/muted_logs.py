"""Keeping Spark's logs of failing tasks off the terminal, where an error says it in one sentence.

Spark reports a failing task three times: the executor with the tracebacks of Java and Python, the
driver with the same again, and the exception that the caller gets. On one machine all of it goes to
one terminal. So while jobs of ours run there, the first two are left out. On a cluster, whose logs
are kept and read by others, they stay; so they do under PENSTOCK_DEBUG=1.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from optimizers.error_boundary import is_debugging
from optimizers.spark.shipping import is_local

_TASKS = (
    "org.apache.spark.api.python",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.python",
)
_WRITING = (
    *_TASKS,
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.util.Utils",
)
_QUERIES = ("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",)

_LOOK = 0.02  # seconds between two looks at whether a query, or tasks, have ended
_PATIENCE = 2.0  # seconds that tasks which are being cancelled may take


class _Loggers:
    """The loggers of Spark's Java, and for how many jobs each of them is silent.

    Args:
        context: of the session.
    """

    def __init__(self, context: SparkContext) -> None:
        py4j: Any = context
        log4j = py4j._jvm.org.apache.logging.log4j  # noqa: SLF001  # PySpark has no other way
        self._configurator = log4j.core.config.Configurator
        # Else it logs by another library, whose loggers are left alone.
        self._is_known = isinstance(self._configurator, JavaClass)
        if self._is_known:
            self._off = log4j.Level.OFF
            self._log = log4j.LogManager.getContext(False)  # noqa: FBT003
            self._levels = self._log.getConfiguration()
            self._known = self._levels.getLoggers()
        self._jobs: Counter[str] = Counter()
        self._before: dict[str, Any] = {}  # the levels of those that are silent; None for none
        self._lock = threading.Lock()

    def silence(self, names: Sequence[str]) -> None:
        """Silence these loggers for one more job."""
        with self._lock:
            self._jobs.update(names)
            for name in names:
                if self._jobs[name] == 1 and self._is_known:
                    known = self._known.get(name)
                    self._before[name] = None if known is None else known.getExplicitLevel()
                    self._configurator.setLevel(name, self._off)

    def release(self, names: Sequence[str]) -> None:
        """Let them speak as before, unless another job has them silent."""
        with self._lock:
            self._jobs.subtract(names)
            silent = [name for name in names if not self._jobs[name] and self._is_known]
            for name in silent:
                level = self._before.pop(name)
                if level is not None:
                    self._configurator.setLevel(name, level)
                else:
                    # Not set to None: Spark's shell tells loggers by whether they have one.
                    self._levels.removeLogger(name)
            if silent:
                self._log.updateLoggers()


_LOGGERS: WeakKeyDictionary[SparkContext, _Loggers] = WeakKeyDictionary()
_MAKING = threading.Lock()


def _loggers(session: SparkSession) -> _Loggers | None:
    """Return the loggers of a session; None where they are to be left alone."""
    context = session.sparkContext
    if is_debugging() or not is_local(context):
        return None
    with _MAKING:
        if context not in _LOGGERS:
            _LOGGERS[context] = _Loggers(context)
        return _LOGGERS[context]


@contextmanager
def muted(session: SparkSession, *, writing: bool = False) -> Iterator[None]:
    """Keep failing tasks out of Spark's log meanwhile.

    Args:
        session: the session.
        writing: also why files cannot be written.
    """
    names = _WRITING if writing else _TASKS
    loggers = _loggers(session)
    if loggers is None:
        yield
        return
    loggers.silence(names)
    try:
        yield
    except Exception:
        _await_tasks(session)  # of what failed some are still being cancelled, and would say so
        raise
    finally:
        loggers.release(names)


def _await_tasks(session: SparkSession) -> None:
    """Wait until no task runs, or for a short time."""
    java: Any = session.sparkContext._jsc  # noqa: SLF001  # PySpark has no other way
    deadline = time.monotonic() + _PATIENCE
    with suppress(Py4JError):  # a session that has been stopped has no tasks
        while time.monotonic() < deadline:
            executors = java.sc().statusStore().executorList(True)  # noqa: FBT003
            if not any(executors.apply(n).activeTasks() for n in range(executors.size())):
                return
            time.sleep(_LOOK)


def hush(session: SparkSession) -> None:
    """Keep failing tasks out of Spark's log, as long as the session lives."""
    loggers = _loggers(session)
    if loggers is not None:
        loggers.silence(_TASKS)


def hush_end(session: SparkSession, query: Any) -> None:
    """Keep the error of a query that is about to end out of Spark's log."""
    loggers = _loggers(session)
    if loggers is None:
        return
    loggers.silence(_QUERIES)

    def release() -> None:
        try:
            while query.isActive:
                time.sleep(_LOOK)
        finally:
            loggers.release(_QUERIES)

    threading.Thread(target=release, daemon=True).start()
