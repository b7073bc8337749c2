"""Reports: what tasks did in a batch, as columns of facts that are joined and sent as they are.

A task makes a `TaskReport`. It travels as `Reports`, which is what one or many tasks say: each fact
is a column with one element for each task. See `TaskReport` for how to add a fact.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import DeliveryError
from optimizers.runtime.observe.observation import Observation, Seen, Sighting
from optimizers.runtime.observe.table_sums import joined
from optimizers.runtime.state.cache import Dropped
from optimizers.runtime.state.file import StateFile
from optimizers.runtime.state.schema import Columns
from optimizers.runtime.task.fact_columns import (
    Document,
    Ragged,
    Real,
    Reals,
    Whole,
    Wholes,
    Word,
    kinds_of,
    no_reals,
    no_wholes,
)
from optimizers.runtime.task.flows import NO_FLOWS, Flows, added_up
from optimizers.runtime.task.narrow import narrowed
from optimizers.runtime.task.output_file import OutputFile, from_json_types, to_json_types
from optimizers.runtime.task.parcels import REPORT, Parcel
from sketches.arrays import Indices
from sketches.values import FrozenMap

SENDER = "sender"
"""The column that tells of which task a row is, in tables that are not added up over tasks."""

_OF_ONE_TASK = (Seen.COSTS, Seen.TRIAL)
_LENGTH = struct.Struct("<Q")


class BadCount(NamedTuple):
    """How many rows an operator could not take in, and one of them with the reason."""

    rows: int
    example: str


def _parse_bad(value: Any) -> dict[str, BadCount]:
    return {name: BadCount(*count) for name, count in value.items()}


def _parse_dropped(value: Any) -> tuple[Dropped, ...]:
    return tuple((operator, number, path) for operator, number, path in value)


def _parse_columns(value: Any) -> Columns:
    return tuple(map(tuple, value))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskReport:
    """What one instance did in one batch.

    To add a fact, add a line here, and one in `Worker._report`, which fills it in:

    - ``waited: Real = 0.0`` is a number, ``Whole`` a whole one;
    - ``host: Word = ""`` is a text;
    - ``group_seconds: Reals = field(default_factory=no_reals)`` is a vector, ``Wholes`` one of
      whole numbers. What is reported of key groups goes with `groups`: element ``i`` is of group
      ``groups[i]``, and only groups that an instance has something of are there.

    It then travels, and `Reports.numbers`, `Reports.texts` and `Reports.vectors` have it of all
    tasks: ``reports.numbers("waited")``. Vectors of tasks one after the other are
    ``reports.vectors("group_seconds").values``, and ``.rows`` says of which task each element is.
    What is none of these is a `Document`, which costs more.

    Attributes:
        operator: the operator.
        instance: which of its instances.
        sender: by which number its parcels are known: the instance, or the partition of a source.
        tuples: how many tuples it received.
        emitted: how many it emitted.
        seconds: CPU seconds of the operator's own work.
        shipping: CPU seconds for routing and packing what it emitted.
        receiving: CPU seconds of the task that are in neither: for taking in what arrived, state,
            observing, and whatever else it takes to run it.
        reading_in: how many of those it took to get from the engine what arrived.
        call_seconds: CPU seconds of what `call_sums` tells of.
        wall: seconds of the operator's own work by the clock on the wall.
        keeping: seconds by that clock to read state, take keys over, and write what changed.
        reading: seconds that it waited for rows of its source.
        clock: of which machine the clock is that tells when it began and ended.
        began: when it began, in seconds of that clock.
        ended: when it had sent all but this report.
        stage: the engine's own number of its stage; -1 if it has none.
        state: the file of state that it wrote; None if its state is as it was.
        columns: the columns of its state with their types, if it has written any.
        taken_over: how many keys it received from other instances.
        loaded: how many bytes of state those have.
        loading: seconds by the clock on the wall to read it.
        hot_keys: the codes of its most frequent keys.
        hot_tuples: how many tuples each of them had.
        host: the machine that it ran on; empty where nodes are imaginary.
        bytes_out: how large the tuples were that it sent to other operators.
        remote_out: how large those were that it sent to other nodes, as they are planned.
        state_size: how many bytes of state it holds, and how many of them stay in memory, or
            `cache.UNKNOWN`; empty if it did not look.
        dropped: the states of any instances that went from memory to make room.
        calls: by how many calls of its function or fold, where these are told.
        call_sums: what the calls took, see `optimizers.runtime.observe.call_sums`.
        groups: the key groups of which it had tuples, if that is observed.
        group_tuples: how many tuples each of them had.
        group_keys: how many keys those were of.
        group_seconds: CPU seconds that were measured key by key; empty where they were not.
        group_in: how large the tuples were.
        group_remote_in: how large those were that came from other machines.
        group_out: how large the tuples were that were sent of them; empty where not known.
        group_remote_out: how large those were that were sent to other nodes.
        held_groups: the key groups of which it holds state, if that is observed.
        held_bytes: how many bytes of each.
        output: what it wrote for the outside.
        bad: the rows that were left out or handed aside, by the operator that could not take them:
            the task's own, or one that it sends to.
        received: what arrived.
        sent: what was sent.
        observed: tables of what was observed.
    """

    operator: Word
    instance: Whole
    sender: Whole
    tuples: Whole = 0
    emitted: Whole = 0
    seconds: Real = 0.0
    shipping: Real = 0.0
    receiving: Real = 0.0
    reading_in: Real = 0.0
    call_seconds: Real = 0.0
    wall: Real = 0.0
    keeping: Real = 0.0
    reading: Real = 0.0
    clock: Word = ""
    began: Real = 0.0
    ended: Real = 0.0
    stage: Whole = -1
    state: Annotated[StateFile | None, Document(StateFile.to_dict, StateFile.from_value)] = None
    columns: Annotated[Columns | None, Document(list, _parse_columns)] = None
    taken_over: Whole = 0
    loaded: Whole = 0
    loading: Real = 0.0
    hot_keys: Wholes = field(default_factory=no_wholes)
    hot_tuples: Wholes = field(default_factory=no_wholes)
    host: Word = ""
    bytes_out: Whole = 0
    remote_out: Whole = 0
    state_size: Wholes = field(default_factory=no_wholes)
    dropped: Annotated[tuple[Dropped, ...], Document(list, _parse_dropped, tuple)] = ()
    calls: Whole = 0
    call_sums: Reals = field(default_factory=no_reals)
    groups: Wholes = field(default_factory=no_wholes)
    group_tuples: Wholes = field(default_factory=no_wholes)
    group_keys: Wholes = field(default_factory=no_wholes)
    group_seconds: Reals = field(default_factory=no_reals)
    group_in: Reals = field(default_factory=no_reals)
    group_remote_in: Reals = field(default_factory=no_reals)
    group_out: Reals = field(default_factory=no_reals)
    group_remote_out: Reals = field(default_factory=no_reals)
    held_groups: Wholes = field(default_factory=no_wholes)
    held_bytes: Reals = field(default_factory=no_reals)
    output: Annotated[tuple[OutputFile, ...], Document(to_json_types, from_json_types, tuple)] = ()
    bad: Annotated[Mapping[str, BadCount], Document(dict, _parse_bad, dict)] = field(
        default_factory=dict
    )
    received: Flows = field(default_factory=lambda: NO_FLOWS)
    sent: Flows = field(default_factory=lambda: NO_FLOWS)
    observed: Sequence[Sighting] = ()

    def to_parcel(self, task: int) -> Parcel:
        """Pack the report, to be passed on to the end by the tasks of later stages."""
        return Reports.of([self]).to_parcel(task)


FACTS = kinds_of(TaskReport)
"""The kind of each fact, in the order in which they travel."""


@dataclass(frozen=True, eq=False)
class Reports:
    """What some tasks of a batch report; element ``i`` of each column is of task ``i``.

    Attributes:
        columns: the column of each fact; see `numbers`, `texts`, `vectors` and `documents`.
        received: what arrived at these tasks, added up by edge and instance.
        sent: what they sent, added up by edge and instance.
        observed: tables of what they observed; more than one of a kind only where their columns
            do not go together.
    """

    columns: Mapping[str, Any]
    received: Flows
    sent: Flows
    observed: Mapping[Observation, tuple[pa.Table, ...]]

    @classmethod
    def of(cls, reports: Sequence[TaskReport]) -> "Reports":
        """Return what these tasks report, in the order that they are given in."""
        return cls(
            {
                name: kind.column([getattr(r, name) for r in reports])
                for name, kind in FACTS.items()
            },
            added_up(report.received for report in reports),
            added_up(report.sent for report in reports),
            _gathered(
                (seen, _of_sender(table, report.sender) if seen.kind in _OF_ONE_TASK else table)
                for report in reports
                for seen, table in report.observed
            ),
        )

    @classmethod
    def merged(cls, parts: Iterable["Reports"]) -> "Reports":
        """Return what all of these say, in one order, whatever the order that they arrived in."""
        given = sorted((part for part in parts if len(part)), key=lambda part: part.names[0])
        if not given:
            return cls.of([])
        columns = {
            name: kind.joined([part.columns[name] for part in given])
            for name, kind in FACTS.items()
        }
        together = cls(
            columns,
            added_up(part.received for part in given),
            added_up(part.sent for part in given),
            _gathered(
                (seen, table)
                for part in given
                for seen, tables in part.observed.items()
                for table in tables
            ),
        )
        return together.in_order()

    def in_order(self) -> "Reports":
        """Return the same with its tasks by operator and sender."""
        names = self.names
        order = sorted(range(len(names)), key=names.__getitem__)
        if order == list(range(len(names))):
            return self
        rows = np.array(order)
        columns = {name: FACTS[name].taken(column, rows) for name, column in self.columns.items()}
        return Reports(columns, self.received, self.sent, self.observed)

    def mapped(self, change: Callable[[Observation, pa.Table], pa.Table]) -> "Reports":
        """Return the same with other tables in place of those that were observed."""
        observed = {
            seen: tuple(change(seen, table) for table in tables)
            for seen, tables in self.observed.items()
        }
        return replace(self, observed=FrozenMap(observed))

    def __len__(self) -> int:
        """How many tasks report."""
        return len(self.columns["sender"])

    @property
    def names(self) -> list[tuple[str, int]]:
        """The operator and the sender of each task."""
        return list(zip(self.operators, self.numbers("sender").tolist(), strict=True))

    @cached_property
    def operators(self) -> list[str]:
        """The operator of each task."""
        return self.texts("operator")

    @cached_property
    def hosts(self) -> list[str]:
        """The host of each task; empty where nodes are imaginary."""
        return self.texts("host")

    @cached_property
    def tasks(self) -> dict[str, Indices]:
        """The tasks of each operator."""
        found: dict[str, list[int]] = {}
        for task, name in enumerate(self.operators):
            found.setdefault(name, []).append(task)
        return {name: np.array(tasks) for name, tasks in found.items()}

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a fact that is a number."""
        column: NDArray[Any] = self.columns[name]
        return column

    def texts(self, name: str) -> list[str]:
        """Return a fact that is a text."""
        return FACTS[name].values(self.columns[name])

    def vectors(self, name: str) -> Ragged:
        """Return a fact that is a vector."""
        column: Ragged = self.columns[name]
        return column

    def documents(self, name: str) -> Iterator[tuple[int, Any]]:
        """Return a fact that is neither: of tasks that have it, their number and what it is."""
        rows = np.flatnonzero(self.columns[name].lengths)
        kind = FACTS[name]
        return zip(rows.tolist(), kind.values(kind.taken(self.columns[name], rows)), strict=True)

    def to_parcel(self, task: int) -> Parcel:
        """Pack the reports, to be passed on to the end by the tasks of later stages."""
        tables = [(seen, table) for seen, tables in self.observed.items() for table in tables]
        head = json.dumps([[seen.kind, *seen.about] for seen, _ in tables]).encode()
        buffers: list[Any] = [head, self.received, self.sent]
        for name, kind in FACTS.items():
            buffers += kind.buffers(self.columns[name])
        buffers += [_written(table) for _, table in tables]
        sender = int(self.columns["sender"][0])
        return Parcel(task, REPORT, 0, sender, 0, 0, _packed(buffers))

    @classmethod
    def from_parcel(cls, parcel: Parcel) -> "Reports":
        """Read what `to_parcel` packed.

        Raises:
            DeliveryError: it has arrived damaged.
        """
        buffers = iter(_unpacked(parcel))
        head = json.loads(bytes(next(buffers)))
        received, sent = (np.frombuffer(next(buffers), dtype=NO_FLOWS.dtype) for _ in range(2))
        columns = {name: kind.read(buffers) for name, kind in FACTS.items()}
        tables = [(Observation.of(*seen), _read(next(buffers))) for seen in head]
        return cls(columns, received, sent, _gathered(tables))


