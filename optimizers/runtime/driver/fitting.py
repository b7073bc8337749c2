"""Fitting: a plan may name machines that are gone by now, and is fitted to those that are there.

Machines are replaced and given back, by a cloud or by a plan, and a job goes on without asking for
the old ones. Where an instance is does not change what it computes or which keys it owns, so that
no state has to move, and a plan that was saved stays true: each driver fits it anew.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from optimizers.cluster import Cluster, Node
from optimizers.deployment import Deployment
from optimizers.plan import Note, Plan

_BY = "machines"  # who says so, in notes


@dataclass(frozen=True)
class Fitted:
    """A plan that a cluster can carry out.

    Attributes:
        plan: the plan.
        changed: what had to be changed of the one it was made from, with notes; nothing if that
            fitted.
    """

    plan: Plan
    changed: Plan


def fitted(plan: Plan, cluster: Cluster) -> Fitted:
    """Return a plan without the machines that are gone; what is on others stays there.

    Where a node is there that no placement names, it takes over all that one of those that are
    gone has had. Other instances go to the working node that has fewest of their operator for its
    capacity. Nodes that are gone need not drain any more, and nodes that are there by now need not
    be added.

    >>> from optimizers.cluster import Node
    >>> placed = Plan(placement={"count": Deployment(("east", "west"), (0, 1))})
    >>> fitted(placed, Cluster((Node("west"), Node("north")))).plan.placement["count"].nodes
    ('north', 'west')

    Args:
        plan: the plan, whole.
        cluster: the machines that are there, without what the plan adds.
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
        before = plan.placement[name].nodes
        gone = sum(one != other for one, other in zip(before, deployment.nodes, strict=True))
        text = f"{gone} of {len(before)} instances were on nodes that are gone, and get others"
        notes.append(Note(_BY, name, text))
    if not notes:
        return Fitted(plan, Plan())
    placement = {**plan.placement, **moved}
    return Fitted(
        replace(plan, add=add, drain=drain, placement=placement),
        Plan(placement=moved, notes=tuple(notes)),
    )


def _moved(
    plan: Plan, known: dict[str, Node], cluster: Cluster
) -> Iterator[tuple[str, Deployment]]:
    """Yield the deployments that name nodes that are gone, with others in their place."""
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
