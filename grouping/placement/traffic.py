"""Traffic between key groups: how much of it stays on a node."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from grouping.placement.problem import Nodes
from sketches.arrays import Floats, Integers
from sketches.checks import weights
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, numeric, protected


@dataclass(frozen=True, eq=False)
class Traffic(ArrayValue):
    """How much key groups send each other; row ``i`` is about one pair of groups.

    >>> traffic = Traffic([0, 0, 1], [2, 3, 3], [9.0, 1.0, 10.0], groups=4)
    >>> traffic.local(np.array([0, 1, 0, 1]))
    0.95

    Attributes:
        sources: the group that sends.
        targets: the group that receives.
        rates: how much; rows of one pair add up.
        groups: how many groups there are, of all operators together.
    """

    sources: Integers
    targets: Integers
    rates: Floats
    groups: int

    def __post_init__(self) -> None:
        length = np.atleast_1d(numeric("sources", self.sources)).shape[0]
        for name in ("sources", "targets"):
            array = numeric(name, getattr(self, name))
            if array.shape != (length,) or (length and array.dtype.kind not in "iu"):
                raise InvalidValueError(
                    f"{name} of shape {array.shape}: give {length} group numbers"
                )
            wrong = np.flatnonzero((array < 0) | (array >= self.groups))
            if len(wrong):
                raise InvalidValueError(
                    f"{name}[{wrong[0]}]={array[wrong[0]]} is no group; give a number from 0 to "
                    f"{self.groups - 1}"
                )
            object.__setattr__(self, name, protected(array.astype(np.int64)))
        rates = weights("rates", numeric("rates", self.rates), length)
        object.__setattr__(self, "rates", protected(rates))

    @cached_property
    def total(self) -> float:
        """How much is sent in all."""
        return float(self.rates.sum())

    @cached_property
    def of_pair(self) -> Floats:
        """By row, how much all rows of its pair send together."""
        places = np.unique(self.sources * self.groups + self.targets, return_inverse=True)[1]
        sums: Floats = np.zeros(int(places.max(initial=-1)) + 1)
        np.add.at(sums, places, self.rates)
        return sums[places]

    def local(self, assignment: Nodes) -> float:
        """Return the share of the traffic that stays on its node; 1 of none."""
        if not self.total:
            return 1.0
        here = assignment[self.sources] == assignment[self.targets]
        return float(self.rates[here].sum()) / self.total

    def between(self, sets: Integers) -> "Pulls":
        """Return the traffic between sets of groups, both ways together."""
        count = int(sets.max(initial=-1)) + 1
        one, other = sets[self.sources], sets[self.targets]
        apart = one != other
        codes = np.concatenate([one * count + other, other * count + one])[np.tile(apart, 2)]
        numbers, places = np.unique(codes, return_inverse=True)
        rates: Floats = np.zeros(len(numbers))
        np.add.at(rates, places, np.tile(self.rates[apart], 2))
        starts = np.searchsorted(numbers // count, np.arange(count + 1)) if count else np.zeros(1)
        return Pulls(starts.astype(np.int64), numbers % max(count, 1), rates)


@dataclass(frozen=True)
class Pulls:
    """What draws each set of groups to others: those of set ``s`` are at ``starts[s:s + 2]``."""

    starts: Integers
    partners: Integers
    rates: Floats

    def to_nodes(self, at: Any, nodes: int) -> Floats:
        """Return how much each set exchanges with what is on each node."""
        count = len(self.starts) - 1
        rows = np.repeat(np.arange(count), np.diff(self.starts))
        cells = rows * nodes + np.asarray(at)[self.partners]
        found: Floats = np.zeros(count * nodes)
        np.add.at(found, cells, self.rates)
        return found.reshape(count, nodes)

    def of_all(self, units: Integers) -> tuple[Integers, Integers, Floats]:
        """Return the partners of some sets in a row, and how much each pair exchanges.

        The first array says, for each partner, which of the sets it is one of.
        """
        counts = self.starts[units + 1] - self.starts[units]
        rows = np.repeat(np.arange(len(units)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self.starts[units][rows] + within
        return rows, self.partners[places], self.rates[places]

    def of(self, unit: int) -> tuple[Integers, Floats]:
        """Return the partners of a set, and how much it exchanges with each."""
        span = slice(self.starts[unit], self.starts[unit + 1])
        return self.partners[span], self.rates[span]
