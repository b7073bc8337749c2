"""Filling instances with key groups, one group after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sketches.arrays import Floats, Integers, Marks, Parts

HOMELESS = -1
"""The place of a group whose instance is gone, or that is to leave its instance."""

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class GroupPairs:
    """The tuples between the key groups of two operators; row ``i`` is one pair of groups.

    Attributes:
        ends: which two of the operators.
        sources: the groups that sent.
        targets: the groups that received.
        tuples: how many went from the one to the other.
    """

    ends: tuple[int, int]
    sources: Integers
    targets: Integers
    tuples: Floats


@dataclass(frozen=True, eq=False)
class Groups:
    """The key groups of several operators in one row, and their instances in another.

    Attributes:
        operators: the operator of each group.
        loads: the load of each group, above 0.
        edges: pairs of groups with traffic between them, of shape (2, edges).
        tuples: how many tuples each pair exchanges.
        firsts: the first instance of each operator, and where the last one's end.
        nodes: the node of each instance.
    """

    operators: Integers
    loads: Floats
    edges: Integers
    tuples: Floats
    firsts: Integers
    nodes: Integers

    @property
    def shares(self) -> Floats:
        """The load that each instance is to have: an equal one of its operator's."""
        counts = np.diff(self.firsts)
        totals = np.bincount(self.operators, self.loads, len(counts))
        return np.repeat(totals / np.maximum(counts, 1), counts)

    @property
    def places(self) -> int:
        """How many nodes there are."""
        return 1 + int(self.nodes.max(initial=-1))


