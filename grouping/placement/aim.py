"""What the caller of a placement asks for, and so what two assignments are compared by."""

from dataclasses import dataclass

import numpy as np

from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.pruning import pruned
from grouping.placement.traffic import Traffic


@dataclass(frozen=True)
class Aim:
    """Even load first; then local traffic for what it costs; then few groups on draining nodes.

    Attributes:
        problem: what is to be placed.
        traffic: what groups send each other, as much of which as can be is to stay on nodes.
        tolerance: how far a node may be from its target, where there is traffic.
        worth: what share of the traffic has to become local for each share of all cost of moving.
        enough: the load distance that is even enough; moves that it does not need are taken back.
    """

    problem: PlacementProblem
    traffic: Traffic | None = None
    tolerance: float = 0.0
    worth: float = 0.0
    enough: float | None = None

    def finished(self, assignment: Nodes) -> Nodes:
        """Return an assignment with draining nodes emptied, and without moves it can do without."""
        found = _emptied(self.problem, assignment)
        if self.enough is not None:
            found = pruned(self.problem, found, self.enough, self.traffic)
        return found

    def better(self, one: Nodes, other: Nodes) -> bool:
        """Return whether an assignment is better than another, and leaves no more to drain."""
        if self.problem.left(one) > self.problem.left(other):
            return False
        for first, second in zip(self._merits(one), self._merits(other), strict=True):
            if abs(first - second) > ROUNDING * max(abs(first), abs(second)):
                return first < second
        return False

    def _merits(self, assignment: Nodes) -> tuple[float, ...]:
        """Return what counts, first things first; less is better."""
        problem = self.problem
        cost, apart = problem.cost(assignment), 0.0
        limit = self.tolerance if self.traffic is not None else self.enough or 0.0
        if self.traffic is not None:
            price = self.worth / (float(problem.costs.sum()) or 1.0)
            apart = 1.0 - self.traffic.local(assignment) + price * cost
        # Nodes that drain count, and where they cannot be emptied, those that stay by themselves.
        beyond = (
            each if each > limit * (1 + ROUNDING) else 0.0
            for each in problem.unevenness(assignment)
        )
        return (
            *beyond,
            apart,
            problem.left(assignment),
            cost if limit else 0.0,
        )


def _emptied(problem: PlacementProblem, assignment: Nodes) -> Nodes:
    """Take what can be taken from nodes that drain at no loss: groups without load, above all.

    What costs least to move goes first, whatever the numbers of groups are.
    """
    found = assignment.copy()
    held = np.isin(problem.sets, problem.sets[problem.pins >= 0])
    leaving = np.flatnonzero(problem.draining[found] & ~held)
    if not len(leaving):
        return found
    (limit, _), spent = problem.unevenness(found), problem.cost(found)
    staying = np.flatnonzero(~problem.draining)
    sets = [np.flatnonzero(problem.sets == one) for one in np.unique(problem.sets[leaving])]
    sets.sort(key=lambda one: (problem.costs[one].sum(), *problem.loads[:, one].sum(axis=1)))
    for members in sets:
        price = float(problem.costs[members].sum())
        paid = float(problem.costs[members][found[members] != problem.current[members]].sum())
        if not problem.affords(spent + price - paid):
            continue
        excess = problem.excess(found)[:, staying]
        added = problem.loads[:, members].sum(axis=1)[:, None] / problem.capacities[staying]
        after = np.where(
            problem.able[members][:, staying].all(axis=0), (excess + added).max(axis=0), np.inf
        )
        target = int(after.argmin())
        if after[target] <= limit:
            found[members] = staying[target]
            spent += price - paid
    return found
