"""Groups that talk mostly to each other: which of them are on one node, and which are apart."""

from dataclasses import dataclass

import numpy as np

from grouping.placement.problem import PlacementProblem
from grouping.placement.traffic import Traffic
from sketches.arrays import Floats, Integers, Marks

_MOSTLY = 0.5  # of what a group sends and gets: with so much of it, another is its partner

USUAL_PART = 0.5
"""What partners that move as one may have of the mean load of a node."""


@dataclass(frozen=True)
class Partners:
    """Groups of which one exchanges most of what it exchanges with the other.

    Attributes:
        joined: the problem with partners on one node as sets. Those with most traffic come first,
            and a set has no more load than it may, and costs no more than the budget.
        apart: pairs of groups that are partners on two nodes, those with most traffic first.
    """

    joined: PlacementProblem
    apart: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, problem: PlacementProblem, traffic: Traffic, part: float = USUAL_PART
    ) -> "Partners":
        """Find the partners among the sets of a problem.

        Args:
            problem: what is to be placed.
            traffic: what the groups send each other.
            part: what partners that move as one may have of the mean load of a node.
        """
        if not problem.whole(problem.current):  # where a set is, is not settled yet
            return cls(problem, ())
        pulls = traffic.between(problem.sets)
        count = len(pulls.starts) - 1
        member = np.zeros(count, dtype=np.int64)  # one group of each set
        member[problem.sets[::-1]] = np.arange(problem.groups)[::-1]
        one = np.repeat(np.arange(count), np.diff(pulls.starts))
        other = pulls.partners
        partners = pulls.rates > _MOSTLY * np.bincount(one, pulls.rates, count)[one]
        order = np.argsort(-pulls.rates, kind="stable")
        order = order[partners[order]]
        at = problem.current[member]
        near = at[one[order]] == at[other[order]]
        ends = np.stack([one[order], other[order]], axis=1)
        apart = dict.fromkeys(
            (int(member[min(pair)]), int(member[max(pair)])) for pair in ends[~near].tolist()
        )
        return cls(_joined(problem, member, ends[near], part), tuple(apart))

    def with_pair(self, pair: tuple[int, int], node: int) -> PlacementProblem | None:
        """Return the problem with a pair as a set pinned to a node; None if it may not be there."""
        pins = _pins(self.joined)
        if pins.setdefault(pair[0], node) != node:
            return None
        return self.joined.joined([*_members(self.joined), pair], pins)


def _joined(
    problem: PlacementProblem, member: Integers, pairs: Integers, part: float
) -> PlacementProblem:
    """Return a problem with the sets of each pair joined, as far as that is light enough."""
    count = len(member)
    loads: Floats = np.stack([np.bincount(problem.sets, row, count) for row in problem.loads])
    costs: Floats = np.bincount(problem.sets, problem.costs, count).astype(np.float64)
    most = part * problem.mean * float(problem.capacities.mean())
    sets = [{number} for number in range(count)]
    for one, other in pairs.tolist():
        both = sets[one] | sets[other]
        if sets[one] is not sets[other] and _light(sorted(both), loads, costs, most, problem):
            for each in both:
                sets[each] = both
    together = [member[sorted(both)].tolist() for both in sets]
    return problem.joined([*_members(problem), *together], _pins(problem))


def _light(
    chosen: list[int], loads: Floats, costs: Floats, most: Floats, problem: PlacementProblem
) -> bool:
    within: Marks = loads[:, chosen].sum(axis=1) <= most
    return bool(within.all()) and problem.affords(float(costs[chosen].sum()))


def _members(problem: PlacementProblem) -> list[list[int]]:
    """Return the groups of each set of several."""
    order = np.argsort(problem.sets, kind="stable")
    ends = np.flatnonzero(np.diff(problem.sets[order])) + 1
    return [part.tolist() for part in np.split(order, ends) if len(part) > 1]


def _pins(problem: PlacementProblem) -> dict[int, int]:
    return {group: node for group, node in enumerate(problem.pins.tolist()) if node >= 0}
