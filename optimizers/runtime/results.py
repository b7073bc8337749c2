"""What readers see of an operator's state: one row a key, its results in place of the state."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.fold import Fold
from optimizers.folds.key_codes import key_numbers, take_rows
from optimizers.runtime.work import fold_of
from optimizers.topology import Topology


def results_of(topology: Topology, operator: str, rows: pa.Table) -> pa.Table:
    """Return the results of a keyed operator, given its state as `Checkpoint.read` returns it.

    Where several instances hold parts of one key's state, they are put together.
    """
    keys = topology.operator(operator).key_columns
    fold = fold_of(topology, operator)
    values = [name for name in rows.column_names if name not in keys]
    if not values:
        return rows
    names = [name.removeprefix("value_") if name[6:] in keys else name for name in values]
    state = rows.select(values).rename_columns(names)
    key_rows = rows.select(keys)
    if topology.operator(operator).partial:
        numbers, firsts, _ = key_numbers(key_rows, keys)
        key_rows, state = take_rows(key_rows, firsts), _put_together(fold, state, numbers)
    return fold.with_keys(key_rows, state)


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
