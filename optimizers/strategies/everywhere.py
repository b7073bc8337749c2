"""Any grouping as a strategy, on every edge that it fits."""

from dataclasses import dataclass

from grouping.grouping import Grouping
from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError, TopologyError
from optimizers.operators import Edge, check_grouping
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology


@dataclass(frozen=True)
class Everywhere(Optimizer):
    """Decides for one grouping, on every edge that it fits.

    Baselines such as `ShortestQueue` or `DChoices` are groupings; this makes strategies of them,
    to be compared and chained like any other.

    >>> from grouping.groupings import DChoices, Shuffle
    >>> job = Topology.source("posts").then("clean").then("count", key="tag", partial=True)
    >>> Everywhere(Shuffle()).plan(job, Cluster.uniform(2), Statistics(), Plan()).scheduling
    FrozenMap({('posts', 'clean'): Shuffle()})
    >>> Everywhere(DChoices()).plan(job, Cluster.uniform(2), Statistics(), Plan()).routing
    FrozenMap({'count': DChoices(threshold=None, tolerance=0.0001)})

    A grouping that splits keys over instances fits an operator with a key only where that is
    ``partial``; one that chooses by key fits an operator without a key only where the edge names
    one (``edge_key``).

    Attributes:
        grouping: the grouping to decide for.
    """

    grouping: Grouping

    def __post_init__(self) -> None:
        if not isinstance(self.grouping, Grouping):
            raise InvalidValueError(
                f"{self.grouping!r} is not a Grouping; write Everywhere(Shuffle()), say"
            )

    @property
    def name(self) -> str:
        """The name of the strategy in notes and reports."""
        return f"Everywhere({self.grouping.kind})"

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Return the grouping for every operator with a key and every other edge that it fits."""
        obstacles = {edge: self._obstacle(topology, edge) for edge in topology.edges}
        fitting = [edge for edge, obstacle in obstacles.items() if not obstacle]
        if not fitting:
            reasons = ", ".join(dict.fromkeys(obstacles.values())) or "no operator feeds another"
            return self.idle(reasons)
        return Plan(
            routing={e.target: self.grouping for e in fitting if topology.operator(e.target).keyed},
            scheduling={
                e.name: self.grouping for e in fitting if not topology.operator(e.target).keyed
            },
        )

    def _obstacle(self, topology: Topology, edge: Edge) -> str:
        """Return why the grouping does not fit an edge; empty if it does."""
        target = topology.operator(edge.target)
        if target.keyed and not self.grouping.needs_key:
            return f"{self.grouping.kind} does not go by keys, and operator {target.name!r} does"
        try:
            check_grouping(edge, target, self.grouping)
        except TopologyError as error:
            return str(error)
        return ""
