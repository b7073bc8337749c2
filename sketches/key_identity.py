"""Which rows have the same key: compares the keys themselves, as two keys may share a code."""

import numpy as np

from sketches.arrays import Indices, Integers
from sketches.key_columns import IntegerKeys, KeyColumn


def distinct(column: KeyColumn) -> tuple[Integers, Integers]:
    """Number the keys of a column, by rising codes; of one code, by rising keys.

    >>> from sketches.keys import as_keys
    >>> numbers, firsts = distinct(as_keys([7, 8, 7]))
    >>> numbers.tolist(), firsts.tolist()
    ([0, 1, 0], [0, 1])

    Returns:
        For each row the number of its key, and for each key the row at which it first came.
    """
    codes, numbers = np.unique(column.codes, return_inverse=True)
    return told_apart(column, numbers, first_rows(numbers, len(codes)))


def first_rows(numbers: Integers, count: int) -> Integers:
    """Return the first row of each number; where one index comes often, NumPy keeps the last."""
    firsts = np.empty(count, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return firsts


def told_apart(column: KeyColumn, numbers: Integers, firsts: Integers) -> tuple[Integers, Integers]:
    """Correct a numbering that went by codes, where different keys have one code.

    Args:
        column: the keys.
        numbers: for each row the number of its key's code.
        firsts: for each number a row that has it.

    Returns:
        The same if no two keys have one code. Else one number for each key; those of one code
        follow each other, by rising keys.
    """
    if isinstance(column, IntegerKeys):
        return numbers, firsts
    again = firsts[numbers]
    rows = np.flatnonzero(again != np.arange(len(numbers)))
    wrong = rows[~column.same(rows, column, again[rows])]
    if not len(wrong):
        return numbers, firsts
    return _split(column, numbers, firsts, wrong)


def _split(
    column: KeyColumn, numbers: Integers, firsts: Integers, wrong: Indices
) -> tuple[Integers, Integers]:
    """Give the keys that share a code new numbers, and shift the others."""
    shared = np.zeros(len(firsts), dtype=np.bool_)
    shared[numbers[wrong]] = True
    rows = np.flatnonzero(shared[numbers])
    keys = list(zip(numbers[rows].tolist(), column.take(rows).objects().tolist(), strict=True))
    order = {key: place for place, key in enumerate(sorted(set(keys)))}
    codes = np.array([number for number, _ in order], dtype=np.int64)
    # Before each number stand those of one key each, and all keys of the shared ones.
    sizes = np.where(shared, np.bincount(codes, minlength=len(firsts)), 1)
    starts = np.cumsum(sizes) - sizes
    renumbered = starts[numbers]
    within = np.arange(len(codes)) - np.searchsorted(codes, codes)
    renumbered[rows] = (starts[codes] + within)[[order[key] for key in keys]]
    return renumbered, first_rows(renumbered, int(sizes.sum()))
