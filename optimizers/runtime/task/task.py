"""One task: one instance of an operator works through its tuples of one batch."""

import platform
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from optimizers.errors import PenstockError
from optimizers.folds.rows import Batches
from optimizers.layout import Instance
from optimizers.operators import Edge, OnError, columns_of
from optimizers.runtime.observe.call_sums import Call, call_sums
from optimizers.runtime.observe.cost_meter import meter_for
from optimizers.runtime.observe.group_loads import Arrived
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.task.arrivals import check_address, sent_on, unpacked_parcels
from optimizers.runtime.task.arrow_tables import joined
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.collecting import collector, passed_on
from optimizers.runtime.task.fact_columns import no_reals
from optimizers.runtime.task.flows import FlowCounter, added_up
from optimizers.runtime.task.handed_on import HandedOn
from optimizers.runtime.task.keyed import KeyedInstance, KeyedWork
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.task.output import write_output
from optimizers.runtime.task.output_file import OutputFile
from optimizers.runtime.task.parcels import (
    REPORT,
    Parcel,
    Sending,
    as_batches,
    from_batches,
)
from optimizers.runtime.task.rehearsal import rehearse
from optimizers.runtime.task.reports import TaskReport
from optimizers.runtime.task.user_errors import raised_by
from optimizers.runtime.work import JobContext, Ticket, stateless_function
from sketches.arrays import Floats, Parts


def _clock() -> str:
    """Return whose clock `time.monotonic` is: that of the kernel since it was started."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # elsewhere than on Linux
        return platform.node()


_CLOCK = _clock()

Arrival: TypeAlias = tuple[pa.RecordBatch, Edge | None]
"""Tuples, and the edge that they came by; none at a source."""


def run_source(  # noqa: PLR0913
    work: JobContext,
    ticket: Ticket,
    source: str,
    sender: int,
    batches: Iterable[pa.RecordBatch],
    *,
    known_as: int = -1,
    host: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Let the tuples of one partition of a source in, and yield them as parcels.

    Args:
        work: the job.
        ticket: the batch.
        source: the source.
        sender: which partition it is.
        batches: its tuples.
        known_as: the number by which the engine knows the stage.
        host: the host of this process, as the engine calls it; None where nodes are imaginary.
    """
    number = sender % work.topology.operator(source).parallelism
    worker = Worker(work, ticket, Instance(source, number), sender, known_as=known_as, host=host)
    return as_batches(worker.let_in(batches))


