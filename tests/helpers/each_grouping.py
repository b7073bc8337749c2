"""One grouping of each kind, with five instances where it is made for a number of them."""

import numpy as np
import pytest

from grouping.groupings import (
    DChoices,
    DistributionAware,
    Fields,
    GroupTable,
    LeastWork,
    LocalOrShuffle,
    OnlineShuffle,
    PartialKey,
    RoutingTable,
    ShortestQueue,
    Shuffle,
    TwoChoices,
    WChoices,
    WorstCase,
)
from sketches.cost_sketch import CostSketch

INSTANCES = 5
TABLE = RoutingTable([0, 1, 2, 7], [3, 3, 0, 4], INSTANCES)
GROUPS = GroupTable([0, 1, 2, 7], [3, 3, 0, 15], 16)
COSTS = CostSketch(width=16, depth=2, exact=4)
COSTS.update([0, 1, 2, 3], [1.0, 2.0, 3.0, 9.0])
EACH = (
    Shuffle(),
    LocalOrShuffle(),
    Fields(),
    PartialKey(),
    PartialKey(3),
    DChoices(),
    DChoices(threshold=0.25, tolerance=0.5),
    WChoices(),
    WChoices(threshold=0.3),
    TABLE,
    GROUPS,
    DistributionAware(TABLE, [0, 1, 2, 3, 4, 4, 4]),
    WorstCase(TABLE),
    LeastWork(),
    LeastWork(costs=COSTS),
    LeastWork(costs=COSTS, paces=(1.0, 2.0, 1.0, 1.0, 0.5)),
    OnlineShuffle(),
    OnlineShuffle(window=16, tolerance=0.5, resync=16, wall_clock=True),
    ShortestQueue(acknowledge=8),
    TwoChoices(seed=3),
)
ALL_SPECS = pytest.mark.parametrize("grouping", EACH, ids=repr)


# The routers of those that listen to instances deal tuples out in turn.
BY_KEY = [grouping for grouping in EACH if grouping.needs_key and not grouping.listens]
KEYED = pytest.mark.parametrize("grouping", BY_KEY, ids=repr)


def skewed(size, *, exponent=1.4, seed=3, distinct=20_000):
    """Keys by Zipf's law, in an order that says nothing about how frequent they are."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, distinct + 1) ** -exponent
    ranks = rng.choice(distinct, size, p=weights / weights.sum())
    return rng.permutation(distinct)[ranks]
