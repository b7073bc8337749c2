"""Moving whole clusters of keys from part to part.

Moving single keys cannot carry a cluster of them from a full part to another one: the first keys
to go leave all their partners behind, and those that would follow find no room. So all keys of a
cluster in one part are taken as one bundle, and bundles are moved.
"""

from typing import Any

import numpy as np

from grouping.keygraph.bundles import Bundles, BundleSearch
from grouping.keygraph.key_graph import KeyGraph
from sketches.arrays import Floats, Integers, Parts

_LIGHTEST = 1 / 64  # of a part's share; lighter bundles are left to moves of single keys
_MOST_BUNDLES = 1 << 10

# The price of a tuple above a limit, in pairs: in the end, moving out the load above loses that
# number of pairs at most.
_PRICE = 1.0


def regroup(  # noqa: PLR0913
    graph: KeyGraph,
    parts: Parts,
    clusters: Parts,
    limits: Floats,
    *,
    home: Parts,
    inertia: float = 0.0,
) -> Parts:
    """Move each part's share of clusters to other parts, to keep limits at the price of few pairs.

    Args:
        graph: the keys and their pairs.
        parts: the part of each key.
        clusters: the cluster of each key; -1 for those in no cluster, which stay.
        limits: of shape (operators, parts), the most load a part may get. They may be exceeded
            at a price: each tuple above is worth a pair.
        home: where each key is at home; -1 for those at home nowhere.
        inertia: how many pairs it is worth that one tuple's key is at home.

    Returns:
        The new part of each key: never worse than before, counting the pairs within parts, the
        load at home and the load above the limits.
    """
    if limits.shape[1] == 1:
        return parts  # nothing can move
    number, at = _numbered(graph, parts, clusters, limits.shape[1])
    bundles = _bundled(graph, number, len(at), home, limits.shape[1], inertia)
    return BundleSearch(bundles, limits, _PRICE).best(at)[number].astype(np.int32)


def _bundled(  # noqa: PLR0913, PLR0917
    graph: KeyGraph, number: Integers, size: int, home: Parts, places: int, inertia: float
) -> Bundles:
    """Return the bundles, given that of each key; it is worth something to be at home."""
    rows = np.repeat(number, np.diff(graph.starts))
    pairs: Any = np.bincount(rows * size + number[graph.neighbours], graph.weights, size * size)
    weights = pairs.reshape(size, size)
    np.fill_diagonal(weights, 0.0)
    settled = home >= 0
    cells = number[settled] * places + home[settled]
    homes: Any = np.bincount(cells, graph.loads[settled], size * places)
    spans = [graph.span(operator) for operator in range(len(graph.names))]
    loads: Any = np.stack([np.bincount(number[s], graph.loads[s], size) for s in spans])
    return Bundles(loads, weights, inertia * homes.reshape(size, places))


def _numbered(
    graph: KeyGraph, parts: Parts, clusters: Parts, places: int
) -> tuple[Integers, Integers]:
    """Return the bundle of each key and the part of each bundle; first the rest of each part."""
    codes = (clusters.astype(np.int64) + 1) * places + parts
    distinct, number = np.unique(codes, return_inverse=True)
    loads: Any = np.bincount(number, graph.loads, len(distinct))
    movable = (distinct >= places) & (loads > 0)
    movable &= loads >= _LIGHTEST * graph.loads.sum() / places
    heaviest = np.argsort(-np.where(movable, loads, -1.0), kind="stable")
    movable[heaviest[_MOST_BUNDLES:]] = False
    bundles = np.where(movable, places - 1 + np.cumsum(movable), distinct % places)
    return bundles[number], np.concatenate([np.arange(places), distinct[movable] % places])
