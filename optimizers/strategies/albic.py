"""Albic: which node holds which key group, so that all nodes have as much to do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from grouping.placement.albic_published import scored
from grouping.placement.partners import USUAL_PART
from grouping.placement.place import GroupPlacement, place_groups
from grouping.placement.problem import ROUNDING
from grouping.placement.scaling import ScalingRule
from grouping.placement.solvers import check_solver
from grouping.placement.traffic import Traffic
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout
from optimizers.migration import Migration, migration_between
from optimizers.optimizer import Optimizer
from optimizers.past import RESOURCES
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.albic_published import PublishedAlbic
from optimizers.strategies.parts.even_instances import Evened, InstanceBalance
from optimizers.strategies.parts.group_layout import GroupLayout, hindrance
from optimizers.strategies.parts.group_loads import GroupLoads
from optimizers.strategies.parts.migration_budget import MigrationBudget
from optimizers.strategies.parts.promises import overpromised
from optimizers.strategies.parts.scaling import NodesWanted, grown, nodes_wanted
from optimizers.topology import Topology
from sketches import checks
from sketches.arrays import Floats
from sketches.values import listed

_LEAST_LOCAL = 0.01  # the share of the traffic that has to become local for moves to be worth it


@dataclass(frozen=True)
class Albic(Optimizer):
    """Decides which node holds which key group, so that all nodes have as much to do.

    >>> import numpy as np
    >>> from optimizers import GroupStatistics
    >>> job = Topology.source("s").then("count", key="word", parallelism=2, key_groups=4)
    >>> load = np.array([0.3, 0.3, 0.1, 0.1])
    >>> seen = Statistics(groups={"count": GroupStatistics(load, load, load, 1000 * load)})
    >>> plan = Albic(budget="50 %").plan(job, Cluster.uniform(2), seen, Plan())
    >>> plan.placement["count"].groups  # three tenths against one, from each to the other
    (1, 0, 0, 1)

    Groups are moved one by one, or swapped, as long as that evens out what nodes have to do and
    the budget for moving state is not spent. On Spark stages run one after another, so each stage
    is to be even by itself. Groups that send each other much come to one node where that does not
    make the load uneven. Groups take the keys that tables name along. As long as nodes are even
    enough, nothing moves; once they are not, just what it takes to be well within the limit.

    Attributes:
        budget: what the moves of one decision may cost: seconds of pause, bytes or a share of the
            state, or a number of groups, as in ``"2 s"``, ``"64 MB"``, ``"10 %"``, ``"20 groups"``.
        max_load_distance: how far a node may be from the mean before groups move, as a share of
            the mean (of the heaviest stage).
        resource: which load is to be even, ``"cpu"``, ``"memory"`` or ``"network"``; None for the
            one of which the largest share is in use, or for tuples where CPU time is not known.
        by_stage: whether each stage is to be even by itself, as on Spark; else the sum of all, as
            in engines where they run at the same time.
        nodes: how many nodes there may be, as in ``(2, 10)``; None where their number is not
            decided here.
        usage: below which usage of the busiest node nodes are given back, which it is to have then,
            and beyond which nodes are added.
        patience: how many epochs in a row have to allow for fewer nodes.
        worth: what share of the traffic has to become local for each share of the state that moves.
        score_factor: how many times the average of its sender a pair of groups has to send for its
            traffic to count in placing them; None to count all.
        max_partition_load: what groups that move as one, as they talk mostly to each other, may
            have of the mean load of a node.
        lasting: what earlier epochs count in the load of a group.
        rounds: how often a part of the moves is taken back, in search of better ones.
        time_limit: how many seconds a solver looks for something better, each time it is asked;
            None for no solver, so that the answer is the same in every process.
        solver: which one: "CBC" or "HiGHS".

    References:
        K. G. S. Madsen, Y. Zhou, J. Cao, "Integrative dynamic reconfiguration in a parallel stream
        processing engine", ICDE 2017.
    """

    budget: str | MigrationBudget = "10 %"
    max_load_distance: float = 0.1
    resource: str | None = None
    by_stage: bool = True
    nodes: tuple[int, int] | None = None
    usage: tuple[float, float, float] = (0.55, 0.7, 0.85)
    patience: int = 3
    worth: float = 0.05
    score_factor: float | None = None
    max_partition_load: float = USUAL_PART
    lasting: float = 0.5
    rounds: int = 4
    time_limit: float | None = None
    solver: str = "CBC"

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", MigrationBudget.of(self.budget))
        distance = checks.number("max_load_distance", self.max_load_distance, above=0)
        object.__setattr__(self, "max_load_distance", distance)
        if self.resource is not None and self.resource not in RESOURCES:
            raise InvalidValueError(
                f"resource={self.resource!r} is not a resource; use one of {', '.join(RESOURCES)}"
            )
        if not isinstance(self.by_stage, bool):
            raise InvalidValueError(f"by_stage={self.by_stage!r} is not a bool; give True or False")
        for name, count in (("nodes", 2), ("usage", 3)):
            given = getattr(self, name)
            if given is not None or name == "usage":
                object.__setattr__(self, name, _numbers(name, given, count))
        _ = self.rule  # refuses what means nothing
        object.__setattr__(self, "worth", checks.amount("worth", self.worth))
        object.__setattr__(self, "lasting", checks.amount("lasting", self.lasting, up_to=1.0))
        for name in ("score_factor", "max_partition_load", "time_limit"):
            if (given := getattr(self, name)) is not None or name == "max_partition_load":
                object.__setattr__(self, name, checks.number(name, given, above=0))
        check_solver(self.solver, asked=self.time_limit is not None)
        object.__setattr__(self, "rounds", checks.whole("rounds", self.rounds, at_least=0))

    @property
    def observes(self) -> frozenset[Probe]:
        """Loads of key groups; where nodes are decided, those of all instances as well."""
        return frozenset({Probe.GROUPS, Probe.OPERATORS} if self.nodes else {Probe.GROUPS})

    @property
    def rule(self) -> ScalingRule | None:
        """When nodes are added and given back."""
        if self.nodes is None:
            return None
        lower, target, upper = self.usage
        least, most = self.nodes
        return ScalingRule(target, upper, lower, self.patience, least=least, most=most)

    @staticmethod
    def published(  # noqa: PLR0913
        *,
        budget: str | MigrationBudget = "10 %",
        max_load_distance: float = 0.1,
        score_factor: float = 1.5,
        max_partition_load: float | None = None,
        seed: int = 0,
        time_limit: float | None = None,
        solver: str = "CBC",
    ) -> PublishedAlbic:
        """Return the paper's method, as a baseline."""
        return PublishedAlbic(
            budget=budget,
            max_load_distance=max_load_distance,
            score_factor=score_factor,
            max_partition_load=max_partition_load,
            seed=seed,
            time_limit=time_limit,
            solver=solver,
        )

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose nodes for the key groups of all operators whose loads were seen."""
        reason = hindrance(topology)
        if reason:
            return self.idle(reason)
        old = Layout.of(topology, cluster, current)
        loads = GroupLoads.of(old, cluster, statistics, self.resource, self.lasting)
        if loads is None:
            return Plan()
        if loads.lacking:
            text = f"nothing moves: the loads of {' and '.join(loads.lacking)} were not observed"
            return Plan(notes=(self.note("the job", text),))
        if self.rule is None:
            return _Proposal(self, old, old, cluster, loads, statistics).plan
        # 1. Nodes without instances get some, and the best plan for the nodes that are there.
        new = _with(old, grown(old, loads.names, cluster))
        potential = _Proposal(self, old, new, cluster, loads, statistics)
        wanted = potential.nodes_wanted(self.rule)
        if isinstance(wanted, str):
            text = f"no nodes are added or given back: {wanted}"
            return potential.plan | Plan(notes=(self.note("nodes", text),))
        # 2. With the nodes that go, the plan is made again.
        scaling, there = wanted.scaling, len(cluster.working)
        figures = {"there": there, "wanted": scaling.nodes, "usage": scaling.expected}
        decided = Plan(
            nodes=scaling.nodes if scaling.nodes != there else None,
            drain=wanted.drain,
            notes=(self.note("nodes", scaling.reason, figures),),
        )
        if wanted.drain:
            cluster = cluster.under(decided)
            potential = _Proposal(self, old, new, cluster, loads, statistics, wanted.drain)
        return potential.plan | decided


@dataclass(frozen=True)
class _Proposal:
    """Where key groups could be, and whether that is worth moving them."""

    strategy: Albic
    before: Layout
    layout: Layout
    cluster: Cluster
    loads: GroupLoads
    statistics: Statistics
    drained: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> GroupLayout:
        """The key groups, as they would be laid out if none moved."""
        return GroupLayout(self.layout, self.cluster, self.loads.names, self.loads.resource)

    def nodes_wanted(self, rule: ScalingRule) -> NodesWanted | str:
        """Return how many nodes there are to be; or, in words, what is not known for that."""
        if not self.scale:
            return "no load was seen"
        return nodes_wanted(
            self.groups,
            self._rows,
            self._found.assignment,
            self.groups.row(self.loads.state),
            self.statistics,
            resource=self.loads.resource,
            rule=rule,
        )

    @property
    def plan(self) -> Plan:
        """What is decided."""
        if not self.scale:
            return self._left("no load was seen")
        placed = self._placed
        if not placed:
            return self._left(self._silence)
        moved = self._migration(placed)
        notes = [self._of_operator(name, placed[name], moved) for name in placed]
        return Plan(
            parallelism={
                name: len(home.nodes)
                for name, home in placed.items()
                if len(home.nodes) != len(self.before.homes[name].nodes)
            },
            placement=placed,
            notes=(self._of_job(self._reason, moved), *notes),
        )

    @cached_property
    def scale(self) -> float:
        """The mean load of a node, of the heaviest stage."""
        staying = np.ones(len(self.groups.nodes), dtype=np.bool_)
        staying[self.groups.draining] = False
        power = self.groups.capacities[staying].sum()
        return float(self._rows.sum(axis=1).max(initial=0.0) / power)

    @cached_property
    def _rows(self) -> Floats:
        row = self.groups.row(self.loads.loads)
        return self.groups.dimensions(row, by_stage=self.strategy.by_stage)

    @cached_property
    def _now(self) -> GroupPlacement:
        """Where the groups are, as a placement that moves nothing."""
        return self._place(budget=0.0)

    @cached_property
    def _found(self) -> GroupPlacement:
        """Where they could be."""
        return self._place(budget=self._budget.amount, rounds=self.strategy.rounds)

    def _place(self, *, budget: float, rounds: int = 0) -> GroupPlacement:
        limit = self.strategy.max_load_distance / 2  # well within: else it is beyond soon again
        strategy, traffic = self.strategy, self.groups.traffic(self.statistics)
        if strategy.score_factor is not None:
            heavy = scored(traffic, self.groups.downstream, strategy.score_factor)
            traffic = Traffic(
                traffic.sources[heavy],
                traffic.targets[heavy],
                traffic.rates[heavy],
                groups=self.groups.count,
            )
        return place_groups(
            self._rows / self.scale,
            self.groups.current,
            len(self.groups.nodes),
            budget=budget,
            migration_cost=self._costs,
            capacities=self.groups.capacities,
            draining=self.groups.draining,
            able=self.groups.able,
            traffic=traffic if traffic.total and budget else None,
            max_load_distance=limit,
            worth=strategy.worth + self._overpromised,
            max_partition_load=strategy.max_partition_load,
            enough=limit if budget else None,
            rounds=rounds,
            time_limit=strategy.time_limit if budget else None,
            solver=strategy.solver,
        )

    @property
    def _budget(self) -> MigrationBudget:
        return MigrationBudget.of(self.strategy.budget)

    @cached_property
    def _costs(self) -> Floats:
        state = self.groups.row(self.loads.state)
        return self._budget.costs(state, self.statistics.past)

    @property
    def _chosen(self) -> GroupPlacement:
        """Where they are to be, by node."""
        return self._found if self._reason else self._now

    @cached_property
    def _evened(self) -> Evened:
        """The deployments that follow, with even instances on each node."""
        loads, chosen = self.groups.row(self.loads.loads), self._chosen
        balance = InstanceBalance(
            self.groups,
            loads,
            self.groups.row(self.loads.variances),
            self._costs,
            self.scale,
            self.strategy.max_load_distance,
        )
        placed = self.groups.placed(chosen.assignment, loads)
        return balance.evened(placed, self._budget.amount - chosen.cost)

    @cached_property
    def _placed(self) -> Mapping[str, Deployment]:
        """The deployments that change; none if that is not worth it."""
        placed = self._evened.placed
        # What begins to drain is left at once by all that no plan places there.
        return {
            name: home
            for name, home in {**self.layout.homes, **placed}.items()
            if home != self.before.homes[name] or set(self.drained) & set(home.nodes)
        }

    @cached_property
    def _reason(self) -> str:
        """Why groups move; empty if they do not."""
        found, now = self._found, self._now
        if not found.moves:
            return ""
        if self._left_on(found) < self._left_on(now):
            return "nodes that drain are left"
        if now.load_distance > self._limit and found.load_distance < now.load_distance - self._luck:
            return "load is uneven"
        if self._local(found) - self._local(now) >= _LEAST_LOCAL:
            return "groups that talk to each other come together"
        return ""

    @property
    def _silence(self) -> str:
        """Why groups do not move."""
        if self._left_on(self._now):
            return f"nodes that drain keep their key groups: {self._needed}"
        if self._now.load_distance <= self._limit:
            return "left as it is: nodes are even enough"
        if self._now.load_distance <= self._now.bound * (1 + ROUNDING):
            return "left as it is: no placement within the budget is more even"
        return "left as it is: too little is gained by what the budget allows to move"

    @property
    def _needed(self) -> str:
        """What it would take to move all that is left on nodes that drain."""
        leaving = np.isin(self._chosen.assignment, self.groups.draining)
        staying = np.delete(self.groups.able, self.groups.draining, axis=1)
        if not staying[leaving].any():
            return "their operators have instances nowhere else"
        costs = self._costs[leaving]
        most = 1.0 if self._budget.unit == "share" else np.inf  # but for rounding
        whole, largest = (
            MigrationBudget(min(float(cost), most), self._budget.unit)
            for cost in (costs.sum(), costs.max())
        )
        return (
            f"to move them takes {whole}, the largest alone {largest}, "
            f"and the budget is {self._budget}"
        )

    @property
    def _stuck(self) -> str:
        """What is said of groups that no budget of one decision moves off nodes that drain."""
        leaving = np.isin(self._chosen.assignment, self.groups.draining)
        if self._costs[leaving].max(initial=0.0) <= self._budget.amount * (1 + ROUNDING):
            return ""
        return f"; nodes that drain keep key groups: {self._needed}"

    @property
    def _limit(self) -> float:
        """How far nodes may be from the mean, with what may be chance."""
        return self.strategy.max_load_distance + self._luck

    @cached_property
    def _luck(self) -> float:
        """How far a node may seem to be from the mean by chance: two standard deviations."""
        each = self.groups.row(self.loads.variances) / self.scale**2
        rows = self.groups.dimensions(each, by_stage=self.strategy.by_stage)
        at, count = self.groups.current, len(self.groups.nodes)
        held = np.stack([np.bincount(at, row, count) for row in rows])
        return 2.0 * float(np.sqrt((held / self.groups.capacities**2).max()))

    @cached_property
    def _overpromised(self) -> float:
        """What earlier moves lacked of the local traffic that they promised; see `overpromised`."""
        local = self.groups.traffic(self.statistics).local(self.groups.current)
        state = float(sum(held.sum() for held in self.loads.state.values()))
        return overpromised(self.statistics.past, self.strategy.name, state, local)

    def _left_on(self, placement: GroupPlacement) -> int:
        return int(np.isin(placement.assignment, self.groups.draining).sum())

    def _local(self, placement: GroupPlacement) -> float:
        return self.groups.traffic(self.statistics).local(placement.assignment)

    def _migration(self, placed: Mapping[str, Deployment]) -> Migration:
        # Keys are counted only if another strategy wants them.
        seen = replace(self.statistics, keys={})
        return migration_between(self.before, _with(self.before, placed), seen)

    def _left(self, text: str) -> Plan:
        figures = {} if not self.scale else self._figures(self._now)
        return Plan(notes=(self.strategy.note("the job", text, figures),))

    def _of_job(self, text: str, moved: Migration) -> Note:
        figures = {
            **self._figures(self._chosen),
            "groups": moved.total.groups,
            "keys": moved.total.keys,
            "bytes": moved.bytes,
            "cost": self._chosen.cost + self._evened.cost,
            "budget": self._budget.amount,
            "least": self._found.bound,
        }
        if not text and self._evened.cost:
            text = "instances of one node are uneven"
        text = text or "nothing is left on nodes that drain"
        return self.strategy.note(
            "the job", f"{text}, by {self.loads.resource}{self._stuck}", figures
        )

    def _figures(self, placement: GroupPlacement) -> dict[str, float]:
        figures = {
            "distance then": self._now.load_distance,
            "distance now": placement.load_distance,
        }
        if self.groups.traffic(self.statistics).total:
            figures["local then"] = self._local(self._now)
            figures["local now"] = self._local(placement)
        if self.groups.draining:
            figures["left to drain"] = self._left_on(placement)
        return figures

    def _of_operator(self, name: str, home: Deployment, moved: Migration) -> Note:
        before = self.before.homes[name]
        figures = {}
        if name in self.groups.spans:
            loads, mine = self.loads.loads[name], moved.by_operator.get(name)
            figures = {
                "imbalance then": _imbalance(before, loads),
                "imbalance now": _imbalance(home, loads),
                "groups": 0 if mine is None else mine.groups,
                "keys": 0 if mine is None else mine.keys,
                "bytes": 0 if mine is None else mine.bytes,
            }
        return self.strategy.note(name, "moves", figures)


def _with(layout: Layout, placed: Mapping[str, Deployment]) -> Layout:
    """Return a layout with other deployments of some operators."""
    counts = {name: len(home.nodes) for name, home in placed.items()}
    job = layout.topology.under(Plan(parallelism=counts))
    return Layout(job, {**layout.homes, **placed})


def _numbers(name: str, given: object, count: int) -> tuple[Any, ...]:
    found = listed(name, given)
    if len(found) != count:
        raise InvalidValueError(f"{name}={given!r} is not {count} numbers; give {count}")
    return found


def _imbalance(home: Deployment, loads: Floats) -> float:
    """Return how many times the average load the fullest instance has."""
    held = np.bincount(home.groups, loads, len(home.nodes))
    return float(held.max() / held.mean()) if held.any() else 1.0
