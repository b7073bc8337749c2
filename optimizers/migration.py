"""Migrations: what has to move between two plans."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optimizers.cluster import Cluster
from optimizers.deployment import Deployment, default_groups
from optimizers.statistics import GroupStatistics
from optimizers.topology import Topology

World = tuple[Topology, Cluster, Mapping[str, Deployment]]


@dataclass(frozen=True, slots=True, order=True)
class GroupMove:
    """One key group that gets another instance, or whose instance gets another node.

    Attributes:
        operator: the operator it belongs to.
        group: which of the operator's key groups it is.
        old: the instance that holds it, and the node that one is on.
        new: the instance that is to hold it, and the node that one is to be on.
        bytes: how much state moves with it; None where that is not known.
    """

    operator: str
    group: int
    old: tuple[int, str]
    new: tuple[int, str]
    bytes: float | None = None

    @property
    def crosses_nodes(self) -> bool:
        """Whether its state has to travel to another machine."""
        return self.old[1] != self.new[1]


@dataclass(frozen=True, slots=True)
class Migration:
    """All that moves, operators in the order of the job, groups in their own order.

    Attributes:
        groups: the key groups that move.
        parallelism: operators that get another number of instances, with the old and the new.
        reroutes: keyed operators whose keys are to be routed otherwise: keys that change their
            owner take their state along, which only whoever knows the keys can count.
    """

    groups: tuple[GroupMove, ...] = ()
    parallelism: tuple[tuple[str, int, int], ...] = ()
    reroutes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.parallelism or self.reroutes)

    @property
    def bytes(self) -> float:
        """How much state moves, as far as it is known; see `unsized`."""
        return sum((move.bytes for move in self.groups if move.bytes is not None), 0.0)

    @property
    def unsized(self) -> int:
        """How many of the moves are of unknown size."""
        return sum(move.bytes is None for move in self.groups)

    def __str__(self) -> str:
        if not self:
            return "nothing moves"
        parts = [f"{name}: {old} -> {new} instances" for name, old, new in self.parallelism]
        parts += [f"{name}: keys are routed anew" for name in self.reroutes]
        for name, moves in _by_operator(self.groups):
            count = f"{len(moves)} key group{'s' if len(moves) != 1 else ''}"
            crossing = sum(move.crosses_nodes for move in moves)
            sizes = [move.bytes for move in moves if move.bytes is not None]
            size = f"{sum(sizes):,.0f} bytes" if len(sizes) == len(moves) else "of unknown size"
            parts.append(f"{name}: {count} to move, {crossing} to another node, {size}")
        return "\n".join(parts)


def migration_between(old: World, new: World, sizes: Mapping[str, GroupStatistics]) -> Migration:
    """Return what moves between two states of one job.

    Args:
        old: the topology, the cluster and the deployments of operators as they are.
        new: the same as they are to be; deployments that are absent are the default ones.
        sizes: the key groups of operators, where they were observed.
    """
    topology, later = old[0], new[0]
    groups: list[GroupMove] = []
    parallelism = []
    reroutes = []
    for name in topology.order:
        before, after = topology.operator(name), later.operator(name)
        if before.parallelism != after.parallelism:
            parallelism.append((name, before.parallelism, after.parallelism))
        if not before.keyed:
            continue
        if any(
            topology.grouping(*edge.name) != later.grouping(*edge.name)
            for edge in topology.inputs(name)
        ):
            reroutes.append(name)
        homes = zip(_homes(name, *old), _homes(name, *new), strict=True)
        state = sizes[name].state_bytes if name in sizes else None
        groups += [
            GroupMove(name, group, here, there, None if state is None else float(state[group]))
            for group, (here, there) in enumerate(homes)
            if here != there
        ]
    return Migration(tuple(groups), tuple(parallelism), tuple(reroutes))


def _homes(
    name: str, topology: Topology, cluster: Cluster, placement: Mapping[str, Deployment]
) -> list[tuple[int, str]]:
    """Return the instance and the node of each key group of an operator."""
    operator = topology.operator(name)
    chosen = placement.get(name)
    if chosen is None:
        chosen = Deployment(cluster.deal(operator.parallelism), default_groups(operator))
    return [(instance, chosen.nodes[instance]) for instance in chosen.groups]


def _by_operator(moves: Iterable[GroupMove]) -> list[tuple[str, list[GroupMove]]]:
    found: dict[str, list[GroupMove]] = {}
    for move in moves:
        found.setdefault(move.operator, []).append(move)
    return list(found.items())
