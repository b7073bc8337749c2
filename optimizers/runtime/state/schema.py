"""The columns of state: all instances of an operator have the same, in all batches."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from optimizers.errors import StateError
from optimizers.runtime.state.file import StateFile, read_state
from optimizers.runtime.state.table import GONE, KEY
from optimizers.runtime.storage.location import Location

if TYPE_CHECKING:
    from optimizers.runtime.task.reports import Reports

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""The columns of a table, each with its type."""


def columns_of(rows: pa.Table) -> Columns:
    """Return the columns of state, without the one that only marks changes."""
    return tuple((field.name, str(field.type)) for field in rows.schema if field.name != GONE)


def key_types(columns: Mapping[str, Columns]) -> dict[str, tuple[str, ...]]:
    """Return the types of the key columns of each operator's state."""
    return {
        name: tuple(kind for column, kind in kept if column.startswith(KEY))
        for name, kept in columns.items()
    }


def columns_after(
    known: Mapping[str, Columns],
    reports: "Reports",
    state: Mapping[str, Sequence[Sequence[StateFile]]],
    location: Location,
) -> dict[str, Columns]:
    """Return the columns of each operator's state after a batch.

    Where a key has state, a change of type is noticed anyway; this is for operators without keys so
    far.

    Args:
        known: the columns so far, of operators that are known.
        reports: the reports of the tasks, in an order that does not depend on their arrival.
        state: the files of state before the batch.
        location: where these are.

    Raises:
        StateError: an instance would keep keys or values of other types than the others.
    """
    found = dict(known)
    operators, instances = reports.texts("operator"), reports.numbers("instance")
    for task, columns in reports.documents("columns"):
        name = operators[task]
        if name not in found:
            files = [file for kept in state.get(name, ()) for file in kept]
            found[name] = _columns_in(files, location) if files else columns
        if found[name] != columns:
            raise StateError(
                f"instance {instances[task]} of operator {name!r} would keep "
                f"{_shown(columns)}, where so far was kept {_shown(found[name])}; cast the "
                "tuples to the types they had before; the batch is not committed"
            )
    return found


def _columns_in(files: Sequence[StateFile], location: Location) -> Columns:
    """Return the columns that are in all of these files, from the smallest of them."""
    nothing = np.empty(0, dtype=np.uint64)
    return columns_of(read_state(location, min(files, key=lambda file: file.bytes), places=nothing))


def _shown(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
