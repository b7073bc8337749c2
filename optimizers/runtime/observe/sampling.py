"""Which of many tuples are looked at, and for how many each stands."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class Sample(NamedTuple):
    """Some of the tuples that follow one another.

    Attributes:
        rows: their numbers, rising.
        weights: for how many tuples each stands; in sum, for all.
    """

    rows: Rows
    weights: Rows


class Sampler:
    """Chooses one of each few tuples that follow one another, at random.

    Not one at equal distances: streams repeat themselves, and where keys come in turns only some
    keys would be seen, each time the same.

    >>> sample = Sampler(1, 2).of(10, 4)
    >>> sample.weights.tolist()
    [4, 4, 2]
    >>> (sample.rows // 4).tolist()
    [0, 1, 2]

    Args:
        seeds: what the choice depends on, besides how many there are; it is the same in each
            process.
    """

    def __init__(self, *seeds: int) -> None:
        self._seeds = seeds

    @cached_property
    def _random(self) -> np.random.Generator:
        """Made when it is first needed: most tasks look at all of their tuples, or at none."""
        return np.random.Generator(np.random.PCG64(self._seeds))

    def of(self, length: int, step: int) -> Sample:
        """Return a sample of so many tuples, of each ``step`` of them one."""
        if step <= 1:
            return Sample(np.arange(length), np.ones(length, dtype=np.int64))
        firsts = np.arange(0, length, step)
        weights = np.minimum(step, length - firsts)  # the last ones may be fewer
        return Sample(firsts + self._random.integers(0, weights), weights)
