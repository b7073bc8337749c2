"""What an executor has: how many tasks it runs at a time, and how much memory."""

import os
import re

from pyspark.sql import SparkSession

_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_LOCAL = re.compile(r"local\[(\d+|\*)(?:, *\d+)?\]")


def tasks_at_once(session: SparkSession) -> int:
    """Return how many tasks one executor runs at a time, at most."""
    context = session.sparkContext
    said = context.getConf().get("spark.executor.cores")
    return max(1, _cores(str(context.master), said, context) // cores_of_task(session))


def slots_of(session: SparkSession) -> int:
    """Return how many tasks run at a time on all executors together, as Spark knows by now."""
    return max(1, session.sparkContext.defaultParallelism // cores_of_task(session))


def cores_of_task(session: SparkSession) -> int:
    """Return how many cores a task takes."""
    return int(session.sparkContext.getConf().get("spark.task.cpus", "1") or 1)


def memory_of_executor(session: SparkSession) -> float | None:
    """Return how many bytes of memory an executor was given; None where that cannot be read."""
    said = session.sparkContext.getConf().get("spark.executor.memory", "1g")
    found = _SIZE.fullmatch(str(said).strip())
    if found is None or not int(found[1]):
        return None
    unit = found[2].lower() or "m"  # as Spark takes a number alone
    return float(int(found[1]) << 10 * (1 + "kmgtp".index(unit)))


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
