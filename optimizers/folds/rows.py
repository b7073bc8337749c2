"""Stateless work: whatever a function gives back, as record batches of one schema."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from optimizers.errors import FoldError
from optimizers.folds.messages import name_of
from optimizers.folds.values import batch_of, check_columns


@dataclass(frozen=True, repr=False)
class RowFunction:
    """A plain function of one row, as one of record batches; made by `each_row`.

    Without ``output``, each batch gets the types that its values have in common. `as_batches`
    holds it to those of its first batch.

    Attributes:
        function: takes a row as a dict and returns a dict, an iterable of dicts, or None.
        output: the columns of what it returns; a row may lack some, and then has nulls there.
    """

    function: Callable[[dict[str, Any]], Any]
    output: pa.Schema | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise FoldError(f"each_row({self.function!r}): that is not a function")
        if not isinstance(self.output, pa.Schema | None):
            raise FoldError(f"output={self.output!r} is not a schema; write pa.schema([...])")
        # As a decorator does it, so that the function is found again where it was defined.
        for name in ("__module__", "__qualname__", "__doc__"):
            object.__setattr__(self, name, getattr(self.function, name, None))

    def __repr__(self) -> str:
        return f"each_row({name_of(self.function)})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by its place where it has one, as ``@each_row`` leaves no other way to find it."""
        module = getattr(self.function, "__module__", "__main__")
        name = getattr(self.function, "__qualname__", "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self and module != "__main__":
            return name
        return RowFunction, (self.function, self.output)

    def __call__(self, batch: pa.RecordBatch, *, output: pa.Schema | None = None) -> Any:
        """Return what the function makes of the rows of a batch; None if that is nothing.

        Args:
            batch: the rows.
            output: the columns of what it returns, where it does not say itself.
        """
        if len(set(batch.schema.names)) < len(batch.schema.names):
            raise FoldError(f"columns {batch.schema.names} are not all different; rename some")
        rows: list[Mapping[str, Any]] = []
        origins: list[int] = []
        for number, row in enumerate(batch.to_pylist()):
            made = self.function(row)
            if type(made) is dict:  # most often
                rows.append(made)
                origins.append(number)
            elif made is not None:
                several = self._rows_of(made, number)
                rows += several
                origins += [number] * len(several)
        if not rows:
            return None
        schema = output if self.output is None else self.output
        return batch_of(rows, schema, lambda place: self._where(origins[place]))

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


def each_row(
    function: Callable[[dict[str, Any]], Any], *, output: pa.Schema | None = None
) -> RowFunction:
    """Return a plain function of one row as one of record batches.

    Args:
        function: takes a row as a dict and returns a dict, an iterable of dicts, or None for no
            row at all.
        output: the columns of what it returns. If not given, all rows must have the columns of
            the first, and the types are those that the values of the first batch have in common.

    >>> split = each_row(lambda row: [{"word": word} for word in row["text"].split()])
    >>> split(pa.record_batch({"text": ["to be", "", "or not"]})).to_pydict()
    {'word': ['to', 'be', 'or', 'not']}
    """
    return RowFunction(function, output)


class Batches:
    """A stateless function as the engine calls it: a record batch in, record batches out.

    Made by `as_batches`, for one task. All that comes out has one schema: the one it was given,
    or else that of the first batch that came out.

    Attributes:
        function: what is called.
        schema: the schema of what comes out; None until that is known.
    """

    def __init__(self, function: Callable[..., Any], schema: pa.Schema | None = None) -> None:
        self.function = function
        self.schema = schema

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return, one by one, what the function makes of a batch; empty batches are left out."""
        if isinstance(self.function, RowFunction):
            made = self.function(batch, output=self.schema)
        else:
            made = self.function(batch)
        if isinstance(made, pa.RecordBatch | pa.Table):
            yield from self._held(made)
        elif isinstance(made, Iterable) and not isinstance(made, str | bytes | Mapping):
            for part in made:
                yield from self._held(part)
        elif made is not None:
            yield from self._held(made)

    def _held(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Return what is in a batch or table; refuse anything else, and another schema."""
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
        check_columns(part.schema, self.schema, name_of(self.function))
        if isinstance(part, pa.RecordBatch):
            yield part
        else:
            yield from (batch for batch in part.to_batches() if len(batch))


def as_batches(function: Callable[..., Any], *, schema: pa.Schema | None = None) -> Batches:
    """Return a stateless function as one that gives record batches, whatever it gives itself.

    Args:
        function: takes a record batch and returns a record batch, a table, None, or an iterable
            of batches and tables. Also what `each_row` returned.
        schema: what comes out, if it is known; otherwise the first batch says it.

    >>> twice = as_batches(lambda batch: [batch, pa.Table.from_batches([batch])])
    >>> [len(batch) for batch in twice(pa.record_batch({"x": [1, 2, 3]}))]
    [3, 3]
    """
    return Batches(function, schema)
