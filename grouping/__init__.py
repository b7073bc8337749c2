"""Where things go: groupings and their routers, routing tables, and the graph of keys.

Strategies are built on these; none of them knows an optimizer or an engine.
"""

from grouping.groupings import (
    DChoices,
    DistributionAware,
    Fields,
    FullKnowledge,
    Grouping,
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
from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import Partition, partition_as_published, partition_keys

__all__ = [
    "DChoices",
    "DistributionAware",
    "Fields",
    "FullKnowledge",
    "GroupTable",
    "Grouping",
    "KeyCounts",
    "KeyGraph",
    "KeyPairs",
    "LeastWork",
    "LocalOrShuffle",
    "OnlineShuffle",
    "PartialKey",
    "Partition",
    "RoutingTable",
    "ShortestQueue",
    "Shuffle",
    "TwoChoices",
    "WChoices",
    "WorstCase",
    "first_touch",
    "partition_as_published",
    "partition_keys",
]
