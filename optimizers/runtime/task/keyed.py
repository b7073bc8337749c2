"""A keyed instance in one batch: its state as it was, keys taken over, tuples folded in."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.hashing import key_places
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, StateError
from optimizers.folds.casting import solid, take_rows
from optimizers.folds.each_key import EachKey
from optimizers.folds.fold import Fold, Step, nothing
from optimizers.folds.key_codes import key_numbers
from optimizers.layout import Instance
from optimizers.operators import Operator
from optimizers.runtime.observe.hot_keys import hot_keys
from optimizers.runtime.observe.probes import KeysSeen
from optimizers.runtime.state import cache
from optimizers.runtime.state.changes import before_of, in_order, marked, merged, rows_of
from optimizers.runtime.state.file import (
    Attempt,
    Kind,
    StateFile,
    read_state,
    read_states,
    should_rewrite,
    write_state,
)
from optimizers.runtime.state.keys import Match, keys_at, match
from optimizers.runtime.state.merge import last_of_each, replaced
from optimizers.runtime.state.schema import Columns, columns_of
from optimizers.runtime.state.table import VALUE, key_names
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.fact_columns import no_wholes
from optimizers.runtime.task.key_reader import key_batch
from optimizers.runtime.task.untyped import with_types
from optimizers.runtime.work import Ticket, Work


@dataclass(slots=True)
class KeyedWork:
    """What a keyed instance has done in a batch, for the report.

    Attributes:
        seconds: CPU seconds of the fold.
        wall: seconds of the fold by the clock on the wall.
        keeping: seconds by that clock to read state, take keys over, and write what changed.
        taken_over: how many keys came from other instances.
        state: the file of state that was written; None if nothing has changed.
        state_rows: how many keys the instance holds, if it has written any.
        columns: the columns of its state with their types, likewise.
        keys: how often keys came.
        hottest: the codes of the most frequent keys, and how many tuples each had.
    """

    seconds: float = 0.0
    wall: float = 0.0
    keeping: float = 0.0
    taken_over: int = 0
    state: StateFile | None = None
    state_rows: int = 0
    columns: Columns | None = None
    keys: KeysSeen = field(default_factory=KeysSeen)
    hottest: tuple[NDArray[np.int64], ...] = (no_wholes(), no_wholes())


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

    work: Work
    ticket: Ticket
    instance: Instance
    attempt: Attempt
    bad: BadRows
    done: KeyedWork = field(default_factory=KeyedWork)

    def run(self, tuples: pa.Table | None) -> pa.Table | None:
        """Fold tuples into the state, write what changed, and return what is to be emitted.

        Without tuples, it only takes over and gives away keys, if there are any to.
        """
        inherits = self.ticket.first and self._inherits()
        if not inherits and (tuples is None or not len(tuples)):
            return None
        started = time.perf_counter()
        files = self._files(self.instance.number)
        state = cache.state_in(self.work.location, self.instance, files)
        changes: list[pa.Table] = []
        if inherits:
            state, changes = self._take_over(state)
        self.done.keeping += time.perf_counter() - started
        emitted = None
        if tuples is not None and len(tuples):
            state, changed, emitted = self._fold(state, tuples)
            changes.append(changed)
        if state is not None and any(map(len, changes)):
            started = time.perf_counter()
            self._write(files, state, changes)
            self.done.keeping += time.perf_counter() - started
        return emitted

    def _files(self, number: int) -> tuple[StateFile, ...]:
        files = self.ticket.state.get(self.instance.operator, ())
        return files[number] if number < len(files) else ()

    def _inherits(self) -> bool:
        """Return whether keys come to this instance or leave it."""
        number = self.instance.number
        if self._is_partial:
            return bool(self._orphans())
        handover = self.work.handovers.get(self.instance.operator)
        return handover is not None and (handover.sends(number) or bool(handover.received(number)))

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
            mine = self._owners(state) == self.instance.number
            if not mine.all():
                changes.append(marked(state.filter(pa.array(~mine)), gone=True))
                state = state.filter(pa.array(mine)).combine_chunks()
        arrived = self._received()
        if arrived is not None:
            self.done.taken_over += len(arrived)
            state = arrived if state is None else replaced(state, arrived)
            changes.append(marked(arrived, gone=False))
        return state, changes

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
                places=np.sort(key_places(codes, self._seed)),
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
            orphaned = read_states(self.work.location, self._files(number))
            self.done.taken_over += len(orphaned)
            rows = orphaned if state is None else merged(fold, state, orphaned)
            state = rows if state is None else replaced(state, rows)
            changes.append(marked(rows, gone=False))
        return state, changes

    def _fold(
        self, state: pa.Table | None, tuples: pa.Table
    ) -> tuple[pa.Table, pa.Table, pa.Table | None]:
        """Return the state after the tuples, the changes to it, and what is to be emitted."""
        operator = self.work.topology.operator(self.instance.operator)
        fold = self.work.fold(operator.name)
        started, began = time.process_time(), time.perf_counter()
        tuples = self._typed(fold, tuples, state)
        names = operator.key_columns
        numbers, firsts, codes = key_numbers(tuples, names, self._seed)
        key_rows = solid(take_rows(tuples.select(names), firsts))
        batch = key_batch(key_rows, names, f"operator {operator.name!r}", self._seed)
        self._check_owner(key_rows, batch)
        keys = keys_at(key_places(codes, self._seed), key_rows)
        if state is None:
            state = rows_of(keys.slice(0, 0), nothing(fold.state(tuples.schema), 0))
        known = match(state, keys)
        before = before_of(state, known)
        failed: list[int] = []
        if isinstance(fold, EachKey):
            refuse = self._refusing(operator, failed)
            step = fold.step(tuples, numbers, before, key_rows, refuse)
        else:
            step = fold.step(tuples, numbers, before, key_rows)
        gone = _gone_in(step, fold, len(firsts))
        rows = rows_of(keys, step.state)
        if failed:  # their state stays as it was, or absent
            good = np.setdiff1d(np.arange(len(rows)), failed)
            rows, gone = take_rows(rows, good), gone[good]
            known = Match(known.found[good], known.rows[good])
        state = replaced(state, rows, gone=gone, known=known)
        self.done.seconds += time.process_time() - started
        self.done.wall += time.perf_counter() - began
        counts = np.bincount(numbers, minlength=len(codes))
        self.done.keys = KeysSeen.of(self.work, operator.name, key_rows, batch, counts)
        self.done.hottest = hot_keys(codes, counts)
        changes = marked(rows, gone=gone)
        if gone.any():  # of a key that came and went in this batch there is nothing to tell
            changes = changes.filter(pa.array(~gone | known.found))
        return state, changes, step.emitted

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

    def _refusing(
        self, operator: Operator, failed: list[int]
    ) -> Callable[[int, pa.Table, Exception], None]:
        """Return what gets the keys on which the function of an operator raises, and notes them."""

        def refuse(number: int, rows: pa.Table, error: Exception) -> None:
            key = tuple(rows.select(operator.key_columns).slice(0, 1).to_pylist()[0].values())
            self.bad.failed(operator, rows, error, f" of key {key!r}")
            failed.append(number)

        return refuse

    def _check_owner(self, key_rows: pa.Table, keys: KeyBatch) -> None:
        """Refuse keys that another instance owns: their state would be in two places."""
        if self._is_partial:
            return
        owners = self.work.layout.owners(self.instance.operator).assign(keys)
        wrong = np.flatnonzero(owners != self.instance.number)
        if len(wrong):
            key = key_rows.slice(int(wrong[0]), 1).to_pylist()[0]
            raise StateError(
                f"key {key} came to {self.instance} and is owned by instance "
                f"{owners[wrong[0]]}; this is a defect of Penstock, please report it"
            )

    def _owners(self, state: pa.Table) -> NDArray[np.int32]:
        """Return who owns the keys of rows of state."""
        operator = self.instance.operator
        keys = key_batch(state, key_names(state), f"state of operator {operator!r}", self._seed)
        return self.work.layout.owners(operator).assign(keys)

    def _write(
        self, files: tuple[StateFile, ...], state: pa.Table, changes: Sequence[pa.Table]
    ) -> None:
        """Write what changed as one file more, or rewrite all of it if that is less in the end."""
        whole = should_rewrite(files)
        file = write_state(
            self.work.location,
            self.attempt,
            state if whole else last_of_each(changes),
            kind=Kind.BASE if whole else Kind.DELTA,
        )
        self.done.state = file
        self.done.state_rows = len(state)
        self.done.columns = columns_of(state)
        most = self.work.settings.resident_each
        chain = file.after(files)
        cache.keep(self.work.location, self.instance, chain, state, most=most)


def _gone_in(step: Step, fold: Fold, keys: int) -> NDArray[np.bool_]:
    """Return which keys a fold deletes."""
    if step.gone is None:
        return np.zeros(keys, dtype=np.bool_)
    gone = np.asarray(step.gone)
    if gone.dtype != np.bool_ or gone.shape != (keys,):
        raise FoldError(
            f"{fold!r} says by {gone.dtype} of shape {gone.shape} which of {keys} keys are gone; "
            "give a boolean for each, or None"
        )
    return gone
