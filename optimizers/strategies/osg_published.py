"""Osg by its paper's method: the baseline that `Osg` is compared with."""

from dataclasses import dataclass

from grouping.scheduling.online_shuffle.grouping import OnlineShuffle
from optimizers.cluster import Cluster
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.strategies.parts.free_edges import free_edges, hindrance
from optimizers.topology import Topology


@dataclass(frozen=True)
class PublishedOsg(Optimizer):
    """Decides which instance gets each tuple by the paper's method.

    Instances and schedulers learn from each other while they run; the plan only turns that on.
    Where instances cannot report, as within a batch on Spark, tuples are dealt out in turn.

    >>> from optimizers import Cluster, Plan, Statistics
    >>> job = Topology.source("tweets").then("reach", parallelism=2, edge_key="author")
    >>> PublishedOsg(window=64).plan(job, Cluster.uniform(2), Statistics(), Plan()).scheduling
    FrozenMap({('tweets', 'reach'): OnlineShuffle(window=64, ...)})

    Attributes:
        window: after how many tuples an instance looks whether its costs are stable.
        tolerance: how far costs may move and still count as stable.
        seed: of the hashes of its sketches.

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for
        shuffle grouping in distributed stream processing systems", Middleware 2016.
    """

    window: int = 1024
    tolerance: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("window", "tolerance", "seed"):
            object.__setattr__(self, name, getattr(self._grouping, name))

    @property
    def _grouping(self) -> OnlineShuffle:
        return OnlineShuffle(window=self.window, tolerance=self.tolerance, seed=self.seed)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Let the senders of all edges into operators without state learn costs themselves."""
        edges = free_edges(topology)
        if not edges:
            return self.idle(hindrance(topology))
        return Plan(scheduling={edge.name: self._grouping for edge in edges})
