"""All tuples of a run: one row for each that came to a source, with its facts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.key_batch import KeyBatch
from optimizers.errors import InvalidKeyError, InvalidValueError, TopologyError, UnknownNameError
from optimizers.operators import Edge
from optimizers.simulation.service import Work
from optimizers.simulation.stream import Stream
from optimizers.topology import Topology
from sketches.arrays import Codes, Floats
from sketches.keys import IntegerKeys, KeyColumn, Pairs, as_keys, pair_codes

Rows = NDArray[np.int64]


class Keyed:
    """The keys of some columns, for all rows that have them.

    Args:
        column: the keys.
        places: where each row has its key in the column.
    """

    def __init__(self, column: KeyColumn, places: Rows) -> None:
        self._column = column
        self._places = places

    def batch(self, rows: Rows) -> KeyBatch:
        """Return the keys of these rows."""
        return KeyBatch(self.take(rows))

    def take(self, rows: Rows) -> KeyColumn:
        """Return the keys of these rows."""
        return self._column.take(self._places[rows])

    def codes(self, rows: Rows) -> Codes:
        """Return the codes of the keys of these rows."""
        found: Codes = self._column.codes[self._places[rows]]
        return found


class Tuples:
    """The tuples of all sources, one row after the other, source by source.

    All results of a tuple on its way through the job have the same row.

    Args:
        topology: the job.
        streams: what comes in at each source.
        work: what each operator does; those not named take no time.
        seed: of the noise.

    Attributes:
        times: when each came in.
        sizes: how many bytes each has.
    """

    def __init__(
        self,
        topology: Topology,
        streams: Mapping[str, Stream],
        work: Mapping[str, Work],
        seed: int,
    ) -> None:
        _check_names(topology, streams, work)
        self._streams = {name: streams[name] for name in topology.sources}
        self._work = {name: work.get(name, Work()) for name in topology.order}
        self._sources = _sources(topology)
        self._numbers = {operator.name: place for place, operator in enumerate(topology.operators)}
        self._seed = seed
        self._hash_seed = topology.seed
        ends = np.cumsum([len(stream) for stream in self._streams.values()]).tolist()
        starts = [0, *ends[:-1]]
        self._spans = {
            name: slice(start, end)
            for name, start, end in zip(self._streams, starts, ends, strict=True)
        }
        self.times: Floats = np.concatenate([stream.times for stream in self._streams.values()])
        self.sizes: Floats = np.concatenate(
            [np.asarray(stream.bytes) for stream in self._streams.values()]
        )
        self._keyed: dict[tuple[str, tuple[str, ...]], Keyed] = {}
        self._seconds = {name: self._seconds_at(name) for name in topology.order}
        self._emitted = {name: self._emitted_at(name) for name in topology.order}

    def __len__(self) -> int:
        """How many tuples come in."""
        return len(self.times)

    def rows_of(self, source: str) -> Rows:
        """Return the rows of a source, in the order in which they come."""
        span = self._spans[source]
        return np.arange(span.start, span.stop)

    def reaching(self, operator: str) -> Rows:
        """Return the rows that can reach an operator."""
        return np.concatenate([self.rows_of(source) for source in self._sources[operator]])

    def work(self, operator: str) -> Work:
        """Return what an operator does."""
        return self._work[operator]

    def seconds(self, operator: str) -> Floats:
        """Return how long each row takes at an operator, by an instance of speed 1."""
        return self._seconds[operator]

    def emitted(self, operator: str) -> Rows | None:
        """Return how many tuples an operator emits for each row; None for one each."""
        return self._emitted[operator]

    def has(self, operator: str, columns: Iterable[str]) -> bool:
        """Return whether all tuples that reach an operator have these columns."""
        return all(
            name in self._streams[source].columns
            for source in self._sources[operator]
            for name in columns
        )

    def keys(self, operator: str, columns: tuple[str, ...]) -> Keyed:
        """Return the keys that tuples on their way out of an operator have in these columns.

        Raises:
            UnknownNameError: a stream that leads there has no such column.
            InvalidKeyError: a column has values that cannot be keys.
        """
        known = self._keyed.get((operator, columns))
        if known is None:
            known = self._keyed[operator, columns] = self._read(operator, columns)
        return known

    def key_types(self, operator: str, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the Arrow types in which an engine with state would keep these keys."""
        import pyarrow as pa  # noqa: PLC0415  # runs without decisions need not load it

        from optimizers.folds.types import normal_key  # noqa: PLC0415

        stream = self._streams[self._sources[operator][0]]
        return tuple(str(normal_key(pa.array(stream.columns[name][:1]).type)) for name in columns)

    def _read(self, operator: str, columns: tuple[str, ...]) -> Keyed:
        places = np.full(len(self), -1)
        parts: list[KeyColumn] = []
        start = 0
        for source in self._sources[operator]:
            stream, span = self._streams[source], self._spans[source]
            for name in columns:
                if name not in stream.columns:
                    raise UnknownNameError(
                        f"source {source!r} feeds operator {operator!r}, whose tuples are spread "
                        f"by {name!r}: "
                        f"{UnknownNameError.among('column', name, stream.columns)}"
                    )
            try:
                parts.append(
                    _key_column([stream.columns[name] for name in columns], self._hash_seed)
                )
            except InvalidKeyError as error:
                where = ", ".join(map(repr, columns))
                raise InvalidKeyError(f"source {source!r}, key column {where}: {error}") from error
            places[span] = np.arange(start, start + len(stream))
            start += len(stream)
        if len({(type(part), part.kind) for part in parts}) > 1:
            kinds = " and ".join(sorted({part.kind for part in parts}))
            raise InvalidKeyError(
                f"operator {operator!r} gets keys {', '.join(columns)} of kinds {kinds} from "
                f"sources {list(self._sources[operator])}; make them of one kind"
            )
        return Keyed(parts[0] if len(parts) == 1 else parts[0].joined(*parts[1:]), places)

    def _seconds_at(self, name: str) -> Floats:
        work = self._work[name]
        seconds = np.zeros(len(self))
        for source in self._sources[name]:
            where = f"operator {name!r}"
            seconds[self._spans[source]] = work.seconds_of(self._streams[source], where)
        if work.noise:
            chance = np.random.default_rng([self._seed, self._numbers[name]])
            normal = chance.standard_normal(len(self))
            seconds *= np.exp(work.noise * normal - work.noise**2 / 2)
        return seconds

    def _emitted_at(self, name: str) -> Rows | None:
        work = self._work[name]
        if work.emits == 1:
            return None
        emitted = np.zeros(len(self), dtype=np.int64)
        for source in self._sources[name]:
            where = f"operator {name!r}"
            emitted[self._spans[source]] = work.emitted_of(self._streams[source], where)
        return emitted


