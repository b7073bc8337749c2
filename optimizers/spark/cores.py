"""The capacity of an executor: how many tasks it runs at a time, and how much memory it has."""

import os
import re
from typing import Any

from pyspark.sql import SparkSession

_SIZE = re.compile(r"(\d+)\s*([bkmgtp]?)i?b?", re.IGNORECASE)
_PYTHON = "spark.executor.pyspark.memory"
_LOCAL = re.compile(r"local\[(\d+|\*)(?:, *\d+)?\]")


def tasks_at_once(session: SparkSession) -> int:
    """Return how many tasks one executor runs at a time, at most."""
    context = session.sparkContext
    said = context.getConf().get("spark.executor.cores")
    return max(1, _cores(str(context.master), said, context) // cores_of_task(session))


def slots_of(session: SparkSession) -> int:
    """Return how many tasks run at a time on all executors together, as far as Spark knows."""
    context = session.sparkContext
    if context.getConf().get("spark.default.parallelism") and _is_local(str(context.master)):
        return tasks_at_once(session)  # it is told in place of the cores
    return max(1, context.defaultParallelism // cores_of_task(session))


def cores_of_task(session: SparkSession) -> int:
    """Return how many cores a task takes."""
    return int(session.sparkContext.getConf().get("spark.task.cpus", "1") or 1)


def memory_of_executor(session: SparkSession) -> float | None:
    """Return how many bytes an executor may take with its Python workers; None for any number.

    YARN holds it to what was asked for. Elsewhere the heap of Java has a bound, and what Python
    takes besides has one only where it is given; a container's own bound is read where it runs.
    """
    conf = session.sparkContext.getConf()
    heap, python = _size(conf, "spark.executor.memory", "1g"), _size(conf, _PYTHON)
    beyond = _size(conf, "spark.memory.offHeap.size", unit="b")
    if str(conf.get("spark.memory.offHeap.enabled", "false")).lower() != "true":
        beyond = 0.0
    overhead: float | None = 0.0
    if str(session.sparkContext.master).startswith("yarn"):
        overhead = _size(conf, "spark.executor.memoryOverhead")
        if overhead is None and heap is not None:
            least = _size(conf, "spark.executor.minMemoryOverhead", "384m")
            share = float(conf.get("spark.executor.memoryOverheadFactor", "0.1") or 0.1)
            overhead = max(heap * share, least or 0.0)
        python = python or 0.0
    parts = heap, python, beyond, overhead
    return None if None in parts else float(sum(filter(None, parts)))


def _size(conf: Any, name: str, default: str | None = None, unit: str = "m") -> float | None:
    """Return a size in bytes as Spark is given it; None where there is none, or it is not read."""
    found = _SIZE.fullmatch(str(conf.get(name, default)).strip())
    if found is None or not int(found[1]):
        return None
    given = found[2].lower() or unit  # as Spark takes a number alone
    return float(int(found[1]) << 10 * "bkmgtp".index(given))


def _is_local(master: str) -> bool:
    """Return whether the driver runs all tasks."""
    return master == "local" or _LOCAL.fullmatch(master) is not None


def _cores(master: str, said: str | None, context: object) -> int:
    """Return how many cores an executor has."""
    if master == "local":
        return 1
    local = _LOCAL.fullmatch(master)
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    if said is not None:
        return int(said)
    if master.startswith(("yarn", "k8s")):
        return 1  # their default
    if master.startswith("local-cluster"):
        return int(re.findall(r"\d+", master)[1])
    # Elsewhere an executor takes all cores of its machine: no more than the cluster has.
    return int(getattr(context, "defaultParallelism", 1))
