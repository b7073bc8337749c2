"""Choosing which key groups move when operators get other numbers of instances.

New instances are filled, and those that are gone emptied, so that groups of several operators with
traffic between them stay together or move together, and their tuples stay on one node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grouping.keygraph import metis
from grouping.keygraph.bundles import Bundles, BundleSearch
from grouping.resizing.filling import HOMELESS, Filling, GroupPairs, Groups, in_a_row
from sketches.arrays import Floats, Integers, Marks, Parts

__all__ = ["GroupPairs", "Resized", "resize"]

_ALMOST_ZERO = 1e-300
_LIGHTEST = 1e-3  # of a mean group: lighter groups count as this, since they may still get keys
_INERTIA = 0.1  # how much more of its load must become local by it for a group to move
_IMBALANCE = 1.03  # the load that nodes may get above their share
_PRICE = 2.0  # in tuples that are local, of each tuple above that
_OUT_OF_THE_QUESTION = -1e6  # times all traffic

# All moves are weighed against each other, of up to this many groups to this many nodes; a search
# from several starts pays where it costs little.
_MOST_CELLS = 1 << 17
_FEW_CELLS = 1 << 13
_CLUSTERS = (1, 2, 3)  # for each node
_FINEST = 1 << 16  # units of the heaviest, as METIS counts in whole numbers
_TOLERANCE = 1.3  # clusters need not be of equal size


@dataclass(frozen=True, eq=False, slots=True)
class Resized:
    """One operator that gets another number of instances, or is a neighbour of one that does.

    Attributes:
        groups: the instance of each key group now.
        nodes: the node of each instance then, by number. Instances of now that are not among
            them are gone; the others stay where they are.
        loads: the load of each key group.
        instances: how many instances there are now.
    """

    groups: Parts
    nodes: Parts
    loads: Floats
    instances: int


def resize(operators: Sequence[Resized], traffic: Sequence[GroupPairs] = ()) -> list[Parts]:
    """Return the instance of each key group then, of each operator.

    Groups move to new instances and from those that are gone, and nowhere else: about as much load
    as makes instances equal.

    >>> job = [Resized(np.array([0, 0, 0, 0]), np.array([0, 1]), np.ones(4), 1)] * 2
    >>> same = GroupPairs((0, 1), np.array([0, 1, 2, 3]), np.array([2, 3, 0, 1]), np.ones(4))
    >>> [groups.tolist() for groups in resize(job, [same])]
    [[1, 1, 0, 0], [0, 0, 1, 1]]

    Args:
        operators: the operators.
        traffic: between which of their groups tuples went.
    """
    groups = _together(operators, traffic)
    at = in_a_row([operator.groups for operator in operators], groups.firsts)
    grows = np.array([len(o.nodes) > o.instances for o in operators], dtype=np.bool_)
    takers = _takers(operators, groups.firsts)
    # 1. Group by group: good where little traffic is known, and otherwise a start.
    chosen = Filling(groups, at, takers, grows).filled()
    # 2. All moves between nodes compared.
    if groups.tuples.any() and len(at) * groups.places <= _MOST_CELLS:
        nodes = _ByTraffic(groups, at, takers, grows).nodes(groups.nodes[chosen])
        # 3. On each node, the instances.
        staying = (at >= 0) & (groups.nodes[at] == nodes)
        chosen = Filling(groups, np.where(staying, at, HOMELESS), takers, grows, nodes).filled()
    bounds = np.cumsum([0, *(len(operator.groups) for operator in operators)])
    return [
        (chosen[start:end] - first).astype(np.int32)
        for start, end, first in zip(bounds[:-1], bounds[1:], groups.firsts[:-1], strict=True)
    ]


class _ByTraffic:
    """Chooses the node of each group by a search through moves of single groups and of clusters."""

    def __init__(self, groups: Groups, at: Integers, takers: Integers, grows: Marks) -> None:
        self._groups = groups
        self._home = np.where(at >= 0, groups.nodes[at], HOMELESS)
        size, places = len(at), groups.places
        # 1. The load of each group, in tuples that its operator exchanges with others.
        sent = np.bincount(np.ravel(groups.edges), np.tile(groups.tuples, 2), size)
        counts = len(groups.firsts) - 1
        unit: Floats = np.bincount(groups.operators, sent, counts).astype(np.float64)
        unit /= np.maximum(np.bincount(groups.operators, groups.loads, counts), _ALMOST_ZERO)
        self._loads = np.zeros((counts, size))
        self._loads[groups.operators, np.arange(size)] = groups.loads * unit[groups.operators]
        # 2. Where each group may go: home, and to nodes with instances to be filled.
        open_ = np.zeros((counts, places), dtype=np.bool_)
        open_[np.searchsorted(groups.firsts, takers, side="right") - 1, groups.nodes[takers]] = True
        allowed: Marks = open_[groups.operators]
        allowed &= ((at < 0) | grows[groups.operators])[:, np.newaxis]
        settled = np.flatnonzero(at >= 0)
        allowed[settled, self._home[settled]] = True
        self._worth = np.where(allowed, 0.0, _OUT_OF_THE_QUESTION * (1.0 + groups.tuples.sum()))
        self._worth[settled, self._home[settled]] = _INERTIA * self._loads.sum(axis=0)[settled]
        # 3. The traffic between groups, and what nodes may hold.
        weights = np.zeros((size, size))
        np.add.at(weights, tuple(groups.edges), groups.tuples)
        self._weights: Floats = weights + weights.T
        np.fill_diagonal(self._weights, 0.0)
        self._limits = self._reachable(open_)

    def nodes(self, filled: Integers) -> Integers:
        """Return the node of each group, beginning with the nodes of the search group by group."""
        at_home = np.where(self._home >= 0, self._home, filled)
        starts = [filled, at_home]
        if len(filled) * self._groups.places <= _FEW_CELLS:
            starts += [self._by_cluster(at_home, share) for share in _CLUSTERS]
        each = np.arange(len(filled))
        search = BundleSearch(self._bundles(each, len(filled)), self._limits, _PRICE)
        rest = np.arange(self._groups.places)
        found = [search.best(np.concatenate([rest, start])) for start in starts]
        return max(found, key=search.value)[len(rest) :]

    def _by_cluster(self, start: Integers, share: int) -> Integers:
        """Return the nodes of groups if each node's part of a cluster moves as a whole."""
        clusters = self._clusters(share * self._groups.places)
        _, number = np.unique(clusters * (1 + start.max()) + start, return_inverse=True)
        size = 1 + int(number.max(initial=-1))
        first = np.zeros(size, dtype=np.int64)
        first[number] = start
        rest = np.arange(self._groups.places)
        search = BundleSearch(self._bundles(number, size), self._limits, _PRICE)
        found: Integers = search.best(np.concatenate([rest, first]))[len(rest) :][number]
        return found

    def _clusters(self, number: int) -> Integers:
        """Return the cluster of each group: few tuples go between clusters."""
        number = max(1, min(number, len(self._weights) // 2))
        rows, columns = np.nonzero(self._weights)
        starts = np.searchsorted(rows, np.arange(len(self._weights) + 1))
        heaviest = max(float(self._weights.max()), _ALMOST_ZERO)
        weights = np.ceil(self._weights[rows, columns] * (_FINEST / heaviest)).astype(np.int64)
        # No group counts for more than a cluster: METIS would look for room for more of them.
        most = self._loads.sum() / number
        whole = np.ceil(
            np.minimum(self._loads.sum(axis=0), most) * (_FINEST / max(most, _ALMOST_ZERO))
        )
        loads = np.maximum(whole, 1).astype(np.int64)[:, np.newaxis]
        shares, graph = np.full((1, number), 1 / number), metis.Graph(starts, columns, weights)
        return metis.split(graph, loads, shares, np.array([_TOLERANCE])).astype(np.int64)

    def _bundles(self, number: Integers, size: int) -> Bundles:
        """Return groups put together to bundles, given the bundle of each."""
        places, count = self._groups.places, len(number)
        members = np.zeros((size, count))
        members[number, np.arange(count)] = 1.0
        weights = np.zeros((places + size, places + size))
        weights[places:, places:] = members @ self._weights @ members.T
        np.fill_diagonal(weights, 0.0)
        loads = np.zeros((len(self._loads), places + size))
        loads[:, places:] = self._loads @ members.T
        worth = np.zeros((places + size, places))
        worth[places:] = members @ self._worth
        return Bundles(loads, weights, worth)

    def _reachable(self, open_: Marks) -> Floats:
        """Return what each node may hold of each operator: no less than the heaviest group.

        Args:
            open_: which nodes have instances of which operators that are to be filled.
        """
        groups = self._groups
        counts = np.diff(groups.firsts)
        operators = np.repeat(np.arange(len(counts)), counts)
        equal = np.repeat(self._loads.sum(axis=1) / np.maximum(counts, 1), counts)
        shares = np.zeros((len(counts), groups.places))
        np.add.at(shares, (operators, groups.nodes), equal)
        settled = self._home >= 0
        held = np.zeros_like(shares)
        places = groups.operators[settled], self._home[settled]
        np.add.at(held, places, self._loads.sum(axis=0)[settled])
        levels = [_level(*one) for one in zip(shares, held, open_, strict=True)]
        most = np.maximum(_IMBALANCE, levels)[:, np.newaxis] * shares
        heaviest = self._loads.max(axis=1, initial=0.0)[:, np.newaxis]
        return np.where(shares > 0, np.maximum(most, heaviest), 0.0)


def _level(shares: Floats, held: Floats, open_: Marks) -> float:
    """Return how many times their shares nodes have if loads are as equal as they can be.

    Groups may leave nodes that are not open, but none comes to them:

    >>> _level(np.array([5.0, 5.0, 5.0]), np.array([3.0, 12.0, 0.0]), np.array([0, 0, 1]) > 0)
    1.2
    """
    if not shares[open_].any():
        return 1.0  # nothing moves
    left, filled = shares.sum(), shares > 0
    while True:
        level = float(left / shares[filled].sum())
        short = filled & ~open_ & (held < level * shares)
        if not short.any():
            return level
        left -= held[short].sum()
        filled &= ~short


def _together(operators: Sequence[Resized], traffic: Sequence[GroupPairs]) -> Groups:
    """Return the groups of all operators in one row."""
    bounds = np.cumsum([0, *(len(operator.groups) for operator in operators)])
    ends = [
        [numbers + bounds[end] for numbers, end in zip((t.sources, t.targets), t.ends, strict=True)]
        for t in traffic
    ]
    nothing = np.empty(0, dtype=np.int64)
    return Groups(
        np.repeat(np.arange(len(operators)), np.diff(bounds)),
        np.concatenate([np.empty(0), *(_weighed(operator.loads) for operator in operators)]),
        np.stack([np.concatenate([nothing, *(end[side] for end in ends)]) for side in (0, 1)]),
        np.concatenate([np.empty(0), *(one.tuples for one in traffic)]),
        np.cumsum([0, *(len(operator.nodes) for operator in operators)]),
        np.concatenate([nothing, *(operator.nodes for operator in operators)]),
    )


def _takers(operators: Sequence[Resized], firsts: Integers) -> Integers:
    """Return the instances to be filled: new ones, and where some are gone, all that remain."""
    found = [np.empty(0, dtype=np.int64)]
    for operator, first in zip(operators, firsts[:-1], strict=True):
        count = len(operator.nodes)
        start = operator.instances if operator.instances <= count else 0
        found.append(np.arange(first + start, first + count))
    return np.concatenate(found)


def _weighed(loads: Floats) -> Floats:
    """Return the loads, none of them nothing."""
    mean = float(loads.mean()) if len(loads) else 0.0
    return np.maximum(loads, _LIGHTEST * mean) if mean else np.ones(len(loads))
