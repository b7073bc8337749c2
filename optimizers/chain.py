"""Several strategies as one."""

from collections.abc import Collection, Iterator, Mapping
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
    (`Statistics.under`). Steps decide in the order of the arguments. What earlier steps placed on a
    node leaves it when a later step drains it. A chain of one is that one; chains nest.

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
        decided, ours = Plan(), Plan()
        path = tuple(_path(self))
        for where, step in path:
            in_force, seen = current, statistics
            try:
                if decided:
                    # Which groups move when operators are resized is settled here, once for all.
                    whole = _placing(decided, ours.placement)
                    whole = placed_by_traffic(whole, topology, cluster, statistics, current)
                    ours = _ours(whole, decided)
                    in_force = current.amended(whole, cluster)
                    plans = current, in_force
                    seen = statistics.under(*(Layout.of(topology, cluster, p) for p in plans))
                world = topology.under(decided), cluster.under(decided)
                decision = decision_of(step, Question(*world, seen, in_force), "it")
                before, decided = decided, decided | decision
                if len(path) > 1:
                    # So is which nodes are left where fewer are wanted: by what steps say alone.
                    decided = naming_drains(decided, topology, cluster, current)
                decided.check(topology, cluster)
                # What was placed by now leaves the nodes that this step drains.
                leaving = {*decided.drain} - {*before.drain, *in_force.drain, *cluster.draining}
                if leaving:
                    later = cluster.under(decided)
                    kept = _leaving(decided, leaving, later, but=decision.placement)
                    decided, ours = kept, _leaving(ours, leaving, later)
            except PlanConflictError as error:
                raise PlanConflictError(
                    error.part, error.subject, error.first, error.second, where + error.where
                ) from error
            except StrategyError as error:
                raise StrategyError(f"{where}{error}") from error
            except (PlanError, UnknownNameError) as error:
                kind = PlanError if isinstance(error, PlanError) else UnknownNameError
                raise kind(f"{where}{error}; try it in another place of the chain") from error
        return _placing(decided, ours.placement)


def _path(chain: Chain, before: str = "") -> Iterator[tuple[str, Optimizer]]:
    """Yield each step, those of chains within this one too, with its place for messages."""
    for place, step in enumerate(chain.steps, start=1):
        where = f"{before}step {place} of the chain, {name_of(step)}: "
        if isinstance(step, Chain):
            yield from _path(step, where)
        else:
            yield where, step


def _placing(decision: Plan, placement: Mapping[str, Deployment]) -> Plan:
    """Return a decision that also places operators which it does not place itself."""
    return replace(decision, placement={**placement, **decision.placement})


def _ours(whole: Plan, decided: Plan) -> Plan:
    """Return the placements of a plan that no step has decided."""
    names = whole.placement.keys() - decided.placement.keys()
    return Plan(placement={name: whole.placement[name] for name in sorted(names)})


def _leaving(
    plan: Plan, nodes: Collection[str], cluster: Cluster, but: Collection[str] = ()
) -> Plan:
    """Return a plan whose placements leave some nodes, but for those of some operators."""
    placement = {
        name: home if name in but else home.without(nodes, cluster)
        for name, home in plan.placement.items()
    }
    return replace(plan, placement=placement)
