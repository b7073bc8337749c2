"""Every grouping of ours passes the suite that authors of groupings are given."""

import math

from grouping.groupings import (
    GROUPINGS,
    DChoices,
    DistributionAware,
    Fields,
    FullKnowledge,
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
from optimizers.testing import GroupingContract
from sketches.cost_sketch import CostSketch

WORDS = ["", "ü", *(f"key {number}" for number in range(10))]
TABLE = RoutingTable(WORDS[:6], [3, 3, 0, 4, 1, 2], 5)
NUMBERS = list(range(-3, 9))


def costs(keys):
    sketch = CostSketch(width=16, depth=2, exact=4)
    sketch.update(keys[:4], [1.0, 2.0, 3.0, 9.0])
    return sketch


class OfWords(GroupingContract):
    def keys(self):
        return [WORDS]


class TestShuffle(GroupingContract):
    grouping = Shuffle()
    spread = math.inf


class TestLocalOrShuffle(GroupingContract):
    grouping = LocalOrShuffle()


class TestFields(GroupingContract):
    grouping = Fields()
    spread = 1


class TestPartialKey(GroupingContract):
    grouping = PartialKey()
    spread = 2


class TestPartialKeyOfThree(GroupingContract):
    grouping = PartialKey(3)


class TestDChoices(GroupingContract):
    grouping = DChoices()
    spread = 2  # as long as it has not taken stock, after 256 tuples


class TestDChoicesOfOneHeavyKey(GroupingContract):
    grouping = DChoices(threshold=0.25, tolerance=0.5)


class TestWChoices(GroupingContract):
    grouping = WChoices(threshold=0.3)
    spread = 2


class TestGroupTable(OfWords):
    grouping = GroupTable(WORDS[:6], [3, 3, 0, 31, 17, 2], 32)
    spread = 1


class TestRoutingTable(OfWords):
    grouping = TABLE
    spread = 1


class TestRoutingTableOfPairs(GroupingContract):
    grouping = RoutingTable([("a", 1), ("b", 2), ("c", 0)], [2, 0, 1], 3)

    def keys(self):
        return [[(word, number) for word in "abcd" for number in range(3)]]


class TestEmptyRoutingTable(GroupingContract):
    grouping = RoutingTable([], [], 4)
    spread = 1


class TestDistributionAware(OfWords):
    grouping = DistributionAware(TABLE, [0, 1, 2, 3, 4, 4, 4])
    spread = 1


class TestWorstCase(OfWords):
    grouping = WorstCase(TABLE)
    spread = 1


class TestOnlineShuffle(GroupingContract):
    grouping = OnlineShuffle(window=4, tolerance=0.5, resync=16)
    spread = math.inf


class TestOnlineShuffleByTheClock(GroupingContract):
    grouping = OnlineShuffle(window=2, tolerance=0.5, wall_clock=True)
    spread = math.inf


class TestLeastWork(GroupingContract):
    grouping = LeastWork()
    spread = math.inf


class TestLeastWorkOfKnownCosts(OfWords):
    grouping = LeastWork(costs=costs(WORDS))
    spread = math.inf


class TestLeastWorkAtSeveralPaces(GroupingContract):
    grouping = LeastWork(costs=costs(NUMBERS), paces=(1.0, 2.0, 1.0, 0.5), messages=0.5)

    def keys(self):
        return [NUMBERS]


class TestLeastWorkLongestFirst(OfWords):
    grouping = LeastWork(costs=costs(WORDS), longest_first=True)
    spread = math.inf
    any_cut = False


class TestShortestQueue(GroupingContract):
    grouping = ShortestQueue(acknowledge=2)
    spread = math.inf


class TestShortestQueueOfTheTruth(GroupingContract):
    grouping = ShortestQueue(instant=True)
    routes = False


class TestTwoChoices(GroupingContract):
    grouping = TwoChoices(seed=3)


class TestTwoChoicesOfTheTruth(GroupingContract):
    grouping = TwoChoices(seed=3, instant=True)
    routes = False


class TestFullKnowledge(GroupingContract):
    grouping = FullKnowledge()
    routes = False


def test_every_grouping_that_a_document_may_name_is_tried():
    tried = {
        type(suite.grouping)
        for name, suite in globals().items()
        if name.startswith("Test") and issubclass(suite, GroupingContract)
    }

    assert {*GROUPINGS} == tried
