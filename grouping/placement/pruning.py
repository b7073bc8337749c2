"""Taking back moves that are not needed for a load that is even enough."""

import numpy as np

from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.traffic import Traffic


def pruned(
    problem: PlacementProblem, assignment: Nodes, enough: float, traffic: Traffic | None = None
) -> Nodes:
    """Return an assignment without the moves that it can do without.

    Moves are taken back one set at a time, the costliest first, as long as no node that stays is
    further from its target than is enough, or than it was before. Moves off nodes that drain are
    kept, and so are those without which less traffic stays on its node.

    Args:
        problem: what was placed.
        assignment: where each group is to be.
        enough: the load distance that is even enough.
        traffic: what the groups send each other.
    """
    found = assignment.copy()
    limit = max(enough, problem.distance(assignment)) * (1 + ROUNDING)
    moved = np.flatnonzero(found != problem.current)
    sets = np.unique(problem.sets[moved])
    prices = np.bincount(problem.sets[moved], problem.costs[moved], int(problem.sets.max()) + 1)
    local = None if traffic is None else traffic.local(found)
    for number in sets[np.argsort(-prices[sets], kind="stable")].tolist():
        members = np.flatnonzero(problem.sets == number)
        if problem.draining[problem.current[members]].any():
            continue
        tried = found.copy()
        tried[members] = problem.current[members]
        if not problem.whole(tried) or problem.distance(tried) > limit:
            continue
        if traffic is not None and local is not None:
            remains = traffic.local(tried)
            if remains < local * (1 - ROUNDING):
                continue
            local = remains
        found = tried
    return found
