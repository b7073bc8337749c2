"""How much CPU time each task takes in Python, measured from outside: a daemon of Spark's workers.

Spark starts it on each host by `settings`, in place of its own. It does the same, and writes down
how much CPU time a worker took from when it was handed a task until it was done with it: with what
PySpark needs to read what is to be done, and for the first task to import it. So it knows nothing
of what the engine measures inside.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext, daemon

# Variables of the environment; `session_on` takes no underscores.
_FOLDER, _NAME = "taskcpu", "taskcpuname"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class TaskCpu:
    """The CPU time of one task of Spark in one worker.

    Attributes:
        stage: the stage, by Spark's number.
        partition: which partition of it.
        attempt: of the task, by Spark's number.
        seconds: the CPU time.
        name: what it was `named`.
        is_first: whether it was the first task of its worker.
    """

    stage: int
    partition: int
    attempt: int
    seconds: float
    name: str
    is_first: bool


def settings(folder: Path) -> dict[str, str]:
    """Return what `session_on` has to be told.

    Args:
        folder: where it is written down.
    """
    folder.mkdir()
    return {
        "spark_python_daemon_module": Path(__file__).stem,
        "spark_executorEnv_PYTHONPATH": str(_HERE),
        f"spark_executorEnv_{_FOLDER}": str(folder),
    }


def named(name: str) -> None:
    """Give this task, in which it is called, a name."""
    os.environ[_NAME] = name


def tasks(folder: Path, stages: Iterable[int]) -> list[TaskCpu]:
    """Return what was written down of the tasks of some stages.

    Args:
        folder: where it is.
        stages: by Spark's numbers.
    """
    wanted, found = set(stages), []
    for file in sorted(folder.iterdir()):
        for place, line in enumerate(file.read_text().splitlines()):
            *numbers, seconds, name = line.split(",")
            stage, partition, attempt = map(int, numbers)
            if stage in wanted:
                is_first = place == 0
                found.append(TaskCpu(stage, partition, attempt, float(seconds), name, is_first))
    return found


def _measured(worker):
    last = []
    plain = TaskContext._setTaskContext  # noqa: SLF001  # it is cleared before a worker is done

    def noted(context):
        if context is not None:
            last[:] = [context]
        plain(context)

    def measuring(*arguments):
        TaskContext._setTaskContext = noted  # noqa: SLF001
        began = time.process_time()
        try:
            return worker(*arguments)
        finally:
            took = time.process_time() - began
            name = os.environ.pop(_NAME, "")
            for task in last:
                numbers = task.stageId(), task.partitionId(), task.taskAttemptId()
                with (Path(os.environ[_FOLDER]) / str(os.getpid())).open("a") as file:
                    print(*numbers, took, name, sep=",", file=file)
            last.clear()

    return measuring


if __name__ == "__main__":
    daemon.worker = _measured(daemon.worker)
    daemon.manager()
