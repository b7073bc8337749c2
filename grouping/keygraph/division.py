"""Dividing the vertices of a key graph among parts, from scratch or from where they are.

From scratch, METIS divides them. From where they are, the present division is changed in three
ways, and the best is taken: keys move one by one, or first whole clusters and then keys, or the
keys are divided from scratch and go back home one by one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from grouping.keygraph import metis
from grouping.keygraph.clusters import find_clusters
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.matching import best_matching
from grouping.keygraph.refinement import part_loads, refine, repair
from grouping.keygraph.regrouping import regroup
from sketches.arrays import Floats, Parts

# METIS is asked for a little less than what is allowed: its limits are of single precision, and
# the room that is left lets refinement exchange keys.
_SAFETY = 0.002
_LEAST_TOLERANCE = 1.001
_LEAST_SHARE = 1e-4  # METIS divides by shares; what it puts there is moved out again
_ALMOST_ZERO = 1e-300
_RANDOM_STARTS = 8
_FEW_EDGES = 1 << 12
_SMALL = 1 << 17  # graphs of up to this many ends of edges are quick

_CLUSTERS = 8  # for each part; what is finer is moved key by key
# Before clusters, keys move that clearly belong elsewhere. More than limits allow may gather there,
# as clusters will make room.
_CERTAINTY = 0.5
_GATHERING = 1.5
_GATHERING_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A task of division.

    Attributes:
        graph: the keys and their pairs.
        shares: the share of each part, of shape (operators, parts).
        limits: the most load each part may get, of the same shape.
        homes: the part of each key now, -1 if it has none; None for a first division.
        inertia: what share of a key's load must become local for it to leave its home.
        tries: how many times METIS divides from scratch; 0 for random starts only.
        seed: of all random choices.
    """

    graph: KeyGraph
    shares: Floats
    limits: Floats
    homes: Parts | None
    inertia: float
    tries: int
    seed: int

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return int(self.shares.shape[1])


def divide(task: Task) -> Parts:
    """Divide from scratch; if keys have homes, change them only as far as it pays."""
    fresh = _best_of_tries(task)
    return fresh if task.homes is None else _from_before(task, task.homes, fresh)


def _best_of_tries(task: Task) -> Parts:
    """Divide some times, keep to the limits, and improve; take the best.

    Graphs of few edges are divided from random starts as well: METIS, made for large ones, often
    stops short of the best there, and it costs next to nothing.
    """
    graph = task.graph
    more = min(_RANDOM_STARTS, _FEW_EDGES // (len(graph.neighbours) + 1))
    more = max(more, int(not task.tries))
    random = np.random.default_rng(task.seed)
    found = []
    for attempt in range(task.tries + more):
        if attempt < task.tries:
            start = _metis(task, task.seed + attempt)
        else:
            start = random.integers(0, task.parts, len(graph), dtype=np.int32)
        divided = refine(graph, repair(graph, start, task.limits), task.limits)
        found.append((_above(task, divided), -graph.within(divided), attempt, divided))
    return min(found, key=lambda one: one[:3])[3]


def _from_before(task: Task, homes: Parts, fresh: Parts) -> Parts:
    """Change owners as far as it pays.

    It begins with the present owners after whole clusters have moved, or with a fresh division if
    that leaves more pairs together, less the price of its moves. In small graphs it begins with
    both, and with the present owners unchanged, which is seldom best. Limits come first in any
    case.
    """
    renamed = _renamed(task, homes, fresh)
    if np.array_equal(renamed, homes):
        return renamed  # equal questions have equal answers
    as_now = np.where(homes < 0, renamed, homes)
    best = _settled(task, homes, _regrouped(task, homes, as_now))
    least = _badness(task, homes, best)
    small = len(task.graph.weights) <= _SMALL
    for start in (renamed, as_now) if small else (renamed,):
        if small or _badness(task, homes, start) < least:
            settled = _settled(task, homes, start)
            badness = _badness(task, homes, settled)
            if badness < least:
                best, least = settled, badness
    return best


def _settled(task: Task, homes: Parts, start: Parts) -> Parts:
    """Keep to the limits and improve, key by key; go home where staying away gains too little."""
    repaired = repair(task.graph, start, task.limits)
    return refine(task.graph, repaired, task.limits, home=homes, inertia=task.inertia)


def _badness(task: Task, homes: Parts, divided: Parts) -> tuple[float, float]:
    """Return how far it is above a limit, and the price of its moves less the pairs together."""
    moved = float(task.graph.loads[divided != homes].sum())
    return _above(task, divided), task.inertia * moved - task.graph.within(divided)


def _above(task: Task, divided: Parts) -> float:
    """Return by how much the worst part is above its limit."""
    return max(0.0, float((part_loads(task.graph, divided, task.parts) - task.limits).max()))


def _regrouped(task: Task, homes: Parts, as_now: Parts) -> Parts:
    """Let keys gather where they clearly belong, then move clusters of them to keep limits."""
    graph = task.graph
    gathered = refine(
        graph,
        as_now,
        task.limits * _GATHERING,
        home=homes,
        inertia=max(task.inertia, _CERTAINTY),
        rounds=_GATHERING_ROUNDS,
    )
    clusters = find_clusters(graph, _CLUSTERS * task.parts, seed=task.seed)
    return regroup(graph, gathered, clusters, task.limits, home=homes, inertia=task.inertia)


def _renamed(task: Task, homes: Parts, fresh: Parts) -> Parts:
    """Give new parts the names of those old ones, of the same size, that hold most of them."""
    parts, shares = task.parts, task.shares
    settled = homes >= 0
    pairs = homes[settled] * np.int64(parts) + fresh[settled]
    counts: Any = np.bincount(pairs, task.graph.loads[settled], parts * parts)
    overlap = counts.reshape(parts, parts)
    different = (shares[:, :, np.newaxis] != shares[:, np.newaxis, :]).any(axis=0)
    overlap[different] = -task.graph.loads.sum() - 1  # never worth it: equals are exchanged only
    names = np.empty(parts, dtype=np.int32)
    names[best_matching(overlap)] = np.arange(parts)
    return names[fresh]


def _metis(task: Task, seed: int) -> Parts:
    graph, shares = task.graph, task.shares
    loads = [graph.loads[graph.span(operator)].sum() for operator in range(len(graph.names))]
    allowed = task.limits.max(axis=1) / np.maximum(shares.max(axis=1) * loads, _ALMOST_ZERO)
    tolerances = np.maximum(allowed - _SAFETY, _LEAST_TOLERANCE)
    targets = np.maximum(shares, _LEAST_SHARE)
    targets /= targets.sum(axis=1, keepdims=True)
    return metis.split(graph.whole, graph.whole_loads, targets, tolerances, seed=seed)
