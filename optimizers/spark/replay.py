"""A recorded stream, played back: the same tuples each time, in batches that a plan can size.

Spark's own sources fix how much they let in when a query starts. This one reads a small file before
each batch, which the engine writes, so a plan can change it while the job runs.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.mark import MARK, check_free, read_mark
from optimizers.runtime.storage.location import Location
from sketches.checks import whole

NAME = "penstock-replay"

RECORDED, _ADMITTED, _READ = "recorded", "admitted", "read"
ROWS = "row"

_TELLS_START = "start" in signature(DataSourceStreamReader.latestOffset).parameters
"""Whether Spark says where the next batch begins when it asks where it ends; 4.1 does not."""


def recorded(  # noqa: PLR0913
    session: SparkSession,
    location: Location,
    source: str,
    tuples: pa.Table,
    *,
    rows: int,
    partitions: int = 2,
) -> DataFrame:
    """Record the tuples of a source in a checkpoint, and return them as a stream.

    Args:
        session: the session.
        location: the checkpoint of the job.
        source: the name of the source in the job.
        tuples: the tuples, in their order. A job that goes on must be given the same again.
        rows: how many are let in at once, until a plan says otherwise.
        partitions: in how many partitions they come.
    """
    if not isinstance(tuples, pa.Table):
        raise InvalidValueError(f"tuples are a {type(tuples).__name__}; give an Arrow table")
    number = whole("rows", rows, at_least=1)
    parts = whole("partitions", partitions, at_least=1)
    _check_whose(location, source)
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, tuples.schema) as writer:
        writer.write_table(tuples.combine_chunks())
    kept = content.getvalue()
    name = f"{RECORDED}/{source}.arrow"
    if not location.exists(name):
        location.write_new(name, kept)
    elif not location.read(name).equals(kept):
        raise InvalidValueError(
            f"other tuples were recorded for source {source!r} in {location}; "
            "give the same ones to go on, or a new checkpoint to start over"
        )
    if not location.exists(f"{_ADMITTED}/{source}"):
        admit(location, source, number)
    session.dataSource.register(ReplaySource)
    return (
        session.readStream.format(NAME)
        .schema(from_arrow_schema(tuples.schema))
        .option("checkpoint", location.root)
        .option("source", source)
        .option("partitions", str(parts))
        .load()
    )


def _check_whose(location: Location, source: str) -> None:
    """Refuse a folder in which it would be wrong to record a source.

    Raises:
        CheckpointError: there are files of others, or a checkpoint of a job without this source.
    """
    if not location.exists(MARK):
        check_free(location)
        return
    identity = read_mark(location).identity
    fed = {target for _, target, _ in identity.edges}
    names = [name for name in identity.operators if name not in fed]
    if source not in names:
        raise CheckpointError(
            f"the checkpoint {location} is of a job without a source {source!r}: it has "
            f"{', '.join(map(repr, names))}; give this job a folder of its own, or name its source"
        )


def admit(location: Location, source: str, rows: int) -> None:
    """Let in this many tuples of a recorded source at once, from the next batch that it cuts on."""
    location.write_atomically(f"{_ADMITTED}/{source}", str(rows).encode())


@dataclass
class ReplayRows(InputPartition):
    """Some rows of a recording, one after the other."""

    first: int
    last: int

    def __init__(self, first: int, last: int) -> None:
        super().__init__((first, last))
        self.first = first
        self.last = last


class ReplaySource(DataSource):
    """The source as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads it."""
        options: Any = self.options
        return ReplayReader(
            Location(options["checkpoint"]), options["source"], int(options["partitions"])
        )


class ReplayReader(DataSourceStreamReader):
    """Reads a recording, batch by batch.

    Args:
        location: the checkpoint it is in.
        source: the source it is of.
        partitions: in how many partitions a batch comes.
    """

    def __init__(self, location: Location, source: str, partitions: int) -> None:
        self._location = location
        self._source = source
        self._partitions = partitions

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where a recording begins."""
        return {ROWS: 0}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """Return where the next batch ends, by the number of tuples admitted now."""
        admitted = int(self._location.read_bytes(f"{_ADMITTED}/{self._source}"))
        first = self._read_so_far() if start is None else start[ROWS]
        return {ROWS: min(first + admitted, len(self._tuples()))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the stretches of a batch, the same number for any size; some may be empty."""
        if not _TELLS_START:
            self._location.write_atomically(f"{_READ}/{self._source}", str(end[ROWS]).encode())
        first, rows = start[ROWS], end[ROWS] - start[ROWS]
        cuts = [first + rows * part // self._partitions for part in range(self._partitions + 1)]
        return [ReplayRows(*ends) for ends in itertools.pairwise(cuts)]

    def _read_so_far(self) -> int:
        """Return where the last batch ended that was read, or begun to be read.

        A query that goes on reads a batch again that it had begun, before it asks for another.
        """
        name = f"{_READ}/{self._source}"
        return int(self._location.read_bytes(name)) if self._location.exists(name) else 0

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the tuples of a stretch."""
        if not isinstance(partition, ReplayRows):
            raise InvalidValueError(f"{partition!r} is not one of the partitions of a recording")
        rows = self._tuples().slice(partition.first, partition.last - partition.first)
        return iter(rows.to_batches())

    def _tuples(self) -> pa.Table:
        content = self._location.read(f"{RECORDED}/{self._source}.arrow", mapped=True)
        return pa.ipc.open_file(content).read_all()
