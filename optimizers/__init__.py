"""Penstock: optimizers for stream processing on Apache Spark.

This package is the front door: everything that a job with one strategy on one engine needs is
imported from here. Engines have a door of their own (`optimizers.spark`, `optimizers.simulation`),
and so have the errors (`optimizers.errors`); their root and those of jobs and plans are here, too.
"""

import optimizers.package_guard  # noqa: F401  # first: it explains what would else be an odd failure
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
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.batch_time import BatchTime, StageTime
from optimizers.chain import Chain
from optimizers.cluster import Cluster, Node
from optimizers.comparing import Comparison, compare
from optimizers.deployment import Deployment
from optimizers.errors import PenstockError, PlanConflictError, PlanError, TopologyError
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.migration import GroupMove, Migration
from optimizers.operators import Edge, OnError, Operator
from optimizers.optimizer import Optimizer
from optimizers.past import Past
from optimizers.plan import Note, Plan
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
    Probe,
    Statistics,
)
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.albic import Albic
from optimizers.strategies.everywhere import Everywhere
from optimizers.strategies.fixed import Fixed, Hash
from optimizers.strategies.locality import Locality
from optimizers.strategies.osg import Osg
from optimizers.topology import Topology
from sketches.cost_sketch import CostSketch

__version__ = "0.1.0"

__all__ = [
    "Aeolus",
    "Albic",
    "BatchTime",
    "Chain",
    "Cluster",
    "Comparison",
    "CostSketch",
    "DChoices",
    "Deployment",
    "DistributionAware",
    "Edge",
    "EdgeStatistics",
    "Everywhere",
    "Execution",
    "Fields",
    "Fixed",
    "FullKnowledge",
    "GroupMove",
    "GroupStatistics",
    "GroupTable",
    "GroupTraffic",
    "Grouping",
    "Hash",
    "InstanceStatistics",
    "KeyCounts",
    "KeyPairs",
    "Layout",
    "LeastWork",
    "LocalOrShuffle",
    "Locality",
    "Migration",
    "Node",
    "Note",
    "OnError",
    "OnlineShuffle",
    "Operator",
    "OperatorStatistics",
    "Optimizer",
    "Osg",
    "PartialKey",
    "Past",
    "PenstockError",
    "Plan",
    "PlanConflictError",
    "PlanError",
    "Probe",
    "RoutingTable",
    "ShortestQueue",
    "Shuffle",
    "SourceStatistics",
    "StageTime",
    "Statistics",
    "Topology",
    "TopologyError",
    "TwoChoices",
    "WChoices",
    "WorstCase",
    "compare",
]
