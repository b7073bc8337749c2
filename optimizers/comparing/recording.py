"""The input of a comparison: each batch recorded once, so that every variant gets the same."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from optimizers.errors import InvalidValueError, TopologyError, UnknownNameError
from optimizers.topology import Topology

_FOREIGN = {"pandas", "polars"}  # whose tables can be iterated over, but not by rows

_AT_ONCE = 1 << 16  # rows that Spark makes one partition of, unless a chunk is smaller


@dataclass(frozen=True, slots=True)
class Recording:
    """One batch.

    Attributes:
        tables: the tuples of each source.
        frames: the same, as Spark reads them.
    """

    tables: dict[str, pa.Table]
    frames: dict[str, Any]

    @property
    def tuples(self) -> int:
        """How many there are."""
        return sum(map(len, self.tables.values()))


def recordings(session: Any, topology: Topology, source: Any, warm_up: int) -> Iterator[Recording]:
    """Yield each batch, recorded as it is asked for.

    Raises:
        InvalidValueError: there are not more batches than the warm-up takes.
    """
    batches = iter([source] if _is_batch(source) else _iterated(source))
    first = list(islice(batches, warm_up + 1))
    if len(first) <= warm_up:
        raise InvalidValueError(
            f"{len(first)} batches are not more than the warm_up={warm_up} that are left out of "
            "all figures; give more batches, or less warm_up"
        )
    return (_recorded(session, topology, batch) for batch in chain(first, batches))


def _recorded(session: Any, topology: Topology, batch: Any) -> Recording:
    frames = {}
    for name, rows in _by_source(topology, batch).items():
        table = rows.toArrow() if _is_frame(rows) else rows
        frames[name] = session.createDataFrame(_sliced(table, topology.operator(name).parallelism))
    # Read back, so that the reference sees tuples of the types that Spark makes of them.
    return Recording({name: frame.toArrow() for name, frame in frames.items()}, frames)


def _by_source(topology: Topology, batch: Any) -> dict[str, Any]:
    """Return the rows of each source by its name, or say which are missing."""
    if not isinstance(batch, Mapping):
        if len(topology.sources) > 1:
            raise TopologyError(
                f"the job has sources {list(topology.sources)} and a batch has rows for one; "
                "give a dict with rows for each"
            )
        batch = {topology.sources[0]: batch}
    for name, rows in batch.items():
        if name not in topology.sources:
            raise UnknownNameError.among("source", name, topology.sources)
        if not _is_frame(rows) and not isinstance(rows, pa.Table):
            raise InvalidValueError(
                f"the rows of source {name!r} are a {type(rows).__name__}; give a DataFrame of "
                "Spark, or an Arrow table"
            )
        if _is_frame(rows) and rows.isStreaming:
            raise InvalidValueError(
                f"the rows of source {name!r} are a stream, which ends for no variant; give a "
                "list of bounded DataFrames, one for each batch"
            )
    missing = [name for name in topology.sources if name not in batch]
    if missing:
        raise TopologyError(f"source {missing[0]!r} has no rows in a batch; give it a table")
    return {name: batch[name] for name in topology.sources}


def _sliced(table: pa.Table, instances: int) -> pa.Table:
    """Return a table in equal chunks, as many as go evenly to all instances of its source."""
    rounds = -(-len(table) // (_AT_ONCE * instances))
    if not rounds:
        return table
    rows = -(-len(table) // (rounds * instances))
    whole = table.combine_chunks()
    return pa.concat_tables([whole.slice(start, rows) for start in range(0, len(table), rows)])


def _is_batch(source: Any) -> bool:
    return isinstance(source, pa.Table | Mapping) or _is_frame(source)


def _is_frame(rows: Any) -> bool:
    """Return whether it is a DataFrame of Spark, of whichever of its classes."""
    return hasattr(rows, "toArrow")


def _iterated(source: Any) -> Iterable[Any]:
    library = type(source).__module__.partition(".")[0]
    if library in _FOREIGN:
        raise InvalidValueError(
            f"source is a {type(source).__name__} of {library}; give a DataFrame of Spark, or an "
            "Arrow table"
        )
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise InvalidValueError(
            f"source={source!r} has no rows; give a DataFrame or an Arrow table, or a list of them"
        )
    return source
