"""How many nodes a job is to have, and what follows for its instances."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from grouping.placement.problem import Nodes
from grouping.placement.scaling import Demand, Scaling, ScalingRule, scaled
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.layout import Layout
from optimizers.past import PastEpoch
from optimizers.statistics import Statistics
from optimizers.strategies.parts.group_layout import GroupLayout
from optimizers.strategies.parts.group_loads import TUPLES
from sketches.arrays import Floats

_BUSY = 0.95  # of the time: a node or an instance that works that much may have none to spare
_BEHIND = 1.02  # times what was let in: so much more came


@dataclass(frozen=True)
class NodesWanted:
    """How many nodes there are to be.

    Attributes:
        scaling: how many, and why.
        drain: the names of the nodes that are to be emptied and given back.
    """

    scaling: Scaling
    drain: tuple[str, ...] = ()


def nodes_wanted(  # noqa: PLR0913
    groups: GroupLayout,
    rows: Floats,
    assignment: Nodes,
    state: Floats,
    statistics: Statistics,
    *,
    resource: str,
    rule: ScalingRule,
) -> NodesWanted | str:
    """Return how many nodes there are to be; or, in words, what is not known for that.

    Args:
        groups: the key groups that can move, as they are laid out.
        rows: their loads, by dimension.
        assignment: where they would be under the plan that balances load best.
        state: how much state each holds.
        statistics: what was seen.
        resource: of which resource the loads are.
        rule: when nodes are added and given back.
    """
    if resource == TUPLES:
        return "it was not observed what share of a node key groups take"
    others = _others(groups, statistics, resource)
    if isinstance(others, str):
        return others
    # 1. What was measured, and what more would have had to be done to keep up.
    staying = np.ones(len(groups.nodes), dtype=np.bool_)
    staying[groups.draining] = False
    measured = _busiest(groups, rows, assignment) + others.busiest
    comes = resource != "memory"  # which state takes, however fast tuples come
    times = _times(groups.layout, statistics) if comes else 1.0
    power = groups.capacities[staying]
    spread = others.total / float(power.sum())
    # 2. How many nodes that takes.
    demand = Demand(
        rows * times,
        np.append(others.total * times, np.zeros(len(rows) - 1)),
        power,
        measured * times,
        _busiest_instance(groups, statistics) * min(1.0, _times(groups.layout, statistics)) >= _BUSY
        or (comes and (_busiest(groups, rows) + others.busiest >= _BUSY or _behind(statistics))),
        _earlier(groups.layout, statistics),
        max(0.0, others.busiest - spread) * times,
    )
    found = scaled(demand, rule, since=_since(statistics))
    fewer = len(demand.capacities) - found.nodes
    return NodesWanted(found, _cheapest(groups, state, fewer))


def grown(layout: Layout, names: tuple[str, ...], cluster: Cluster) -> dict[str, Deployment]:
    """Return deployments with instances on working nodes that have none of their operator.

    Instances without key groups move there first. Others are new; then there are as many on such a
    node as on others on average, and no more instances than key groups.

    Args:
        layout: the job as it is laid out.
        names: the operators.
        cluster: the machines.
    """
    found = {}
    for name in names:
        home = layout.homes[name]
        nodes, used = list(home.nodes), Counter(home.nodes)
        lacking = [node.name for node in cluster.working if not used[node.name]]
        each = max(1, round(len(nodes) / max(len(used), 1)))
        held = Counter(home.groups)
        spare = [n for n, node in enumerate(nodes) if not held[n] and used[node] > 1]
        for node in lacking:
            for _ in range(each):
                if spare:
                    nodes[spare.pop()] = node
                elif len(nodes) < len(home.groups):
                    nodes.append(node)
        if tuple(nodes) != home.nodes:
            found[name] = Deployment(tuple(nodes), home.groups)
    return found


def _busiest(groups: GroupLayout, rows: Floats, assignment: Nodes | None = None) -> float:
    """Return the usage of the busiest node, dimensions one after the other."""
    at = groups.current if assignment is None else assignment
    held = np.stack([np.bincount(at, row, len(groups.nodes)) for row in rows])
    return float((held / groups.capacities).max(axis=1).sum())


def _busiest_instance(groups: GroupLayout, statistics: Statistics) -> float:
    """Return for what share of the epoch an instance worked, which has one core to work on.

    Where stages wait for each other, one can work only while its stage runs: the busiest of all
    stages then count together, without those of sources, whose partitions run side by side.
    """
    if not statistics.seconds:
        return 0.0
    layout, how = groups.layout, statistics.execution
    waits = how is not None and how.micro_batches
    busiest: dict[int, float] = {}
    for name, stage in layout.stage_of.items():
        at = stage if waits else 1
        seen, told = statistics.instances.get(name), statistics.groups.get(name)
        worked: Floats | None = None if seen is None else seen.seconds
        if worked is None and told is not None and told.seconds is not None:
            worked = np.bincount(layout.homes[name].groups, told.seconds).astype(np.float64)
        if at and worked is not None:
            busiest[at] = max(busiest.get(at, 0.0), float(worked.max(initial=0.0)))
    return sum(busiest.values()) / statistics.seconds


@dataclass(frozen=True)
class _Others:
    """The load of operators whose key groups cannot move, and of those without any."""

    total: float = 0.0
    busiest: float = 0.0


def _others(groups: GroupLayout, statistics: Statistics, resource: str) -> _Others | str:
    """Add up what instances did whose place does not change; or say of which it is not known."""
    total = busiest = 0.0
    for name in groups.layout.topology.order:
        if name in groups.spans:
            continue
        seen = statistics.instances.get(name)
        loads = None if seen is None else getattr(seen, resource)
        if seen is None or loads is None:
            return f"the load of {name} was not observed"
        held: dict[str, float] = {}
        for node, load in zip(seen.nodes, loads.tolist(), strict=True):
            held[node] = held.get(node, 0.0) + load * groups.units.get(node, 1.0)
        room = dict(zip(groups.nodes, groups.capacities.tolist(), strict=True))
        total += sum(held.values())
        busiest += max((load / room.get(node, 1.0) for node, load in held.items()), default=0.0)
    return _Others(total, busiest)


def _times(layout: Layout, statistics: Statistics) -> float:
    """Return how many times what was done would have to be done a second to keep up.

    Where batches pause, that is less than 1; where more comes than is let in, more. 1 where it is
    not known how much comes.
    """
    came = done = 0.0
    for name in layout.topology.sources:
        source, seen = statistics.sources.get(name), statistics.operators.get(name)
        rate = None if source is None else source.rate
        if rate is None or seen is None or not seen.tuples or not statistics.seconds:
            return 1.0
        came += rate
        done += seen.tuples / statistics.seconds
    return came / done if done else 1.0


def _behind(statistics: Statistics) -> bool:
    """Return whether more comes to a source than it lets in."""
    return any(
        bool(source.waiting)
        and source.arrived is not None
        and source.admitted is not None
        and source.arrived > _BEHIND * source.admitted
        for source in statistics.sources.values()
    )


def _earlier(layout: Layout, statistics: Statistics) -> list[float]:
    """Return what came in earlier epochs, as a share of what comes now; of those that are known."""
    sources = layout.topology.sources
    now = 0.0
    for name in sources:
        source, seen = statistics.sources.get(name), statistics.operators.get(name)
        rate = None if source is None else source.rate
        if rate is None:
            if seen is None or not statistics.seconds:
                return []
            rate = seen.tuples / statistics.seconds
        now += rate
    if not now:
        return []
    rates = [_rate(epoch, sources) for epoch in statistics.past.epochs]
    return [rate / now for rate in rates if rate is not None]


def _rate(epoch: PastEpoch, sources: tuple[str, ...]) -> float | None:
    total = 0.0
    for name in sources:
        rate = epoch.arrivals.get(name, epoch.rate(name))
        if rate is None:
            return None
        total += rate
    return total


def _since(statistics: Statistics) -> int | None:
    """Return how many epochs ended since nodes were added or given back."""
    changes = [statistics.past.since(part) for part in ("nodes", "drain", "add")]
    return min((ago for ago in changes if ago is not None), default=None)


def _cheapest(groups: GroupLayout, state: Floats, count: int) -> tuple[str, ...]:
    """Return the nodes to be emptied: the least capable, of several the one with least state."""
    if count <= 0:
        return ()
    held = np.bincount(groups.current, state, len(groups.nodes))
    working: Mapping[str, int] = {
        node.name: groups.nodes[node.name] for node in groups.cluster.working
    }
    order = sorted(
        working, key=lambda name: (groups.capacities[working[name]], held[working[name]])
    )
    return tuple(order[:count])
