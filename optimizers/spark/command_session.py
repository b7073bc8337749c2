"""A session for a command: started without what Java and Spark write, and stopped at its end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from optimizers.errors import MissingPackageError
from optimizers.spark.session import local_session

_ENOUGH = 20  # lines of what was written; the cause stands at the end


@contextmanager
def quiet_session(cores: int | str = "*") -> Iterator[SparkSession]:
    """Lend a session on this machine; the one that is active, if there is one.

    What Java and Spark write goes to a file, which is kept if something goes wrong.

    Args:
        cores: on how many cores; all by default.

    Raises:
        MissingPackageError: Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with NamedTemporaryFile(prefix="penstock-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
        session = _started(cores, log.fileno(), path)
    try:
        yield session
    except Exception as error:
        error.add_note(f"what Spark wrote meanwhile is in {path}")
        raise
    else:
        path.unlink()
    finally:
        session.stop()


def _started(cores: int | str, log: int, path: Path) -> SparkSession:
    try:
        with _written_to(log):
            return local_session(cores, quick_start=True)
    except (PySparkException, OSError) as error:
        tail = " | ".join(path.read_text(errors="replace").split("\n")[-_ENOUGH:]).strip()
        raise MissingPackageError(
            f"Spark does not start: {error} {tail}; run `penstock doctor` to see what it lacks"
        ) from error


@contextmanager
def _written_to(file: int) -> Iterator[None]:
    """Send what processes started meanwhile write, for as long as they live, to a file."""
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
