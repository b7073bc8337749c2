"""What left a job in a batch, as a DataFrame."""

import re
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from optimizers.runtime.files import Location

_PATTERN = re.compile(r"([\[\]{}*?\\])")


def left_in(session: SparkSession, location: Location, files: Sequence[str]) -> DataFrame:
    """Return the rows of files of output; where one has no such column, it is null there.

    Several operators may feed nothing, and each has columns of its own. Asked to read files of
    different columns at once, Spark would go by those of one file, and drop all others.

    Args:
        session: the session.
        location: the checkpoint.
        files: their names there; at least one.

    Raises:
        CheckpointError: a file is missing.
    """
    alike: dict[pa.Schema, list[str]] = {}
    for name in files:
        content = pa.BufferReader(location.read(name, mapped=True))
        schema = pq.read_schema(content).remove_metadata()
        alike.setdefault(schema, []).append(_as_spark_reads(location.path_of(name)))
    frames = (session.read.parquet(*paths) for paths in alike.values())
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _as_spark_reads(path: str) -> str:
    """Return a path as Spark takes it, which would else take brackets and the like for patterns."""
    return _PATTERN.sub(r"\\\1", path)
