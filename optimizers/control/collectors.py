"""The sketches that count observations, and their sums, the same on every engine.

So a strategy gets the same statistics of the same stream on every engine.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizers.statistics import GroupTraffic
from optimizers.topology import Topology
from sketches.arrays import Floats
from sketches.cost_sketch import CostSketch
from sketches.space_saving import SpaceSaving

_PAIRS = 1 << 20  # of a hop
_ADOPTED_PAIRS = 1 << 18  # of a hop in one batch
_KEYS = 1 << 18  # of an operator
_LARGEST_MATRIX = 1 << 21  # cells
_WAITING = 1 << 16  # cells that are not added up yet
_COSTS = {"width": 1 << 10, "depth": 4, "exact": 1 << 10}  # of each instance


def pair_sketches() -> tuple[SpaceSaving, SpaceSaving]:
    """Return the sketches of a hop: one for pairs to learn from, one for pairs held out."""
    return SpaceSaving(_PAIRS // 2), SpaceSaving(_PAIRS // 2)


def adopted_pair_sketch() -> SpaceSaving:
    """Return the sketch of a hop's pairs in one batch, by which new keys are adopted."""
    return SpaceSaving(_ADOPTED_PAIRS)


def key_sketch() -> SpaceSaving:
    """Return the sketch of the keys of an operator."""
    return SpaceSaving(_KEYS)


def cost_sketch(seed: int = 0) -> CostSketch:
    """Return the sketch of the costs at one instance."""
    return CostSketch(seed=seed, **_COSTS)


def as_traffic(cells: Floats | NDArray[np.int64]) -> GroupTraffic:
    """Return the traffic between groups, given a matrix of how many tuples went between them."""
    sources, targets = np.nonzero(cells)
    return GroupTraffic(sources, targets, cells[sources, targets].astype(np.float64, copy=False))


class TrafficSums:
    """Adds up traffic between groups: in a matrix, or by cells where the matrix would be large.

    >>> sums = TrafficSums(1 << 12, 1 << 12)
    >>> for _ in range(2):
    ...     sums.add(np.array([5, 7]), np.array([0, 4000]), np.array([1, 2]))
    >>> traffic = sums.traffic()
    >>> traffic.sources.tolist(), traffic.targets.tolist(), traffic.tuples.tolist()
    ([5, 7], [0, 4000], [2.0, 4.0])

    Args:
        sources: how many groups there are at the first operator.
        targets: how many there are at the second.
    """

    def __init__(self, sources: int, targets: int) -> None:
        self._targets = targets
        self._matrix: Floats | None = None
        if sources * targets <= _LARGEST_MATRIX:
            self._matrix = np.zeros((sources, targets))
        self._cells: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        self._counts: list[Floats] = [np.empty(0)]
        self._waiting = 0

    def add(self, sources: NDArray[Any], targets: NDArray[Any], tuples: NDArray[Any]) -> None:
        """Add how many tuples went from which groups to which."""
        if self._matrix is not None:
            np.add.at(self._matrix, (sources, targets), tuples)
            return
        self._cells.append(sources.astype(np.int64) * self._targets + targets)
        self._counts.append(tuples.astype(np.float64))
        self._waiting += len(tuples)
        if self._waiting > max(_WAITING, len(self._cells[0])):
            self._add_up()

    def traffic(self) -> GroupTraffic:
        """Return all of it."""
        if self._matrix is not None:
            return as_traffic(self._matrix)
        self._add_up()
        cells = self._cells[0]
        return GroupTraffic(cells // self._targets, cells % self._targets, self._counts[0])

    def _add_up(self) -> None:
        cells, numbers = np.unique(np.concatenate(self._cells), return_inverse=True)
        counts = np.zeros(len(cells))
        np.add.at(counts, numbers, np.concatenate(self._counts))
        self._cells, self._counts, self._waiting = [cells], [counts], 0


def last_keyed(topology: Topology, name: str) -> frozenset[str]:
    """Return the last keyed operators that an operator's tuples may have passed."""
    if topology.operator(name).keyed:
        return frozenset({name})
    before = (last_keyed(topology, edge.source) for edge in topology.inputs(name))
    return frozenset().union(*before)
