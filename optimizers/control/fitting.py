"""Fitting a plan that names machines which are gone to those that are there.

Machines are replaced and given back, by a cloud or by a plan, and a job goes on without asking for
the old ones. The node of an instance does not change its results or its keys, so no state has to
move, and a saved plan stays valid: each driver fits it again.

Nodes that a plan adds get only what plans place there. Machines that come while a job
runs and that no plan has asked for, such as executors that register late, take over a fair share
of each operator's instances; all others stay where they are.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from optimizers.cluster import Cluster, Node
from optimizers.deployment import Deployment
from optimizers.plan import Note, Plan

_BY = "machines"  # the author, in notes


@dataclass(frozen=True)
class Fitted:
    """A plan that a cluster can carry out.

    Attributes:
        plan: the plan.
        changed: the changes to the original plan, with notes; empty if that fitted.
    """

    plan: Plan
    changed: Plan


def fitted(plan: Plan, cluster: Cluster, came: Collection[str] = ()) -> Fitted:
    """Return a plan without the machines that are gone; instances on others stay there.

    A node that no placement names takes over all instances of one of the nodes that are gone. Other
    instances go to the working node with the fewest of their operator for its capacity. Nodes that
    are gone are no longer drained, and nodes that have come are no longer added.

    >>> from optimizers.cluster import Node
    >>> placed = Plan(placement={"count": Deployment(("east", "west"), (0, 1))})
    >>> fitted(placed, Cluster((Node("west"), Node("north")))).plan.placement["count"].nodes
    ('north', 'west')

    Args:
        plan: the plan, whole.
        cluster: the machines that are there, without what the plan adds.
        came: names of those that were not there when the plan was made, and were not asked for.
    """
    there = {node.name: node for node in cluster.nodes}
    add = tuple(node for node in plan.add if there.get(node.name, node) == node)
    notes = [
        Note(
            _BY, node.name, "it is there already, with other properties than the plan adds it with"
        )
        for node in plan.add
        if node not in add
    ]
    known = there | {node.name: node for node in add}
    drain = tuple(name for name in plan.drain if name in known)
    notes += [
        Note(_BY, name, "it is gone and need not drain") for name in plan.drain if name not in known
    ]
    if all(name in (*drain, *cluster.draining) for name in known):
        notes += [Note(_BY, name, "it is needed and does not drain") for name in drain]
        drain = ()
    later = cluster.under(Plan(add=add, drain=drain))
    moved = dict(_moved(plan, known, later))
    for name, deployment in moved.items():
        nodes = plan.placement[name].nodes, deployment.nodes
        text = f"{_changes(*nodes)} instances were on nodes that are gone, and get others"
        notes.append(Note(_BY, name, text))
    whole = {**plan.placement, **moved}
    named = {name for deployment in whole.values() for name in deployment.nodes}
    unused = [node.name for node in later.working if node.name in came and node.name not in named]
    for name, deployment in whole.items() if unused else ():
        shared = _shared(deployment, unused, later)
        if shared != deployment:
            text = f"{_changes(deployment.nodes, shared.nodes)} instances go to nodes that came"
            notes.append(Note(_BY, name, text))
            moved[name] = shared
    if not notes:
        return Fitted(plan, Plan())
    placement = {**plan.placement, **moved}
    return Fitted(
        replace(plan, add=add, drain=drain, placement=placement),
        Plan(placement=moved, notes=tuple(notes)),
    )


def idle_nodes(plan: Plan, cluster: Cluster) -> tuple[str, ...]:
    """Return the working nodes of a cluster on which a whole plan places nothing.

    A job that goes on with more machines than before leaves them empty: nothing moves that no plan
    mentions.

    >>> placed = Plan(placement={"count": Deployment(("east", "east"), (0, 1))})
    >>> idle_nodes(placed, Cluster((Node("east"), Node("west"), Node("south")), ("south",)))
    ('west',)

    Args:
        plan: the plan, whole.
        cluster: the machines that are there, without what the plan adds.
    """
    named = {name for deployment in plan.placement.values() for name in deployment.nodes}
    free = [node.name for node in cluster.working if node.name not in (*named, *plan.drain)]
    return tuple(free)


def _changes(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    return f"{changed} of {len(before)}"


def _shared(deployment: Deployment, unused: list[str], cluster: Cluster) -> Deployment:
    """Return a deployment with a fair share of its instances on nodes that have none so far."""
    homes = list(deployment.nodes)
    capacity = {node.name: node.capacity for node in cluster.nodes}
    dealt = cluster.deal(len(homes))
    counts = Counter(homes)
    while True:
        here = min(unused, key=lambda name: (counts[name] + 1) / capacity[name])
        there = max(sorted(counts), key=lambda name: counts[name] / capacity[name])
        if (counts[here] + 1) / capacity[here] >= counts[there] / capacity[there]:
            return replace(deployment, nodes=tuple(homes))
        # Of several, one that would be there if all were dealt out now; the same for each operator.
        place = max(
            (place for place, name in enumerate(homes) if name == there),
            key=lambda place: (dealt[place] == here, place),
        )
        homes[place] = here
        counts.subtract([there])
        counts[here] += 1


def _moved(
    plan: Plan, known: dict[str, Node], cluster: Cluster
) -> Iterator[tuple[str, Deployment]]:
    """Yield the deployments that name nodes that are gone, with other nodes instead."""
    named = {name for deployment in plan.placement.values() for name in deployment.nodes}
    unused = [node.name for node in cluster.working if node.name not in named]
    successors = dict(zip(sorted(named - set(known)), unused, strict=False))
    for operator, deployment in plan.placement.items():
        if not set(deployment.nodes) <= set(known):
            homes = [successors.get(name, name) for name in deployment.nodes]
            counts = Counter(name for name in homes if name in known)
            for place, name in enumerate(homes):
                if name not in known:
                    homes[place] = cluster.emptiest(counts)
                    counts[homes[place]] += 1
            yield operator, replace(deployment, nodes=tuple(homes))
