"""Where things go: groupings and their routers, routing tables, and the graph of keys.

Strategies are made of what is here; none of it knows an optimizer or an engine.
"""

from grouping.groupings import Fields, Grouping, LocalOrShuffle, PartialKey, Shuffle
from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import Partition, partition_as_published, partition_keys
from grouping.migration.reconfiguration import Reconfiguration, reconfigure
from grouping.routing_table import GroupTable, RoutingTable

__all__ = [
    "Fields",
    "GroupTable",
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
