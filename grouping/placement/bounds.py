"""A load distance below which no placement within the budget can come."""

import numpy as np

from grouping.placement.problem import ROUNDING, PlacementProblem
from sketches.arrays import Floats

_HALVINGS = 60


def least_distance(problem: PlacementProblem) -> float:
    """Return a lower bound of the load distance, true of each assignment within the budget.

    For a distance of ``d``, each node above its target by more has to give load away, and each
    one below by more has to be given some. What that costs at least is known node by node: so
    much load takes at least that many groups, and costs at least what the cheapest per load do; and
    one group alone is enough only if its load is right. A group that moves serves one giver and
    one receiver: givers together, and receivers together, must fit the budget, and all of them
    together twice the budget.
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
    needs = [_Needs(problem, row) for row in range(len(problem.loads))]
    if not any(need.exceeds(excess[row], low) for row, need in enumerate(needs)):
        high = low
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


class _Needs:
    """What it costs at least, in one dimension, to bring all nodes near to their target."""

    def __init__(self, problem: PlacementProblem, row: int) -> None:
        self._problem = problem
        loads, at = problem.loads[row], problem.current
        here = [at == node for node in range(problem.nodes)]
        self._giving = [_Purchase(loads[mine], problem.costs[mine]) for mine in here]
        self._taking = [_Purchase(loads[~mine], problem.costs[~mine]) for mine in here]
        # Two groups cost no less than the two cheapest of all.
        self._two = float(np.sort(problem.costs)[:2].sum()) if len(loads) > 1 else np.inf

    def exceeds(self, excess: Floats, distance: float) -> bool:
        """Return whether no assignment within the budget has such a load distance."""
        problem, given, taken, touched = self._problem, 0.0, 0.0, 0.0
        for node in np.flatnonzero(~problem.draining & (np.abs(excess) > distance)).tolist():
            load, slack = abs(excess[node]), distance
            choice = (self._giving if excess[node] > 0 else self._taking)[node]
            power = problem.capacities[node]
            least = choice.least((load - slack) * power)
            one = choice.one((load - slack) * power, (load + slack) * power)
            touched += max(least, min(one, self._two))
            if excess[node] > 0:
                given += least
            else:
                taken += least
        return not (
            problem.affords(given) and problem.affords(taken) and problem.affords(touched / 2)
        )


class _Purchase:
    """Groups to choose from, of which some are to add up to a load at the least cost."""

    def __init__(self, loads: Floats, costs: Floats) -> None:
        self._loads, self._costs = loads, costs
        self._most = np.cumsum(np.sort(loads)[::-1])  # at k - 1: the load of k groups, at most
        self._cheapest = np.cumsum(np.sort(costs))  # at k - 1: what k groups cost, at least
        free = costs == 0
        order = np.argsort(np.where(free, -np.inf, -loads / np.where(free, 1.0, costs)))
        self._bought = np.concatenate([[0.0], np.cumsum(loads[order])])
        self._paid = np.concatenate([[0.0], np.cumsum(costs[order])])

    def least(self, load: float) -> float:
        """Return what no choice of groups with at least this much load costs less than."""
        needed = load * (1 - ROUNDING)
        if not len(self._most) or needed > self._most[-1]:
            return np.inf
        count = int(np.searchsorted(self._most, needed))
        divided = float(np.interp(needed, self._bought, self._paid))
        return max(float(self._cheapest[count]), divided * (1 - ROUNDING))

    def one(self, low: float, high: float) -> float:
        """Return what the cheapest single group costs whose load is between two."""
        fits = (self._loads >= low * (1 - ROUNDING)) & (self._loads <= high * (1 + ROUNDING))
        return float(self._costs[fits].min(initial=np.inf))
