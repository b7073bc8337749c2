"""What an instance's fold makes of tuples and state: nothing is read, written or remembered."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.hashing import key_places
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, StateError
from optimizers.folds.casting import solid, take_rows
from optimizers.folds.each_key import EachKey, KeyFunction, shown_key
from optimizers.folds.fold import Emit, Fold, Step, nothing
from optimizers.folds.key_codes import key_numbers
from optimizers.folds.key_notes import KeyNotes
from optimizers.layout import Instance
from optimizers.operators import Operator
from optimizers.runtime.state.changes import before_of, marked, rows_of
from optimizers.runtime.state.keys import Match, keys_at, match
from optimizers.runtime.state.merge import replaced
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.key_reader import key_batch
from optimizers.runtime.work import JobContext
from optimizers.statistics import Probe
from sketches.arrays import Codes, Floats, Parts


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold makes of tuples.

    Attributes:
        state: the state afterwards.
        changes: what changed of it.
        emitted: what is to be emitted.
        senders: for each emitted row, the number of the key that it is of; None if that is not
            known, or key groups are not observed.
        numbers: for each tuple, the number of its key; keys are numbered by their places.
        groups: the key group of each key; None if key groups are not observed.
        key_rows: their columns.
        codes: their codes.
        places: where they are on the ring of hashes.
        seconds: CPU seconds that each key took for itself, if that was measured.
    """

    state: pa.Table
    changes: pa.Table
    emitted: pa.Table | None
    senders: NDArray[np.int64] | None
    numbers: NDArray[np.int64]
    groups: Parts | None
    key_rows: pa.Table
    codes: Codes
    places: Codes
    seconds: Floats | None


@dataclass(frozen=True, slots=True)
class Folding:
    """How one instance folds.

    Attributes:
        work: the job.
        instance: which instance.
    """

    work: JobContext
    instance: Instance

    def folded(
        self, fold: Fold, state: pa.Table | None, tuples: pa.Table, bad: BadRows | None = None
    ) -> Folded:
        """Return what a fold makes of tuples.

        Args:
            fold: the fold.
            state: the state before; None if there is none.
            tuples: the tuples.
            bad: where tuples go that its function raises on; None if none can.
        """
        # 1. Which keys these are, and what is kept of them.
        operator = self.work.topology.operator(self.instance.operator)
        names, seed = operator.key_columns, self.work.topology.seed
        numbers, firsts, codes = key_numbers(tuples, names, seed)
        key_rows = solid(take_rows(tuples.select(names), firsts))
        batch = key_batch(key_rows, names, f"operator {operator.name!r}", seed)
        groups = self._checked_groups(key_rows, batch)
        places = key_places(codes, seed)
        keys = keys_at(places, key_rows)
        if state is None:
            state = rows_of(keys.slice(0, 0), nothing(fold.state(tuples.schema), 0))
        known = match(state, keys)
        before = before_of(state, known)
        # 2. What becomes of them.
        failed: list[int] = []
        notes = None
        observed = groups is not None
        if isinstance(fold, EachKey):
            refuse = None if bad is None else _refusing(bad, operator, failed)
            notes = KeyNotes(len(firsts)) if observed else None
            step = fold.step(tuples, numbers, before, key_rows, refuse, notes)
        else:
            step = fold.step(tuples, numbers, before, key_rows)
        gone = _gone_in(step, fold, len(firsts))
        senders = _senders(fold, step, numbers, notes, failed, gone) if observed else None
        rows = rows_of(keys, step.state)
        if failed:  # their state stays as it was, or absent
            good = np.setdiff1d(np.arange(len(rows)), failed)
            rows, gone = take_rows(rows, good), gone[good]
            known = Match(known.found[good], known.rows[good])
        # 3. The state with them.
        state = replaced(state, rows, gone=gone, known=known)
        changes = marked(rows, gone=gone)
        if gone.any():  # of a key that came and went in this batch there is nothing to tell
            changes = changes.filter(pa.array(~gone | known.found))
        seconds = None if notes is None else notes.seconds
        return Folded(
            state, changes, step.emitted, senders, numbers, groups, key_rows, codes, places, seconds
        )

    def _checked_groups(self, key_rows: pa.Table, keys: KeyBatch) -> Parts | None:
        """Return the key group of each key, if they are observed.

        Keys that another instance owns are refused: their state would be in two places.
        """
        known = self.work.layout.owners(self.instance.operator)
        observed = Probe.GROUPS in self.work.settings.observes
        if self.work.topology.operator(self.instance.operator).partial:
            return known.group_of(keys) if observed else None
        owners, groups = known.assign_by_group(keys) if observed else (known.assign(keys), None)
        wrong = np.flatnonzero(owners != self.instance.number)
        if len(wrong):
            key = shown_key(key_rows, int(wrong[0]))
            raise StateError(
                f"key {key} came to {self.instance} and is owned by instance "
                f"{owners[wrong[0]]}; this is a defect of Penstock, please report it"
            )
        return groups


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


def _refusing(
    bad: BadRows, operator: Operator, failed: list[int]
) -> Callable[[int, pa.Table, Exception], None]:
    """Return what gets the keys on which the function of an operator raises, and notes them."""

    def refuse(number: int, rows: pa.Table, error: Exception) -> None:
        key = shown_key(rows.select(operator.key_columns), 0)
        bad.failed(operator, rows, error, f" of key {key}")
        failed.append(number)

    return refuse


def _senders(  # noqa: PLR0913, PLR0917
    fold: Fold,
    step: Step,
    numbers: NDArray[np.int64],
    notes: KeyNotes | None,
    failed: list[int],
    gone: NDArray[np.bool_],
) -> NDArray[np.int64] | None:
    """Return for each row that a fold sends the number of the key that it is of, if that shows."""
    if step.emitted is None:
        return None
    done = np.ones(len(gone), dtype=np.bool_)
    done[failed] = False
    match fold.emit:
        case Emit.TUPLES:
            found = numbers[done[numbers]] if failed else numbers
        case Emit.CHANGES:
            found = np.flatnonzero(done & ~gone)
        case _ if notes is not None:
            found = np.repeat(np.arange(len(gone)), notes.rows)
        case _:
            return None
    # A fold of the user's own may send what it likes.
    return found if len(found) == len(step.emitted) else None


def harmless(fold: Fold) -> Fold:
    """Return a fold that can be tried: one that does not call a function of the user's."""
    if not isinstance(fold, EachKey):
        return fold
    return EachKey(_unchanged(fold), fold.kind, fold.output, emit=fold.emit)


def _unchanged(fold: EachKey) -> KeyFunction:
    """Return a function that leaves each key as it is and sends nothing of its own."""
    if fold.output is None:
        return lambda key, rows, state: state  # noqa: ARG005
    return lambda key, rows, state: (state, None)  # noqa: ARG005
