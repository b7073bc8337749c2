"""Which instance on its node gets a key group."""

import numpy as np

from grouping.placement.problem import Nodes
from sketches.arrays import Floats, Parts


def even_instances(targets: Nodes, current: Parts, nodes: Parts, loads: Floats) -> Parts:
    """Return the instance of each key group of one operator, given the node that it is to be on.

    Groups that are on their node stay where they are. The others go, heaviest first, each to the
    instance on its node that has least load by then.

    >>> even_instances([1, 1, 0], [0, 0, 0], [0, 1, 1], [3.0, 2.0, 1.0]).tolist()
    [1, 2, 0]

    Args:
        targets: the node of each group.
        current: the instance of each group now.
        nodes: the node of each instance.
        loads: the load of each group.
    """
    targets, nodes = np.asarray(targets), np.asarray(nodes)
    found = np.array(current, dtype=np.int32)
    weights = np.asarray(loads, dtype=np.float64)
    moving = nodes[found] != targets
    held = np.bincount(found[~moving], weights[~moving], len(nodes)).astype(np.float64)
    order = np.flatnonzero(moving)
    for group in order[np.argsort(-weights[order], kind="stable")].tolist():
        there = np.flatnonzero(nodes == targets[group])
        found[group] = there[held[there].argmin()]
        held[found[group]] += weights[group]
    return found
