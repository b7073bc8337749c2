"""Placing groups that send each other much on one node, as long as the load stays even enough."""

import numpy as np

from grouping.placement.descent import Attraction, Descent, Units
from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.traffic import Traffic

_WEIGHTS = 8.0 ** np.arange(3, -4, -1)
"""What all traffic counts, in nodes as far from the mean as they may be; heaviest first."""


def collocated(
    problem: PlacementProblem, units: Units, traffic: Traffic, tolerance: float, worth: float
) -> Nodes:
    """Return where the most traffic stays on nodes, of assignments that are even enough.

    Descents are tried with less and less weight on traffic, each from where the groups are now.
    The answer is the one with the most local traffic among those whose nodes are all within the
    tolerance of their target; where none is, the most even one.

    Args:
        problem: what is to be placed.
        units: its units.
        traffic: what the groups send each other.
        tolerance: how far a node may be from its target.
        worth: what share of the traffic has to become local for each share of all cost of moving.
    """
    pulls = traffic.between(problem.sets)
    begin = Descent(problem, units).units_at
    price = worth / (float(problem.costs.sum()) or 1.0)
    best, merit = begin, _merit(problem, traffic, begin, tolerance, price)
    for weight in [*_WEIGHTS / (traffic.total or 1.0), 0.0]:
        attraction = Attraction(pulls, weight, tolerance)
        found = Descent(problem, units, attraction=attraction).run()
        reached = _merit(problem, traffic, found, tolerance, price)
        if reached > merit:
            best, merit = found, reached
    assignment: Nodes = best[problem.sets].astype(np.int32)
    return assignment


def _merit(
    problem: PlacementProblem, traffic: Traffic, at: Nodes, tolerance: float, price: float
) -> tuple[float, float]:
    """Return what to compare assignments by: first how far they are off, then local traffic."""
    assignment = at[problem.sets]
    strain = float(np.abs(problem.excess(assignment)).max())
    beyond = strain if strain > tolerance * (1 + ROUNDING) else 0.0
    return -beyond, traffic.local(assignment) - price * problem.cost(assignment)
