"""Dividing the keys of one machine among the instances that it has of an operator."""

import numpy as np
from numpy.typing import NDArray

from grouping.refinement import Parts

Numbers = NDArray[np.float64]


def spread(nodes: Parts, loads: Numbers, node_of: Parts, current: Parts) -> Parts:
    """Choose an instance for each key, on the key's node.

    A key stays with its instance if that is on the node, as long as the instance has no more than
    its share of the node's load. The others fill up the instances that have least, heavy keys
    first.

    Args:
        nodes: the node of each key.
        loads: the load of each key.
        node_of: the node of each instance; every node of a key has one at least.
        current: the instance that has each key now.

    Returns:
        The instance of each key.
    """
    chosen = np.empty(len(nodes), dtype=np.int32)
    for node in np.unique(nodes).tolist():
        keys = np.flatnonzero(nodes == node)
        instances = np.flatnonzero(node_of == node).astype(np.int32)
        if len(instances) == 1:
            chosen[keys] = instances[0]
            continue
        keys = keys[np.argsort(-loads[keys], kind="stable")]
        share = float(loads[keys].sum()) / len(instances)
        held = np.zeros(len(instances))
        rest = np.ones(len(keys), dtype=np.bool_)
        for place, instance in enumerate(instances.tolist()):
            mine = np.flatnonzero(current[keys] == instance)
            mine = mine[np.cumsum(loads[keys[mine]]) <= share]
            chosen[keys[mine]] = instance
            held[place] = loads[keys[mine]].sum()
            rest[mine] = False
        # What instances lack of their share, one after the other, is a line to lay the rest along.
        lacking = np.cumsum(np.maximum(share - held, 0.0))
        middles = np.cumsum(loads[keys[rest]]) - loads[keys[rest]] / 2
        places = np.searchsorted(lacking, middles).clip(0, len(instances) - 1)
        chosen[keys[rest]] = instances[places]
    return chosen
