"""Comparisons in the simulation: batches become streams, which are simulated at the end."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizers.cluster import Cluster
from optimizers.control.decision import Decision
from optimizers.control.engine import Recording
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.settings import ALL
from optimizers.control.summary import BatchSummary
from optimizers.errors import InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.simulation.stream import Stream
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.simulation.engine import SimulationEngine
    from optimizers.simulation.result import Simulated

Streams = Mapping[str, Stream]


class SimulationHarness:
    """Runs the variants of a comparison in the simulation; see `optimizers.control.engine.Harness`.

    Args:
        engine: simulates the jobs.
        topology: the job.
    """

    computes = False
    keeps_output = False
    imagined = False
    hosts: tuple[str, ...] = ()
    wanted = "a Stream, or an Arrow table"

    def __init__(self, engine: "SimulationEngine", topology: Topology) -> None:
        widest = max(operator.parallelism for operator in topology.operators)
        self._engine = engine
        self._topology = topology
        self.cluster = engine.cluster or Cluster.uniform(widest)
        self.nodes = len(self.cluster.nodes)
        self.where = f"a simulation with {engine.network!r}"
        self._first = -np.inf  # when the last batch that was recorded began
        self._last = 0.0  # when its last tuple came

    def takes(self, rows: Any) -> bool:
        """Return whether these are the rows of one source."""
        return isinstance(rows, Stream) or _is_table(rows)

    def record(self, rows: Mapping[str, Any]) -> Recording:
        """Record a batch, given the rows of each source: those of tables come at an even rate.

        Raises:
            InvalidValueError: there is no rate for the rows of a table, or a batch begins before
                the earlier one has ended.
        """
        streams = {name: self._streamed(name, given) for name, given in rows.items()}
        first = min(float(stream.times[0]) for stream in streams.values())
        if first <= self._first or first < self._last:
            raise InvalidValueError(
                f"a batch begins at {first} s, and the one before it lasts from {self._first} to "
                f"{self._last} s; let batches come one after the other"
            )
        self._first = first
        self._last = max(float(stream.times[-1]) for stream in streams.values())
        return Recording(streams, streams)

    def _streamed(self, name: str, given: Any) -> Stream:
        if isinstance(given, Stream):
            return given
        rate = self._engine.rate
        if rate is None:
            raise InvalidValueError(
                f"the rows of source {name!r} are a table, which does not say when they come; say "
                "SimulationEngine(rate=...) tuples a second, or give a Stream"
            )
        if not len(given):
            raise InvalidValueError(
                f"source {name!r} has a batch without rows, and the simulation cannot tell when "
                "it comes; leave such batches out"
            )
        start = 0.0 if self._first == -np.inf else self._last + 1 / rate
        columns = {name: _as_values(given.column(name)) for name in given.column_names}
        return Stream.steady(columns, rate=rate, bytes=given.nbytes / len(given), start=start)

    def begin(self, name: str, optimizer: Optimizer | None) -> "SimulationTrial":
        """Begin a variant."""
        del name  # nothing is kept by it
        return SimulationTrial(self._engine, self._topology, self.cluster, optimizer)


class SimulationTrial:
    """One variant, which is simulated once all its batches are known.

    Args:
        engine: simulates the jobs.
        topology: the job.
        cluster: the machines.
        optimizer: decides what changes.
    """

    def __init__(
        self,
        engine: "SimulationEngine",
        topology: Topology,
        cluster: Cluster,
        optimizer: Optimizer | None,
    ) -> None:
        self._engine = engine
        self._topology = topology
        self._cluster = cluster
        self._optimizer = optimizer
        self._batches: list[Streams] = []
        self._run: Simulated | None = None

    @property
    def next_batch(self) -> int:
        """The batch that has to be executed next."""
        return len(self._batches)

    @property
    def decisions(self) -> Sequence[Decision]:
        """The optimizer's decisions."""
        return () if self._run is None else self._run.decisions

    @property
    def cuts(self) -> bool:
        """Whether the next batch is run in pieces: that is known only when it is simulated."""
        return False

    def execute(self, batch: Recording) -> Sequence[Streams]:
        """Take in the next batch."""
        self._batches.append(batch.given)
        return [batch.given]

    @property
    def epochs(self) -> Sequence[EpochFacts]:
        """The facts of the last epochs that are over; none before it is simulated."""
        return () if self._run is None else self._run.epochs

    def executed(self) -> Sequence[Sequence[BatchSummary]]:
        """Simulate all batches that were given, and return what happened in the pieces of each."""
        begins = [min(float(s.times[0]) for s in streams.values()) for streams in self._batches]
        whole = {name: _joined([one[name] for one in self._batches]) for name in self._batches[0]}
        engine = replace(self._engine, remember=ALL)  # which batch is which goes by their number
        run = self._run = engine.simulate(self._topology, whole, self._optimizer, ends=begins[1:])
        return _grouped(self._topology, run.batches, list(map(_tuples, self._batches)))

    def outputs(self) -> Mapping[str, Any]:
        """Return nothing, as results are not computed."""
        return {}

    def state(self, operator: str) -> Any:
        """Refuse, as results are not computed."""
        raise InvalidValueError(f"the simulation computes no state of operator {operator!r}")


def _tuples(streams: Streams) -> int:
    return sum(len(stream) for stream in streams.values())


def _grouped(
    topology: Topology, pieces: Sequence[BatchSummary], sizes: Sequence[int]
) -> list[list[BatchSummary]]:
    """Return pieces by the batch that they are of, given how many tuples each batch has."""
    left, found = deque(pieces), list[list[BatchSummary]]()
    for size in sizes:
        taken, mine = 0, list[BatchSummary]()
        while left and (taken < size or not mine):
            mine.append(left.popleft())
            taken += sum(sum(mine[-1].loads(source)) for source in topology.sources)
        found.append(mine)
    return found


def _joined(streams: Sequence[Stream]) -> Stream:
    """Return streams of one source, one after the other."""
    names = list(streams[0].columns)
    for stream in streams:
        if list(stream.columns) != names:
            raise InvalidValueError(
                f"a batch has columns {list(stream.columns)}, and the first has {names}; let all "
                "batches of a source have the same"
            )
    return Stream(
        np.concatenate([stream.times for stream in streams]),
        {name: _concatenated([stream.columns[name] for stream in streams]) for name in names},
        np.concatenate([np.broadcast_to(stream.bytes, len(stream)) for stream in streams]),
    )


def _concatenated(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


def _is_table(rows: Any) -> bool:
    """Return whether it is an Arrow table, without loading Arrow."""
    return hasattr(rows, "column_names") and hasattr(rows, "nbytes")


def _as_values(column: Any) -> Any:
    """Return a column of Arrow as numbers, or as a list."""
    kind = str(column.type)
    if kind.startswith(("int", "uint", "float", "double")) and not column.null_count:
        return column.to_numpy()
    return column.to_pylist()
