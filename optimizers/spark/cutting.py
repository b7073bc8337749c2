"""Bounded batches that are cut, because a plan admits fewer tuples of a source.

The rows of such a batch are recorded in the checkpoint before the first piece runs: Spark may
compute rows in another order each time, and a driver that takes over must go on with exactly those
that are left.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from optimizers.runtime.log.origins import Bounded
from optimizers.runtime.storage.location import Location
from sketches.values import FrozenMap

_AT_ONCE = 1 << 16  # rows that Spark makes one partition of, unless a chunk is smaller
_FOLDER = "recorded"


class CutBatch:
    """One bounded batch, piece by piece.

    Args:
        location: the checkpoint.
        number: how many bounded batches were done before it.
        frames: the rows of each source.
        begun: its record, if it was begun; None if nothing of it is done.
        name: its name, if it has one.

    Attributes:
        done: how many rows of each source are done.
    """

    def __init__(
        self,
        location: Location,
        number: int,
        frames: Mapping[str, DataFrame],
        begun: Bounded | None,
        name: str | None,
    ) -> None:
        self._location = location
        self._name = name
        self._files = {source: f"{_FOLDER}/batch-{number}-{source}.arrow" for source in frames}
        if begun is None:
            for source, frame in frames.items():
                location.write_atomically(self._files[source], _written(frame.toArrow()))
        self._tables = {source: self._read(source) for source in frames}
        self.done = dict.fromkeys(frames, 0) | dict(() if begun is None else begun.done)

    def _read(self, source: str) -> pa.Table:
        content = self._location.read(self._files[source], mapped=True)
        return pa.ipc.open_file(content).read_all()

    @property
    def is_done(self) -> bool:
        """Whether no row is left."""
        return all(self.done[source] >= len(table) for source, table in self._tables.items())

    @property
    def origin(self) -> Bounded:
        """The origin of a piece that is done."""
        done = FrozenMap[str, int]() if self.is_done else FrozenMap(self.done)
        return Bounded(self._name, done)

    def take(self, admit: Mapping[str, int]) -> dict[str, pa.Table]:
        """Return the next piece, and count it as done.

        Args:
            admit: how many rows it may have of some sources; of others it has all that are left.
        """
        piece = {}
        for source, table in self._tables.items():
            first = self.done[source]
            rows = min(len(table) - first, admit.get(source, len(table)))
            piece[source] = table.slice(first, rows)
            self.done[source] = first + rows
        return piece

    def forget(self) -> None:
        """Remove the recorded rows, once all are done."""
        for file in self._files.values():
            self._location.delete(file)


def sliced(table: pa.Table, instances: int) -> pa.Table:
    """Return a table in equal chunks, with the same number for each instance of its source."""
    rounds = -(-len(table) // (_AT_ONCE * instances))
    if not rounds:
        return table
    rows = -(-len(table) // (rounds * instances))
    whole = table.combine_chunks()
    return pa.concat_tables([whole.slice(start, rows) for start in range(0, len(table), rows)])


def _written(table: pa.Table) -> pa.Buffer:
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return content.getvalue()
