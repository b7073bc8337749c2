"""The outbox of an instance: routes what it emits, packs it, and counts what went where."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds.casting import bytes_in
from optimizers.folds.key_codes import take_rows
from optimizers.layout import Instance
from optimizers.operators import Edge
from optimizers.runtime.observe.group_loads import BytesOut
from optimizers.runtime.observe.observation import Sighting
from optimizers.runtime.observe.probes import EdgeProbe
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.key_reader import key_batch
from optimizers.runtime.task.parcels import Parcel, packed
from optimizers.runtime.work import Work
from optimizers.statistics import Probe
from sketches.arrays import Floats, Parts

# Tuples are routed as many at a time as stay in the cache, and few enough to be packed well.
_ROUTED_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 64 << 20  # where tuples are large; Arrow counts text in 31 bits


class Outbox:
    """Sends the tuples of one instance along one edge.

    Args:
        work: the job.
        edge: the edge.
        instance: who sends.
        sender: the number by which its parcels are known.
        bad: where tuples go that have no key.
        place: the machine that this runs on; by default the node of the instance.

    Attributes:
        sent: what was sent.
        seconds: CPU seconds for routing and packing it.
        observed: what was observed of it, once all is sent.
    """

    def __init__(  # noqa: PLR0913
        self,
        work: Work,
        edge: Edge,
        instance: Instance,
        sender: int,
        bad: BadRows,
        *,
        place: str | None = None,
    ) -> None:
        topology = work.topology
        self._edge = edge
        self._number = topology.edges.index(edge)
        self._columns = topology.key_columns(*edge.name)
        self._seed = topology.seed
        self._stage = work.layout.stage_of[edge.source]
        self._sender = sender
        self.sent = FlowCounter()
        self.seconds = 0.0
        self.observed: list[Sighting] = []
        self._bad = bad
        self._largest = work.batch.get(edge.source, work.settings.parcel)
        self._probe = EdgeProbe(work, edge, sender)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._parcels = 0
        self._target = target = topology.operator(edge.target)
        self._grouping = topology.grouping(*edge.name)
        self._owners = work.layout.owners_on(edge)
        local = work.layout.local(target.name, work.layout.node_of(instance))
        self._router = self._grouping.router(target.parallelism, sender=sender, local=local)
        # Where this runs may be another place than was planned.
        place = work.layout.node_of(instance) if place is None else place
        self._local = frozenset(work.layout.local(target.name, place))
        self._remote = np.array(
            [number not in self._local for number in range(target.parallelism)], dtype=np.bool_
        )
        self._place = place
        source = topology.operator(edge.source)
        counts = source.keyed and Probe.GROUPS in work.settings.observes
        self._by_group = BytesOut(source.key_groups) if counts else None
        self._groups: list[Parts | None] = []
        self._tasks = [
            work.layout.next_task(self._stage, Instance(target.name, number))
            for number in range(target.parallelism)
        ]

    def send(self, tuples: pa.RecordBatch, groups: Parts | None = None) -> Iterator[Parcel]:
        """Take tuples, and yield the parcels that are full.

        Args:
            tuples: the tuples.
            groups: the key group that each is of at the operator that sends it, where known.
        """
        # Where streams meet, tuples may be of other columns from one batch to the next.
        if self._waiting and not self._waiting[0].schema.equals(tuples.schema):
            yield from self.close()
        self._waiting.append(tuples)
        self._groups.append(groups)
        self._rows += len(tuples)
        self._bytes += bytes_in(tuples)
        if self._rows >= _ROUTED_AT_ONCE or self._bytes >= _BYTES_AT_ONCE:
            yield from self.close()

    def close(self) -> Iterator[Parcel]:
        """Yield parcels of all that is still here."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._waiting)
        groups = self._groups_waiting()
        self._waiting, self._groups, self._rows, self._bytes = [], [], 0, 0
        started = time.process_time()
        fitting = len(table) * _BYTES_AT_ONCE // max(bytes_in(table), 1)
        step = max(1, min(_ROUTED_AT_ONCE, fitting))
        for start in range(0, len(table), step):
            some = table.slice(start, step).combine_chunks()
            yield from self._pack(some, None if groups is None else groups[start : start + step])
        self.seconds += time.process_time() - started

    def finish(self) -> Iterator[Parcel]:
        """Yield parcels of all that is still here, and see what was observed; nothing follows."""
        yield from self.close()
        self.observed += self._probe.tell()

    def group_sums(self) -> Floats | None:
        """Return by key group the bytes that were sent, and those to other machines.

        None where the key group of some tuple is not known.
        """
        if self._by_group is None:
            return None
        sent = self.sent
        return self._by_group.sums(sent.bytes, sent.bytes - sent.local_bytes)

    def _groups_waiting(self) -> Parts | None:
        known = [groups for groups in self._groups if groups is not None]
        return np.concatenate(known) if len(known) == len(self._groups) else None

    def _pack(self, table: pa.Table, groups: Parts | None) -> Iterator[Parcel]:
        """Sort tuples by target and pack them."""
        if self._grouping.needs_key:
            table = self._bad.with_key(table, self._edge, self._columns, self._target)
            if not len(table):
                return
        targets = self._targets(table)
        if self._by_group is not None:
            self._by_group.add(table, groups, self._remote[targets])
        counts = np.bincount(targets, minlength=len(self._tasks))
        if len(self._tasks) > 1:
            table = take_rows(table, _stable_order(targets, len(self._tasks)))
        (batch,) = table.combine_chunks().to_batches()
        start = 0
        for target, count in enumerate(counts.tolist()):
            for first in range(start, start + count, self._largest):
                rows = min(self._largest, start + count - first)
                yield self._parcel(target, batch.slice(first, rows))
            start += count

    def _parcel(self, target: int, tuples: pa.RecordBatch) -> Parcel:
        parcel = Parcel(
            self._tasks[target],
            self._number,
            target,
            self._sender,
            self._parcels,
            len(tuples),
            packed(tuples),
            self._place,
        )
        self._parcels += 1
        self.sent.add(parcel, local=target in self._local)
        return parcel

    def _targets(self, table: pa.Table) -> Parts:
        """Return the instance that each tuple goes to."""
        if not self._grouping.needs_key:
            return self._router.route(len(table))
        keys = key_batch(table, self._columns, f"edge {self._edge}", self._seed)
        self._probe.look(table, keys)
        try:
            if self._owners is not None:
                return self._owners.assign(keys)
            return self._router.route(len(table), keys)
        except InvalidKeyError as error:
            raise FoldError(f"edge {self._edge}: {error}") from error


def _stable_order(targets: Parts, number: int) -> NDArray[np.intp]:
    """Return the order that brings tuples of one target together; few numbers sort faster."""
    small = targets.astype(
        np.uint8 if number <= 1 << 8 else np.uint16 if number <= 1 << 16 else np.uint32
    )
    return np.argsort(small, kind="stable")
