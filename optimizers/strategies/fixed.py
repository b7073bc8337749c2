"""Strategies that need no statistics: a plan written by hand, and the default of every engine."""

from dataclasses import dataclass

from grouping.groupings import Fields, Shuffle
from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology


@dataclass(frozen=True)
class Fixed(Optimizer):
    """Decides for the same plan every time.

    Use it to set parts of a plan by hand, alone or as a step of a chain.

    Attributes:
        decision: the plan to decide for.
    """

    decision: Plan

    def __post_init__(self) -> None:
        if not isinstance(self.decision, Plan):
            raise InvalidValueError(f"{self.decision!r} is not a Plan; write Fixed(Plan(...))")

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Return the plan as it was written, provided that it fits the job."""
        self.decision.check(topology, cluster)
        return self.decision


@dataclass(frozen=True)
class Hash(Optimizer):
    """Decides what engines do by default: keys go by their hash, other tuples in turn.

    The baseline of every comparison. It also undoes the routing and scheduling of other
    strategies.
    """

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Route every keyed operator by hash and shuffle every other edge."""
        return Plan(
            routing={op.name: Fields() for op in topology.operators if op.keyed},
            scheduling={
                edge.name: Shuffle()
                for edge in topology.edges
                if not topology.operator(edge.target).keyed
            },
        )
