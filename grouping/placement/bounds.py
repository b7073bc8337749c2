"""A load distance below which no placement within the budget can come."""

from dataclasses import dataclass

import numpy as np

from grouping.placement.matching import matched
from grouping.placement.problem import ROUNDING, PlacementProblem
from sketches.arrays import Floats, Integers, Marks

_HALVINGS = 24
_LESS = 1 - 1e-15


def least_distance(problem: PlacementProblem) -> float:
    """Return a lower bound of the load distance, true of each assignment within the budget.

    For a distance of ``d``, each node above its target by more has to give load away, and each
    one below by more has to be given some. What that costs at least is known node by node: so
    much load takes at least that many groups, and costs at least what the cheapest per load do; and
    one group alone is enough only if its load is right. A group that moves serves one giver and
    one receiver: givers together, and receivers together, must fit the budget, and all of them
    together twice the budget.

    Nodes that exchange groups form clusters. A cluster of two nodes takes one move only if there
    is a group whose load is right for both; all others take two moves for three nodes at least.
    So beside the most pairs for which there is such a group, each node takes two thirds of a move.
    (The relaxation of the whole program to fractions of groups says nothing here: a fraction of
    each group moves for a fraction of its cost, and the distance is 0.)

    >>> from grouping.placement import PlacementProblem
    >>> problem = PlacementProblem.of([4, 4, 4, 0, 0, 0], [0, 0, 0, 1, 1, 1], 2, budget=1)
    >>> round(least_distance(problem), 3)  # moving one of 4 leaves 8 and 4, where 6 is the mean
    2.0
    """
    excess = problem.excess(problem.current)
    high = float(np.abs(excess[:, ~problem.draining]).max())
    low = 0.0
    needs = [_Needs.of(problem, row) for row in range(len(problem.loads))]
    if not any(need.exceeds(excess[row], low) for row, need in enumerate(needs)):
        high = low
    elif any(need.exceeds(excess[row], high * _LESS) for row, need in enumerate(needs)):
        low = high  # nothing that can be moved brings all nodes any nearer
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if any(need.exceeds(excess[row], middle) for row, need in enumerate(needs)):
            low = middle
        else:
            high = middle
    # A group on a node that drains may stay there; one elsewhere ends up on a node that stays.
    bound = ~problem.draining[problem.current]
    heaviest = problem.loads[:, bound].max(axis=1, initial=0.0)
    largest = heaviest / problem.capacities[~problem.draining].max() - problem.mean
    return max(low * (1 - ROUNDING), float(largest.max()), 0.0)


