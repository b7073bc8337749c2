"""Which nodes to drain if a decision says only how many are wanted."""

from collections import Counter
from dataclasses import replace

from optimizers.cluster import Cluster
from optimizers.errors import PlanError
from optimizers.layout import Layout
from optimizers.plan import Note, Plan
from optimizers.topology import Topology


def naming_drains(decision: Plan, topology: Topology, cluster: Cluster, current: Plan) -> Plan:
    """Return a decision that also names the nodes it drains, if it wants fewer than there are.

    Those with fewest instances are drained first; of several, the least capable and then the last.
    A node that the decision adds, or places something on, stays.

    Args:
        decision: what is to change.
        topology: the job as it runs.
        cluster: the machines, under the plan in force.
        current: the plan in force.

    Raises:
        PlanError: the decision itself uses more nodes than it wants.
    """
    if decision.nodes is None:
        return decision
    working = cluster.under(decision).working
    many = len(working) - decision.nodes
    if many <= 0:
        return decision
    # 1. Nodes that the decision names are wanted.
    wanted = {node.name for node in decision.add}
    wanted.update(name for home in decision.placement.values() for name in home.nodes)
    wanted &= {node.name for node in working}  # it may drain some of them
    if len(working) - len(wanted) < many:
        kept = [node.name for node in working if node.name in wanted]
        raise PlanError(
            f"nodes={decision.nodes}, and the same plan adds nodes or places instances on "
            f"{len(kept)}: {kept}; place them on {decision.nodes}, or want more nodes"
        )
    # 2. Of the others go those with least on them.
    homes = Layout.of(topology, cluster, current).homes
    instances = Counter(name for home in homes.values() for name in home.nodes)
    others = [node for node in reversed(working) if node.name not in wanted]
    leaving = sorted(others, key=lambda node: (instances[node.name], node.capacity))[:many]
    text = f"it is left, having fewest instances, as {decision.nodes} nodes are wanted"
    notes = (Note("machines", node.name, text) for node in leaving)
    return replace(
        decision,
        drain=(*decision.drain, *(node.name for node in leaving)),
        notes=(*decision.notes, *notes),
    )
