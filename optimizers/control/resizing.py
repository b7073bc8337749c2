"""Placing operators that a decision resizes: which key groups move, by the traffic between them."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from grouping.resizing.resize import GroupPairs, Resized, resize
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Parts


def placed_by_traffic(
    decision: Plan, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
) -> Plan:
    """Return a decision that also places the operators which it gives other numbers of instances.

    Their instances are those of `Deployment.resized`. Groups move until the load is even, and those
    with traffic between them move together. Operators that the decision places, or whose groups'
    loads and traffic were not observed, are left to `Plan.amended`.

    Args:
        decision: what is to change.
        topology: the job as it runs.
        cluster: the machines.
        statistics: the facts about it.
        current: the plan in force.
    """
    old = Layout.of(topology, cluster, current)
    names = _resized(decision, old, statistics)
    if not names:
        return decision
    # 1. Where everything would be if only numbers of groups counted.
    whole = replace(current, placement={**old.homes, **current.placement})
    later = whole.amended(decision, cluster).placement
    # 2. All operators with traffic to or from these, themselves included: the others draw groups.
    hops = [hop for hop in statistics.traffic if set(hop) & set(names)]
    involved = [name for name in topology.order if any(name in hop for hop in hops)]
    numbers = {node: n for n, node in enumerate(_nodes(involved, later))}
    operators = [
        _operator(
            old.homes[name] if name in names else later[name],
            later[name],
            statistics.groups.get(name),
            numbers,
        )
        for name in involved
    ]
    traffic = [
        GroupPairs(
            (involved.index(hop[0]), involved.index(hop[1])),
            seen.sources,
            seen.targets,
            seen.tuples,
        )
        for hop, seen in statistics.traffic.items()
        if hop in hops
    ]
    # 3. Which groups move.
    chosen = dict(zip(involved, resize(operators, traffic), strict=True))
    placement = {
        name: Deployment(later[name].nodes, tuple(chosen[name].tolist())) for name in names
    }
    return replace(decision, placement={**decision.placement, **placement})


def _resized(decision: Plan, old: Layout, statistics: Statistics) -> list[str]:
    """Return the operators whose groups are to be chosen by observed loads and traffic."""
    talking = {name for hop, seen in statistics.traffic.items() if len(seen) for name in hop}
    return [
        name
        for name, count in decision.parallelism.items()
        if name in old.homes
        and count != len(old.homes[name].nodes)
        and name not in decision.placement
        and name in talking
        and name in statistics.groups
    ]


def _nodes(names: list[str], placement: Mapping[str, Deployment]) -> list[str]:
    return sorted({node for name in names for node in placement[name].nodes})


def _operator(
    now: Deployment, then: Deployment, seen: GroupStatistics | None, numbers: Mapping[str, int]
) -> Resized:
    nodes = np.array([numbers[node] for node in then.nodes], dtype=np.int32)
    groups: Parts = np.array(now.groups, dtype=np.int32)
    loads = np.ones(len(groups)) if seen is None else seen.weights
    return Resized(groups, nodes, loads, len(now.nodes))
