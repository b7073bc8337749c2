"""What is observed is counted in the same sketches on every engine, and summed up in the same way.

So a strategy is given the same statistics of the same stream, wherever it runs.
"""

import numpy as np
from numpy.typing import NDArray

from optimizers.statistics import GroupTraffic
from optimizers.topology import Topology
from sketches.arrays import Floats
from sketches.cost_sketch import CostSketch
from sketches.space_saving import SpaceSaving

_PAIRS = 1 << 20  # of a hop
_KEYS = 1 << 18  # of an operator
_COSTS = {"width": 1 << 10, "depth": 4, "exact": 1 << 10}  # of each instance


def pair_sketches() -> tuple[SpaceSaving, SpaceSaving]:
    """Return the sketches of a hop: of the pairs that are learned from, and of those held out."""
    return SpaceSaving(_PAIRS // 2), SpaceSaving(_PAIRS // 2)


def key_sketch() -> SpaceSaving:
    """Return the sketch of the keys of an operator."""
    return SpaceSaving(_KEYS)


def cost_sketch(seed: int = 0) -> CostSketch:
    """Return the sketch of what tuples cost at one instance."""
    return CostSketch(seed=seed, **_COSTS)


def as_traffic(cells: Floats | NDArray[np.int64]) -> GroupTraffic:
    """Return the traffic between groups, given a matrix of how many tuples went between them."""
    sources, targets = np.nonzero(cells)
    return GroupTraffic(sources, targets, cells[sources, targets].astype(np.float64))


def last_keyed(topology: Topology, name: str) -> frozenset[str]:
    """Return the keyed operators that tuples emitted by an operator may have met last."""
    if topology.operator(name).keyed:
        return frozenset({name})
    before = (last_keyed(topology, edge.source) for edge in topology.inputs(name))
    return frozenset().union(*before)
