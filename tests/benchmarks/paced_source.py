"""A stream whose rows come at a rate: row `i` is there `i / rate` seconds after the stream began.

Spark's own source of that kind lets rows in by whole seconds, and makes up what they are; this one
gives recorded rows at any moment, so how long each has waited is known.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

NAME = "paced"
_ROWS = "rows"


def paced(
    session: SparkSession, file: Path, *, rate: float, began: float, most: int, partitions: int
) -> DataFrame:
    """Return a stream of recorded rows, which are taken again from the first once all have come.

    Args:
        session: the session.
        file: where the rows are, as an Arrow file.
        rate: how many come in a second.
        began: when the first came, in seconds since 1970.
        most: how many a batch lets in.
        partitions: in how many partitions they come.
    """
    session.dataSource.register(PacedSource)
    with pa.memory_map(str(file)) as opened:
        schema = pa.ipc.open_file(opened).schema
    options = {"file": file, "rate": rate, "began": began, "most": most, "partitions": partitions}
    reader = session.readStream.format(NAME).schema(from_arrow_schema(schema))
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


class PacedSource(DataSource):
    """The source as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads it."""
        return PacedReader(dict(self.options))


class PacedReader(DataSourceStreamReader):
    """Reads the rows that have come.

    Args:
        options: of the stream, as text.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._file = options["file"]
        self._rate, self._began = float(options["rate"]), float(options["began"])
        self._most, self._partitions = int(options["most"]), int(options["partitions"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where the stream begins."""
        return {_ROWS: 0}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802
        """Return where the next batch ends: at what has come, or what it lets in."""
        come = int((time.time() - self._began) * self._rate)
        return {_ROWS: max(start[_ROWS], min(come, start[_ROWS] + self._most))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the stretches of a batch."""
        first, rows = start[_ROWS], end[_ROWS] - start[_ROWS]
        cuts = [first + rows * part // self._partitions for part in range(self._partitions + 1)]
        return [InputPartition(ends) for ends in itertools.pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a stretch."""
        first, last = partition.value
        with pa.memory_map(self._file) as opened:
            table = pa.ipc.open_file(opened).read_all()
            wanted = np.arange(first, last) % len(table)
            return iter(table.take(pa.array(wanted)).combine_chunks().to_batches())
