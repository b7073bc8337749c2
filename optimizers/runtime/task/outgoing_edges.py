"""The edges of an outbox, and which of them spread tuples alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from batching.buffers import FlushRules, Pool, PoolBuffers
from grouping.grouping import Grouping
from grouping.key_batch import KeyBatch
from grouping.owners import KeyOwners
from grouping.routers import Router
from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds.key_codes import take_rows
from optimizers.layout import Instance
from optimizers.operators import Edge
from optimizers.runtime.observe.group_loads import BytesOut
from optimizers.runtime.observe.probes import EdgeProbe
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.work import JobContext
from optimizers.statistics import Probe
from sketches.arrays import Floats, Parts


class OutgoingEdge:
    """One edge by which an instance sends.

    Args:
        work: the job.
        edge: the edge.
        sender: the number by which its parcels are known.
        place: the machine that this runs on.
        sent: where its parcels are counted, with those of other edges.

    Attributes:
        edge: the edge.
        target: the operator that it leads to.
        probe: what is observed of its tuples.
    """

    def __init__(
        self, work: JobContext, edge: Edge, sender: int, place: str, sent: FlowCounter
    ) -> None:
        layout, topology = work.layout, work.topology
        self.edge = edge
        self.target = topology.operator(edge.target)
        self.probe = EdgeProbe(work, edge, sender)
        self._sent = sent
        self._number = topology.edges.index(edge)
        self._sender, self._place = sender, place
        self._parcels = 0
        stage, instances = layout.stage_of[edge.source], range(self.target.parallelism)
        self._tasks = [layout.next_task(stage, Instance(edge.target, n)) for n in instances]
        self._local = frozenset(layout.local(edge.target, place))
        self._remote = np.array([n not in self._local for n in instances], dtype=np.bool_)
        self._leaves = bool(self._remote.any())
        source = topology.operator(edge.source)
        counts = source.keyed and Probe.GROUPS in work.settings.observes
        self._by_group = BytesOut(source.key_groups) if counts else None

    def look(
        self, tuples: pa.Table, keys: KeyBatch | None, groups: Parts | None, targets: Parts
    ) -> None:
        """Look at tuples before they are packed.

        Args:
            tuples: the tuples.
            keys: their keys at the target, if they are spread by such.
            groups: the key group that each is of at the operator that sends it, where known.
            targets: the instance that each goes to.
        """
        if keys is not None:
            self.probe.look(tuples, keys)
        if self._by_group is not None:
            self._by_group.add(tuples, groups, self._remote[targets] if self._leaves else None)

    def parcel(self, instance: int, rows: int, body: pa.Buffer, checked: int) -> Parcel:
        """Return the next parcel, of packed tuples for one instance of the target.

        Args:
            instance: the instance.
            rows: how many tuples there are.
            body: the tuples.
            checked: the checksum of the body.
        """
        task, number = self._tasks[instance], self._parcels
        parcel = Parcel(task, self._number, instance, self._sender, number, rows, body, self._place)
        self._parcels += 1
        self._sent.add(parcel, local=instance in self._local, body=checked)
        return parcel

    def group_sums(self) -> Floats | None:
        """Return by key group the bytes that were sent, and those to other machines.

        None where the key group of some tuple is not known.
        """
        if self._by_group is None:
            return None
        flows = self._sent.flows()
        mine = flows[flows["edge"] == self._number]
        size = int(mine["bytes"].sum())
        return self._by_group.sums(size, size - int(mine["local_bytes"].sum()))


class OfArrow:
    """Tuples as tables of Arrow, and in buffers as its record batches."""

    @staticmethod
    def sorted(tuples: pa.Table, order: NDArray[np.intp] | None) -> pa.RecordBatch:
        """Return these tuples in this order, or as they are."""
        return in_one(tuples if order is None else take_rows(tuples, order))

    @staticmethod
    def part(tuples: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
        """Return some tuples that stand together, without copying them."""
        return tuples.slice(start, stop - start)

    @staticmethod
    def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return several parts as one."""
        return parts[0] if len(parts) == 1 else in_one(pa.Table.from_batches(parts))


def in_one(tuples: pa.Table) -> pa.RecordBatch:
    """Return tuples, of which there are some, as one record batch."""
    (batch,) = tuples.combine_chunks().to_batches()
    return batch


Buffers: TypeAlias = PoolBuffers[pa.Table, pa.RecordBatch]


def buffers_of(pool: Pool, work: JobContext, source: str) -> Buffers:
    """Return the buffers of a pool of one who sends, with the limits of its parcels."""
    largest = work.batch.get(source, work.settings.parcel)
    return PoolBuffers(pool, FlushRules(largest, work.settings.parcel_bytes), OfArrow())


@dataclass(frozen=True, slots=True)
class EdgeSpread:
    """The buffers of edges that spread tuples alike, and how they do."""

    buffers: Buffers
    outgoing: tuple[OutgoingEdge, ...]
    columns: tuple[str, ...]
    grouping: Grouping
    owners: KeyOwners | None
    router: Router

    @classmethod
    def of(
        cls, pool: Pool, outgoing: Sequence[OutgoingEdge], sender: int, work: JobContext, node: str
    ) -> Self:
        """Return the buffers of some edges; any one of them says where tuples go."""
        buffers = buffers_of(pool, work, outgoing[0].edge.source)
        mine = tuple(outgoing[number] for number in pool.groups[0])
        edge = mine[0].edge
        grouping = work.topology.grouping(*edge.name)
        local = work.layout.local(edge.target, node)
        router = grouping.router(pool.count, sender=sender, local=local)
        columns = work.topology.key_columns(*edge.name)
        return cls(buffers, mine, columns, grouping, work.layout.owners_on(edge), router)

    def targets(self, rows: int, keys: KeyBatch | None) -> Parts:
        """Return the instance that each tuple goes to."""
        if keys is None:
            return self.router.route(rows)
        try:
            if self.owners is not None:
                return self.owners.assign(keys)
            return self.router.route(rows, keys)
        except InvalidKeyError as error:
            raise FoldError(f"edge {self.outgoing[0].edge}: {error}") from error
