"""Locality by its paper's method: the baseline that `Locality` is compared with."""

from dataclasses import dataclass

from grouping.keygraph.evidence import Evidence
from grouping.keygraph.partition import partition_as_published
from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.key_layout import KeyLayout
from optimizers.strategies.parts.keyed_hops import decidable_pairs, hindrance
from optimizers.topology import Topology
from sketches import checks

_IMBALANCE = 1.03  # METIS's default, as in the paper


@dataclass(frozen=True)
class PublishedLocality(Optimizer):
    """Decides which instance owns which key by the paper's method.

    METIS divides the key pairs of the last epoch from scratch and balances the sum of all
    operators' loads. Nothing is remembered, unknown keys go by hash, and every new routing is
    applied.

    >>> from grouping.keygraph.key_pairs import KeyPairs
    >>> job = Topology.source("posts", parallelism=2)
    >>> job = job.then("by_place", key="place", parallelism=2)
    >>> job = job.then("by_tag", key="tag", parallelism=2)
    >>> seen = Statistics(pairs={("by_place", "by_tag"): KeyPairs(["Asia"], ["#java"], [3463])})
    >>> plan = PublishedLocality().plan(job, Cluster.uniform(2), seen, Plan())
    >>> print(plan.notes[0])
    PublishedLocality on by_place and by_tag: every new routing is taken

    Attributes:
        offline: whether to decide only once, from the first statistics.
        seed: equal seeds give equal answers.

    References:
        M. Caneill, A. El Rheddane, V. Leroy, N. De Palma, "Locality-aware routing in stateful
        streaming applications", Middleware 2016.
    """

    offline: bool = False
    seed: int = 0

    observes = frozenset({Probe.PAIRS})

    def __post_init__(self) -> None:
        checks.seed(self.seed)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose owners for the keys of all operators whose pairs were seen."""
        pairs = decidable_pairs(topology, statistics)
        evidence = Evidence(pairs, statistics.held_out, seed=self.seed)
        if not evidence.seen:
            reason = hindrance(topology)
            return self.idle(reason) if reason else Plan()
        layout = KeyLayout(Layout.of(topology, cluster, current), cluster, tuple(evidence.seen))
        if self.offline and layout.decided:
            return Plan()
        graph = evidence.lesson(evidence.seen, with_past=False).graph(topology.order)
        partition = partition_as_published(
            graph, len(layout.nodes), imbalance=_IMBALANCE, seed=self.seed
        )
        note = self.note(" and ".join(layout.names), "every new routing is taken")
        return Plan(routing=layout.in_groups(layout.divided(graph, partition)), notes=(note,))
