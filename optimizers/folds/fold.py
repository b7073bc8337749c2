"""The interface of folds: what a keyed operator keeps for a key, and how tuples change that."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError, InvalidValueError
from optimizers.folds.casting import cast_back, take_rows
from optimizers.folds.describe import in_line, listed
from optimizers.folds.key_codes import key_names, key_numbers


class Emit(StrEnum):
    """What a keyed operator sends on, each time it has taken in a batch of tuples."""

    TUPLES = "tuples"
    """The tuples themselves, unchanged."""
    CHANGES = "changes"
    """One row for each key that came: its key columns and its results."""
    NOTHING = "nothing"
    """No rows; its state is there to be read."""
    OWN = "own"
    """The fold's own rows, if it makes any, as `EachKey` does."""


class Step(NamedTuple):
    """The result of one batch of tuples.

    Attributes:
        state: the state of the keys that came, row by row as it was before.
        emitted: the rows to send on; None where the fold emits nothing at all.
        gone: which of the keys are deleted, with their rows of state; None if none are.
    """

    state: pa.Table
    emitted: pa.Table | None
    gone: NDArray[np.bool_] | None = None


@dataclass(frozen=True, repr=False)
class Fold(ABC):
    """What a keyed operator keeps for each key, and how tuples change it: many keys at a time.

    A subclass says what it keeps (`state`) and how a batch of tuples changes that (`absorb`).
    If its state may be split over several instances, it also says how to merge parts (`merge`); if
    readers should see something else than the state, it says what (`results`). It is a frozen
    value: it is pickled to where it runs, and equal to another with the same fields.

    A fold is given to a keyed operator: ``Operator("visits", "user", apply=Count())``. It can
    also be called, on a whole table: ``Count()(table, "user")``.

    Attributes:
        emit: what the operator sends on.
        alone: whether it needs its keys, which only `step` gives it; it cannot then be one of
            several folds `Together`.
        even: whether all tuples and all keys cost it about the same, so that the costs of key
            groups follow from their numbers. If not, their costs are not reported.
    """

    alone: ClassVar[bool] = False
    even: ClassVar[bool] = False

    emit: Emit = field(default=Emit.CHANGES, kw_only=True)

    def __post_init__(self) -> None:
        # What is no text may not even say whether it is equal to one, as a column of Spark's.
        emit: object = self.emit
        if not isinstance(emit, str) or emit not in tuple(Emit):
            known = ", ".join(f"Emit.{each.name}" for each in Emit)
            raise InvalidValueError(f"emit={in_line(emit)} is none of {known}")
        object.__setattr__(self, "emit", Emit(emit))
        if self.emit is Emit.OWN and self.own_schema() is None:
            raise InvalidValueError(
                f"{type(self).__name__} says no rows of its own, so emit=Emit.OWN means nothing; "
                "use Emit.CHANGES, Emit.TUPLES or Emit.NOTHING"
            )

    def __repr__(self) -> str:
        """Return its text: the fields that differ from their defaults, ``emit`` last.

        The same in every process, so that a checkpoint can tell one fold from another by it.
        """
        named = [f for f in fields(self) if f.name != "emit" and f.repr]
        words = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in named
            if f.default is MISSING or getattr(self, f.name) != f.default
        ]
        if self.emit is not Emit.CHANGES:
            words.append(f"emit=Emit.{self.emit.name}")
        return f"{type(self).__name__}({', '.join(words)})"

    @abstractmethod
    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the columns kept for a key, given the columns of the tuples.

        What is taken from tuples is kept in the normal form of its type (`folds.types.normal`),
        so that a column may later come in another form.

        Raises:
            FoldError: a column that it needs is missing, or has a type that it cannot use.
        """

    @abstractmethod
    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Return the state of some keys after these tuples.

        Args:
            tuples: in the order in which they arrived.
            keys: for each tuple, the number of its key, from 0 to ``len(before) - 1``; each
                number at least once.
            before: row j is the state of key j so far, all null where the key is new.

        Returns:
            As many rows as ``before``, with the same columns.

        Raises:
            FoldError: this fold cannot use these tuples or this state.
        """

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Return row by row the state of keys whose parts are in both tables.

        Raises:
            FoldError: this fold cannot merge parts.
        """
        raise FoldError(
            f"{self!r} cannot be merged, so no key of it can be split over instances; "
            "set partial=False and route by Fields(), or use another fold"
        )

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the columns of `state` in the types that these tuples have.

        Results are sent on in these types. By default they are those of the state.
        """
        return self.state(tuples)

    def results(self, state: pa.Table) -> pa.Table:
        """Return what readers see of these states, row by row: by default the state itself."""
        return state

    def step(
        self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table, key_rows: pa.Table
    ) -> Step:
        """Take in one batch of tuples; return the state afterwards and the rows to send on.

        This is what the engine calls. A fold with rows of its own does both here.

        Args:
            tuples: as in `absorb`.
            keys: as in `absorb`.
            before: as in `absorb`.
            key_rows: row j holds the columns of key j, under the operator's names for them.
        """
        return self.sent(self.absorb(tuples, keys, before), tuples, key_rows)

    def sent(
        self,
        state: pa.Table,
        tuples: pa.Table,
        key_rows: pa.Table,
        gone: NDArray[np.bool_] | None = None,
    ) -> Step:
        """Return the state with the rows to send on, as ``emit`` says; for use in `step`.

        No row is sent on for a key that is deleted.
        """
        match self.emit:
            case Emit.TUPLES:
                return Step(state, tuples, gone)
            case Emit.CHANGES:
                return Step(state, self._changes(state, tuples.schema, key_rows, gone), gone)
            case _:
                return Step(state, None, gone)

    def _changes(
        self,
        state: pa.Table,
        tuples: pa.Schema,
        key_rows: pa.Table,
        gone: NDArray[np.bool_] | None = None,
    ) -> pa.Table:
        """Return a row for each key that is left, in the types of the tuples."""
        if gone is not None and gone.any():
            left = pa.array(~gone)
            state, key_rows = state.filter(left), key_rows.filter(left)
        rows = self.with_keys(key_rows, state)
        types = self.results(self.given_types(tuples).empty_table()).schema.types
        for number, kind in enumerate(types, start=key_rows.num_columns):
            name = rows.column_names[number]
            if rows.column(number).type != kind:
                rows = rows.set_column(number, name, cast_back(rows.column(number), kind, name))
        return rows

    def own_schema(self) -> pa.Schema | None:
        """Return the columns of its own rows; None if it makes none."""
        return None

    def with_keys(self, key_rows: pa.Table, state: pa.Table) -> pa.Table:
        """Return what readers see: the key columns and the results."""
        results = self.results(state)
        twice = sorted(set(key_rows.column_names) & set(results.column_names))
        if twice:
            raise FoldError(
                f"{self!r} calls a result {twice[0]!r} as the key is called; "
                f"name it otherwise: Together(name=...)"
            )
        names = [*key_rows.column_names, *results.column_names]
        return pa.table([*key_rows.columns, *results.columns], names=names)

    def __call__(self, tuples: pa.Table, key: str | Sequence[str]) -> pa.Table:
        """Fold a whole table, without earlier state: a row per key, in order of appearance."""
        if not isinstance(tuples, pa.Table):
            raise FoldError(
                f"{in_line(tuples)} is not an Arrow table; make one of it, such as by "
                "pa.Table.from_pandas(frame), or frame.toArrow() in Spark"
            )
        names = key_names(key)
        schema = self.state(tuples.schema)
        keys, firsts, _ = key_numbers(tuples, names)
        key_rows = take_rows(tuples.select(names), firsts)
        state, _, gone = self.step(tuples, keys, nothing(schema, len(firsts)), key_rows)
        if gone is not None:
            firsts = firsts[~gone]
        return take_rows(self._changes(state, tuples.schema, key_rows, gone), np.argsort(firsts))

    def checked(
        self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table
    ) -> NDArray[np.int64]:
        """Return the keys, after checking that all three fit together; for use in `absorb`."""
        check_state(self, self.state(tuples.schema), before)
        numbers = np.asarray(keys)
        if numbers.dtype.kind not in "iu" or numbers.shape != (len(tuples),):
            raise FoldError(
                f"{numbers.dtype} keys of shape {numbers.shape} do not fit {len(tuples)} tuples; "
                "give each the number of its key"
            )
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(before):
            raise FoldError(
                f"keys from {numbers.min()} to {numbers.max()} do not fit {len(before)} rows of "
                f"state; number them from 0"
            )
        return numbers.astype(np.int64, copy=False)


