"""Moving whole clusters of keys from part to part.

Moving single keys cannot carry a cluster of them from a full part to another one: the first keys
to go leave all their partners behind, and those that would follow find no room. So what of a
cluster is in one part is taken as one group, and groups are moved, few enough of them that all
their moves can be weighed against each other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from grouping.keygraph.key_graph import KeyGraph
from sketches.arrays import Floats, Integers, Parts

_LIGHTEST = 1 / 64  # of a part's share; lighter groups are left to moves of single keys
_MOST_GROUPS = 1 << 10
_PASSES = 16
_PATIENCE = 64  # moves that a pass goes on for without getting better than it was
_ROUNDING = 1e-9  # what sums of the same loads in another order may differ by

# What a pair and a tuple above a limit are worth to each other: as many pairs are lost at most by
# moving out, in the end, what is above. Beginning with less lets groups pass through full parts.
_PRICE = 1.0
_FIRST_PRICES = (0.125, 0.25, 0.5, 1.0)


def regroup(  # noqa: PLR0913
    graph: KeyGraph,
    parts: Parts,
    clusters: Parts,
    limits: Floats,
    *,
    home: Parts,
    inertia: float = 0.0,
) -> Parts:
    """Move what parts have of clusters to other parts, so that limits are kept for few pairs.

    Args:
        graph: the keys and their pairs.
        parts: the part of each key.
        clusters: the cluster of each key; -1 for those that are in none and stay where they are.
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
    groups = _Groups.of(graph, parts, clusters, limits.shape[1], home)
    search = _Search(groups, limits, inertia)
    best, most = groups.parts, search.value(groups.parts)
    for price in _FIRST_PRICES:
        found = search.improved(groups.parts, price)
        if price != _PRICE:
            found = search.improved(found, _PRICE)
        value = search.value(found)
        if value > most + search.least:
            best, most = found, value
    return best[groups.number].astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The keys of one cluster in one part each, and first for each part the rest that it has.

    Attributes:
        number: the group of each key.
        parts: the part of each group.
        loads: the load of each group, of shape (operators, groups).
        at_home: the load of all operators that each group has at home in each part.
        weights: the weight of the pairs between each two groups, 0 between a group and itself.
    """

    number: Integers
    parts: Integers
    loads: Floats
    at_home: Floats
    weights: Floats

    @classmethod
    def of(
        cls, graph: KeyGraph, parts: Parts, clusters: Parts, places: int, home: Parts
    ) -> "_Groups":
        number, at = _numbered(graph, parts, clusters, places)
        size = len(at)
        rows = np.repeat(number, np.diff(graph.starts))
        pairs: Any = np.bincount(rows * size + number[graph.neighbours], graph.weights, size * size)
        weights = pairs.reshape(size, size)
        np.fill_diagonal(weights, 0.0)
        settled = home >= 0
        cells = number[settled] * places + home[settled]
        homes: Any = np.bincount(cells, graph.loads[settled], size * places)
        spans = [graph.span(operator) for operator in range(len(graph.names))]
        loads: Any = np.stack([np.bincount(number[s], graph.loads[s], size) for s in spans])
        return cls(number, at, loads, homes.reshape(size, places), weights)


def _numbered(
    graph: KeyGraph, parts: Parts, clusters: Parts, places: int
) -> tuple[Integers, Integers]:
    """Return the group of each key and the part of each group; first the rest of each part."""
    codes = (clusters.astype(np.int64) + 1) * places + parts
    distinct, number = np.unique(codes, return_inverse=True)
    loads: Any = np.bincount(number, graph.loads, len(distinct))
    movable = (distinct >= places) & (loads > 0)
    movable &= loads >= _LIGHTEST * graph.loads.sum() / places
    heaviest = np.argsort(-np.where(movable, loads, -1.0), kind="stable")
    movable[heaviest[_MOST_GROUPS:]] = False
    groups = np.where(movable, places - 1 + np.cumsum(movable), distinct % places)
    return groups[number], np.concatenate([np.arange(places), distinct[movable] % places])


class _Search:
    """Looks for a good part for each group, by moving one after the other.

    Each pass moves every group once at most, whichever gains most, also where that is a loss, and
    then goes back to the best of all divisions that it came through.

    References:
        C. M. Fiduccia, R. M. Mattheyses, "A linear-time heuristic for improving network
        partitions", DAC 1982.
    """

    def __init__(self, groups: _Groups, limits: Floats, inertia: float) -> None:
        self._groups = groups
        self._limits = limits
        self._homes = inertia * groups.at_home
        self._rows = np.arange(len(groups.parts))
        self._passed: dict[tuple[bytes, float], Integers] = {}
        # A smaller gain may be rounding only.
        self.least = _ROUNDING * float(groups.weights.sum() + groups.loads.sum())

    def value(self, parts: Integers) -> float:
        """Return the pairs within parts and what being at home is worth, less what is above."""
        together = self._groups.weights[parts[:, np.newaxis] == parts].sum() / 2
        at_home = self._homes[self._rows, parts].sum()
        above = np.maximum(self._held(parts) - self._limits, 0.0).sum()
        return float(together + at_home - _PRICE * above)

    def improved(self, parts: Integers, price: float) -> Integers:
        """Return a better division, at a price for each tuple above a limit, or this one."""
        for _ in range(_PASSES):
            question = parts.tobytes(), price
            better = self._passed.get(question)
            if better is None:  # searches from several starts often come to the same division
                better = self._passed[question] = self._pass(parts, price)
            if np.array_equal(better, parts):
                break
            parts = better
        return parts

    def _pass(self, start: Integers, price: float) -> Integers:
        groups, rows = self._groups, self._rows
        number = self._limits.shape[1]
        parts, best = start.copy(), start.copy()
        held, pulls = self._held(parts), self._pulls(parts)
        worth = pulls - price * self._added(held, list(range(number)))
        closed = np.zeros_like(worth)  # added to what a move gains: it is out of the question
        closed[rows, parts] = -np.inf
        closed[:number] = -np.inf  # what parts have that is no group stays
        gains = np.empty_like(worth)
        waiting = len(rows) - number
        gained, most, since = 0.0, self.least, 0
        while since < _PATIENCE and waiting:
            # Groups that have moved stay where they are, so the others are where they were.
            staying = pulls[rows, start] - price * self._freed(held, start)
            np.subtract(worth, staying[:, np.newaxis], out=gains)
            np.add(gains, closed, out=gains)
            group, there = divmod(int(gains.argmax()), number)
            gained += float(gains[group, there])
            here = int(parts[group])
            parts[group] = there
            closed[group] = -np.inf
            for table, moved in ((held, groups.loads[:, group]), (pulls, groups.weights[:, group])):
                table[:, here] -= moved
                table[:, there] += moved
            both = [here, there]
            worth[:, both] = pulls[:, both] - price * self._added(held, both)
            waiting -= 1
            since += 1
            if gained > most:
                best, most, since = parts.copy(), gained + self.least, 0
        return best

    def _held(self, parts: Integers) -> Floats:
        """Return the load of each part, of shape (operators, parts)."""
        number = self._limits.shape[1]
        return np.stack([np.bincount(parts, loads, number) for loads in self._groups.loads])

    def _pulls(self, parts: Integers) -> Floats:
        """Return what it is worth to each group, apart from the limits, to be in each part."""
        size, number = self._homes.shape
        cells = self._rows[:, np.newaxis] * number + parts
        pairs = np.bincount(cells.reshape(-1), self._groups.weights.reshape(-1), size * number)
        return np.asarray(pairs.reshape(size, number) + self._homes)

    def _added(self, held: Floats, columns: list[int]) -> Floats:
        """Return how much more would be above the limits of some parts with each group."""
        above = held[:, columns] - self._limits[:, columns]
        wider = above[:, np.newaxis] + self._groups.loads[:, :, np.newaxis]
        more = np.maximum(wider, 0.0) - np.maximum(above, 0.0)[:, np.newaxis]
        return np.asarray(np.add.reduce(more, axis=0))

    def _freed(self, held: Floats, parts: Integers) -> Floats:
        """Return how much less would be above the limit of each group's part without it."""
        above = (held - self._limits)[:, parts]
        less = np.maximum(above, 0.0) - np.maximum(above - self._groups.loads, 0.0)
        return np.asarray(np.add.reduce(less, axis=0))
