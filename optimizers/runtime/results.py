"""Reading a job's results: those of an operator, one row a key, and the output."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from optimizers.folds.fold import Fold
from optimizers.folds.key_codes import key_numbers, take_rows
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state.table import VALUE
from optimizers.runtime.work import fold_of
from optimizers.topology import Topology


def results_of(topology: Topology, operator: str, rows: pa.Table) -> pa.Table:
    """Return the results of a keyed operator, given its state as `Checkpoint.read` returns it.

    If several instances hold parts of one key's state, they are merged.
    """
    keys = topology.operator(operator).key_columns
    fold = fold_of(topology, operator)
    values = [name for name in rows.column_names if name not in keys]
    if not values:
        return rows
    names = [name.removeprefix(VALUE) if name[len(VALUE) :] in keys else name for name in values]
    state = rows.select(values).rename_columns(names)
    key_rows = rows.select(keys)
    if topology.operator(operator).partial:
        numbers, firsts, _ = key_numbers(key_rows, keys)
        key_rows, state = take_rows(key_rows, firsts), _put_together(fold, state, numbers)
    results = fold.results(state)
    # A result with the name of a key column has its name in state here.
    called = [VALUE + name if name in keys else name for name in results.column_names]
    return pa.table([*key_rows.columns, *results.columns], names=[*keys, *called])


def outputs_of(checkpoint: Checkpoint) -> dict[str, pa.Table]:
    """Return the job's output of the last batch, by operator."""
    commit = checkpoint.last_commit()
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for file in commit.outputs if commit is not None else ():
        if not file.aside:
            content = checkpoint.location.read(file.path)
            parts[file.operator].append(pq.read_table(pa.BufferReader(content)))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def _put_together(fold: Fold, state: pa.Table, numbers: NDArray[np.int64]) -> pa.Table:
    """Return the state of each key, given rows of parts and the number of each row's key."""
    order = np.argsort(numbers, kind="stable")
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    counts = np.diff(first, append=len(order))
    whole = take_rows(state, order[first])
    for part in range(1, int(counts.max(initial=0))):
        more = counts > part
        one = whole.filter(pa.array(more))
        merged = fold.merge(one, take_rows(state, order[first[more] + part]))
        places = np.arange(len(whole))
        places[more] = len(whole) + np.arange(len(merged))
        whole = take_rows(pa.concat_tables([whole, merged]), places)
    return whole
