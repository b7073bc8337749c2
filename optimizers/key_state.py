"""The state of a key: which keys an operator has, as far as that is known, and what each holds.

Migrations and projections go by this one model:

1. Keys of one key group hold equal state.
2. Keys that were counted are there. If more tuples came than theirs there are others, which came as
   often as the least of those counted; hashing spreads them evenly over the groups.
3. Keys that a table names and that were not counted are some of these others: each of them, or as
   many as there are, with equal chances.
4. If keys were not counted, tables name all there are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grouping.key_slots import ABSENT, KeySlots
from grouping.keygraph.key_counts import KeyCounts
from grouping.owners import KeyOwners, named_in_either
from sketches.arrays import Floats, Integers, Parts
from sketches.keys import KeyColumn, as_keys


@dataclass(frozen=True, eq=False)
class KeyState:
    """The keys of one operator, as its owners before and after a change and counts tell of them.

    Attributes:
        columns: the keys that are known, each once: those that a table names, then all others.
        named: how many of them a table names.
        listed: which of them were counted.
        weights: the probability that each is there.
        groups: the key group of each before the change.
        number: how many keys each group has.
        others: how many of those no table names; None where keys were not counted.
    """

    columns: tuple[KeyColumn, ...]
    named: int
    listed: NDArray[np.bool_]
    weights: Floats
    groups: Integers
    number: Floats
    others: Floats | None

    @classmethod
    def of(
        cls, old: KeyOwners, new: KeyOwners, counts: KeyCounts | None, tuples: float
    ) -> "KeyState":
        """Return what is known.

        Args:
            old: the owners under which the keys were counted.
            new: the owners to come.
            counts: how often keys came; None where that was not observed.
            tuples: how many tuples there were in all.
        """
        columns, size = named_in_either(old, new), len(old.groups)
        named = sum(map(len, columns))
        listed = np.zeros(named, dtype=np.bool_)
        if counts is None or not counts.total:
            groups = per_key(columns, old.group_of)
            number: Floats = np.bincount(groups, minlength=size).astype(np.float64)
            return cls(tuple(columns), named, listed, np.ones(named), groups, number, None)
        # 1. All keys that were counted or that a table names, each once.
        keys = as_keys(counts.keys, seed=old.seed)
        if named:
            slots = KeySlots(keys)
            listed = np.concatenate([slots.find(column) != ABSENT for column in columns])
            unnamed = (old.named(keys) == ABSENT) & (new.named(keys) == ABSENT)
            keys = keys.take(np.flatnonzero(unnamed))
        columns = [*columns, keys]
        listed = np.append(listed, np.ones(len(keys), dtype=np.bool_))
        # 2. How many there are that were not counted, and how many of those a table names.
        least = counts.counts[counts.counts > 0].min()
        unlisted = max(0.0, tuples - counts.total) / float(least)
        strange = int((~listed).sum())
        weights = np.where(listed, 1.0, min(1.0, unlisted / max(strange, 1)))
        nameless = (unlisted - float(weights[~listed].sum())) / size
        # 3. Their groups.
        groups = per_key(columns, old.group_of)
        counted, tabled = (
            np.bincount(groups[part], weights[part], size).astype(np.float64)
            for part in (slice(named, None), slice(named))
        )
        others = counted + max(0.0, nameless)
        number = tabled + others
        return cls(tuple(columns), named, listed, weights, groups, number, others)

    @property
    def complete(self) -> bool:
        """Whether all keys are known: every tuple was of a key that was counted."""
        return self.others is not None and float(self.number.sum()) <= int(self.listed.sum())

    @property
    def shares(self) -> Floats:
        """The share of its group's state that each known key has."""
        shares: Floats = self.weights / np.maximum(self.number[self.groups], self.weights).clip(
            np.finfo(np.float64).tiny
        )
        return shares

    def by_group(self, total: float) -> Floats:
        """Return the state of each key group, if only the sum of all is known."""
        size = len(self.number)
        if self.others is None:
            return np.full(size, total / size)
        found: Floats = total * self.number / self.number.sum()
        return found

    def by_key(self, total: float) -> Floats:
        """Return the state of each known key, if only the sum of all groups is known."""
        found: Floats = total * self.weights / max(float(self.number.sum()), 1.0)
        return found


def per_key(columns: Sequence[KeyColumn], found: Callable[[KeyColumn], Parts]) -> Integers:
    """Return a number for each key of some columns."""
    return np.concatenate(
        [np.empty(0, dtype=np.int64), *(found(column).astype(np.int64) for column in columns)]
    )
