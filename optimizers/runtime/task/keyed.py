"""A keyed instance in one batch: its state as it was, keys taken over, tuples folded in."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.hashing import key_places
from grouping.key_batch import KeyBatch
from optimizers.folds.casting import take_rows
from optimizers.folds.each_key import EachKey
from optimizers.folds.fold import Fold
from optimizers.layout import Instance
from optimizers.runtime.observe.call_parts import part_of, turn_of
from optimizers.runtime.observe.call_sums import Call
from optimizers.runtime.observe.group_loads import Arrived, GroupsSeen, groups_seen
from optimizers.runtime.observe.hot_keys import hot_keys
from optimizers.runtime.observe.probes import KeysSeen
from optimizers.runtime.observe.state_sizes import state_by_group
from optimizers.runtime.state import cache
from optimizers.runtime.state.changes import in_order, marked, merged
from optimizers.runtime.state.file import (
    Attempt,
    FileKind,
    StateFile,
    read_state,
    read_states,
    should_rewrite,
    write_state,
)
from optimizers.runtime.state.merge import last_of_each, replaced
from optimizers.runtime.state.schema import Columns, columns_of
from optimizers.runtime.state.table import VALUE, Rows, key_names, rows_of_part, taken
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.fact_columns import no_reals, no_wholes
from optimizers.runtime.task.folding import Folded, Folding, harmless
from optimizers.runtime.task.key_reader import key_batch
from optimizers.runtime.task.untyped import with_types
from optimizers.runtime.work import JobContext, Ticket
from optimizers.statistics import Probe
from sketches.arrays import Floats, Parts


@dataclass(slots=True)
class Tried:
    """A part of a batch that was worked on once more, see `call_parts`.

    Attributes:
        tuples: the tuples in it.
        keys: how many keys those are of.
        state: how many bytes of state there were afterwards.
        seconds: CPU seconds that it took.
        emitted: what would be emitted.
        groups: the key group of each row of that, where known.
    """

    tuples: pa.Table
    keys: int
    state: int
    seconds: float
    emitted: pa.Table | None
    groups: Parts | None


@dataclass(slots=True)
class KeyedWork:
    """What a keyed instance has done in a batch, for the report.

    Attributes:
        seconds: CPU seconds of the fold.
        wall: seconds of the fold by the clock on the wall.
        keeping: seconds by that clock to read state, take keys over, and write what changed.
        taken_over: how many keys came from other instances.
        loaded: how many bytes of state those have.
        loading: seconds by that clock to read it.
        state: the file of state that was written; None if nothing has changed.
        columns: the columns of its state with their types, likewise.
        keys: how often keys came.
        hottest: the codes of the most frequent keys, and how many tuples each had.
        groups: what key groups had to do, if that is observed.
        state_size: how many bytes of state the instance holds, and how many of them stay in
            memory; empty if it did not look.
        held: the same by key group; empty likewise, or if that is not observed.
        unpacking: CPU seconds to check and to unpack the tuples.
        folding: CPU seconds of the fold, and of telling what it was.
        call: the tuples, keys and bytes of state of the fold, and the seconds, as a negative
            number, that were measured key by key; None of a fold whose seconds cannot be told so.
        trying: CPU seconds to try a part of it.
        tried: the part that was tried, if one was.
    """

    seconds: float = 0.0
    wall: float = 0.0
    keeping: float = 0.0
    taken_over: int = 0
    loaded: int = 0
    loading: float = 0.0
    state: StateFile | None = None
    columns: Columns | None = None
    keys: KeysSeen = field(default_factory=KeysSeen)
    hottest: tuple[NDArray[np.int64], ...] = (no_wholes(), no_wholes())
    groups: GroupsSeen = field(default_factory=GroupsSeen)
    state_size: tuple[int, ...] = ()
    dropped: tuple[cache.Dropped, ...] = ()
    held: Floats = field(default_factory=no_reals)
    unpacking: float = 0.0
    folding: float = 0.0
    trying: float = 0.0
    call: Call | None = None
    tried: Tried | None = None

    def told(self, shipping: float) -> list[Call]:
        """Return what it took from unpacking to sending, of all tuples and of those tried.

        Args:
            shipping: CPU seconds to send what was emitted.
        """
        if self.call is None:
            return []
        tuples, keys, state, measured = self.call
        seconds = measured + self.unpacking + self.folding + shipping
        calls = [(tuples, keys, state, seconds)]
        if self.tried is not None:
            tried = self.tried
            calls.append((len(tried.tuples), tried.keys, tried.state, tried.seconds))
        return calls


@dataclass(frozen=True, slots=True)
class KeyedInstance:
    """One instance of a keyed operator in one batch.

    Attributes:
        work: the job.
        ticket: the batch.
        instance: which instance.
        attempt: by which its files are known.
        bad: where tuples go that its function raises on.
        done: what was done, for the report.
    """

    work: JobContext
    ticket: Ticket
    instance: Instance
    attempt: Attempt
    bad: BadRows
    done: KeyedWork = field(default_factory=KeyedWork)

    def run(
        self, tuples: pa.Table | None, arrived: Arrived | None = None
    ) -> tuple[pa.Table | None, Parts | None]:
        """Fold tuples into the state, write what changed, and return what is to be emitted.

        Without tuples, it only takes over and gives away keys, if there are any to.

        Args:
            tuples: the tuples.
            arrived: the parcels in which they came; None if that does not matter.

        Returns:
            What is to be emitted, and the key group of each row; None where that is not known.
        """
        inherits = self.ticket.first and self._inherits()
        files = self._files(self.instance.number)
        # Keys may have other groups under a new plan, though they stay at their instance.
        regroups = self.ticket.first and self._observes_groups and bool(files)
        if not inherits and not regroups and (tuples is None or not len(tuples)):
            return None, None
        started = time.perf_counter()
        state = cache.state_in(self.work.location, self.instance, files)
        changes: list[pa.Table] = []
        if inherits:
            state, changes = self._take_over(state)
        self.done.keeping += time.perf_counter() - started
        emitted, groups = None, None
        if tuples is not None and len(tuples):
            spent = time.process_time()
            state, changed, emitted, groups = self._fold(state, tuples, arrived or Arrived())
            self.done.folding = time.process_time() - spent - self.done.trying
            changes.append(changed)
        if state is not None and any(map(len, changes)):
            started = time.perf_counter()
            files = self._write(files, state, changes)
            self.done.keeping += time.perf_counter() - started
        if state is not None:
            self._measure(files, state)
        return emitted, groups

    @property
    def _observes_groups(self) -> bool:
        return Probe.GROUPS in self.work.settings.observes

    def _measure(self, files: tuple[StateFile, ...], state: pa.Table) -> None:
        """Note how large the state is, which is in these files, and what went for it."""
        resident = 0 if self.done.state is not None else cache.UNKNOWN
        if cache.holds(self.work.location, self.instance, files):
            resident = state.nbytes
        self.done.state_size = state.nbytes, resident
        self.done.dropped = cache.dropped(self.work.location)
        if self._observes_groups:
            owners = self.work.layout.owners(self.instance.operator)
            self.done.held = state_by_group(state, owners, self._keys_of)

    def _files(self, number: int) -> tuple[StateFile, ...]:
        files = self.ticket.state.get(self.instance.operator, ())
        return files[number] if number < len(files) else ()

    def _inherits(self) -> bool:
        """Return whether keys come to this instance or leave it."""
        number = self.instance.number
        if self._is_partial:
            return bool(self._orphans())
        handover = self.work.handovers.get(self.instance.operator)
        if handover is None:
            return False
        codes, groups = handover.given(number)
        return bool(len(codes) or len(groups) or handover.received(number))

    @property
    def _folding(self) -> Folding:
        return Folding(self.work, self.instance)

    @property
    def _seed(self) -> int:
        return self.work.topology.seed

    @property
    def _is_partial(self) -> bool:
        return self.work.topology.operator(self.instance.operator).partial

    def _orphans(self) -> range:
        """Return the instances that are no more and whose parts of keys come to this one."""
        count = self.work.topology.operator(self.instance.operator).parallelism
        before = len(self.ticket.state.get(self.instance.operator, ()))
        return range(self.instance.number + count, before, count)

    def _take_over(self, state: pa.Table | None) -> tuple[pa.Table | None, list[pa.Table]]:
        """Return the state after keys changed hands, and what changed by that."""
        if self._is_partial:
            return self._adopt_orphans(state)
        changes = []
        if state is not None:
            given = self._given(state)
            if len(given):
                changes.append(marked(taken(state, given), gone=True))
                mine = np.ones(len(state), dtype=np.bool_)
                mine[given] = False
                state = state.filter(pa.array(mine)).combine_chunks()
        started = time.perf_counter()
        arrived = self._received()
        if arrived is not None:
            self._loaded(arrived, started)
            state = arrived if state is None else replaced(state, arrived)
            changes.append(marked(arrived, gone=False))
        return state, changes

    def _loaded(self, rows: pa.Table, started: float) -> None:
        """Note what came from other instances, and how long the instance waited for it."""
        self.done.taken_over += len(rows)
        self.done.loaded += rows.nbytes
        self.done.loading += time.perf_counter() - started

    def _given(self, state: pa.Table) -> Rows:
        """Return the rows of the keys that leave; only those that may are looked at one by one."""
        operator = self.work.topology.operator(self.instance.operator)
        codes, groups = self.work.handovers[operator.name].given(self.instance.number)
        places = key_places(codes, self._seed)
        rows = rows_of_part(state, places=places, groups=groups, key_groups=operator.key_groups)
        leaving: Rows = rows[self._owners(taken(state, rows)) != self.instance.number]
        return leaving

    def _received(self) -> pa.Table | None:
        """Return the rows of the keys that come here, read from the files of their old owners."""
        operator = self.work.topology.operator(self.instance.operator)
        handover = self.work.handovers[operator.name]
        found = []
        for sender, (codes, groups) in handover.received(self.instance.number).items():
            if not self._files(sender):
                continue
            rows = read_states(
                self.work.location,
                self._files(sender),
                places=key_places(codes, self._seed),
                groups=groups,
                key_groups=operator.key_groups,
            )
            rows = rows.filter(pa.array(self._owners(rows) == self.instance.number))
            if len(rows):
                found.append(rows)
        return in_order(pa.concat_tables(found)) if found else None

    def _adopt_orphans(self, state: pa.Table | None) -> tuple[pa.Table | None, list[pa.Table]]:
        """Return the state with that of instances that are no more, and what changed by that."""
        fold = self.work.fold(self.instance.operator)
        changes: list[pa.Table] = []
        for number in self._orphans():
            if not self._files(number):
                continue
            started = time.perf_counter()
            orphaned = read_states(self.work.location, self._files(number))
            self._loaded(orphaned, started)
            rows = orphaned if state is None else merged(fold, state, orphaned)
            state = rows if state is None else replaced(state, rows)
            changes.append(marked(rows, gone=False))
        return state, changes

    def _fold(
        self, state: pa.Table | None, tuples: pa.Table, arrived: Arrived
    ) -> tuple[pa.Table, pa.Table, pa.Table | None, Parts | None]:
        """Return the state after the tuples, the changes to it, and what is to be emitted."""
        name = self.instance.operator
        fold = self.work.fold(name)
        # 1. Do it.
        started, began = time.process_time(), time.perf_counter()
        tuples = self._typed(fold, tuples, state)
        folded = self._folding.folded(fold, state, tuples, self.bad)
        self.done.seconds += time.process_time() - started
        self.done.wall += time.perf_counter() - began
        # 2. Tell what it was.
        counts = np.bincount(folded.numbers, minlength=len(folded.places))
        self.done.keys = KeysSeen.of(self.work, name, folded.key_rows, counts)
        self.done.hottest = hot_keys(folded.codes, counts)
        groups = None
        if folded.groups is not None:
            groups = folded.groups
            self.done.groups = groups_seen(
                groups, folded.numbers, counts, tuples, arrived, folded.seconds
            )
            self.done.call = self._told(fold, folded, len(tuples))
            started = time.process_time()
            self.done.tried = self._try(fold, state, tuples, folded)
            self.done.trying = time.process_time() - started
            groups = None if folded.senders is None else groups[folded.senders]
        return folded.state, folded.changes, folded.emitted, groups

    def _told(self, fold: Fold, folded: Folded, tuples: int) -> Call | None:
        """Return what the call was of, to be told with its seconds; None where they cannot be."""
        if not (fold.even or isinstance(fold, EachKey)):
            return None  # what its keys take may differ, and cannot be told by how many they are
        return tuples, len(folded.places), folded.state.nbytes, -_measured(folded)

    def _try(
        self, fold: Fold, state: pa.Table | None, tuples: pa.Table, folded: Folded
    ) -> Tried | None:
        """Now and then, do a part of the same once more, to learn what grows with what."""
        instances = self.work.topology.operator(self.instance.operator).parallelism
        turn = turn_of(self.ticket.batch, self.instance.number, instances)
        if turn is None or self.done.call is None:
            return None
        part = part_of(turn, instances, folded.numbers, folded.places, state)
        if part is None:
            return None
        chosen = take_rows(tuples, part.rows)
        started = time.process_time()
        tried = self._folded_again(harmless(fold), part.state, chosen)
        tried.seconds += time.process_time() - started
        return tried

    def _folded_again(self, fold: Fold, state: pa.Table | None, tuples: pa.Table) -> Tried:
        """Fold some tuples as `_fold` does, for nothing; what was measured by key is taken off."""
        tried = self._folding.folded(fold, state, tuples)
        counts = np.bincount(tried.numbers, minlength=len(tried.places))
        hot_keys(tried.codes, counts)
        senders = None
        if tried.groups is not None:
            groups_seen(tried.groups, tried.numbers, counts, tuples, Arrived(), tried.seconds)
            senders = None if tried.senders is None else tried.groups[tried.senders]
        own = -_measured(tried)
        return Tried(tuples, len(tried.places), tried.state.nbytes, own, tried.emitted, senders)

    def _typed(self, fold: Fold, tuples: pa.Table, state: pa.Table | None) -> pa.Table:
        """Return tuples whose columns have a type, also where they hold nothing but nulls."""
        if pa.null() not in tuples.schema.types:
            return tuples
        if state is None:
            state = self._state_of_others()
        kept = None
        if state is not None:
            fields = [state.schema.field(name) for name in state.column_names]
            kept = pa.schema(
                [
                    field.with_name(field.name.removeprefix(VALUE))
                    for field in fields
                    if field.name.startswith(VALUE)
                ]
            )
        return with_types(tuples, fold, kept, f"tuples of operator {self.instance.operator!r}")

    def _state_of_others(self) -> pa.Table | None:
        """Return state of another instance without its rows; None if none has any."""
        chains = self.ticket.state.get(self.instance.operator, ())
        files = [file for chain in chains for file in chain]
        if not files:
            return None
        smallest = min(files, key=lambda file: file.bytes)
        return read_state(self.work.location, smallest, places=np.empty(0, dtype=np.uint64))

    def _owners(self, state: pa.Table) -> NDArray[np.int32]:
        """Return who owns the keys of rows of state."""
        return self.work.layout.owners(self.instance.operator).assign(self._keys_of(state))

    def _keys_of(self, state: pa.Table) -> KeyBatch:
        """Return the keys of rows of state."""
        where = f"state of operator {self.instance.operator!r}"
        return key_batch(state, key_names(state), where, self._seed)

    def _write(
        self, files: tuple[StateFile, ...], state: pa.Table, changes: Sequence[pa.Table]
    ) -> tuple[StateFile, ...]:
        """Write what changed as one file more, or rewrite all of it if that is less in the end.

        Returns:
            The files that now hold the state.
        """
        whole = should_rewrite(files)
        file = write_state(
            self.work.location,
            self.attempt,
            state if whole else last_of_each(changes),
            kind=FileKind.BASE if whole else FileKind.DELTA,
        )
        self.done.state = file
        self.done.columns = columns_of(state)
        most = self.work.settings.resident_each
        chain = file.after(files)
        cache.keep(self.work.location, self.instance, chain, state, most=most)
        return chain


def _measured(folded: Folded) -> float:
    """Return the CPU seconds that were measured key by key."""
    return 0.0 if folded.seconds is None else float(folded.seconds.sum())