class Filling:
    """Fills some instances, each with the groups that gain most for their load by coming.

    Args:
        groups: the groups and instances.
        at: the instance of each group now, `HOMELESS` for those that have to be placed.
        takers: the instances to be filled.
        givers: the operators whose other instances give away their surplus.
        bound: the only node that each group may go to; -1 where it is any.
    """

    def __init__(
        self,
        groups: Groups,
        at: Integers,
        takers: Integers,
        givers: Marks,
        bound: Integers | None = None,
    ) -> None:
        self._groups = groups
        self._at = at.copy()
        self._takers = takers
        self._givers = givers[groups.operators]
        self._bound = np.full(len(at), -1) if bound is None else bound
        self._shares = groups.shares
        self._waiting = np.ones(len(at), dtype=np.bool_)
        placed = at >= 0
        self._held = np.bincount(at[placed], groups.loads[placed], len(groups.nodes))
        self._neighbourhood()
        self._pulls = np.zeros((len(at), groups.places))
        for group in np.flatnonzero(placed).tolist():
            self._pull(group, int(groups.nodes[at[group]]), 1.0)

    def filled(self) -> Integers:
        """Return the instance of each group then."""
        nodes = self._groups.nodes[self._takers]
        each = [(node, self._takers[nodes == node]) for node in np.unique(nodes).tolist()]
        # 1. Each instance gets its share, those of one node together.
        for node, instances in each:
            self._fill(node, instances)
        self._place_rest()
        # 2. Where no whole group fits any more, the fullest give to the emptiest.
        operators = np.searchsorted(self._groups.firsts, self._takers, side="right") - 1
        for operator in np.unique(operators).tolist():
            self._level(self._takers[operators == operator])
        return self._at

    def _fill(self, node: int, instances: Integers) -> None:
        """Give the instances of one node their share, group by group."""
        loads = self._groups.loads
        while True:
            taker = self._taker(instances)
            room = self._shares[taker] - self._held[taker]
            fitting = self._free(taker) & (loads <= room + _ROUNDING)
            able = fitting & (self._at < 0)
            if not able.any():
                spare = self._held[self._at] - self._shares[self._at]
                able = fitting & self._giving(taker) & (spare + _ROUNDING >= loads / 2)
            if not able.any():
                return
            chosen = self._best(node, np.flatnonzero(able))
            self._move(chosen, int(taker[chosen]))

    def _level(self, instances: Integers) -> None:
        """Let the fullest instances give to those of one operator, while that evens them out."""
        for _ in range(len(self._at)):
            for one in instances[np.argsort(self._held[instances], kind="stable")].tolist():
                taker = np.where(
                    self._groups.operators
                    == np.searchsorted(self._groups.firsts, one, "right") - 1,
                    one,
                    -1,
                )
                able = self._free(taker) & self._giving(taker)
                held = np.where(able, self._held[self._at], -np.inf)
                able &= held - self._held[one] > self._groups.loads + _ROUNDING
                if able.any():
                    break
            else:
                return
            able &= held >= held[able].max() - _ROUNDING
            self._move(self._best(int(self._groups.nodes[one]), np.flatnonzero(able)), one)

    def _place_rest(self) -> None:
        """Give each group that is still homeless to the instance that has least of its share."""
        loads, nodes, firsts = self._groups.loads, self._groups.nodes, self._groups.firsts
        homeless = np.flatnonzero(self._at < 0)
        for group in homeless[np.argsort(-loads[homeless], kind="stable")].tolist():
            first, last = firsts[self._groups.operators[group] :][:2]
            usable = self._takers[(self._takers >= first) & (self._takers < last)]
            if self._bound[group] >= 0:
                usable = usable[nodes[usable] == self._bound[group]]
            self._move(group, int(usable[self._held[usable].argmin()]))

    def _taker(self, instances: Integers) -> Integers:
        """Return for each group the instance that would take it: the one with most room.

        It is one of the group's operator; -1 where there is none.
        """
        firsts = self._groups.firsts
        taker = np.full(len(firsts) - 1, -1)
        fullest_first = instances[np.argsort(-self._held[instances], kind="stable")]
        taker[np.searchsorted(firsts, fullest_first, side="right") - 1] = fullest_first
        found: Integers = taker[self._groups.operators]
        return found

    def _free(self, taker: Integers) -> Marks:
        """Return which groups have not moved, and may go to the node of their taker."""
        free: Marks = (self._bound < 0) | (self._bound == self._groups.nodes[taker])
        return free & (taker >= 0) & self._waiting

    def _giving(self, taker: Integers) -> Marks:
        """Return which groups are on instances that give, and may leave them for their taker."""
        # A group that is bound to a node may change its instance there, but not its node.
        able: Marks = self._groups.nodes[self._at] == self._groups.nodes[taker]
        able |= self._bound < 0
        return able & (self._at >= 0) & self._givers & ~np.isin(self._at, self._takers)

    def _best(self, node: int, groups: Integers) -> int:
        """Return which group gains most for its load by going to a node."""
        here = self._at[groups]
        elsewhere = self._pulls[groups]
        joined = elsewhere[:, node].copy()
        elsewhere[:, node] = 0.0
        rows = np.arange(len(groups))
        left = np.where(here >= 0, elsewhere[rows, self._groups.nodes[here]], elsewhere.max(axis=1))
        gains = (joined - left) / self._groups.loads[groups]
        fullness = np.where(here >= 0, self._held[here] - self._shares[here], 0.0)
        return int(groups[np.lexsort((-groups, fullness, gains))[-1]])

    def _move(self, group: int, target: int) -> None:
        here = int(self._at[group])
        if here >= 0:
            self._held[here] -= self._groups.loads[group]
            self._pull(group, int(self._groups.nodes[here]), -1.0)
        self._at[group] = target
        self._held[target] += self._groups.loads[group]
        self._pull(group, int(self._groups.nodes[target]), 1.0)
        self._waiting[group] = False

    def _pull(self, group: int, node: int, times: float) -> None:
        """Let the partners of a group be drawn to a node, or no longer."""
        edges = slice(int(self._starts[group]), int(self._starts[group + 1]))
        self._pulls[self._neighbours[edges], node] += times * self._weights[edges]

    def _neighbourhood(self) -> None:
        """Note the partners of each group, each once, with their traffic."""
        left, right = self._groups.edges
        size = max(len(self._at), 1)
        cells = np.concatenate([left * size + right, right * size + left])
        distinct, places = np.unique(cells, return_inverse=True)
        weights = np.concatenate([self._groups.tuples, self._groups.tuples])
        self._weights: Floats = np.bincount(places, weights, len(distinct)).astype(np.float64)
        self._neighbours: Integers = distinct % size
        self._starts: Integers = np.searchsorted(distinct // size, np.arange(size + 1))


def in_a_row(groups: Sequence[Parts], firsts: Integers) -> Integers:
    """Return instances as numbers among those of all operators; `HOMELESS` where they are gone."""
    counts = np.diff(firsts)
    return np.concatenate(
        [
            np.empty(0, dtype=np.int64),
            *(
                np.where(of < count, of + first, HOMELESS)
                for of, count, first in zip(groups, counts, firsts[:-1], strict=True)
            ),
        ]
    )