@dataclass(frozen=True)
class _Needs:
    """What it costs at least, in one dimension, to bring all nodes near to their target."""

    problem: PlacementProblem
    loads: Floats
    giving: "_Purchases"  # of each node's own groups
    taking: "_Purchases"  # of all other groups

    @classmethod
    def of(cls, problem: PlacementProblem, row: int) -> "_Needs":
        loads = problem.loads[row]
        here = problem.current == np.arange(problem.nodes)[:, None]
        bought = (_Purchases.of(loads, problem.costs, mine) for mine in (here, ~here))
        return cls(problem, loads, *bought)

    def exceeds(self, excess: Floats, distance: float) -> bool:
        """Return whether no assignment within the budget has such a load distance."""
        problem, staying = self.problem, ~self.problem.draining
        givers = np.flatnonzero(staying & (excess > distance))
        takers = np.flatnonzero(staying & (excess < -distance))
        needy = np.concatenate([givers, takers])
        if not len(needy):
            return False
        # 1. Each node by itself: how much it needs at least, and what it may need.
        off, power = np.abs(excess[needy]), problem.capacities[needy]
        low, high = (off - distance) * power, (off + distance) * power
        gives = np.arange(len(needy)) < len(givers)
        least = np.concatenate(
            [self.giving.least(givers, low[gives]), self.taking.least(takers, low[~gives])]
        )
        given, taken = float(least[gives].sum()), float(least[~gives].sum())
        if not (problem.affords(given) and problem.affords(taken)):
            return True
        right = (self.loads >= low[:, None] * (1 - ROUNDING)) & (
            self.loads <= high[:, None] * (1 + ROUNDING)
        )
        at_home = problem.current == needy[:, None]
        fits = right & np.where(gives[:, None], at_home, ~at_home)
        one = np.where(fits, problem.costs, np.inf).min(axis=1, initial=np.inf)
        touched = float(np.maximum(least, np.minimum(one, self._two)).sum())
        if not problem.affords(touched / 2):
            return True
        # 2. Pairs of nodes that one group mends, and clusters of more.
        cheapest = float(problem.costs.min(initial=np.inf))
        if not cheapest or problem.affords(len(needy) * cheapest * 2 / 3):
            return False
        pairs = self._pairs(right, givers)
        mated = matched(pairs)
        moves = mated + (len(needy) - 2 * mated) * 2 / 3
        return not problem.affords(moves * cheapest)

    def _pairs(self, right: Marks, givers: Integers) -> Marks:
        """Return which givers and takers one group mends that is right for both."""
        found = np.zeros((len(givers), len(right) - len(givers)), dtype=np.bool_)
        for place, giver in enumerate(givers.tolist()):
            mine = (self.problem.current == giver) & right[place]
            found[place] = right[len(givers) :, mine].any(axis=1)
        return found

    @property
    def _two(self) -> float:
        """Two groups cost no less than the two cheapest of all."""
        costs = self.problem.costs
        return float(np.partition(costs, 1)[:2].sum()) if len(costs) > 1 else np.inf


@dataclass(frozen=True)
class _Purchases:
    """For each node, groups of which some are to add up to a load at the least cost."""

    most: Floats  # by node, at k: the load of k groups, at most
    cheapest: Floats  # by node, at k: what k groups cost, at least
    bought: Floats  # by node, the load of the groups that cost least for their load
    paid: Floats  # and what they cost

    @classmethod
    def of(cls, loads: Floats, costs: Floats, offered: Marks) -> "_Purchases":
        """Sort what each node is offered.

        Args:
            loads: of the groups.
            costs: of the groups.
            offered: which groups there are for each node.
        """
        size = int(offered.sum(axis=1).max(initial=0))
        load = np.where(offered, loads, 0.0)
        most = -np.sort(-load, axis=1)[:, :size]
        cheapest = np.sort(np.where(offered, costs, np.inf), axis=1)[:, :size]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(costs > 0, -load / costs, -np.inf)
        order = np.argsort(np.where(offered, each, np.inf), axis=1, kind="stable")[:, :size]
        bought = np.take_along_axis(load, order, axis=1)
        paid = np.take_along_axis(np.where(offered, costs, 0.0), order, axis=1)
        return cls(*(_added_up(rows) for rows in (most, cheapest, bought, paid)))

    def least(self, nodes: Integers, load: Floats) -> Floats:
        """Return what no choice of groups with at least this much load costs less than, by node."""
        needed = load[:, None] * (1 - ROUNDING)
        rows, most = np.arange(len(nodes)), self.most[nodes]
        count = np.minimum((most < needed).sum(axis=1), most.shape[1] - 1)
        bought, paid = self.bought[nodes], self.paid[nodes]
        last = np.minimum((bought < needed).sum(axis=1), bought.shape[1] - 1)
        before = np.maximum(last - 1, 0)
        rise = bought[rows, last] - bought[rows, before]
        share = (needed[:, 0] - bought[rows, before]) / np.where(rise > 0, rise, 1.0)
        divided = paid[rows, before] + share.clip(0, 1) * (paid[rows, last] - paid[rows, before])
        found = np.maximum(self.cheapest[nodes][rows, count], divided * (1 - ROUNDING))
        return np.where(needed[:, 0] > most[:, -1], np.inf, found)


def _added_up(rows: Floats) -> Floats:
    """Return the running sums of each row, from 0 on."""
    return np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
