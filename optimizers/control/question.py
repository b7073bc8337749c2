"""A question to an optimizer: the arguments of `Optimizer.plan` as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizers.cluster import Cluster
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.values import FrozenMap


@dataclass(frozen=True)
class Question:
    """All that an optimizer knows when it decides; see `Optimizer.plan`.

    Attributes:
        topology: the job as it runs.
        cluster: the machines as they are.
        statistics: the facts of the last epoch.
        current: the plan in force.
        stand_ins: for nodes that plans have added, the names that they came under.
    """

    topology: Topology
    cluster: Cluster
    statistics: Statistics = field(default_factory=Statistics)
    current: Plan = field(default_factory=Plan)
    stand_ins: Mapping[str, str] = field(default_factory=FrozenMap)