def run_task(  # noqa: PLR0913
    work: JobContext,
    ticket: Ticket,
    stage: int,
    task: int,
    batches: Iterable[pa.RecordBatch],
    *,
    known_as: int = -1,
    host: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Work through what arrived for one task, and yield what it emits, and passes on, as parcels.

    Args:
        work: the job.
        ticket: the batch.
        stage: of the task; not 0, which are the sources.
        task: which task of the stage.
        batches: parcels for it, in any order.
        known_as: the number by which the engine knows the stage.
        host: the host of this process, as the engine calls it; None where nodes are imaginary.
    """
    instance = work.layout.stages[stage][task]
    worker = Worker(work, ticket, instance, instance.number, known_as=known_as, host=host)
    return as_batches(_parcels(work, stage, instance, worker, batches))


def _parcels(
    work: JobContext,
    stage: int,
    instance: Instance,
    worker: "Worker",
    batches: Iterable[pa.RecordBatch],
) -> Iterator[Sending]:
    mine: list[Parcel] = []
    reports: list[Parcel] = []
    for parcel in from_batches(worker.reading(batches)):
        if parcel.edge == REPORT:
            reports.append(parcel)
        elif work.layout.stage_of[work.topology.edges[parcel.edge].target] > stage:
            yield sent_on(work, stage, parcel)
        else:
            check_address(work, instance, parcel)
            mine.append(parcel)
    yield from passed_on(work.layout, stage, reports)
    mine.sort(key=lambda parcel: parcel.order)
    worker.check_in(mine)
    if work.topology.operator(instance.operator).keyed:
        yield from worker.work_at_once(mine)
    else:
        yield from worker.work_through(
            (batch, work.topology.edges[parcel.edge])
            for parcel, tuples in unpacked_parcels(work, mine)
            for batch in tuples.to_batches()
        )


class Worker:
    """One instance at work on one batch, and the attached ones that go on where it ends.

    Args:
        work: the job.
        ticket: the batch.
        instance: which instance.
        sender: the number by which its parcels are known.
        known_as: the number by which the engine knows the stage.
        host: the host of this process, as the engine calls it; None where nodes are imaginary.

    Attributes:
        place: the machine, or the node that stands for it.
        received: the parcels that arrived for it, or what it got where it is attached.
    """

    def __init__(  # noqa: PLR0913
        self,
        work: JobContext,
        ticket: Ticket,
        instance: Instance,
        sender: int,
        *,
        known_as: int = -1,
        host: str | None = None,
    ) -> None:
        self._began = time.monotonic()  # a clock that all processes of a machine share
        self._cpu_began = time.process_time()
        self._sending = self._sending_began = 0.0
        self._is_attached = False
        self._reading_in = self._checking = 0.0
        self._known_as = known_as
        self._host = host
        self.place = work.layout.node_of(instance) if host is None else host
        self._work = work
        self._ticket = ticket
        self._instance = instance
        self._sender = sender
        name = secrets.token_hex(8)
        self._attempt = Attempt(instance.operator, sender, ticket.batch, name)
        self._operator = work.topology.operator(instance.operator)
        self._function: Any = None
        if not self._operator.keyed:
            self._function = stateless_function(self._operator)
        self._meter = meter_for(work, ticket, instance.operator, sender)
        if self._meter is not None:
            self._function = self._meter.function
        self._by_columns: dict[pa.Schema, Batches] = {}
        self._bad = BadRows(work.location, self._attempt)
        self._keyed = KeyedWork()
        self.received = FlowCounter()
        self._tuples = self._emitted = 0
        self._seconds = self._wall = self._reading = 0.0
        edges = work.topology.outputs(instance.operator)
        attached = work.layout.attached
        self._outbox = self._outbox_of([edge for edge in edges if edge.target not in attached])
        beside = [edge for edge in edges if edge.target in attached]
        self._attached = [(edge, self._beside(edge.target)) for edge in beside]
        self._handed_on = HandedOn(work, beside, instance)
        self._output: list[pa.RecordBatch] = []

    def let_in(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Sending]:
        """Do the work of a source on its rows, which it may have to wait for."""
        return self.work_through((batch, None) for batch in self._awaited(iter(batches)))

    def _awaited(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            started = time.perf_counter()
            batch = next(batches, None)
            self._reading += time.perf_counter() - started
            if batch is None:
                return
            yield batch

    def check_in(self, parcels: list[Parcel]) -> None:
        """Count what arrived, with its digest, for which all of it is read."""
        started = time.process_time()
        for parcel in parcels:
            self.received.add(parcel, local=parcel.place == self.place)
        self._checking = time.process_time() - started

    def reading(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on what arrives, and note the CPU time to get it from the engine."""
        arriving = iter(batches)
        while True:
            started = time.process_time()
            batch = next(arriving, None)
            self._reading_in += time.process_time() - started
            if batch is None:
                return
            yield batch

    def work_through(self, batches: Iterable[Arrival]) -> Iterator[Sending]:
        """Do the work of an operator without a key, batch by batch."""
        for batch, edge in batches:
            yield from self._take(batch, edge)
        yield from self._finish()

    def work_at_once(self, parcels: list[Parcel]) -> Iterator[Sending]:
        """Do the work of a keyed operator on all its tuples of the batch."""
        started = time.process_time()
        with self._place_noted():
            tuples = self._joined(parcels)
            unpacking = time.process_time() - started
            self._tuples = 0 if tuples is None else len(tuples)
            keyed = KeyedInstance(
                self._work, self._ticket, self._instance, self._attempt, self._bad
            )
            emitted, groups = keyed.run(tuples, Arrived.of(parcels, self.place))
            self._keyed = keyed.done
            started, tuples = time.process_time(), None  # to let go takes time as well
            self._keyed.unpacking = self._checking + unpacking + time.process_time() - started
            if keyed.done.tried is not None:
                where = (self._work, self._instance, self._sender, self._attempt, self.place)
                rehearse(keyed.done.tried, len(parcels), self._outbox, where)
        self._sending_began = time.process_time()
        if emitted is not None:
            first = 0
            for batch in emitted.to_batches():
                last = first + len(batch)
                yield from self._emit(batch, None if groups is None else groups[first:last])
                first = last
        yield from self._finish()

    def _take(self, batch: pa.RecordBatch, edge: Edge | None) -> Iterator[Parcel]:
        self._tuples += len(batch)
        if self._function is None:
            yield from self._emit(batch)
            return
        results = self._results(batch, () if edge is None else columns_of(edge.key))
        while True:
            started, began = time.process_time(), time.perf_counter()
            with self._place_noted():
                emitted = next(results, None)
            self._seconds += time.process_time() - started
            self._wall += time.perf_counter() - began
            if emitted is None:
                break
            yield from self._emit(emitted)

    def _results(self, batch: pa.RecordBatch, key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Return what the operator makes of tuples, having measured it if they have a key."""
        # What comes of tuples of the same columns has the same columns, throughout the batch.
        work = self._by_columns.get(batch.schema)
        if work is None:
            work = self._by_columns[batch.schema] = Batches(
                self._function,
                refuse=self._bad.refusing(self._operator),
                fatal=self._operator.on_error is OnError.FAIL,
            )
        return work(batch) if self._meter is None else self._meter.measured(work, batch, key)

    def _emit(self, tuples: pa.RecordBatch, groups: Parts | None = None) -> Iterator[Parcel]:
        """Send tuples on; of each the key group that it is of, where that is known."""
        if not len(tuples):
            return
        self._emitted += len(tuples)
        if self._outbox is not None:
            yield from self._with_place(self._outbox.send(tuples, groups))
        if self._attached:
            self._handed_on.add(tuples, groups, [worker.received for _, worker in self._attached])
        for edge, worker in self._attached:
            yield from worker._take(tuples, edge)  # noqa: SLF001  # one of its own kind
        if self._outbox is None and not self._attached and self._work.settings.keep_output:
            self._output.append(tuples)

    def _finish(self) -> Iterator[Sending]:
        if self._outbox is not None:
            yield from self._with_place(self._outbox.finish())
        for _, worker in self._attached:
            yield from worker._finish()  # noqa: SLF001
        if self._outbox is not None and not self._is_attached:
            started = time.process_time()
            yield None
            self._outbox.seconds += time.process_time() - started
        if self._operator.keyed:
            self._sending = time.process_time() - self._sending_began - self._attached_spent()
        output: tuple[OutputFile, ...] = ()
        if self._output:
            output = (write_output(self._work.location, self._attempt, self._output),)
        files = (*output, *self._bad.finish())
        report = self._report(files)
        stage = self._work.layout.stage_of[self._instance.operator]
        yield report.to_parcel(collector(self._work.layout, stage, self._sender))

    def _report(self, output: tuple[OutputFile, ...]) -> TaskReport:
        """Put together what all parts of the task have done; nothing else fills a report."""
        keyed, box = self._keyed, self._outbox
        sent = [self._handed_on.sent, *([] if box is None else [box.sent])]
        size = sum(each.bytes for each in sent)
        calls = self._told_calls()
        out, remote_out = self._sent_by_group()
        report = TaskReport(
            operator=self._instance.operator,
            instance=self._instance.number,
            sender=self._sender,
            tuples=self._tuples,
            emitted=self._emitted,
            seconds=self._seconds + keyed.seconds,
            shipping=0.0 if box is None else box.seconds,
            reading_in=self._reading_in,
            call_seconds=calls[0][-1] if calls else 0.0,
            wall=self._wall + keyed.wall,
            keeping=keyed.keeping,
            reading=self._reading,
            clock=_CLOCK,
            began=self._began,
            ended=time.monotonic(),
            stage=self._known_as,
            state=keyed.state,
            columns=keyed.columns,
            taken_over=keyed.taken_over,
            loaded=keyed.loaded,
            loading=keyed.loading,
            hot_keys=keyed.hottest[0],
            hot_tuples=keyed.hottest[1],
            host=self._host or "",
            bytes_out=size,
            remote_out=size - sum(each.local_bytes for each in sent),
            state_size=np.array(keyed.state_size, dtype=np.int64),
            dropped=keyed.dropped,
            calls=min(1, len(calls)),
            call_sums=call_sums(calls) if calls else no_reals(),
            groups=keyed.groups.groups,
            group_tuples=keyed.groups.tuples,
            group_keys=keyed.groups.keys,
            group_seconds=keyed.groups.seconds,
            group_in=keyed.groups.bytes_in,
            group_remote_in=keyed.groups.remote_in,
            group_out=out,
            group_remote_out=remote_out,
            held_groups=np.flatnonzero(keyed.held),
            held_bytes=keyed.held[keyed.held > 0],
            output=output,
            bad=self._bad.counts,
            received=self.received.flows(),
            sent=added_up(each.flows() for each in sent),
            observed=[
                *keyed.keys.named,
                *(() if box is None else box.observed),
                *(() if self._meter is None else self._meter.tell()),
            ],
        )
        return replace(report, receiving=self._receiving())

    def _spent(self) -> float:
        """Return the CPU seconds of own work and of sending, with those of who is attached."""
        own = self._seconds + self._keyed.seconds
        own += 0.0 if self._outbox is None else self._outbox.seconds
        return own + self._attached_spent()

    def _attached_spent(self) -> float:
        return sum(worker._spent() for _, worker in self._attached)  # noqa: SLF001

    def _receiving(self) -> float:
        """Return the CPU seconds of the task that none of its instances accounts for."""
        if self._is_attached:
            return 0.0
        return max(0.0, time.process_time() - self._cpu_began - self._spent())

    def _told_calls(self) -> list[Call]:
        """Return what the task took, and what the part of it took that was tried, if it was."""
        if self._operator.keyed:
            return self._keyed.told(self._sending)
        if self._meter is not None or self._is_attached:
            return []  # timed tuples come in more calls than others
        own = self._receiving() + self._spent() - self._attached_spent()
        return [(self._tuples, 0.0, 0.0, own)]

    def _joined(self, parcels: list[Parcel]) -> pa.Table | None:
        """Return the tuples of parcels as one table."""
        where = f"tuples of operator {self._operator.name!r}"
        tables = [tuples for _, tuples in unpacked_parcels(self._work, parcels)]
        return joined(tables, where) if tables else None

    def _sent_by_group(self) -> tuple[Floats, Floats]:
        """Return what was sent of the key groups that had tuples, and to other machines."""
        groups = self._keyed.groups.groups
        if not len(groups):
            return no_reals(), no_reals()
        sums = [self._handed_on.group_sums()]
        if self._outbox is not None:
            sums.append(self._outbox.group_sums())
        known = [each[:, groups] for each in sums if each is not None]
        if len(known) < len(sums):
            return no_reals(), no_reals()
        out, remote_out = np.sum(known, axis=0)
        return out, remote_out

    def _beside(self, target: str) -> "Worker":
        """Return who goes on with what this instance sends to an operator that is attached."""
        instance = Instance(target, self._instance.number)
        known_as, host = self._known_as, self._host
        beside = Worker(
            self._work, self._ticket, instance, self._sender, known_as=known_as, host=host
        )
        beside._is_attached = True  # one of its own kind
        return beside

    def _outbox_of(self, edges: list[Edge]) -> Outbox | None:
        if not edges:
            return None
        return Outbox(self._work, edges, self._instance, self._sender, self._bad, place=self.place)

    def _with_place(self, parcels: Iterator[Parcel]) -> Iterator[Parcel]:
        with self._place_noted():
            yield from parcels

    @contextmanager
    def _place_noted(self) -> Iterator[None]:
        """Add to any error at which instance and in which batch it was."""
        where = f"at {self._instance} in batch {self._ticket.batch}"
        try:
            yield
        except PenstockError as error:
            error.add_note(where)
            raise
        except Exception as error:
            ours = raised_by(f"operator {self._operator.name!r}", error)
            if ours is None:
                error.add_note(where)
                raise
            ours.add_note(where)
            raise ours from error
