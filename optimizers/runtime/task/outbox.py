"""The outbox of an instance: routes what it emits, packs it, and counts what went where."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from batching.buffers import pools_of
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError
from optimizers.folds.casting import bytes_in
from optimizers.layout import Instance
from optimizers.operators import Edge, Operator
from optimizers.runtime.observe.observation import Sighting
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.key_reader import key_batch
from optimizers.runtime.task.outgoing_edges import (
    Buffers,
    EdgeSpread,
    OutgoingEdge,
    buffers_of,
    in_one,
)
from optimizers.runtime.task.parcels import Parcel, checksum, packed
from optimizers.runtime.task.shared_parcels import numbered
from optimizers.runtime.work import PACKED_AT_ONCE, JobContext
from sketches.arrays import Floats, Parts

Sieve: TypeAlias = Callable[[pa.Table, Edge, Sequence[str], Operator], pa.Table]

_BYTES_AT_ONCE = 64 << 20  # where tuples are large; Arrow counts text in 31 bits


class Outbox:
    """Sends the tuples of one instance along its edges.

    Tuples wait as they come until some thousands of them can be routed at once, then go into the
    buffers of instances (`batching.buffers`), and leave these as parcels at once: when a buffer is
    full, or when all of them are in. Edges that spread tuples alike (`Layout.alike`) share a pool
    of buffers: tuples are routed, sorted and packed once for all of them, and each gets parcels of
    its own with the same body.

    Args:
        work: the job.
        edges: the edges, all out of one operator.
        instance: the sender.
        sender: the number by which its parcels are known.
        bad: where tuples go that have no key.
        place: the machine that this runs on; by default the node of the instance.

    Attributes:
        edges: the edges.
        sent: what was sent.
        seconds: CPU seconds for routing and packing it.
        observed: what was observed of it, once all is sent.
    """

    def __init__(  # noqa: PLR0913
        self,
        work: JobContext,
        edges: Sequence[Edge],
        instance: Instance,
        sender: int,
        bad: BadRows,
        *,
        place: str | None = None,
    ) -> None:
        layout, source = work.layout, edges[0].source
        self.edges = edges
        self.sent = FlowCounter()
        self.seconds = 0.0
        self.observed: list[Sighting] = []
        self._bad = bad
        self._seed = work.topology.seed
        self._waiting: list[pa.RecordBatch] = []
        self._groups: list[Parts | None] = []
        self._rows = 0
        self._bytes = 0
        # Where this runs may be another place than was planned.
        place = layout.node_of(instance) if place is None else place
        self._outgoing = [OutgoingEdge(work, edge, sender, place, self.sent) for edge in edges]
        groups = [[edge for edge in group if edge in edges] for group in layout.alike(source)]
        alike = [[edges.index(edge) for edge in group] for group in groups if group]
        counts = [out_edge.target.parallelism for out_edge in self._outgoing]
        node = layout.node_of(instance)
        self._spreads = [
            EdgeSpread.of(pool, self._outgoing, sender, work, node)
            for pool in pools_of(counts, alike=alike)
        ]
        self._matrix: Buffers | None = None
        self._blocks = 0
        if work.settings.shared_batches and len(self._spreads) > 1:
            (pool,) = pools_of(counts, shared=True, alike=alike)
            self._matrix = buffers_of(pool, work, source)

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
        if self._rows >= PACKED_AT_ONCE or self._bytes >= _BYTES_AT_ONCE:
            yield from self._close(keep=True)

    def close(self) -> Iterator[Parcel]:
        """Yield parcels of all that is still here."""
        yield from self._close(keep=False)

    def _close(self, *, keep: bool) -> Iterator[Parcel]:
        """Yield parcels of what is here; but for the last tuples, if more are to come with them."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._waiting)
        groups = self._groups_waiting()
        self._waiting, self._groups, self._rows, self._bytes = [], [], 0, 0
        started = time.process_time()
        size = max(bytes_in(table), 1)
        step = max(1, min(PACKED_AT_ONCE, len(table) * _BYTES_AT_ONCE // size))
        mean = size / len(table)
        end = len(table) - len(table) % step if keep else len(table)
        for start in range(0, end, step):
            some = table.slice(start, step).combine_chunks()
            theirs = None if groups is None else groups[start : start + step]
            yield from self._pack(some, theirs, mean)
        if end < len(table):
            self._wait_with(table.slice(end), None if groups is None else groups[end:])
        self.seconds += time.process_time() - started

    def _wait_with(self, tuples: pa.Table, groups: Parts | None) -> None:
        batch = in_one(tuples)
        self._waiting, self._groups = [batch], [groups]
        self._rows, self._bytes = len(batch), bytes_in(batch)

    def finish(self) -> Iterator[Parcel]:
        """Yield parcels of all that is still here, and see what was observed; nothing follows."""
        yield from self.close()
        self.observed += [seen for out_edge in self._outgoing for seen in out_edge.probe.tell()]

    def group_sums(self) -> Floats | None:
        """Return by key group the bytes that were sent, and those to other machines.

        None where the key group of some tuple is not known.
        """
        sums = [out_edge.group_sums() for out_edge in self._outgoing]
        known = [each for each in sums if each is not None]
        return np.sum(known, axis=0) if len(known) == len(sums) else None

    def _groups_waiting(self) -> Parts | None:
        known = [groups for groups in self._groups if groups is not None]
        return np.concatenate(known) if len(known) == len(self._groups) else None

    def _pack(self, table: pa.Table, groups: Parts | None, mean: float) -> Iterator[Parcel]:
        """Route and pack tuples, pool by pool; `mean` is the mean size of a tuple in bytes."""
        read: dict[tuple[str, ...], KeyBatch] = {}
        routed: Iterable[tuple[pa.Table, Parts]] = (
            self._routed(spread, table, groups, read) for spread in self._spreads
        )
        if self._matrix is not None:
            routed = each = list(routed)
            # A tuple that not all consumers get cannot be in a batch that they share.
            if all(len(targets) == len(table) for _, targets in each):
                self._blocks += 1
                tuples = numbered(table, self._blocks)
                yield from self._packed(self._matrix, tuples, [to for _, to in each], mean)
                return
        for spread, (tuples, targets) in zip(self._spreads, routed, strict=True):
            if len(targets):
                yield from self._packed(spread.buffers, tuples, [targets], mean)

    def _routed(
        self,
        spread: EdgeSpread,
        table: pa.Table,
        groups: Parts | None,
        read: dict[tuple[str, ...], KeyBatch],
    ) -> tuple[pa.Table, Parts]:
        """Return the tuples that some edges get, and the instance that each goes to."""
        tuples, keys = table, None
        if spread.grouping.needs_key:
            tuples = self._each_told(self._bad.with_key, table, spread)
            if len(tuples):
                tuples, keys = self._keyed(tuples, spread, read)
            if keys is None:
                return tuples, np.empty(0, dtype=np.intp)
        targets = spread.targets(len(tuples), keys)
        for out_edge in spread.outgoing:
            out_edge.look(tuples, keys, groups, targets)
        return tuples, targets

    def _keyed(
        self, table: pa.Table, spread: EdgeSpread, read: dict[tuple[str, ...], KeyBatch]
    ) -> tuple[pa.Table, KeyBatch | None]:
        """Return the tuples whose keys can be read, with those; None if there are none left."""
        keys = read.get(spread.columns)
        if keys is not None and len(keys) == len(table):
            return table, keys
        where = f"edge {spread.outgoing[0].edge}"
        try:
            keys = key_batch(table, spread.columns, where, self._seed)
        except FoldError:
            tuples = self._each_told(self._bad.with_fit_key, table, spread)
            if not len(tuples):
                return tuples, None
            table, keys = tuples, key_batch(tuples, spread.columns, where, self._seed)
        read[spread.columns] = keys
        return table, keys

    def _each_told(self, sieve: Sieve, table: pa.Table, spread: EdgeSpread) -> pa.Table:
        """Return the tuples that a sieve leaves; each edge's target is told of the others."""
        tuples = table
        for out_edge in spread.outgoing:
            tuples = sieve(table, out_edge.edge, spread.columns, out_edge.target)
        return tuples

    def _packed(
        self, buffers: Buffers, tuples: pa.Table, targets: list[Parts], mean: float
    ) -> Iterator[Parcel]:
        for flushed in buffers.add(tuples, targets, sizes=mean, ends=True):
            body = packed(flushed.tuples)
            checked = checksum(body)
            for number, instance in buffers.pool.receivers(flushed.place):
                yield self._outgoing[number].parcel(instance, flushed.rows, body, checked)
