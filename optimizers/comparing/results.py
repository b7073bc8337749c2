"""What a job has come to, read from its checkpoint: the results of its keys, and what left it."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimizers.folds.fold import Fold
from optimizers.folds.key_codes import key_numbers, take_rows
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state.table import VALUE
from optimizers.runtime.work import fold_of
from optimizers.topology import Topology


def results_of(checkpoint: Checkpoint, topology: Topology, operator: str) -> pa.Table:
    """Return a row for each key of an operator: the columns of its key, and its results.

    Where several instances hold parts of one key, these are put together.
    """
    names = topology.operator(operator).key_columns
    rows = checkpoint.read(operator)
    values = rows.drop_columns(list(names))
    if not len(rows):
        return rows
    called = [
        name.removeprefix(VALUE) if name[len(VALUE) :] in names else name
        for name in values.column_names
    ]
    keys, state = rows.select(names), values.rename_columns(called)
    fold = fold_of(topology, operator)
    if topology.operator(operator).partial:
        keys, state = _joined(fold, keys, state)
    results = fold.results(state)
    called = [VALUE + name if name in names else name for name in results.column_names]
    return pa.table([*keys.columns, *results.columns], [*names, *called])


def outputs_of(checkpoint: Checkpoint) -> dict[str, pa.Table]:
    """Return what left the job in the last batch, by the operator that emitted it."""
    commit = checkpoint.last_commit()
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for file in commit.outputs if commit is not None else ():
        if file.aside:
            continue
        content = checkpoint.location.read(file.path)
        parts[file.operator].append(pq.read_table(pa.BufferReader(content)))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def _joined(fold: Fold, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return each key once, with the state that its parts make together."""
    numbers, firsts, _ = key_numbers(keys, keys.column_names)
    order = np.argsort(numbers, kind="stable")
    begins = np.searchsorted(numbers[order], np.arange(len(firsts)))
    parts = np.diff(np.append(begins, len(order)))
    joined = take_rows(state, order[begins])
    for part in range(1, int(parts.max())):
        some = np.flatnonzero(parts > part)
        merged = fold.merge(take_rows(joined, some), take_rows(state, order[begins[some] + part]))
        places = np.arange(len(firsts))
        places[some] = len(firsts) + np.arange(len(some))
        joined = take_rows(pa.concat_tables([joined, merged]), places)
    return take_rows(keys, firsts), joined
