"""Finding clusters of keys: more of them than parts, to be moved from part to part as a whole."""

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph import metis
from grouping.keygraph.key_graph import KeyGraph
from sketches.arrays import Parts

NOWHERE = -1
"""The number for keys that are in no cluster."""

# Keys of few partners say little about clusters, but there are many of them: without them METIS
# takes less than a third of the time.
_FEW_PARTNERS = 5
_ENOUGH_WEIGHT = 0.5  # of all pairs, that must be left without them
_KEYS_APIECE = 4  # on average; where there are not more of them, each key is a cluster
_TOLERANCE = 1.3  # clusters need not be of equal size


def find_clusters(graph: KeyGraph, number: int, *, seed: int = 0) -> Parts:
    """Find clusters of keys, about equally loaded, with few pairs between them.

    Args:
        graph: the keys and their pairs.
        number: how many clusters to find; very few keys are each a cluster, so that there may be
            more.
        seed: equal seeds give equal answers.

    Returns:
        The cluster of each key; `NOWHERE` for keys with few partners, none of them in a cluster.
    """
    telling = np.diff(graph.starts) > _FEW_PARTNERS
    core = graph.subgraph(telling)
    if core.total <= _ENOUGH_WEIGHT * graph.total:
        return _cut(graph, number, seed)
    clusters = np.full(len(graph), NOWHERE, dtype=np.int32)
    clusters[telling] = _cut(core, number, seed)
    joining = np.flatnonzero(~telling)
    partners = _heaviest_partners(graph, joining)
    clusters[joining] = np.where(partners < 0, np.int32(NOWHERE), clusters[partners])
    return clusters


def _cut(graph: KeyGraph, number: int, seed: int) -> Parts:
    if len(graph) <= _KEYS_APIECE * number:
        return np.arange(len(graph), dtype=np.int32)
    # All operators' loads are added up: to balance each would take longer and cut more. A key that
    # is heavier than a cluster counts as one: METIS would look for room for more of them.
    loads = graph.whole_loads.sum(axis=1, keepdims=True)
    loads = np.minimum(loads, max(1, int(loads.sum()) // number))
    shares = np.full((1, number), 1 / number)
    return metis.split(graph.whole, loads, shares, np.array([_TOLERANCE]), seed=seed)


def _heaviest_partners(graph: KeyGraph, keys: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the key that each of some keys of few partners is paired with most, -1 for none."""
    partners = np.full(len(keys), -1, dtype=np.int64)
    heaviest = np.zeros(len(keys))
    for place in range(_FEW_PARTNERS):
        edges = graph.starts[keys] + place
        there = edges < graph.starts[keys + 1]
        weights = np.zeros(len(keys))
        weights[there] = graph.weights[edges[there]]
        heavier = weights > heaviest
        partners[heavier] = graph.neighbours[edges[heavier]]
        heaviest[heavier] = weights[heavier]
    return partners
