"""Penstock: optimizers for stream processing on Apache Spark.

This package is the front door: everything a job needs is imported from here.
"""

import optimizers.package_guard  # noqa: F401  # first: it explains what would else be an odd failure
from grouping.groupings import Fields, Grouping, LocalOrShuffle, PartialKey, Shuffle
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import GroupTable, RoutingTable
from optimizers.chain import Chain
from optimizers.cluster import Cluster, Node
from optimizers.comparing import Comparison, compare
from optimizers.deployment import Deployment
from optimizers.errors import (
    CheckpointError,
    CorruptDataError,
    DeliveryError,
    EmptySketchError,
    FoldError,
    FunctionError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
    MissingPackageError,
    PartitionError,
    PenstockError,
    PlanConflictError,
    PlanError,
    PluginError,
    SinkError,
    StateError,
    StrategyError,
    TopologyError,
    UnknownNameError,
)
from optimizers.migration import GroupMove, Migration
from optimizers.operators import Edge, OnError, Operator
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan
from optimizers.statistics import (
    EdgeStatistics,
    GroupStatistics,
    GroupTraffic,
    OperatorStatistics,
    Probe,
    Statistics,
)
from optimizers.strategies.fixed import Fixed, Hash
from optimizers.strategies.locality import Locality
from optimizers.strategies.osg import Osg
from optimizers.topology import Topology

__version__ = "0.1.0"

__all__ = [
    "Chain",
    "CheckpointError",
    "Cluster",
    "Comparison",
    "CorruptDataError",
    "DeliveryError",
    "Deployment",
    "Edge",
    "EdgeStatistics",
    "EmptySketchError",
    "Fields",
    "Fixed",
    "FoldError",
    "FunctionError",
    "GroupMove",
    "GroupStatistics",
    "GroupTable",
    "GroupTraffic",
    "Grouping",
    "Hash",
    "InvalidKeyError",
    "InvalidValueError",
    "KeyCounts",
    "KeyPairs",
    "LocalOrShuffle",
    "Locality",
    "MergeError",
    "Migration",
    "MissingPackageError",
    "Node",
    "Note",
    "OnError",
    "Operator",
    "OperatorStatistics",
    "Optimizer",
    "Osg",
    "PartialKey",
    "PartitionError",
    "PenstockError",
    "Plan",
    "PlanConflictError",
    "PlanError",
    "PluginError",
    "Probe",
    "RoutingTable",
    "Shuffle",
    "SinkError",
    "StateError",
    "Statistics",
    "StrategyError",
    "Topology",
    "TopologyError",
    "UnknownNameError",
    "compare",
]