def by_sender(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Return the rows of each task in a table that has the column `SENDER`, by rising numbers."""
    senders = table.column(SENDER).to_numpy()
    rows = table.drop_columns([SENDER])
    order = np.argsort(senders, kind="stable")
    found, starts = np.unique(senders[order], return_index=True)
    for sender, own in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield sender, rows.take(pa.array(own))


def _of_sender(table: pa.Table, sender: int) -> pa.Table:
    return table.append_column(SENDER, pa.array(np.full(len(table), sender, dtype=np.int64)))


def _gathered(seen: Iterable[Sighting]) -> Mapping[Observation, tuple[pa.Table, ...]]:
    """Return tables by what they are of, as few as can be."""
    first, second = itemgetter(0), itemgetter(1)
    ordered = sorted(seen, key=first)
    return FrozenMap({of: joined(map(second, each)) for of, each in groupby(ordered, key=first)})


def _packed(buffers: Sequence[Any]) -> bytes:
    """Return buffers as bytes: a checksum, and each with its length, filled up to eight bytes."""
    parts: list[Any] = []
    for buffer in buffers:
        size = memoryview(buffer).nbytes
        parts += [_LENGTH.pack(size), buffer, bytes(-size % 8)]
    body = b"".join(parts)
    return _LENGTH.pack(zlib.crc32(body)) + body


def _unpacked(parcel: Parcel) -> Iterator[memoryview]:
    body = memoryview(parcel.body)
    if np.frombuffer(body, dtype=np.uint8).ctypes.data % 8:  # numbers have to be at their places
        body = memoryview(bytes(body))
    size = _LENGTH.size
    if len(body) < size or _LENGTH.unpack_from(body)[0] != zlib.crc32(body[size:]):
        raise DeliveryError(
            f"the report of sender {parcel.sender} arrived damaged; run the batch again, and look "
            "at the network if this comes back"
        )
    start = size
    while start < len(body):
        (length,) = _LENGTH.unpack_from(body, start)
        start += size
        yield body[start : start + length]
        start += length + -length % 8


def _written(table: pa.Table) -> Any:
    table = narrowed(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _read(data: memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
