"""Where things go: groupings and their routers, routing tables, and the graph of keys.

Strategies are made of what is here; none of it knows an optimizer or an engine.
"""

from grouping.first_touch import first_touch
from grouping.groupings import Fields, Grouping, LocalOrShuffle, PartialKey, Shuffle
from grouping.key_counts import KeyCounts
from grouping.key_graph import KeyGraph
from grouping.key_pairs import KeyPairs
from grouping.partition import Partition, partition_as_published, partition_keys
from grouping.reconfiguration import Reconfiguration, reconfigure
from grouping.routing_table import RoutingTable

__all__ = [
    "Fields",
    "Grouping",
    "KeyCounts",
    "KeyGraph",
    "KeyPairs",
    "LocalOrShuffle",
    "PartialKey",
    "Partition",
    "Reconfiguration",
    "RoutingTable",
    "Shuffle",
    "first_touch",
    "partition_as_published",
    "partition_keys",
    "reconfigure",
]
