"""How much state each key group has at an instance: the bytes of its rows, where they are kept.

State is in the order of the ring of hashes, so that a key group is a stretch of it, and its size
the difference of two numbers. Only keys that a table gives another group are looked at one by one.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from grouping.hashing import place_parts
from grouping.key_batch import KeyBatch
from grouping.owners import KeyOwners
from optimizers.folds.casting import take_rows
from optimizers.runtime.observe.row_sizes import row_sizes, sizes_before
from optimizers.runtime.state.table import first_place, places_of, rows_at
from sketches.arrays import Codes, Floats
from sketches.values import protected


def state_by_group(
    state: pa.Table, owners: KeyOwners, read: Callable[[pa.Table], KeyBatch]
) -> Floats:
    """Return how many bytes of state each key group has here.

    Args:
        state: the state of an instance.
        owners: whose key groups they are.
        read: returns the keys of rows of state.
    """
    number, places = len(owners.groups), places_of(state)
    bounds = np.append(np.searchsorted(places, _first_places(number)), len(places))
    sizes = np.diff(sizes_before(state, bounds))
    rows = rows_at(places, owners.regrouped_places)
    if len(rows):
        named = take_rows(state, rows)
        moved = row_sizes(named)
        sizes -= np.bincount(place_parts(places[rows], number), moved, number)
        sizes += np.bincount(owners.group_of(read(named)), moved, number)
    return np.maximum(sizes, 0.0)  # what is taken off again may leave a last bit


@lru_cache(maxsize=64)
def _first_places(number: int) -> Codes:
    """Return the lowest place of each of this number of key groups."""
    firsts = [first_place(group, number) for group in range(number)]
    return protected(np.array(firsts, dtype=np.uint64))
