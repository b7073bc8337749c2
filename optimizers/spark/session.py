"""A Spark session for a job on this machine, and what Penstock sets in any session."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from optimizers.error_boundary import is_debugging
from optimizers.spark.muted_logs import hush

LOCAL_SETTINGS: Mapping[str, str] = {
    # Tasks of Python start several times faster than over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings that make a local session better; those of an existing session are left alone."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java that make a session start in half the time, and long jobs somewhat slower."""


def local_session(
    cores: int | str = "*",
    *,
    memory: str = "2g",
    quick_start: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session on this machine; the one that is active, if there is one.

    Args:
        cores: the number of cores; all by default.
        memory: of the driver, which on one machine does all the work.
        quick_start: whether to start in half the time, at the price of some speed later.
        settings: settings of Spark that add to ours, or replace them.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # Workers must run the same Python as the driver, not the first one on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get("SPARK_HOME") == "":
        del os.environ["SPARK_HOME"]  # an empty one keeps Spark from starting
    builder = SparkSession.builder.master(f"local[{cores}]").appName("penstock")
    chosen = {**LOCAL_SETTINGS, "spark.driver.memory": memory}
    if quick_start:
        chosen["spark.driver.extraJavaOptions"] = QUICK_START
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN" if is_debugging() else "ERROR")
    hush(session)
    return session
