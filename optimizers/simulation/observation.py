"""The statistics of some batches of a simulated run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.batch_time import BatchTime
from optimizers.cluster import Cluster
from optimizers.control import collectors
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.operators import Edge, EdgeName
from optimizers.simulation.loads import StretchLoads, state_by_group
from optimizers.simulation.network import Network
from optimizers.simulation.queues.conversation import Conversation
from optimizers.simulation.rows import Sent, Served
from optimizers.simulation.sharing import with_cores
from optimizers.simulation.stages.micro_batches import Counted
from optimizers.simulation.state_moves import KeysMet, Move
from optimizers.simulation.tuples import Keyed, Tuples, into
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
    Probe,
    Statistics,
)
from optimizers.topology import Topology
from sketches.arrays import Floats, Integers
from sketches.cost_sketch import CostSketch
from sketches.key_identity import distinct
from sketches.keys import KeyColumn, Pairs
from sketches.space_saving import SpaceSaving


@dataclass
class EdgeFlow:
    """The traffic of an edge.

    Attributes:
        tuples: how many tuples.
        bytes: their size.
        local: how many of them stayed on their node.
        local_bytes: the size of those.
        messages: how many messages went back to the senders.
        carried: how many travelled with a tuple.
        parcels: how many parcels were begun; 0 where nothing is packed.
    """

    tuples: int = 0
    bytes: float = 0.0
    local: int = 0
    local_bytes: float = 0.0
    messages: int = 0
    carried: int = 0
    parcels: int = 0

    @property
    def statistics(self) -> EdgeStatistics:
        """What the edge carried, without messages."""
        # The same sizes may be added up in another order, and differ by the last bit.
        local_bytes = min(self.local_bytes, self.bytes)
        parcels = self.parcels or None
        return EdgeStatistics(self.tuples, self.bytes, self.local, local_bytes, parcels)

    def count(self, conversation: Conversation) -> None:
        """Count the messages of a conversation since it was counted last."""
        self.messages += conversation.messages
        self.carried += conversation.carried
        conversation.messages = conversation.carried = 0


@dataclass
class Stretch:
    """A stretch of a run: one batch, or all batches of an epoch.

    Attributes:
        number: of the batch, or of the epoch.
        start: when it began.
        layout: the job as it was laid out.
        cluster: the machines that were there.
        served: what each operator executed.
        sent: the tuples that each edge carried.
        flows: how many these were.
        moves: what moved as it began.
        nodes: where each instance of an operator was, those included that a plan has taken away.
        shipping: how many seconds each instance of each operator spent on sending.
        receiving: how many seconds each spent on taking in what was sent to it.
        ended: when all its tuples were done together; None where each has a time of its own.
        worked: how many seconds its batches took together, where there may be pauses between them;
            None where one begins as the other ends.
        times: where the time of its batches went, if stages follow one another.
        counted: the counts that this was computed from.
    """

    number: int
    start: float
    layout: Layout
    cluster: Cluster
    served: dict[str, Served] = field(default_factory=dict)
    sent: dict[EdgeName, Sent] = field(default_factory=dict)
    flows: dict[EdgeName, EdgeFlow] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    shipping: dict[str, Floats] = field(default_factory=dict)
    receiving: dict[str, Floats] = field(default_factory=dict)
    ended: float | None = None
    worked: float | None = None
    times: tuple[BatchTime, ...] = ()
    counted: Counted | None = None


def joined(stretches: Sequence[Stretch], number: int) -> Stretch:
    """Return several batches, one after the other, as the epoch of this number."""
    first, last = stretches[0], stretches[-1]
    times = tuple(time for each in stretches for time in each.times)
    taken = [each.ended - each.start for each in stretches if each.ended is not None]
    worked = sum(taken) if len(taken) == len(stretches) else None
    found = Stretch(number, first.start, last.layout, last.cluster, worked=worked, times=times)
    for name in last.served:
        found.served[name] = Served.none().joined(*(each.served[name] for each in stretches))
        found.shipping[name] = _added([each.shipping[name] for each in stretches])
        found.receiving[name] = _added([each.receiving[name] for each in stretches])
    for edge in last.flows:
        found.sent[edge] = Sent.none().joined(*(each.sent[edge] for each in stretches))
        found.flows[edge] = EdgeFlow(
            **{
                part.name: sum(getattr(each.flows[edge], part.name) for each in stretches)
                for part in fields(EdgeFlow)
            }
        )
    return found


def _added(parts: Sequence[Floats]) -> Floats:
    """Return the sums by instance; some may have come later."""
    found = np.zeros(max(map(len, parts)))
    for part in parts:
        found[: len(part)] += part
    return found


@dataclass(frozen=True)
class Observer:
    """Collects the statistics that an optimizer asks for.

    Attributes:
        tuples: all tuples of the run.
        seen: the keys that each keyed operator has met.
        observes: the probes.
        seed: of the sketches.
        network: the costs of shipping.
        cores: how many cores a node has that does not say so.
    """

    tuples: Tuples
    seen: Mapping[str, KeysMet]
    observes: frozenset[Probe]
    seed: int
    network: Network
    cores: float

    def statistics(
        self, stretch: Stretch, until: float, history: Mapping[EdgeName, KeyPairs]
    ) -> Statistics:
        """Return the statistics of a stretch that ends at a time."""
        seconds = until - stretch.start if stretch.worked is None else stretch.worked
        job = stretch.layout.topology
        loads = StretchLoads(
            stretch.layout,
            with_cores(stretch.cluster, self.cores),
            seconds,
            self.tuples,
            self.seen,
            stretch.served,
            stretch.sent,
            stretch.shipping,
            stretch.receiving,
            self.network,
        )
        keys: dict[str, KeyCounts] = {}
        groups: dict[str, GroupStatistics] = {}
        pairs: dict[EdgeName, KeyPairs] = {}
        held_out: dict[EdgeName, KeyPairs] = {}
        traffic: dict[EdgeName, GroupTraffic] = {}
        if Probe.PAIRS in self.observes:
            keys = {
                name: self._keys(stretch, name) for name in _keyed(job) if self._named(job, name)
            }
            pairs, held_out = self._pairs(stretch)
        if Probe.GROUPS in self.observes:
            groups = {name: loads.groups(name) for name in _keyed(job)}
            traffic = self._traffic(stretch)
        return Statistics(
            epoch=stretch.number,
            seconds=seconds,
            operators={name: self._operator(stretch, name) for name in stretch.served},
            edges={name: flow.statistics for name, flow in stretch.flows.items()},
            pairs=pairs,
            held_out={hop: known for hop, known in held_out.items() if len(known)},
            history={hop: known for hop, known in history.items() if hop in pairs},
            keys=keys,
            costs=self._costs(stretch) if Probe.COSTS in self.observes else {},
            groups=groups,
            traffic=traffic,
            batch_times=stretch.times,
            instances={name: loads.instances(name) for name in stretch.served},
        )

    def _operator(self, stretch: Stretch, name: str) -> OperatorStatistics:
        served = stretch.served[name]
        job = stretch.layout.topology
        hottest = None
        if len(served) and job.inputs(name) and job.operator(name).keyed:
            hottest = max(map(_most_frequent, self._key_columns(stretch, name))) / len(served)
        busy = float((served.ended - served.started).sum())
        counts = self.tuples.emitted(name)
        return OperatorStatistics(
            len(served),
            busy,
            self._state(stretch, name),
            hottest,
            emitted=len(served) if counts is None else float(counts[served.rows].sum()),
            shipping=float(stretch.shipping[name].sum()),
            receiving=float(stretch.receiving[name].sum()),
            wall=float(served.walls.sum()),
        )

    def _state(self, stretch: Stretch, name: str) -> float:
        """Return how much state an operator has."""
        loads = state_by_group(stretch.layout, name, self.tuples, self.seen)
        return 0.0 if loads is None else float(loads.sum())

    def _key_columns(self, stretch: Stretch, name: str) -> list[KeyColumn]:
        """Return the keys of the tuples that an operator executed, by kind."""
        served, job = stretch.served[name], stretch.layout.topology
        found: dict[tuple[type, str], list[KeyColumn]] = {}
        for number, edge in enumerate(into(job, name)):
            rows = served.rows[served.edges == number]
            if len(rows):
                column = self.tuples.keys(edge.source, job.key_columns(*edge.name)).take(rows)
                found.setdefault((type(column), column.kind), []).append(column)
        return [first.joined(*others) for first, *others in found.values()]

    def _named(self, job: Topology, name: str) -> bool:
        """Return whether the keys of an operator are of one column, so that they can be named."""
        return len(job.operator(name).key_columns) == 1

    def _keys(self, stretch: Stretch, name: str) -> KeyCounts:
        served, job = stretch.served[name], stretch.layout.topology
        sketch = collectors.key_sketch()
        for number, edge in enumerate(into(job, name)):
            rows = served.rows[served.edges == number]
            sketch.update(self.tuples.keys(edge.source, job.key_columns(*edge.name)).take(rows))
        return KeyCounts.of(sketch)

    def _pairs(self, stretch: Stretch) -> tuple[dict[EdgeName, KeyPairs], dict[EdgeName, KeyPairs]]:
        """Return the pairs of each hop: of every other tuple, and of those between."""
        sketches: dict[EdgeName, tuple[SpaceSaving, SpaceSaving]] = {}
        for hop, edge in self._named_hops(stretch):
            halves = sketches.setdefault(hop, collectors.pair_sketches())
            for half, sketch in enumerate(halves):
                self._count_pairs(sketch, stretch, hop, edge, stretch.sent[edge.name].rows[half::2])
        first, second = (
            {hop: KeyPairs.of(halves[half]) for hop, halves in sketches.items()} for half in (0, 1)
        )
        return first, second

    def pairs_on(self, stretch: Stretch, hop: EdgeName) -> KeyPairs:
        """Return the pairs of keys of all tuples that went over a hop in a stretch."""
        sketch = collectors.adopted_pair_sketch()
        for known, edge in self._named_hops(stretch):
            if known == hop:
                self._count_pairs(sketch, stretch, hop, edge, stretch.sent[edge.name].rows)
        return KeyPairs.of(sketch)

    def _count_pairs(
        self, sketch: SpaceSaving, stretch: Stretch, hop: EdgeName, edge: Edge, rows: Integers
    ) -> None:
        job = stretch.layout.topology
        columns = job.operator(hop[0]).key_columns, job.key_columns(*edge.name)
        left, right = (self.tuples.keys(edge.source, names).take(rows) for names in columns)
        sketch.update(Pairs(left, right))

    def _named_hops(self, stretch: Stretch) -> list[tuple[EdgeName, Edge]]:
        """Return the hops between keys of one column, for which pairs can be counted."""
        job = stretch.layout.topology
        return [
            (hop, edge)
            for hop, edge in self._hops(stretch)
            if len(job.operator(hop[0]).key_columns) == len(job.key_columns(*edge.name)) == 1
        ]

    def _traffic(self, stretch: Stretch) -> dict[EdgeName, GroupTraffic]:
        job = stretch.layout.topology
        cells: dict[EdgeName, NDArray[np.int64]] = {}
        for hop, edge in self._hops(stretch):
            columns = job.operator(hop[0]).key_columns, job.key_columns(*edge.name)
            sizes = [job.operator(name).key_groups for name in hop]
            rows = stretch.sent[edge.name].rows
            source, target = (
                stretch.layout.owners(name).group_of(self.tuples.keys(edge.source, key).batch(rows))
                for name, key in zip(hop, columns, strict=True)
            )
            source = source.astype(np.int64)
            counts = np.bincount(source * sizes[1] + target, minlength=sizes[0] * sizes[1])
            cells[hop] = cells.get(hop, 0) + counts.reshape(sizes)
        return {hop: collectors.as_traffic(counts) for hop, counts in cells.items()}

    def _hops(self, stretch: Stretch) -> list[tuple[EdgeName, Edge]]:
        """Return the edges that keys are followed along, each with the hop that it ends."""
        job = stretch.layout.topology
        return [
            ((first, second), edge)
            for first, second in job.keyed_hops
            for edge in job.inputs(second)
            if first in collectors.last_keyed(job, edge.source)
            and self.tuples.has(edge.source, job.operator(first).key_columns)
        ]

    def _costs(self, stretch: Stretch) -> dict[str, tuple[CostSketch, ...]]:
        """Return the costs at each instance, for operators that get all tuples by a key."""
        job = stretch.layout.topology
        found = {}
        for name, served in stretch.served.items():
            edges = into(job, name)
            if not edges or not all(job.key_columns(*edge.name) for edge in edges):
                continue
            sketches = [
                collectors.cost_sketch(self.seed) for _ in range(job.operator(name).parallelism)
            ]
            for number, edge in enumerate(edges):
                own = served.take(served.edges == number)
                keys = self.tuples.keys(edge.source, job.key_columns(*edge.name))
                _count_costs(sketches, own, keys)
            found[name] = tuple(sketches)
        return found


def _most_frequent(keys: KeyColumn) -> int:
    """Return how often the most frequent key comes."""
    return int(np.bincount(distinct(keys)[0]).max())


def _keyed(job: Topology) -> list[str]:
    return [each.name for each in job.operators if each.keyed and job.inputs(each.name)]


def _count_costs(sketches: list[CostSketch], served: Served, keys: Keyed) -> None:
    order = np.argsort(served.instances, kind="stable")
    served = served.take(order)
    taken: Floats = served.ended - served.started
    ends = np.cumsum(np.bincount(served.instances, minlength=len(sketches))).tolist()
    for sketch, start, end in zip(sketches, [0, *ends], ends, strict=False):
        if start < end:
            sketch.update(keys.take(served.rows[start:end]), taken[start:end])
