"""Stateless work: the results of a function, as record batches of one schema."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa

from optimizers.errors import FoldError
from optimizers.folds.arrow_values import batch_of, check_columns
from optimizers.folds.describe import in_line, name_of
from optimizers.folds.plain_values import plain_value

Refuse: TypeAlias = Callable[[pa.RecordBatch, Exception], None]
"""Gets rows on which a function raised, and the error."""
Rows: TypeAlias = Sequence[dict[str, Any] | None]
"""Rows as dicts; None for one that is refused, as Python cannot hold a value of it."""


@dataclass(frozen=True, repr=False)
class RowFunction:
    """A plain function of one row, as one of record batches; made by `each_row`.

    Without ``output``, each batch gets types that fit its values. `as_batches` keeps those of its
    first batch.

    Attributes:
        function: takes a row as a dict and returns a dict, an iterable of dicts, or None.
        output: the columns of what it returns; a row may lack some, and then has nulls there.
    """

    function: Callable[[dict[str, Any]], Any]
    output: pa.Schema | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise FoldError(f"each_row({in_line(self.function)}): that is not a function")
        if not isinstance(self.output, pa.Schema | None):
            raise FoldError(
                f"output={in_line(self.output)} is not a schema; write pa.schema([...])"
            )
        # As decorators do, so that the function is found where it was defined.
        for name in ("__module__", "__qualname__", "__doc__"):
            object.__setattr__(self, name, getattr(self.function, name, None))

    def __repr__(self) -> str:
        return f"each_row({name_of(self.function)})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by the import path if there is one, as ``@each_row`` hides the function itself."""
        module = getattr(self.function, "__module__", "__main__")
        name = getattr(self.function, "__qualname__", "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self and module != "__main__":
            return name
        return RowFunction, (self.function, self.output)

    def __call__(
        self,
        batch: pa.RecordBatch,
        *,
        output: pa.Schema | None = None,
        refuse: Refuse | None = None,
    ) -> Any:
        """Return the function's results for the rows of a batch; None if there are none.

        Args:
            batch: the rows.
            output: the columns of its results, if it does not declare them.
            refuse: gets each row that fails, and why; without it, the error is raised. A row also
                fails if Python cannot hold what is in it.
        """
        if len(set(batch.schema.names)) < len(batch.schema.names):
            raise FoldError(f"columns {batch.schema.names} are not all different; rename some")
        rows, origins = self._made(batch, refuse)
        if not rows:
            return None
        try:
            return self._batch(rows, origins, output)
        except FoldError:
            if refuse is None:
                raise
            good = self._fitting(batch, rows, origins, refuse)
            if not good:
                return None
            return self._batch([rows[n] for n in good], [origins[n] for n in good], output)

    def stretches(self, rows: Rows) -> Iterator[tuple[Callable[[dict[str, Any]], Any], Rows]]:
        """Return what is called for the first rows of a batch, for those after them, and so on."""
        yield self.function, rows

    def _made(
        self, batch: pa.RecordBatch, refuse: Refuse | None
    ) -> tuple[list[Mapping[str, Any]], list[int]]:
        """Return what the function makes of rows, and for each result the number of its row."""
        made: list[Mapping[str, Any]] = []
        origins: list[int] = []
        numbers = count()
        for function, rows in self.stretches(_dicts(batch, refuse)):
            for row, number in zip(rows, numbers, strict=False):
                if row is None:
                    continue
                try:
                    result = function(row)
                    if type(result) is dict:  # most often
                        made.append(result)
                        origins.append(number)
                    elif result is not None:
                        several = self._rows_of(result, number)
                        made += several
                        origins += [number] * len(several)
                except MemoryError:
                    raise  # not the row's fault
                except Exception as error:
                    if refuse is None:
                        raise
                    refuse(batch.slice(number, 1), error)
        return made, origins

    def _batch(
        self, rows: Sequence[Mapping[str, Any]], origins: Sequence[int], schema: pa.Schema | None
    ) -> pa.RecordBatch:
        """Return results as a batch: of the declared columns, or of these, or of any."""
        if self.output is not None:
            schema = self.output
        # If there were only nulls so far, the type is not known yet.
        fixed = self.output is not None
        return batch_of(rows, schema, lambda place: self._where(origins[place]), fixed=fixed)

    def _fitting(
        self,
        batch: pa.RecordBatch,
        rows: Sequence[Mapping[str, Any]],
        origins: Sequence[int],
        refuse: Refuse,
    ) -> list[int]:
        """Return which results fit the declared columns; the rows of others are refused.

        Without declared columns, that is what fits any: text that is valid, for example.
        """
        misfits: set[int] = set()
        for row, origin in zip(rows, origins, strict=True):
            try:
                batch_of([row], self.output, partial(_always, self._where(origin)))
            except FoldError as error:
                if origin not in misfits:
                    refuse(batch.slice(origin, 1), error)
                misfits.add(origin)
        return [number for number, origin in enumerate(origins) if origin not in misfits]

    def _rows_of(self, made: Any, number: int) -> list[Mapping[str, Any]]:
        if isinstance(made, Mapping):
            return [made]
        rows = list(made) if isinstance(made, Iterable) and not isinstance(made, str) else [made]
        for row in rows:
            if not isinstance(row, Mapping):
                raise FoldError(
                    f"{self._where(number)}: {name_of(self.function)} returned "
                    f"a {type(row).__name__}; it must return a dict, an iterable of dicts, or None"
                )
        return rows

    def _where(self, number: int) -> str:
        return f"what {name_of(self.function)} made of row {number} of the batch"


def _always(answer: str, _: int) -> str:
    return answer


def _dicts(batch: pa.RecordBatch, refuse: Refuse | None) -> Rows:
    """Return the rows of a batch."""
    try:
        found: list[dict[str, Any] | None] = batch.to_pylist()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # Arrow and pandas have many errors for what is no value
        return list(_one_by_one(batch, refuse))
    return found


def _one_by_one(batch: pa.RecordBatch, refuse: Refuse | None) -> Iterator[dict[str, Any] | None]:
    for number in range(len(batch)):
        row = batch.slice(number, 1)
        try:
            found = row.to_pylist()[0]
        except MemoryError:
            raise
        except Exception as error:
            ours = _unheld(row, error)
            if refuse is None:
                raise ours from error
            refuse(row, ours)
            found = None
        yield found


def _unheld(row: pa.RecordBatch, error: Exception) -> FoldError:
    """Return what is wrong with a row that Python cannot hold."""
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            column.to_pylist()
        except Exception as own:  # noqa: BLE001
            return FoldError(
                f"column {name!r} holds {plain_value(column[0])!r:.80}, a {column.type} that "
                f"Python cannot hold ({type(own).__name__}); mend it before, or cast the column "
                "to text"
            )
    return FoldError(f"the row cannot be read ({type(error).__name__}: {error}); mend it before")


def each_row(
    function: Callable[[dict[str, Any]], Any], *, output: pa.Schema | None = None
) -> RowFunction:
    """Return a plain function of one row as one of record batches.

    Args:
        function: takes a row as a dict and returns a dict, an iterable of dicts, or None for no
            row.
        output: the columns of what it returns. If not given, all rows must have the columns of the
            first, and the types are those that fit the values of the first batch.

    >>> split = each_row(lambda row: [{"word": word} for word in row["text"].split()])
    >>> split(pa.record_batch({"text": ["to be", "", "or not"]})).to_pydict()
    {'word': ['to', 'be', 'or', 'not']}
    """
    return RowFunction(function, output)


class Batches:
    """A stateless function as the engine calls it: a record batch in, record batches out.

    Made by `as_batches`, for one task. All results have one schema: the given one, or that of the
    first result.

    Attributes:
        function: what is called.
        schema: the schema of results; None until that is known.
        refuse: gets each row that the function fails on, and why; None to let the error through.
            The results of other rows are kept, so the function must be pure, and its result for a
            row must not depend on the other rows.
        fatal: whether ``refuse`` raises, so that no result has to be held back until all is done.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        schema: pa.Schema | None = None,
        refuse: Refuse | None = None,
        *,
        fatal: bool = True,
    ) -> None:
        self.function = function
        self.schema = schema
        self.refuse = refuse
        self.fatal = fatal

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return, one by one, the results of a batch; empty ones are left out."""
        if isinstance(self.function, RowFunction):
            made = self.function(batch, output=self.schema, refuse=self.refuse)
            parts: Iterable[Any] = () if made is None else (made,)
        elif self.refuse is None:
            parts = self._made(batch)
        else:
            parts = self._watched(batch) if self.fatal else self._sifted(batch, self.refuse)
        for part in parts:
            yield from self._held(part)

    def again(self, schema: pa.Schema | None, *, guarded: bool) -> "Batches":
        """Return the same for a part of the tuples; if not guarded, errors are raised."""
        refuse = self.refuse if guarded else None
        return Batches(self.function, schema, refuse, fatal=self.fatal)

    def _made(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Return, one by one, the results of a function of batches; its errors are handled here."""
        made = self.function(batch)
        if isinstance(made, pa.RecordBatch | pa.Table):
            yield made
        elif isinstance(made, Iterable) and not isinstance(made, str | bytes | Mapping):
            yield from made
        elif made is not None:
            yield made

    def _watched(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Return the function's results as they come; if it raises, look for the row."""
        try:
            yield from self._made(batch)
        except MemoryError:
            raise
        except Exception as error:
            if self.refuse is not None:
                self._sifted(batch, self.refuse, error)
                self.refuse(batch, error)  # no single row raises
            raise

    def _sifted(
        self, batch: pa.RecordBatch, refuse: Refuse, raised: Exception | None = None
    ) -> list[Any]:
        """Return the results of the rows on which the function does not raise, in their order.

        If it raises, it gets each half alone, and so on: for one bad row among many that is about
        as much work again as the batch.

        Args:
            batch: the rows.
            refuse: gets each row on which it raises alone.
            raised: its error for all of them, if that is known.
        """
        if raised is None:
            try:
                return list(self._made(batch))
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001  # a row may make it raise anything
                raised = error
        if len(batch) < 2:
            refuse(batch, raised)
            return []
        half = len(batch) // 2
        first = self._sifted(batch.slice(0, half), refuse)
        return first + self._sifted(batch.slice(half), refuse)

    def _held(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Return the record batches of a result; refuse anything else, and another schema."""
        if not isinstance(part, pa.RecordBatch | pa.Table):
            raise FoldError(
                f"{name_of(self.function)} returned a {type(part).__name__}; it must return a "
                "RecordBatch, a Table, None or an iterable of the first two (for a function of "
                "single rows, write each_row(function))"
            )
        if not len(part):
            return
        if self.schema is None:
            self.schema = part.schema
        elif pa.null() in (*part.schema.types, *self.schema.types):
            part = self._typed(part, self.schema)
        check_columns(part.schema, self.schema, name_of(self.function))
        if isinstance(part, pa.RecordBatch):
            yield part
        else:
            yield from (batch for batch in part.to_batches() if len(batch))

    def _typed(
        self, part: pa.RecordBatch | pa.Table, schema: pa.Schema
    ) -> pa.RecordBatch | pa.Table:
        """Return a part in which columns of nulls have their known types.

        Columns that had only nulls so far get their types from this part.
        """
        if part.schema.names != schema.names:
            return part
        null = pa.null()
        pairs = list(zip(schema, part.schema, strict=True))
        self.schema = pa.schema([new if old.type == null else old for old, new in pairs])
        wanted = [old if new.type == null else new for old, new in pairs]
        return part.cast(pa.schema(wanted, metadata=part.schema.metadata))


def as_batches(function: Callable[..., Any], *, schema: pa.Schema | None = None) -> Batches:
    """Return a stateless function as one that yields record batches.

    Args:
        function: takes a record batch and returns a record batch, a table, None, or an iterable
            of batches and tables. Also what `each_row` returned.
        schema: that of results, if it is known; otherwise the first batch decides.

    >>> twice = as_batches(lambda batch: [batch, pa.Table.from_batches([batch])])
    >>> [len(batch) for batch in twice(pa.record_batch({"x": [1, 2, 3]}))]
    [3, 3]
    """
    return Batches(function, schema)
