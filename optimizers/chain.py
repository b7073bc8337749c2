"""Several strategies as one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from optimizers.cluster import Cluster
from optimizers.control.asking import decision_of, name_of
from optimizers.control.question import Question
from optimizers.control.resizing import placed_by_traffic
from optimizers.control.surplus import naming_drains
from optimizers.deployment import Deployment
from optimizers.errors import (
    InvalidValueError,
    PlanConflictError,
    PlanError,
    StrategyError,
    UnknownNameError,
)
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology


@dataclass(frozen=True, init=False)
class Chain(Optimizer):
    """Strategies one after the other; each decides as if the earlier decisions were in force.

    That includes the statistics: a later step gets them projected through the decisions before it
    (`Statistics.under`). Steps decide in the order of the arguments. A chain of one is that one;
    chains nest.

    >>> from optimizers import Cluster, Fixed, Plan, Statistics, Topology
    >>> chain = Chain(Fixed(Plan(parallelism={"count": 8})), Fixed(Plan(batch={"count": 500})))
    >>> job = Topology.source("words").then("count", key="word")
    >>> chain.plan(job, Cluster.uniform(4), Statistics(), Plan())
    Plan(parallelism={'count': 8}, batch={'count': 500})

    Attributes:
        steps: the strategies, in the order in which they decide.
    """

    steps: tuple[Optimizer, ...]

    def __init__(self, *steps: Optimizer) -> None:
        for step in steps:
            if not isinstance(step, Optimizer):
                raise InvalidValueError(
                    f"{step!r} is not an Optimizer; give Chain the strategies themselves, "
                    "as in Chain(first, second)"
                )
        object.__setattr__(self, "steps", steps)

    def __reduce__(self) -> tuple[type["Chain"], tuple[Optimizer, ...]]:
        return type(self), self.steps

    @property
    def name(self) -> str:
        """The names of its steps, in order."""
        return " + ".join(map(name_of, self.steps))

    @property
    def observes(self) -> frozenset[Probe]:
        """All that any of its steps has observed."""
        return reduce(frozenset.union, (step.observes for step in self.steps), frozenset())

    @property
    def memory(self) -> float:
        """The longest memory of any of its steps."""
        return max((step.memory for step in self.steps), default=0.0)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Let each step decide, given what the earlier ones decided.

        Raises:
            PlanConflictError: a step contradicts an earlier one.
            PlanError: a step makes an earlier decision impossible, as when a routing table
                meets another number of instances.
            UnknownNameError: a step names an operator, edge or node that is not there.
            StrategyError: a step raised anything else.

        Each message begins with the step.
        """
        decided, placed = Plan(), Plan()
        for place, step in enumerate(self.steps, start=1):
            in_force, seen = current, statistics
            where = f"step {place} of the chain, {name_of(step)}: "
            try:
                if decided:
                    # Which nodes are left where fewer are wanted is settled here, once for all.
                    decided = naming_drains(decided, topology, cluster, current)
                    # So is which groups move when operators are resized.
                    placed = _placing(decided, placed.placement)
                    placed = placed_by_traffic(placed, topology, cluster, statistics, current)
                    in_force = current.amended(placed, cluster)
                    plans = current, in_force
                    seen = statistics.under(*(Layout.of(topology, cluster, p) for p in plans))
                world = topology.under(decided), cluster.under(decided)
                decided |= decision_of(step, Question(*world, seen, in_force), "it")
                decided.check(topology, cluster)
            except PlanConflictError as error:
                raise PlanConflictError(
                    error.part, error.subject, error.first, error.second, where + error.where
                ) from error
            except StrategyError as error:
                raise StrategyError(f"{where}{error}") from error
            except (PlanError, UnknownNameError) as error:
                kind = PlanError if isinstance(error, PlanError) else UnknownNameError
                raise kind(f"{where}{error}; try it in another place of the chain") from error
        return _placing(decided, placed.placement)


def _placing(decision: Plan, placement: Mapping[str, Deployment]) -> Plan:
    """Return a decision that also places operators which it does not place itself."""
    return replace(decision, placement={**placement, **decision.placement})
