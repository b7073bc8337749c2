"""The user's own function over the rows of one key."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError, InvalidValueError
from optimizers.folds.arrow_values import batch_of, check_columns, column_of
from optimizers.folds.casting import cast, take_rows
from optimizers.folds.describe import in_line, name_of, shown
from optimizers.folds.fold import Emit, Fold, Step
from optimizers.folds.key_notes import KeyNotes
from optimizers.folds.plain_values import in_python
from optimizers.folds.types import normal


class _Deletion(Enum):
    """What a function returns instead of a state; a single value in every process."""

    DELETE = "delete"

    def __repr__(self) -> str:
        return self.name


DELETE = _Deletion.DELETE
"""Returned by a function of `EachKey` instead of a state, to delete the key."""

KeyFunction = Callable[[tuple[Any, ...], pa.Table, Any], Any]
"""``function(key, rows, state) -> state``, or ``-> (state, rows)`` where it has an output."""


Refusal = Callable[[int, pa.Table, Exception], None]
"""Gets a key that failed, by its number, with its tuples and the error."""


@dataclass(frozen=True, init=False, repr=False)
class EachKey(Fold):
    """The user's own function over the rows of one key, called once for each key of a batch.

    The function gets the key (a tuple of the values of its columns), a table of the key's tuples
    in the order in which they arrived, and the state it returned for this key last time; None
    where the key is new. It returns the state from now on: a plain Python value of the declared
    type. One of another type is refused rather than changed, and so is one that Arrow would
    round or cut. A function with an ``output`` returns a pair: the state, and the rows that the
    operator sends on: a table, a record batch, a dict, an iterable of dicts, or None.

    A function that returns `DELETE` as the state deletes its key: nothing of it is kept, and only
    the rows that the function returns are sent on for it. If it comes again it is new, and the
    function gets None. None as a state is different: the key stays, with a null.

    It costs a call for each key, where the other folds take all keys in one go.

    >>> def longest(key, rows, state):
    ...     return max([state or "", *rows["page"].to_pylist()], key=len)
    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", "/exit"]})
    >>> EachKey(longest, pa.string())(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'state': ['/exit', '/']}
    >>> def open_visits(key, rows, state):
    ...     pages = rows["page"].to_pylist()
    ...     return DELETE if "/exit" in pages else (state or 0) + len(pages)
    >>> EachKey(open_visits, pa.int64())(visits, "user").to_pydict()
    {'user': ['bob'], 'state': [1]}

    Attributes:
        function: what is called; must be importable where it runs.
        kind: the Arrow type of the state.
        output: the columns of the rows it sends on; None if it returns only a state.
    """

    function: KeyFunction
    kind: pa.DataType
    output: pa.Schema | None

    alone = True

    def __init__(
        self,
        function: KeyFunction,
        state: pa.DataType,
        output: pa.Schema | None = None,
        *,
        emit: Emit | None = None,
    ) -> None:
        own = Emit.CHANGES if output is None else Emit.OWN
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "kind", state)
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "emit", own if emit is None else emit)
        self.__post_init__()

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidValueError(f"EachKey({in_line(self.function)}): that is not a function")
        if not isinstance(self.kind, pa.DataType):
            raise InvalidValueError(
                f"state={in_line(self.kind)} is not an Arrow type; write one such as pa.int64()"
            )
        if not isinstance(self.output, pa.Schema | None):
            raise InvalidValueError(
                f"output={in_line(self.output)} is not a schema; write pa.schema(...)"
            )
        super().__post_init__()
        if self.output is not None and self.emit is not Emit.OWN:
            raise InvalidValueError(
                f"with emit=Emit.{self.emit.name} the rows that {name_of(self.function)} returns "
                "would be lost; leave emit out, or output"
            )

    def __repr__(self) -> str:
        words = [name_of(self.function), str(self.kind)]
        if self.output is not None:
            words.append(f"output=({', '.join(f'{f.name}: {f.type}' for f in self.output)})")
        elif self.emit is not Emit.CHANGES:
            words.append(f"emit=Emit.{self.emit.name}")
        return f"EachKey({', '.join(words)})"

    def own_schema(self) -> pa.Schema | None:
        """Return the columns of the rows that the function returns."""
        return self.output

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept; the function may read any column it likes."""
        return pa.schema([("state", normal(self.kind))])

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column, of the type that was declared."""
        return pa.schema([("state", self.kind)])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> NoReturn:
        """Refuse, as the function needs the key; see `step`."""
        raise FoldError(f"{self!r} calls its function with the key; use step(), which gets it")

    def step(  # noqa: PLR0913, PLR0917
        self,
        tuples: pa.Table,
        keys: NDArray[np.int64],
        before: pa.Table,
        key_rows: pa.Table,
        refuse: Refusal | None = None,
        notes: KeyNotes | None = None,
    ) -> Step:
        """Call the function for each key, in the order of their numbers.

        Args:
            tuples: as in `Fold.step`.
            keys: as in `Fold.step`.
            before: as in `Fold.step`.
            key_rows: as in `Fold.step`.
            refuse: gets each key for which the function raises or returns what does not fit, by
                its number, with its tuples and the error; the key's state stays as it was, and
                nothing is sent on for it. Without it, the error is raised.
            notes: gets the cost of each key, and how many rows the function returns for it.
        """
        numbers = self.checked(tuples, keys, before)
        # In one chunk, and sorted, the rows of each key are a slice that costs nothing.
        ordered = take_rows(tuples, np.argsort(numbers, kind="stable"))
        calls = _Calls(
            ordered,
            [0, *np.cumsum(np.bincount(numbers, minlength=len(before))).tolist()],
            before.column("state").to_pylist(),
            refuse,
            notes,
        )
        calls.call(self._called, _in_python(key_rows))
        try:
            after = self._column(calls.states, key_rows)
        except FoldError:
            if refuse is None:
                raise
            for number, error in self._misfits(calls.states, key_rows):
                calls.fail(number, error)
            after = self._column(calls.states, key_rows)
        failed = calls.failed
        gone = np.array([state is DELETE for state in calls.states], dtype=np.bool_)
        kept = cast(pa.chunked_array([after]), before.schema.field("state").type)
        state = pa.table([kept], schema=before.schema)
        if self.output is not None:
            sent = pa.concat_tables([self.output.empty_table(), *chain(*calls.emitted.values())])
        elif not failed:
            return self.sent(state, tuples, key_rows, gone)
        else:
            good = np.setdiff1d(np.arange(len(before)), failed)
            mine = tuples.filter(pa.array(np.isin(numbers, good)))
            kept, good_keys = take_rows(state, good), take_rows(key_rows, good)
            sent = self.sent(kept, mine, good_keys, gone[good]).emitted
        return Step(state, sent, gone)

    def _called(
        self, key: tuple[Any, ...] | FoldError, rows: pa.Table, state: Any
    ) -> tuple[Any, list[pa.Table]]:
        """Return the state of a key after these tuples, and the rows that the function returns."""
        if isinstance(key, FoldError):
            raise key
        returned = self.function(key, rows, state)
        if self.output is None:
            return returned, []
        place = f"what {name_of(self.function)} returned for key {key!r}"
        state, said = self._pair(returned, place)
        return state, self._rows(said, self.output, place)

    def _pair(self, returned: Any, place: str) -> tuple[Any, Any]:
        if isinstance(returned, tuple) and len(returned) == 2:
            return returned
        raise FoldError(
            f"{place}: {shown(returned)} is not a pair; with an output, a function returns its "
            "state and the rows to send on: (state, rows)"
        )

    def _rows(self, rows: Any, schema: pa.Schema, place: str) -> list[pa.Table]:
        """Return the rows that the function returns for one key as a table, or None."""
        if isinstance(rows, pa.Table | pa.RecordBatch):
            check_columns(rows.schema, schema, place)
            return [rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])]
        if isinstance(rows, Mapping):
            rows = [rows]
        if rows is None:
            return []
        whole = isinstance(rows, Iterable) and not isinstance(rows, str | bytes)
        several = list(rows) if whole else [rows]
        if not all(isinstance(row, Mapping) for row in several):
            raise FoldError(
                f"{place}: rows {shown(rows)} cannot be sent on; return a Table, a RecordBatch, "
                "a dict, an iterable of dicts, or None"
            )
        if not several:
            return []
        batch = batch_of(several, schema, lambda number: f"{place}, row {number}")
        return [pa.Table.from_batches([batch])]

    def _column(self, states: list[Any], key_rows: pa.Table) -> pa.Array:
        """Return the states as a column; null for the keys that are deleted."""
        values = [None if state is DELETE else state for state in states]
        return column_of(values, self.kind, lambda place: self._where(key_rows, place))

    def _misfits(self, states: list[Any], key_rows: pa.Table) -> Iterator[tuple[int, FoldError]]:
        """Return which keys have states that are not of the declared type, and what is wrong."""
        for number, state in enumerate(states):
            try:
                self._column([state], key_rows.slice(number, 1))
            except FoldError as error:
                yield number, error

    def _where(self, key_rows: pa.Table, place: int) -> str:
        return f"what {name_of(self.function)} returned for key {shown_key(key_rows, place)}"


class _Calls:
    """The calls of a function for the keys of one batch, one after the other.

    Args:
        ordered: the tuples of each key, key after key.
        ends: where those of each key end, after a 0.
        known: the state of each key so far.
        refuse: as in `EachKey.step`.
        notes: as in `EachKey.step`.

    Attributes:
        states: the state of each key afterwards; that so far of those that failed.
        emitted: the rows that are sent on for each.
        failed: the keys that were refused.
    """

    def __init__(
        self,
        ordered: pa.Table,
        ends: list[int],
        known: list[Any],
        refuse: Refusal | None,
        notes: KeyNotes | None,
    ) -> None:
        self._ordered = ordered
        self._ends = ends
        self._known = known
        self._refuse = refuse
        self._notes = notes
        self.states = known.copy()
        self.emitted: dict[int, list[pa.Table]] = {}
        self.failed: list[int] = []

    def call(
        self,
        function: Callable[[Any, pa.Table, Any], tuple[Any, list[pa.Table]]],
        keys: Iterable[Any],
    ) -> None:
        """Call the function for each key."""
        notes = self._notes
        if notes is not None:
            notes.begin()
        for number, key in enumerate(keys):
            rows: list[pa.Table] = []
            try:
                state, rows = function(key, self._rows_of(number), self._known[number])
            except MemoryError:
                raise  # that is no fault of the key
            except Exception as error:
                if self._refuse is None:
                    raise
                self.fail(number, error)
            else:
                self.states[number], self.emitted[number] = state, rows
            if notes is not None:
                notes.note(sum(map(len, rows)))
        if notes is not None:
            notes.end()

    def fail(self, number: int, error: Exception) -> None:
        """Refuse a key: its state is as it was, and none of its rows are sent on."""
        if self._refuse is not None:
            self._refuse(number, self._rows_of(number), error)
        self.failed.append(number)
        self.states[number] = self._known[number]
        if self.emitted.pop(number, None) and self._notes is not None:
            self._notes.forget(number)

    def _rows_of(self, number: int) -> pa.Table:
        start, end = self._ends[number : number + 2]
        return self._ordered.slice(start, end - start)


def shown_key(key_rows: pa.Table, place: int) -> str:
    """Return the key of a row for a message, whatever is in it."""
    return repr(tuple(in_python(column[place]) for column in key_rows.columns))


def _in_python(key_rows: pa.Table) -> Iterable[tuple[Any, ...] | FoldError]:
    """Return keys as tuples, and what is wrong with those that Python cannot hold."""
    try:
        return zip(*(column.to_pylist() for column in key_rows.columns), strict=True)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # Arrow and pandas have many errors for what is no value
        return [_one_in_python(key_rows, place) for place in range(len(key_rows))]


def _one_in_python(key_rows: pa.Table, place: int) -> tuple[Any, ...] | FoldError:
    try:
        return tuple(column[place].as_py() for column in key_rows.columns)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        return FoldError(
            f"Python cannot hold key {shown_key(key_rows, place)} ({type(error).__name__}); mend "
            "it before, or cast the column to bytes, or times to UTC"
        )
