"""Reports: what a task did, and whether all that was sent has arrived."""

import json
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from optimizers.errors import DeliveryError
from optimizers.layout import Layout
from optimizers.runtime.observe.observation import Observation
from optimizers.runtime.state.file import StateFile
from optimizers.runtime.state.schema import Columns
from optimizers.runtime.task.narrow import narrowed, widened
from optimizers.runtime.task.output_file import OutputFile, from_json_types, to_json_types
from optimizers.runtime.task.parcels import REPORT, Parcel

_LENGTH = struct.Struct("<I")
_MODULUS = 1 << 62


@dataclass(slots=True)
class Flow:
    """Parcels that were sent or received, added up; equal flows were of the same parcels."""

    parcels: int = 0
    rows: int = 0
    bytes: int = 0
    digest: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All of it as numbers."""
        return self.parcels, self.rows, self.bytes, self.digest

    def add(self, parcel: Parcel) -> None:
        """Count one parcel more."""
        self.join(Flow(1, parcel.rows, parcel.size, parcel.digest))

    def join(self, other: "Flow") -> None:
        """Count what another flow has counted as well."""
        self.parcels += other.parcels
        self.rows += other.rows
        self.bytes += other.bytes
        self.digest = (self.digest + other.digest) % _MODULUS


class BadCount(NamedTuple):
    """How many rows an operator could not take in, and one of them with the reason."""

    rows: int
    example: str


@dataclass(slots=True, kw_only=True)
class TaskReport:
    """What one instance did in one batch.

    Attributes:
        operator: the operator.
        instance: which of its instances.
        sender: by which number its parcels are known: the instance, or the partition of a source.
        tuples: how many tuples it received.
        emitted: how many it emitted.
        seconds: CPU seconds of the operator's own work.
        shipping: CPU seconds for routing and packing what it emitted.
        received: what arrived, by edge.
        sent: what was sent, by edge and target.
        state: the files of its state afterwards; None if they are as they were.
        state_rows: how many keys it holds.
        columns: the columns of its state with their types, if it has written any.
        taken_over: how many keys it received from other instances.
        hottest: how many tuples its most frequent key had.
        output: what it wrote for the outside.
        bad: the rows that were left out or handed aside, by the operator that could not take them:
            the task's own, or one that it sends to.
        observed: tables of what was observed.
    """

    operator: str
    instance: int
    sender: int
    tuples: int = 0
    emitted: int = 0
    seconds: float = 0.0
    shipping: float = 0.0
    received: dict[int, Flow] = field(default_factory=lambda: defaultdict(Flow))
    sent: dict[tuple[int, int], Flow] = field(default_factory=lambda: defaultdict(Flow))
    state: tuple[StateFile, ...] | None = None
    state_rows: int = 0
    columns: Columns | None = None
    taken_over: int = 0
    hottest: int = 0
    output: tuple[OutputFile, ...] = ()
    bad: dict[str, BadCount] = field(default_factory=dict)
    observed: dict[Observation, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    @property
    def shipped(self) -> int:
        """How many tuples it sent so far."""
        return sum(flow.rows for flow in self.sent.values())

    def observe(self, seen: Observation, table: pa.Table) -> None:
        """Add to what was observed."""
        self.observed[seen].append(table)

    def to_parcel(self, task: int, number: int) -> Parcel:
        """Pack the report, to be passed on to the end by the tasks of later stages."""
        facts = {name: getattr(self, name) for name in self.__slots__ if name not in _NOT_PLAIN}
        facts["received"] = [[edge, *flow.counts] for edge, flow in self.received.items()]
        facts["sent"] = [[*ends, *flow.counts] for ends, flow in self.sent.items()]
        facts["state"] = None if self.state is None else [file.to_dict() for file in self.state]
        facts["output"] = to_json_types(self.output)
        facts["observed"] = [[seen.kind, *seen.about] for seen in self.observed]
        body = json.dumps(facts).encode()
        # Streams that meet may have keys of one kind in columns of different types.
        tables = [
            _written(pa.concat_tables(seen, promote_options="permissive"))
            for seen in self.observed.values()
        ]
        parts = [part for table in tables for part in (_LENGTH.pack(len(table)), table)]
        packed = b"".join([_LENGTH.pack(len(body)), body, *parts])
        return Parcel(task, REPORT, 0, self.sender, number, 0, packed)

    @classmethod
    def from_parcel(cls, parcel: Parcel) -> "TaskReport":
        """Read what `to_parcel` packed."""
        first, *others = _parts(bytes(memoryview(parcel.body)))
        facts: dict[str, Any] = json.loads(first)
        facts["received"] = {edge: Flow(*counts) for edge, *counts in facts["received"]}
        facts["sent"] = {(edge, target): Flow(*counts) for edge, target, *counts in facts["sent"]}
        if facts["state"] is not None:
            facts["state"] = tuple(StateFile.from_value(file) for file in facts["state"])
        if facts["columns"] is not None:
            facts["columns"] = tuple(map(tuple, facts["columns"]))
        facts["output"] = from_json_types(facts["output"])
        facts["bad"] = {name: BadCount(*count) for name, count in facts["bad"].items()}
        tables = ([_read(data)] for data in others)
        seen = (Observation.of(*parts) for parts in facts["observed"])
        facts["observed"] = dict(zip(seen, tables, strict=True))
        return cls(**facts)


_NOT_PLAIN = ("received", "sent", "state", "output", "observed")


def check_delivery(reports: Sequence[TaskReport], layout: Layout) -> None:
    """Refuse a batch in which not every parcel that was sent was received, once and whole.

    Nor one that not every instance reports of, once: what an instance has done that neither sent
    nor received anything, such as to take keys over, would be forgotten or be counted twice.

    A lost machine can make Spark run a task again after some of its parcels were read already.
    Where its tuples then come in another order, say from a source that has none, parcels of the
    two runs do not fit together, and tuples would be lost or doubled unseen.

    Raises:
        DeliveryError: what was received is not what was sent.
    """
    _check_complete(reports, layout)
    sent: dict[tuple[int, int], Flow] = defaultdict(Flow)
    received: dict[tuple[int, int], Flow] = defaultdict(Flow)
    for report in reports:
        for ends, flow in report.sent.items():
            sent[ends].join(flow)
        for edge, flow in report.received.items():
            received[edge, report.instance].join(flow)
    for ends in sorted({*sent, *received}):
        if sent[ends] != received[ends]:
            there, here = sent[ends], received[ends]
            raise DeliveryError(
                f"edge {layout.topology.edges[ends[0]]}: of {there.rows} tuples in {there.parcels} "
                f"parcels sent to instance {ends[1]}, {here.rows} in {here.parcels} arrived, or "
                "others than were sent; the batch is not committed and has to run again"
            )


def _check_complete(reports: Sequence[TaskReport], layout: Layout) -> None:
    """Refuse reports of which one is missing or comes twice."""
    senders: dict[str, list[int]] = {name: [] for name in layout.topology.order}
    for report in reports:
        senders[report.operator].append(report.sender)
    for name, found in senders.items():
        found.sort()
        if layout.stage_of[name]:
            wanted = list(range(layout.topology.operator(name).parallelism))
        elif name in layout.attached:
            wanted = senders[layout.topology.inputs(name)[0].source]
        else:
            # How many partitions a source has is not known; they are numbered in one go.
            wanted = list(range(found[0], found[-1] + 1)) if found else []
        if found != wanted:
            raise DeliveryError(
                f"tasks {found} of operator {name!r} reported, and {wanted} had to, each once; "
                "the batch is not committed and has to run again"
            )


def _written(table: pa.Table) -> bytes:
    table = narrowed(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def _read(data: bytes) -> pa.Table:
    return widened(pa.ipc.open_stream(data).read_all())


def _parts(data: bytes) -> list[bytes]:
    parts = []
    start = 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        start += _LENGTH.size
        parts.append(data[start : start + length])
        start += length
    return parts
