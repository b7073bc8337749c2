"""Dividing the keys of one machine among the instances that it has of an operator."""

import numpy as np

from grouping.keygraph.refinement import within_room
from sketches.arrays import Floats, Parts


def spread(nodes: Parts, loads: Floats, node_of: Parts, current: Parts) -> Parts:
    """Choose an instance for each key, on the key's node.

    A key stays with its instance if that is on the node and has no more than its share of the
    node's load. The others fill the emptiest instances, heavy keys first. No instance has more than
    its share and a key; a key heavier than a share of its own has an instance to itself as far as
    there are light ones elsewhere.

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
        places = np.full(len(node_of), -1, dtype=np.int32)
        places[instances] = np.arange(len(instances))
        chosen[keys] = instances[_deal(loads[keys], places[current[keys]], len(instances))]
    return chosen


def _deal(loads: Floats, current: Parts, number: int) -> Parts:
    """Deal keys, the heaviest first, to instances; `current` is -1 for those from elsewhere."""
    hot, share = hottest(loads, number)
    chosen = np.full(len(loads), -1, dtype=np.int32)
    held = np.zeros(number)
    for key in range(hot):
        own = current[key]
        place = own if own >= 0 and not held[own] else int(held.argmin())
        chosen[key] = place
        held[place] += loads[key]
    settled = hot + np.flatnonzero(current[hot:] >= 0)
    staying = settled[within_room(current[settled], loads[settled], share - held)]
    chosen[staying] = current[staying]
    held += np.bincount(current[staying], loads[staying], number)
    # What instances lack of their share, one after the other, is a line to lay the rest along.
    rest = chosen < 0
    lacking = np.cumsum(np.maximum(share - held, 0.0))
    middles = np.cumsum(loads[rest]) - loads[rest] / 2
    chosen[rest] = np.searchsorted(lacking, middles).clip(0, number - 1)
    return chosen


def hottest(loads: Floats, number: int) -> tuple[int, float]:
    """Return how many keys, the heaviest first, exceed a share, and what share that leaves others.

    Each of them takes an instance, and leaves the rest of the load to the rest of the instances.
    """
    rest = float(loads.sum())
    hot = 0
    while hot < number - 1 and hot < len(loads) and loads[hot] * (number - hot) > rest:
        rest -= float(loads[hot])
        hot += 1
    return hot, rest / (number - hot)
