"""InSlices: carries out the placement of a plan that was made before, bit by bit."""

import hashlib
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from grouping.placement.slices import next_slice
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.errors import InvalidValueError, PlanError
from optimizers.layout import Layout
from optimizers.migration import migration_between
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.migration_budget import MigrationBudget
from optimizers.topology import Topology
from sketches.arrays import Floats

_DIGEST = 8  # bytes


def digest_of(plan: Plan) -> str:
    """Return a fingerprint of a plan, notes apart, that is the same in every process."""
    bare = replace(plan, notes=()).to_json()
    return hashlib.blake2b(bare.encode(), digest_size=_DIGEST).hexdigest()


_CARRIED_OUT = ("parallelism", "placement", "notes")  # notes decide nothing


@dataclass(frozen=True)
class InSlices(Optimizer):
    """Moves key groups to where a plan has them, no more at once than a budget allows.

    A large migration is spread over many decisions, so that no batch waits for all of it. The moves
    that relieve busy nodes most for what they cost come first. Each note tells how much is done,
    how much is left and in how many slices.

    >>> from optimizers import GroupStatistics, Topology, Deployment
    >>> job = Topology.source("s").then("count", key="word", parallelism=2, key_groups=4)
    >>> seen = Statistics(groups={"count": GroupStatistics(state_bytes=np.full(4, 100.0))})
    >>> target = Plan(placement={"count": Deployment(("node-0", "node-1"), (1, 1, 0, 0))})
    >>> plan = InSlices(target, budget="200 B").plan(job, Cluster.uniform(2), seen, Plan())
    >>> plan.placement["count"].groups, dict(plan.notes[0].figures)["left"]
    ((1, 1, 1, 1), 200.0)

    Attributes:
        target: the plan; its placement and parallelism are carried out, exactly as they are.
        budget: what one slice may cost: seconds of pause, bytes or a share of the state, or a
            number of groups.
        digest: what `digest_of` said of the plan that was agreed on; another plan is refused.
    """

    target: Plan
    budget: str | MigrationBudget = "10 %"
    digest: str = ""

    observes = frozenset({Probe.GROUPS})

    def __post_init__(self) -> None:
        if not isinstance(self.target, Plan):
            raise InvalidValueError(f"target={self.target!r} is not a Plan")
        object.__setattr__(self, "budget", MigrationBudget.of(self.budget))
        others = [
            field.name
            for field in fields(Plan)
            if field.name not in _CARRIED_OUT and getattr(self.target, field.name)
        ]
        if others:
            raise PlanError(
                f"the plan decides {', '.join(others)}, which are not done in slices; give one "
                "with placement and parallelism only"
            )
        found = digest_of(self.target)
        if self.digest not in {"", found}:
            raise PlanError(
                f"the plan is {found}, and {self.digest} was agreed on; give that one, or agree on "
                "this one"
            )
        object.__setattr__(self, "digest", found)

    @classmethod
    def read(cls, path: str | Path, *, budget: str = "10 %", digest: str = "") -> "InSlices":
        """Return it for the plan in a file, which has to be the one that was agreed on."""
        return cls(Plan.from_json(Path(path).read_text("utf-8")), budget, digest)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose the next slice; nothing once all is as the plan has it."""
        old = Layout.of(topology, cluster, current)
        wanted = {
            name: home
            for name, home in self.target.placement.items()
            if home != old.homes.get(name)
        }
        for name, home in wanted.items():
            _check(name, old.homes.get(name), home)
        if not wanted:
            return self._done(topology, current)
        budget = MigrationBudget.of(self.budget)
        state = {name: statistics.groups.get(name) for name in wanted}
        sizes = {n: None if seen is None else seen.state_bytes for n, seen in state.items()}
        unsized = [name for name, size in sizes.items() if size is None]
        if unsized and budget.unit != "groups":
            if not statistics.groups:
                return Plan()
            text = f"waits: the state of {' and '.join(unsized)} was not observed"
            return Plan(notes=(self.note("the job", text),))
        return self._slice(old, wanted, sizes, statistics, budget)

    def _slice(
        self,
        old: Layout,
        wanted: dict[str, Deployment],
        sizes: dict[str, Floats | None],
        statistics: Statistics,
        budget: MigrationBudget,
    ) -> Plan:
        # 1. All moves that are left, and what each costs.
        moves = [
            (name, group)
            for name, home in wanted.items()
            for group, (here, there) in enumerate(
                zip(old.homes[name].groups, home.groups, strict=True)
            )
            if here != there
        ]
        whole = np.concatenate(
            [
                np.zeros(len(home.groups)) if (size := sizes[name]) is None else size
                for name, home in wanted.items()
            ]
        )
        firsts = dict(
            zip(
                wanted,
                np.cumsum([0, *(len(home.groups) for home in wanted.values())]),
                strict=False,
            )
        )
        costs = budget.costs(whole, statistics.past)
        if budget.unit == "share":
            costs = whole / _all_state(statistics)
        chosen = np.array([firsts[name] + group for name, group in moves], dtype=np.int64)
        gains = _relief(old, wanted, moves, statistics)
        found = next_slice(costs[chosen], gains, budget.amount or np.inf)
        # 2. The deployments with these moves made.
        groups = {name: list(old.homes[name].groups) for name in wanted}
        for place in np.flatnonzero(found.moves).tolist():
            name, group = moves[place]
            groups[name][group] = wanted[name].groups[group]
        placement = {
            name: Deployment(home.nodes, tuple(groups[name])) for name, home in wanted.items()
        }
        counts = {
            name: len(home.nodes)
            for name, home in wanted.items()
            if len(home.nodes) != len(old.homes[name].nodes)
        }
        # 3. What is said of it.
        job = old.topology.under(Plan(parallelism=counts))
        # Keys are counted only if another strategy wants them.
        seen = replace(statistics, keys={})
        moved = migration_between(old, Layout(job, {**old.homes, **placement}), seen)
        figures = {
            "groups": moved.total.groups,
            "keys": moved.total.keys,
            "bytes": moved.bytes,
            "left": float(whole[chosen[~found.moves]].sum()),
            "groups left": int((~found.moves).sum()),
            "slices left": found.slices - 1,
        }
        note = self.note("the job", f"the next slice of plan {self.digest}", figures)
        return Plan(parallelism=counts, placement=placement, notes=(note,))

    def _done(self, topology: Topology, current: Plan) -> Plan:
        counts = {
            name: count
            for name, count in self.target.parallelism.items()
            if topology.operator(name).parallelism != count
        }
        text = f"plan {self.digest} is carried out"
        return Plan(parallelism=counts, notes=(self.note("the job", text),))


def _check(name: str, now: Deployment | None, home: Deployment) -> None:
    """Refuse a deployment that instances with key groups would have to travel for as a whole."""
    if now is None:
        raise PlanError(f"placement[{name!r}]: the job has no operator of that name")
    if len(now.groups) != len(home.groups):
        raise PlanError(
            f"placement[{name!r}] places {len(home.groups)} key groups, and the operator has "
            f"{len(now.groups)}"
        )
    for number in sorted(set(now.groups)):
        if number >= len(home.nodes) or home.nodes[number] != now.nodes[number]:
            raise PlanError(
                f"placement[{name!r}]: instance {number} has key groups and would leave "
                f"{now.nodes[number]} with all of them; move the groups first"
            )


def _all_state(statistics: Statistics) -> float:
    """Return how much state there is in all key groups that were observed."""
    sizes = [seen.state_bytes for seen in statistics.groups.values()]
    return sum(float(size.sum()) for size in sizes if size is not None) or 1.0


def _relief(
    old: Layout,
    wanted: dict[str, Deployment],
    moves: list[tuple[str, int]],
    statistics: Statistics,
) -> Floats:
    """Return by how much each move brings load from a fuller instance to an emptier one."""
    gains, held = np.zeros(len(moves)), {}
    for name, home in wanted.items():
        seen = statistics.groups.get(name)
        if seen is not None and seen.cpu is not None:
            count = max(len(home.nodes), len(old.homes[name].nodes))
            held[name] = np.bincount(old.homes[name].groups, seen.cpu, count)
    for place, (name, group) in enumerate(moves):
        seen = statistics.groups.get(name)
        if seen is not None and seen.cpu is not None:
            here, there = old.homes[name].groups[group], wanted[name].groups[group]
            apart = float(held[name][here] - held[name][there])
            gains[place] = max(0.0, apart) * float(seen.cpu[group])
    return gains
