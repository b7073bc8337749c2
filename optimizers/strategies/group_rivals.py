"""Other ways to place key groups on nodes, behind the same interface as Albic: to compare with."""

from collections.abc import Callable
from dataclasses import dataclass

from grouping.placement.baselines import cola, flux, longest_first, readjusted
from grouping.placement.problem import Nodes, PlacementProblem
from grouping.placement.traffic import Traffic
from optimizers.cluster import Cluster
from optimizers.control.question import Question
from optimizers.errors import InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.group_layout import GroupLayout
from optimizers.strategies.parts.migration_budget import MigrationBudget
from optimizers.strategies.parts.placing_at_once import placed_at_once
from optimizers.topology import Topology
from sketches import checks

Place = Callable[[PlacementProblem, Traffic, int], Nodes]

METHODS: dict[str, Place] = {
    "flux": lambda problem, _traffic, _seed: flux(problem),
    "readj": lambda problem, _traffic, _seed: readjusted(problem),
    "longest-first": lambda problem, _traffic, _seed: longest_first(problem),
    "cola": lambda problem, traffic, seed: cola(problem, traffic, seed=seed),
}
"""How key groups are placed, by name; `longest-first` and `cola` regardless of the budget."""


@dataclass(frozen=True)
class GroupRival(Optimizer):
    """Decides which node holds which key group, by a method of another paper.

    Loads of all operators on a node add up, and every answer that is more even or more local than
    the present is applied.

    >>> import numpy as np
    >>> from optimizers import GroupStatistics
    >>> job = Topology.source("s").then("count", key="word", parallelism=2, key_groups=4)
    >>> load = np.array([0.3, 0.3, 0.1, 0.1])
    >>> seen = Statistics(groups={"count": GroupStatistics(cpu=load, state_bytes=1000 * load)})
    >>> plan = GroupRival("flux", budget="1 group").plan(job, Cluster.uniform(2), seen, Plan())
    >>> plan.placement["count"].groups
    (1, 0, 1, 1)

    Attributes:
        method: ``"flux"`` (pairs of nodes, the fullest with the emptiest), ``"readj"`` (moves and
            swaps between the fullest and the emptiest node), ``"longest-first"`` (from scratch, the
            heaviest group first) or ``"cola"`` (from scratch, by dividing the graph of groups).
        budget: what the moves of one decision may cost, as for `Albic`; those that place from
            scratch do not heed it.
        max_load_distance: how far a node may be from the mean, as a share of it, before anything
            is done; None to do what is better each time.
        seed: of what is drawn.

    References:
        Shah, Hellerstein, Chandrasekaran, Franklin, "Flux", ICDE 2003; Gedik, "Partitioning
        functions for stateful data parallelism in stream processing", VLDB Journal 2014;
        Khandekar et al., "COLA", Middleware 2009.
    """

    method: str
    budget: str | MigrationBudget = "10 %"
    max_load_distance: float | None = None
    seed: int = 0

    observes = frozenset({Probe.GROUPS})

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidValueError(
                f"method={self.method!r} is not known; use one of {', '.join(METHODS)}"
            )
        object.__setattr__(self, "budget", MigrationBudget.of(self.budget))
        distance = checks.optional_amount("max_load_distance", self.max_load_distance)
        object.__setattr__(self, "max_load_distance", distance)
        checks.seed(self.seed)

    @property
    def name(self) -> str:
        """The method."""
        return self.method

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose nodes for the key groups of all operators whose loads were seen."""

        def place(problem: PlacementProblem, groups: GroupLayout) -> Nodes:
            return METHODS[self.method](problem, groups.traffic(statistics), self.seed)

        question = Question(topology, cluster, statistics, current)
        return placed_at_once(
            self, question, place, budget=self.budget, unless_within=self.max_load_distance
        )
