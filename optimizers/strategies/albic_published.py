"""Albic as its paper has it: the baseline that `Albic` is compared with."""

from dataclasses import dataclass

from grouping.placement.albic_published import albic
from grouping.placement.problem import Nodes, PlacementProblem
from grouping.placement.solvers import check_solver
from optimizers.cluster import Cluster
from optimizers.control.question import Question
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.group_layout import GroupLayout
from optimizers.strategies.parts.migration_budget import MigrationBudget
from optimizers.strategies.parts.placing_at_once import placed_at_once
from optimizers.topology import Topology
from sketches import checks


@dataclass(frozen=True)
class PublishedAlbic(Optimizer):
    """Decides which node holds which key group by the paper's method.

    The loads of all operators on a node add up. Each time, groups on one node that send each other
    more than is usual are kept together, one more pair of them is brought together, and all is
    placed as evenly as the budget allows. Nothing is remembered, and an answer that is more even
    than the present, or more local, is applied; so one may undo the other on a steady stream.

    >>> import numpy as np
    >>> from optimizers import GroupStatistics
    >>> job = Topology.source("s").then("count", key="word", parallelism=2, key_groups=4)
    >>> load = np.array([0.3, 0.3, 0.1, 0.1])
    >>> seen = Statistics(groups={"count": GroupStatistics(load, load, load, 1000 * load)})
    >>> plan = PublishedAlbic(budget="50 %").plan(job, Cluster.uniform(2), seen, Plan())
    >>> plan.placement["count"].groups
    (1, 0, 0, 1)

    Attributes:
        budget: what the moves of one decision may cost: seconds of pause, bytes or a share of the
            state, or a number of groups.
        max_load_distance: how far a node may be from the mean, as a share of the mean, before sets
            of groups are divided.
        score_factor: how many times the average of its sender a pair of groups has to send to be
            worth collocating.
        max_partition_load: what a set of groups may have of the mean load of a node, to begin with;
            None for a tenth.
        seed: for choices between equals.
        time_limit: how many seconds a solver has for the printed program, each time it is asked;
            None to take the answer of a descent for it, which is the same in every process.
        solver: which one: "CBC" or "HiGHS".

    References:
        K. G. S. Madsen, Y. Zhou, J. Cao, "Integrative dynamic reconfiguration in a parallel stream
        processing engine", ICDE 2017.
    """

    budget: str | MigrationBudget = "10 %"
    max_load_distance: float = 0.1
    score_factor: float = 1.5
    max_partition_load: float | None = None
    seed: int = 0
    time_limit: float | None = None
    solver: str = "CBC"

    observes = frozenset({Probe.GROUPS})

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", MigrationBudget.of(self.budget))
        for name in ("max_load_distance", "score_factor"):
            given = checks.number(name, getattr(self, name), above=0)
            object.__setattr__(self, name, given)
        if self.max_partition_load is not None:
            most = checks.number("max_partition_load", self.max_partition_load, above=0)
            object.__setattr__(self, "max_partition_load", most)
        checks.seed(self.seed)
        if self.time_limit is not None:
            seconds = checks.number("time_limit", self.time_limit, above=0)
            object.__setattr__(self, "time_limit", seconds)
        check_solver(self.solver, asked=self.time_limit is not None)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose nodes for the key groups of all operators whose loads were seen."""

        def place(problem: PlacementProblem, groups: GroupLayout) -> Nodes:
            return albic(
                problem,
                groups.traffic(statistics),
                groups.downstream,
                max_load_distance=self.max_load_distance,
                score_factor=self.score_factor,
                max_partition_load=self.max_partition_load,
                time_limit=self.time_limit,
                solver=self.solver,
                seed=self.seed,
            )

        question = Question(topology, cluster, statistics, current)
        return placed_at_once(self, question, place, budget=self.budget)
