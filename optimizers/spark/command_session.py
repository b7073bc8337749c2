"""A session for a command: started without the output of Java and Spark, and stopped at its end."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from optimizers.errors import InvalidValueError, MissingPackageError
from optimizers.spark.executors import HostReader
from optimizers.spark.session import LOCAL_SETTINGS, local_session

_ENOUGH = 20  # last lines of the output, which have the cause
_SETTLED = 3.0  # seconds without another executor, after which all are taken to be there
_PATIENCE = 60.0  # seconds to wait for the first


@contextmanager
def command_session(cores: int | str = "*", master: str | None = None) -> Iterator[SparkSession]:
    """Lend a session on this machine, or a cluster; the one that is active, if there is one.

    The output of Java and Spark goes to a file, which is kept if something goes wrong.

    Args:
        cores: on how many cores; all by default.
        master: of which cluster, as Spark calls it; None for this machine.

    Raises:
        MissingPackageError: Spark does not start.
        InvalidValueError: no executor comes.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with NamedTemporaryFile(prefix="penstock-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
        session = _started(cores, master, log.fileno(), path)
    try:
        if master is not None:
            _await_executors(session, master)
        yield session
    except Exception as error:
        error.add_note(f"what Spark wrote meanwhile is in {path}")
        raise
    else:
        path.unlink()
    finally:
        session.stop()


def _started(cores: int | str, master: str | None, log: int, path: Path) -> SparkSession:
    try:
        with _written_to(log):
            if master is None:
                return local_session(cores, quick_start=True)
            return _cluster_session(master)
    except (PySparkException, OSError) as error:
        tail = " | ".join(path.read_text(errors="replace").split("\n")[-_ENOUGH:]).strip()
        raise MissingPackageError(
            f"Spark does not start: {error} {tail}; run `penstock doctor` to see what it lacks"
        ) from error


def _cluster_session(master: str) -> SparkSession:
    """Return a session on a cluster, which finds this machine as Spark's own settings say."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("penstock")
    for name, value in LOCAL_SETTINGS.items():
        if not name.startswith("spark.driver."):
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _await_executors(session: SparkSession, master: str) -> None:
    """Wait until no more executors come: hosts that come later change how a job is laid out."""
    read, started = HostReader(session), time.monotonic()
    hosts, since = read(), started
    while time.monotonic() - since < _SETTLED or not hosts:
        if not hosts and time.monotonic() - started > _PATIENCE:
            raise InvalidValueError(
                f"no executor of {master!r} came within {_PATIENCE:g} s; see there what it lacks"
            )
        time.sleep(0.1)
        if read() != hosts:
            hosts, since = read(), time.monotonic()


@contextmanager
def _written_to(file: int) -> Iterator[None]:
    """Send all output of processes that are started meanwhile to a file."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
