"""Bad rows: without a key, or such that the user's function raises; and what becomes of them."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError, FunctionError
from optimizers.folds.columns import present
from optimizers.folds.rows import Refuse
from optimizers.operators import Edge, OnError, Operator
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.key_reader import reworded, unfit_keys
from optimizers.runtime.task.output import write_output
from optimizers.runtime.task.output_file import OutputFile
from optimizers.runtime.task.reports import BadCount
from optimizers.runtime.task.row_text import row_texts, shortened
from optimizers.runtime.task.user_errors import raised_by, said

ASIDE = pa.schema(
    [
        ("operator", pa.string()),
        ("batch", pa.int64()),
        ("reason", pa.string()),
        ("row", pa.string()),
    ]
)
"""The columns of rows that are handed aside; the row itself is JSON."""


class BadRows:
    """The bad rows that a task comes across: those of its own operator, and of those it sends to.

    What becomes of a row says the operator that cannot take it in. Rows are counted for the task's
    report and, if they are handed aside, written to a file that it names; so they count once, with
    the commit of the batch.

    Args:
        location: where output is kept.
        attempt: by which the task's files are known.

    Attributes:
        counts: how many there were of each operator, and one of them.
    """

    def __init__(self, location: Location, attempt: Attempt) -> None:
        self._location = location
        self._attempt = attempt
        self.counts: dict[str, BadCount] = {}
        self._aside: dict[str, list[pa.RecordBatch]] = {}

    def refusing(self, operator: Operator) -> Refuse:
        """Return what gets rows on which the function of an operator raises."""
        return partial(self.failed, operator)

    def failed(
        self, operator: Operator, rows: pa.RecordBatch | pa.Table, error: Exception, whose: str = ""
    ) -> None:
        """Take rows for which a function raised an error.

        Args:
            operator: whose function it is.
            rows: the rows.
            error: what it raised.
            whose: what the rows have in common, where that says more than their number.

        Raises:
            FunctionError: the operator says that bad rows end the job.
            FoldError: the same, where it was what the function returned that is wrong.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if operator.on_error is OnError.FAIL:
            ours = raised_by(f"operator {operator.name!r}", error)
            which = self._which(table, whose)
            if ours is None:
                raise FoldError(f"operator {operator.name!r}: {said(error)}; {which}") from error
            raise FunctionError(f"{ours}; {which}") from error
        self._let_go(operator, table, [said(error)] * len(table))

    def with_key(
        self, tuples: pa.Table, edge: Edge, columns: Sequence[str], target: Operator
    ) -> pa.Table:
        """Return the tuples that have a key; the others are bad rows of the edge's target.

        Args:
            tuples: those that the edge is to carry.
            edge: the edge.
            columns: of the key; where one is not there, that is for others to refuse.
            target: the operator that the edge leads to.

        Raises:
            FoldError: one has none, and the target says that bad rows end the job.
        """
        if any(tuples.column_names.count(name) != 1 for name in columns):
            return tuples
        gaps = {
            name: missing for name in columns if (missing := _missing(tuples[name])) is not None
        }
        if not gaps:
            return tuples
        bad = np.logical_or.reduce(list(gaps.values()))
        rows = tuples.filter(pa.array(bad))
        first = [next(name for name in gaps if gaps[name][row]) for row in np.flatnonzero(bad)]
        self._keyless(rows, [f"key {name!r} is null on edge {edge}" for name in first], target)
        return reworded(tuples.filter(pa.array(~bad)), gaps)

    def with_fit_key(
        self, tuples: pa.Table, edge: Edge, columns: Sequence[str], target: Operator
    ) -> pa.Table:
        """Return the tuples whose values in the key columns can be keys, of types that have keys.

        Others are bad rows, as in `with_key`: a time after the year 9999, for example.

        Args:
            tuples: those that the edge is to carry, each with a key.
            edge: the edge.
            columns: of the key.
            target: the operator that the edge leads to.

        Raises:
            FoldError: one has no such key, and the target says that bad rows end the job.
        """
        if any(tuples.column_names.count(name) != 1 for name in columns):
            return tuples
        reasons: dict[int, str] = {}
        for name in columns:
            for wrong, why in unfit_keys(tuples[name]):
                for row in np.flatnonzero(wrong).tolist():
                    reasons.setdefault(row, f"key {name!r} {why} on edge {edge}")
        if reasons:
            bad = np.zeros(len(tuples), dtype=np.bool_)
            bad[list(reasons)] = True
            rows = tuples.filter(pa.array(bad))
            self._keyless(rows, [reasons[row] for row in sorted(reasons)], target)
            tuples = tuples.filter(pa.array(~bad))
        return reworded(tuples, columns)

    def finish(self) -> tuple[OutputFile, ...]:
        """Write what is handed aside, and return the files."""
        aside, self._aside = self._aside, {}
        return tuple(
            write_output(self._location, self._attempt, parts, aside_of=operator)
            for operator, parts in aside.items()
        )

    def _keyless(self, rows: pa.Table, reasons: list[str], target: Operator) -> None:
        if target.on_error is OnError.FAIL:
            raise FoldError(f"operator {target.name!r}: {reasons[0]}; {self._which(rows)}")
        self._let_go(target, rows, reasons)

    def _let_go(self, operator: Operator, rows: pa.Table, reasons: list[str]) -> None:
        known = self.counts.get(operator.name)
        example = known.example if known else f"{reasons[0]}: {_shown(rows)}"
        count = len(rows) + (known.rows if known else 0)
        self.counts[operator.name] = BadCount(count, example)
        if operator.on_error is OnError.ASIDE:
            names = [operator.name] * len(rows), [self._attempt.batch] * len(rows)
            columns = [*names, reasons, row_texts(rows)]
            arrays = [
                pa.array(values, kind.type) for values, kind in zip(columns, ASIDE, strict=True)
            ]
            self._aside.setdefault(operator.name, []).append(
                pa.RecordBatch.from_arrays(arrays, schema=ASIDE)
            )

    def _which(self, rows: pa.Table, whose: str = "") -> str:
        """Return which rows are bad, and what can be done about it."""
        number = f"{len(rows)} rows, the first" if len(rows) > 1 else "the row"
        return (
            f"{number}{whose} of batch {self._attempt.batch}: {_shown(rows)}; mend what makes such "
            "rows, or have them left out and counted: on_error='skip', or handed out with the "
            "reason: on_error='aside'"
        )


def _shown(rows: pa.Table) -> str:
    return shortened(row_texts(rows.slice(0, 1))[0])


def _missing(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Return where a column has no value; None where it has one in each row."""
    if pa.types.is_dictionary(column.type) and any(
        chunk.dictionary.null_count for chunk in column.chunks
    ):
        column = column.cast(column.type.value_type)
    if not column.null_count:
        return None
    return np.concatenate([~present(chunk) for chunk in column.chunks])
