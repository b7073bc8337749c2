"""Placing key groups on nodes, so that load is even and little has to move."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from grouping.placement.aim import Aim
from grouping.placement.bounds import least_distance
from grouping.placement.collocation import collocated
from grouping.placement.descent import Descent, Units
from grouping.placement.narrowing import narrowed
from grouping.placement.partners import USUAL_PART
from grouping.placement.problem import Nodes, PlacementProblem, is_evener
from grouping.placement.solvers import check_solver
from grouping.placement.traffic import Traffic
from sketches.checks import amount, number, whole
from sketches.values import ArrayValue, protected

_USUAL_LIMIT = 0.1  # of the mean
_WAYS = 32  # that are followed at once in the search for a narrower distance, for each round
_RETURNED = (0.1, 0.6)  # the share of the moves that a round takes back, at least and at most


@dataclass(frozen=True, eq=False)
class GroupPlacement(ArrayValue):
    """Where each key group is to be.

    Attributes:
        assignment: the node of each group.
        load_distance: the largest difference between the usage of a node and the mean.
        moves: how many groups change their node.
        cost: what these moves cost together.
        bound: no placement within the budget has a smaller load distance.
    """

    assignment: Nodes
    load_distance: float
    moves: int
    cost: float
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "assignment", protected(self.assignment))


def place_groups(  # noqa: PLR0913
    loads: Any,
    current: Any,
    nodes: int,
    *,
    budget: float,
    migration_cost: Any = None,
    capacities: Any = None,
    draining: Iterable[int] = (),
    together: Iterable[Iterable[int]] = (),
    pinned: Mapping[int, int] | None = None,
    able: Any = None,
    traffic: Traffic | None = None,
    max_load_distance: float | None = None,
    worth: float = 0.05,
    max_partition_load: float = USUAL_PART,
    enough: float | None = None,
    rounds: int = 0,
    time_limit: float | None = None,
    solver: str = "CBC",
) -> GroupPlacement:
    """Return where each key group is to be, for even load at no more than a cost.

    Moves and swaps that even the load out most for what they cost are taken one by one, until the
    budget is spent or nothing is gained. Where nothing is gained at all, nothing moves. The answer
    is the same in every process, unless there is a time limit.

    >>> found = place_groups([4, 4, 4, 0, 0, 0], [0, 0, 0, 1, 1, 1], 2, budget=1)
    >>> found.assignment.tolist(), found.load_distance
    ([1, 0, 0, 1, 1, 1], 2.0)

    Args:
        loads: the load of each group, as one row, or as one row for each dimension. On Spark a
            stage is a dimension: stages run one after another, so each is to be even.
        current: the number of the node on which each group is.
        nodes: how many nodes there are.
        budget: what all moves may cost together.
        migration_cost: what it costs to move each group; without, 1.
        capacities: the capacity of each node; without, 1.
        draining: the numbers of nodes to be emptied.
        together: sets of groups of which each is to be on one node; sets that share a group are
            one.
        pinned: the node on which a group has to end up.
        able: which group may be on which node, of shape (groups, nodes); without, any on any.
        traffic: what groups send each other. As much of it as can be is kept on nodes, as long as
            the load distance is within a limit.
        max_load_distance: the limit, where there is traffic; a tenth of the mean if it is left out.
        worth: with traffic, what share of it has to become local for each share of all groups
            that moves, both by cost.
        max_partition_load: with traffic, what groups that move as one, as they talk mostly to each
            other, may have of the mean load of a node.
        enough: the load distance that is even enough: nothing is evened out further, and moves
            that it does not need are taken back.
        rounds: how often a part of the moves is taken back, in search of better ones.
        time_limit: how many seconds a solver looks for something better, from what was found,
            and for a better bound; without, none does. Better is what is so by all that was asked
            for: even load, local traffic, nodes that drain, and no more moves than are needed.
        solver: which one: "CBC" or "HiGHS".

    Raises:
        InvalidValueError: an argument is not what it should be.
        PlacementError: all nodes drain; or sets and pinned groups that are on other nodes now
            cannot be brought where they are to be for the budget.
        MissingPackageError: the solver is not installed.
        SolverError: the solver failed.
    """
    problem = PlacementProblem.of(
        loads,
        current,
        nodes,
        budget=budget,
        migration_cost=migration_cost,
        capacities=capacities,
        draining=draining,
        together=together,
        pinned=pinned,
        able=able,
    )
    rounds = whole("rounds", rounds, at_least=0)
    seconds = None if time_limit is None else number("time_limit", time_limit, above=0.0)
    check_solver(solver, asked=seconds is not None)
    most = None if enough is None else amount("enough", enough)
    part = number("max_partition_load", max_partition_load, above=0.0)
    units = Units.of(problem)
    bound = least_distance(problem)
    if traffic is None:
        aim = Aim(problem, enough=most)
        found = _searched(problem, units, bound, rounds, most)
    else:
        limit = _limit(problem, max_load_distance)
        aim = Aim(problem, traffic, limit, amount("worth", worth), most)
        found = collocated(problem, units, traffic, limit, aim.worth, part=part)
    found = aim.finished(found)
    if seconds is not None:
        from grouping.placement.milp import improve  # noqa: PLC0415  heavy, and few ask for it

        found, proven = improve(problem, found, seconds, solver, aim)
        bound = max(bound, proven)
    stays = traffic is None and problem.whole(problem.current)
    if stays and not aim.better(found, problem.current):
        found = problem.current
    moves = int((found != problem.current).sum())
    distance = problem.distance(found)
    return GroupPlacement(found, distance, moves, problem.cost(found), min(bound, distance))


def _limit(problem: PlacementProblem, given: float | None) -> float:
    """Return how far from its target a node may be, where there is traffic."""
    if given is not None:
        return number("max_load_distance", given, above=0.0)
    return _USUAL_LIMIT * float(problem.mean.max()) or 1.0


def _searched(
    problem: PlacementProblem, units: Units, bound: float, rounds: int, enough: float | None
) -> Nodes:
    """Return the best assignment of a descent, and of others that begin close to its end.

    With a distance that is even enough, the descent ends as soon as it is reached. That takes half
    to two thirds of the moves that are left of a whole one when single moves are taken back. Where
    nodes drain it goes on, to empty them.
    """
    homes = Descent(problem, units).units_at
    limit = None if problem.draining.any() else enough
    best = Descent(problem, units).run(limit)
    if limit is not None and problem.distance(best[problem.sets]) <= limit:
        return best[problem.sets].astype(np.int32)
    if rounds:
        best = narrowed(problem, units, best, bound, _WAYS * rounds)
    lowest = problem.unevenness(best[problem.sets])
    for turn in range(rounds):
        found = Descent(problem, units, _shaken(problem, units, best, homes, turn)).run()
        reached = problem.unevenness(found[problem.sets])
        if is_evener(reached, lowest):
            best, lowest = found, reached
    assignment: Nodes = best[problem.sets].astype(np.int32)
    return assignment


def _shaken(problem: PlacementProblem, units: Units, best: Nodes, homes: Nodes, turn: int) -> Nodes:
    """Return an assignment near one: some moves taken back, and each other time one at random."""
    drawn = np.random.default_rng(turn)
    shaken = best.copy()
    moved = np.flatnonzero(best != homes)
    back = moved[drawn.random(len(moved)) < drawn.uniform(*_RETURNED)]
    shaken[back] = homes[back]
    if turn % 2:
        return shaken
    unit = drawn.integers(units.count)
    before, shaken[unit] = shaken[unit], drawn.choice(np.flatnonzero(~problem.draining))
    if not problem.affords(float(units.price[np.arange(units.count), shaken].sum())):
        shaken[unit] = before
    return shaken
