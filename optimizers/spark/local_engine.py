"""The engine of comparisons that name none: Spark on this machine, in a folder of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from optimizers.spark.engine import SparkEngine

_EVERY = 3  # batches between decisions


@contextmanager
def local_engine() -> Iterator[SparkEngine]:
    """Return Spark on this machine, in a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="penstock-compare-") as folder:
        yield SparkEngine(checkpoint=folder, every=_EVERY)