def into(job: Topology, name: str) -> list[Edge]:
    """Return the edges into an operator in the order in which tuples of one time are taken.

    Those of operators further up come first, as they do where nothing takes time.
    """
    return sorted(job.inputs(name), key=lambda edge: job.order.index(edge.source))


def _key_column(columns: Sequence[Any], seed: int) -> KeyColumn:
    """Read keys as all of Penstock does: one column, a pair, or the codes of more."""
    if len(columns) == 1:
        return as_keys(columns[0], seed=seed)
    if len(columns) == 2:
        return as_keys(Pairs(*columns), seed=seed)
    codes = as_keys(columns[0], seed=seed).codes
    for column in columns[1:]:
        codes = pair_codes(codes, as_keys(column, seed=seed).codes, seed)
    return IntegerKeys(codes, seed)


def _sources(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return for each operator the sources whose tuples can reach it."""
    found: dict[str, set[str]] = {}
    for name in topology.order:
        edges = topology.inputs(name)
        found[name] = {name} if not edges else set().union(*(found[e.source] for e in edges))
    return {name: tuple(s for s in topology.sources if s in found[name]) for name in found}


def _check_names(
    topology: Topology, streams: Mapping[str, Stream], work: Mapping[str, Work]
) -> None:
    for name in streams:
        if name not in topology.sources:
            raise UnknownNameError.among("source", name, topology.sources)
        if not isinstance(streams[name], Stream):
            raise InvalidValueError(f"streams[{name!r}]={streams[name]!r} is not a Stream")
    missing = [name for name in topology.sources if name not in streams]
    if missing:
        raise TopologyError(f"source {missing[0]!r} has no stream; give it a Stream")
    for name in work:
        topology.operator(name)
        if not isinstance(work[name], Work):
            raise InvalidValueError(f"work[{name!r}]={work[name]!r} is not a Work; write Work(...)")
