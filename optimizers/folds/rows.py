"""Stateless work: whatever a function gives back, as record batches of one schema."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from optimizers.errors import FoldError


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
        yield from self._flat(self.function(batch), whole=True)

    def _flat(self, given: Any, *, whole: bool) -> Iterator[pa.RecordBatch]:
        if isinstance(given, pa.RecordBatch):
            if len(given):
                self._hold(given.schema)
                yield given
        elif isinstance(given, pa.Table):
            for batch in given.to_batches():
                yield from self._flat(batch, whole=False)
        elif given is None and whole:
            return
        elif whole and hasattr(given, "__iter__") and not isinstance(given, str | bytes | dict):
            for part in given:
                yield from self._flat(part, whole=False)
        else:
            what = "returned" if whole else "returned among others"
            raise FoldError(
                f"{name_of(self.function)} {what} a {type(given).__name__}; it must return a "
                "RecordBatch, a Table, None or an iterable of those two (for a function of "
                "single rows, write each_row(function))"
            )

    def _hold(self, schema: pa.Schema) -> None:
        """Refuse a batch of another schema than those before."""
        if self.schema is None:
            self.schema = schema
        elif not self.schema.equals(schema):
            raise FoldError(
                f"{name_of(self.function)} returned columns ({listed(schema)}), but before "
                f"({listed(self.schema)}); cast what it returns, so that all of it has one schema"
            )


def as_batches(function: Callable[..., Any], *, schema: pa.Schema | None = None) -> Batches:
    """Return a stateless function as one that gives record batches, whatever it gives itself.

    Args:
        function: takes a record batch and returns a record batch, a table, None, or an iterable
            of batches and tables.
        schema: what comes out, if it is known; otherwise the first batch says it.

    >>> double = as_batches(lambda batch: [batch, pa.Table.from_batches([batch])])
    >>> [len(batch) for batch in double(pa.record_batch({"x": [1, 2, 3]}))]
    [3, 3]
    """
    return Batches(function, schema)


def name_of(function: Any) -> str:
    """Return what a function is called, for messages."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return repr(function) if None in (module, name) else f"{module}.{name}"


def listed(schema: pa.Schema) -> str:
    """Return the columns of a schema, for messages."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
