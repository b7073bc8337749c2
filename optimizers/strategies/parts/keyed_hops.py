"""The pairs of keyed operators that tables can bring together, and why there may be none."""

from optimizers.statistics import Statistics
from optimizers.strategies.parts.key_layout import Hops, one_owner_a_key
from optimizers.topology import Topology


def decidable_pairs(topology: Topology, statistics: Statistics) -> Hops:
    """Return the observed key pairs of hops whose keys a table may route."""
    return {
        hop: pairs
        for hop, pairs in statistics.pairs.items()
        if all(one_owner_a_key(topology, name) for name in hop)
    }


def hindrance(topology: Topology) -> str:
    """Return why no pairs of keys can be brought together by tables; empty if some can."""
    if not any(operator.keyed for operator in topology.operators):
        return "no operator has a key"
    if not topology.keyed_hops:
        return "no operator with a key feeds another one"
    reasons: list[str] = []
    for hop in topology.keyed_hops:
        split = [name for name in hop if not one_owner_a_key(topology, name)]
        wide = [name for name in hop if len(topology.operator(name).key_columns) > 1]
        if not split and not wide:
            return ""
        reasons += [f"keys of {name!r} are not its own by hash or table" for name in split]
        reasons += [f"the key of {name!r} has several columns" for name in wide]
    return ", ".join(dict.fromkeys(reasons))
