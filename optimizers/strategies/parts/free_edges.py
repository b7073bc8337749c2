"""Edges whose tuples any instance may take, with a key to tell their costs by."""

from optimizers.operators import Edge
from optimizers.topology import Topology


def free_edges(topology: Topology) -> list[Edge]:
    """Return the edges whose tuples can each go to any instance."""
    return [edge for edge in topology.edges if _is_free(topology, edge)]


def hindrance(topology: Topology) -> str:
    """Return why no edge can be scheduled."""
    reasons = []
    for edge in topology.edges:
        target = topology.operator(edge.target)
        if not target.keyed and edge.key is None:
            reasons.append(
                f"edge {edge} names no key that costs could depend on (give it with edge_key)"
            )
        elif not target.keyed:
            reasons.append(f"operator {target.name!r} has one instance")
    return ", ".join(dict.fromkeys(reasons)) or (
        "no operator without a key is fed by another, and tuples of the others go by their key"
    )


def _is_free(topology: Topology, edge: Edge) -> bool:
    target = topology.operator(edge.target)
    return not target.keyed and edge.key is not None and target.parallelism > 1