def nothing(schema: pa.Schema, keys: int) -> pa.Table:
    """Return the state of ``keys`` keys that have had no tuple yet."""
    return pa.table([pa.nulls(keys, field.type) for field in schema], schema=schema)


def check_column(fold: Fold, field: str, *, optional: bool = False) -> None:
    """Refuse a fold whose field does not name a column; for use in ``__post_init__``."""
    value = getattr(fold, field)
    if not (isinstance(value, str) or (optional and value is None)):
        raise InvalidValueError(
            f"{type(fold).__name__}({field}={in_line(value)}): that does not name a column; give "
            "the name of a column, such as 'v'"
        )


def check_state(fold: Fold, wanted: pa.Schema, state: pa.Table) -> None:
    """Refuse state with other columns than this fold keeps for these tuples."""
    kept = [(field.name, field.type) for field in state.schema]
    if kept != [(field.name, field.type) for field in wanted]:
        raise FoldError(
            f"{fold!r} keeps {listed(wanted)} of these tuples, but its state so far is "
            f"{listed(state.schema)}; cast the tuples to the types they had before"
        )


def check_parts(one: pa.Table, other: pa.Table) -> None:
    """Refuse two parts of state that do not match row by row."""
    if len(one) != len(other) or not one.schema.equals(other.schema):
        raise FoldError(
            f"{len(one)} rows of {listed(one.schema)} and {len(other)} of "
            f"{listed(other.schema)} are not two parts of one state; give the same keys to both"
        )
