"""Summaries of one operator and of one edge over some batches, on any engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from optimizers.control.summary import BatchSummary, InstanceSummary, Messages, Spread
from optimizers.documents import Record
from optimizers.errors import InvalidValueError
from optimizers.operators import EdgeName
from optimizers.topology import Topology

T = TypeVar("T")

_SPREAD_BY = ("key", "cost", "")


@dataclass(frozen=True)
class OperatorSummary:
    """What one operator did.

    Attributes:
        operator: its name.
        tuples: how many tuples each instance received.
        busy: for how many CPU seconds each was busy, see `InstanceSummary.busy`.
        latency: how long tuples were at their instance; None where the engine does not know.
        spread_by: how its tuples are spread: by "key", each to the owner of its key; by "cost", if
            it has no key, but its edges name columns to schedule by; else "".
        emitted: how many tuples it emitted.
        shipping: seconds of its instances for routing and packing these, included in `busy`.
        wall: wall-clock seconds of its instances at their own work, see `OperatorStatistics.wall`;
            None where the engine does not know.
        nodes: where each instance was planned to be, at the end.
        hosts: where each really ran last; empty where that is not known.
        remote_in: how many bytes each got from other hosts; empty likewise.
        remote_out: how many bytes each sent to other nodes; empty likewise.
        state_bytes: how much state each held when it last looked; empty likewise.
        receiving: CPU seconds of its instances for taking in what arrived, state and observing,
            included in `busy`; None where the engine does not know.
    """

    operator: str
    tuples: tuple[int, ...]
    busy: tuple[float, ...]
    latency: Spread | None = None
    spread_by: str = ""
    emitted: int = 0
    shipping: float = 0.0
    wall: float | None = None
    nodes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    remote_in: tuple[float, ...] = ()
    remote_out: tuple[float, ...] = ()
    state_bytes: tuple[float, ...] = ()
    receiving: float | None = None

    def __post_init__(self) -> None:
        if self.spread_by not in _SPREAD_BY:
            known = ", ".join(map(repr, _SPREAD_BY))
            raise InvalidValueError(f"spread_by={self.spread_by!r} is none of {known}")

    @property
    def loads(self) -> tuple[float, ...]:
        """The work of each instance: in tuples where they go by their key, else in seconds.

        If none worked for any time, as in some simulations, it is in tuples, too.
        """
        by_time = self.spread_by != "key" and any(self.busy)
        return self.busy if by_time else tuple(map(float, self.tuples))

    @property
    def imbalance(self) -> float:
        """The work of the busiest instance, in averages; 1 if there was none."""
        loads = self.loads
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0

    @classmethod
    def from_record(cls, record: Record) -> "OperatorSummary":
        """Build it from the record of a document."""
        return cls(
            record.take("operator", str),
            record.integers("tuples"),
            record.floats("busy"),
            spread_of(record),
            record.take("spread_by", str, ""),
            record.take("emitted", int, 0),
            record.take("shipping", float, 0.0),
            record.optional("wall", float),
            record.strings("nodes"),
            record.strings("hosts"),
            record.floats("remote_in"),
            record.floats("remote_out"),
            record.floats("state_bytes"),
            record.optional("receiving", float),
        )


@dataclass(frozen=True)
class EdgeSummary:
    """What one edge carried.

    Attributes:
        source: where it begins.
        target: where it ends.
        tuples: how many tuples.
        bytes: their size together.
        local: how many of them stayed on their node.
        messages: messages from instances back to their senders; None where the engine has none.
        local_bytes: the size of those that stayed; None where the engine does not know.
        hop: whether its tuples go from one key to another: not from a source, and to an operator
            with a key.
        parcels: how many parcels they came in; None where nothing is packed.
    """

    source: str
    target: str
    tuples: float
    bytes: float
    local: float
    messages: Messages | None = None
    local_bytes: float | None = None
    hop: bool = False
    parcels: float | None = None

    @property
    def locality(self) -> float:
        """The share of tuples that stayed on their node; 1 if there were none."""
        return self.local / self.tuples if self.tuples else 1.0

    @property
    def remote_bytes(self) -> float | None:
        """How many bytes went to another node; None where that is not known."""
        return None if self.local_bytes is None else self.bytes - self.local_bytes

    @classmethod
    def from_record(cls, record: Record) -> "EdgeSummary":
        """Build it from the record of a document."""
        messages = tuple(map(int, record.floats("messages")))
        return cls(
            record.take("source", str),
            record.take("target", str),
            record.take("tuples", float),
            record.take("bytes", float),
            record.take("local", float),
            Messages(*messages) if messages else None,
            record.optional("local_bytes", float),
            record.take("hop", bool, default=False),
            record.optional("parcels", float),
        )


def operator_summary(job: Topology, name: str, batches: Sequence[BatchSummary]) -> OperatorSummary:
    """Sum up what an operator did in some batches."""
    mine = [one for batch in batches for one in batch.instances if one.operator == name]
    count = 1 + max((one.number for one in mine), default=-1)
    tuples, busy = [0] * count, [0.0] * count
    for one in mine:
        tuples[one.number] += one.tuples
        busy[one.number] += one.busy
    walls, others = (
        [each for each in column if each is not None]
        for column in ([one.wall for one in mine], [one.receiving for one in mine])
    )
    return OperatorSummary(
        name,
        tuple(tuples),
        tuple(busy),
        spread_by=_spread_by(job, name),
        emitted=sum(one.emitted for one in mine),
        shipping=sum(one.shipping for one in mine),
        wall=sum(walls) if walls and len(walls) == len(mine) else None,
        nodes=_last(mine, count, lambda one: one.node),
        hosts=_last(mine, count, lambda one: one.host),
        remote_in=_added(mine, count, lambda one: one.remote_in),
        remote_out=_added(mine, count, lambda one: one.remote_out),
        state_bytes=_last(mine, count, lambda one: one.state_bytes),
        receiving=sum(others) if others and len(others) == len(mine) else None,
    )


def _last(
    parts: Sequence[InstanceSummary], count: int, fact: Callable[[InstanceSummary], T | None]
) -> tuple[T, ...]:
    """Return the last value of a fact for each instance; empty if one never had a value."""
    found = {part.number: told for part in parts if (told := fact(part)) is not None}
    return tuple(found[number] for number in range(count)) if len(found) == count else ()


def _added(
    parts: Sequence[InstanceSummary], count: int, fact: Callable[[InstanceSummary], float | None]
) -> tuple[float, ...]:
    """Return the sum of a fact for each instance; empty if a value is missing."""
    found = [0.0] * count
    for part in parts:
        told = fact(part)
        if told is None:
            return ()
        found[part.number] += told
    return tuple(found)


def _spread_by(job: Topology, name: str) -> str:
    if job.operator(name).keyed:
        return "key"
    return "cost" if any(edge.key for edge in job.inputs(name)) else ""


def edge_summary(job: Topology, name: EdgeName, batches: Sequence[BatchSummary]) -> EdgeSummary:
    """Sum up what an edge carried in some batches."""
    flows = [batch.edges[name] for batch in batches if name in batch.edges]
    known_messages = [batch.messages[name] for batch in batches if batch.messages is not None]
    messages = Messages(*np.sum(known_messages, axis=0).tolist()) if known_messages else None
    known = [flow.local_bytes for flow in flows if flow.local_bytes is not None]
    packed = [flow.parcels for flow in flows if flow.parcels is not None]
    source, target = name
    return EdgeSummary(
        source,
        target,
        sum((flow.tuples for flow in flows), 0.0),
        sum((flow.bytes for flow in flows), 0.0),
        sum((flow.local for flow in flows), 0.0),
        messages,
        sum(known, 0.0) if len(known) == len(flows) else None,
        hop=job.operator(target).keyed and source not in job.sources,
        parcels=sum(packed, 0.0) if packed and len(packed) == len(flows) else None,
    )


def spread_of(record: Record) -> Spread | None:
    """Take the field ``latency``, which may be absent or null."""
    times = record.floats("latency")
    return Spread(*times) if times else None
