"""Where things go: groupings and their routers, routing tables, the graph of keys, placements.

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
from grouping.placement.place import GroupPlacement, place_groups

__all__ = [
    "DChoices",
    "DistributionAware",
    "Fields",
    "FullKnowledge",
    "GroupPlacement",
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
    "place_groups",
]
