"""Placing groups that send each other much on one node, as long as the load stays even enough."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from grouping.errors import PlacementError
from grouping.placement.descent import Attraction, Descent, Units
from grouping.placement.partners import USUAL_PART, Partners
from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.traffic import Traffic

_WEIGHTS = 8.0 ** np.arange(3, -4, -1)
"""What all traffic counts, in nodes as far from the mean as they may be; heaviest first."""

_PAIRS = 6  # that are tried together, where nothing else brings any together


def collocated(  # noqa: PLR0913
    problem: PlacementProblem,
    units: Units,
    traffic: Traffic,
    tolerance: float,
    worth: float,
    *,
    part: float = USUAL_PART,
) -> Nodes:
    """Return where the most traffic stays on nodes, of assignments that are even enough.

    Descents are tried with less and less weight on traffic, each from where the groups are now:
    of single groups, and of partners that are on one node by now, which move as one and then
    singly. (To bring two groups together on a full node, something of their weight has to leave
    it, and what is together already is better not taken apart for that.) Where none of them brings
    more together, the pairs with most traffic are, one at a time, on either of their nodes, and the
    rest makes room.
    The answer is the one with the most local traffic among those whose nodes are all within the
    tolerance of their target; where none is, the most even one.

    Args:
        problem: what is to be placed.
        units: its units.
        traffic: what the groups send each other.
        tolerance: how far a node may be from its target.
        worth: what share of the traffic has to become local for each share of all cost of moving.
        part: what partners that move as one may have of the mean load of a node.
    """
    price = worth / (float(problem.costs.sum()) or 1.0)
    partners = Partners.of(problem, traffic, part)
    best = Descent(problem, units).assignment
    merit = _merit(problem, traffic, best, tolerance, price)
    for candidates in (_descents, _with_pairs):
        for found in candidates(problem, partners, traffic, tolerance):
            reached = _merit(problem, traffic, found, tolerance, price)
            if reached > merit:
                best, merit = found, reached
        if traffic.local(best) > traffic.local(problem.current):
            break
    return best


def _descents(
    problem: PlacementProblem, partners: Partners, traffic: Traffic, tolerance: float
) -> Iterator[Nodes]:
    """Yield the ends of descents, of single sets and of partners that move as one."""
    for weight in [*_WEIGHTS / (traffic.total or 1.0), 0.0]:
        yield _descent(problem, traffic, weight, tolerance)
        if partners.joined.sets.max(initial=0) < problem.sets.max(initial=0):
            begun = _descent(partners.joined, traffic, weight, tolerance)
            yield begun
            yield _descent(problem, traffic, weight, tolerance, begun)


def _with_pairs(
    _problem: PlacementProblem, partners: Partners, traffic: Traffic, tolerance: float
) -> Iterator[Nodes]:
    """Yield the ends of descents that put a pair of partners on one node before anything else."""
    for pair in partners.apart[:_PAIRS]:
        for node in dict.fromkeys(partners.joined.current[list(pair)].tolist()):
            tied = partners.with_pair(pair, node)
            if tied is None:
                continue
            for weight in _WEIGHTS[1::2] / (traffic.total or 1.0):
                with suppress(PlacementError):  # it takes more than the budget, or may not be
                    yield _descent(tied, traffic, weight, tolerance)


def _descent(
    problem: PlacementProblem,
    traffic: Traffic,
    weight: float,
    tolerance: float,
    begin: Nodes | None = None,
) -> Nodes:
    """Return where a descent ends that begins where the groups are, or elsewhere."""
    units = Units.of(problem)
    at = None
    if begin is not None:
        at = np.zeros(units.count, dtype=np.int32)
        at[problem.sets] = begin
    attraction = Attraction(traffic.between(problem.sets), weight, tolerance)
    found: Nodes = Descent(problem, units, at, attraction).run()[problem.sets].astype(np.int32)
    return found


def _merit(
    problem: PlacementProblem, traffic: Traffic, assignment: Nodes, tolerance: float, price: float
) -> tuple[float, float, float]:
    """Return what to compare assignments by: first how far they are off, then local traffic.

    They are off as the farthest node is, and then as the farthest of those that stay.
    """
    strain, distance = problem.unevenness(assignment)
    limit = tolerance * (1 + ROUNDING)
    beyond, rest = (each if each > limit else 0.0 for each in (strain, distance))
    return -beyond, -rest, traffic.local(assignment) - price * problem.cost(assignment)
