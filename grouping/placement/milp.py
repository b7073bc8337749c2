"""The placement of key groups as a mixed-integer linear program, solved through PuLP.

As printed in the paper (section III.B), and in our own form: with the true mean in place of its
ceiling, without constraint (5), and for nodes of different capacity.

References:
    Madsen, Zhou, Cao, "Integrative dynamic reconfiguration in a parallel stream processing
    engine", ICDE 2017.
"""

import math
from typing import Any

import numpy as np
import pulp
from cbcbox import cbc_bin_path

from grouping.placement.problem import Nodes, PlacementProblem
from sketches.errors import InvalidValueError, MissingPackageError

SOLVERS = ("CBC", "HiGHS")

_DISTANCE, _TIGHTNESS = 1.0, 1e-3  # w1 and w2: the distance first, then both bounds tight


class PlacementProgram:
    """A placement problem as variables and constraints, numbered as in the paper.

    Args:
        problem: what is to be placed.
        as_printed: the mean is rounded up, and no node may be empty of load, by constraint (5);
            left out where it makes the program impossible: one group is over twice the mean.
    """

    def __init__(self, problem: PlacementProblem, *, as_printed: bool = False) -> None:
        self.problem = problem
        nodes, sets = range(problem.nodes), range(int(problem.sets.max(initial=-1)) + 1)
        mean = [math.ceil(value) if as_printed else float(value) for value in problem.mean]
        self._model = pulp.LpProblem("placement", pulp.LpMinimize)
        self._at = self._model.add_variable_dicts("x", (nodes, sets), cat=pulp.LpBinary)
        self._distance = self._model.add_variable("d", lowBound=0)
        upper = self._model.add_variable("d_u", lowBound=0)
        lower = self._model.add_variable("d_l", lowBound=0)
        self._slack = upper, lower
        self._model += _DISTANCE * self._distance - _TIGHTNESS * (upper + lower)
        # (1) each group is on one node
        for each in sets:
            self._model += pulp.lpSum(self._at[node][each] for node in nodes) == 1
        for group in np.flatnonzero(problem.pins >= 0).tolist():
            home = self._at[int(problem.pins[group])]
            self._model += home[int(problem.sets[group])] == 1
        for group, node in np.argwhere(~problem.able).tolist():
            self._model += self._at[node][int(problem.sets[group])] == 0
        # (2) migration within the budget
        price = self._prices(len(sets))
        self._model += (
            pulp.LpAffineExpression(
                (self._at[node][each], price[each, node])
                for node in nodes
                for each in sets
                if price[each, node]
            )
            <= problem.budget
        )
        loads = np.stack([np.bincount(problem.sets, row, len(sets)) for row in problem.loads])
        for row, target, counted in zip(loads, mean, problem.counted, strict=True):
            for node in np.flatnonzero(counted).tolist():
                usage = pulp.LpAffineExpression(
                    (self._at[node][each], float(row[each] / problem.capacities[node]))
                    for each in np.flatnonzero(row).tolist()
                )
                # (3) no node is above the mean by more than the distance
                self._model += usage <= target + self._distance - upper
                # (4) and none of those that stay below it by more
                if not problem.draining[node]:
                    self._model += usage >= target - self._distance + lower
            # (5) the distance does not exceed the mean
            if as_printed and row.max(initial=0.0) <= 2 * target:
                self._model += self._distance <= target
        self._model += upper <= self._distance
        self._model += lower <= self._distance

    def _prices(self, sets: int) -> Any:
        problem = self.problem
        held = np.zeros((sets, problem.nodes))
        np.add.at(held, (problem.sets, problem.current), problem.costs)
        return held.sum(axis=1, keepdims=True) - held

    def begin_with(self, assignment: Nodes) -> None:
        """Give the solver an assignment to begin with."""
        of_set = np.empty(int(self.problem.sets.max(initial=-1)) + 1, dtype=np.int64)
        of_set[self.problem.sets] = assignment
        for node, variables in self._at.items():
            for each, variable in variables.items():
                variable.setInitialValue(int(of_set[each] == node))
        self._distance.setInitialValue(
            float(np.abs(self.problem.excess(assignment)[:, ~self.problem.draining]).max())
        )
        for variable in self._slack:
            variable.setInitialValue(0.0)

    def solve(
        self, seconds: float, solver: str = "CBC", *, warm: bool = False
    ) -> tuple[Nodes | None, float]:
        """Return what a solver has found in some time, if anything, and what it has proven.

        The second is a load distance below which there is none; 0 if nothing was proven.

        Raises:
            InvalidValueError: the solver is not known.
        """
        check_solver(solver)
        if solver == "HiGHS":
            command = pulp.HiGHS(msg=False, timeLimit=seconds, threads=1, warmStart=warm)
        else:
            command = pulp.COIN_CMD(
                path=cbc_bin_path(), msg=False, timeLimit=seconds, threads=1, warmStart=warm
            )
        self._model.solve(command)
        if self._model.sol_status not in (
            pulp.LpSolutionOptimal,
            pulp.LpSolutionIntegerFeasible,
        ):
            return None, 0.0
        chosen = np.array(
            [[variable.value() or 0.0 for variable in row.values()] for row in self._at.values()]
        )
        assignment: Nodes = chosen.argmax(axis=0)[self.problem.sets].astype(np.int32)
        proven = self._model.sol_status == pulp.LpSolutionOptimal
        return assignment, float(self._distance.value()) if proven else 0.0


def check_solver(solver: str) -> None:
    """Refuse a solver that is not known, or not installed."""
    if solver not in SOLVERS:
        raise InvalidValueError(
            f"solver={solver!r} is not known; use one of {', '.join(map(repr, SOLVERS))}"
        )
    if solver == "HiGHS" and not pulp.HiGHS().available():
        raise MissingPackageError("solver='HiGHS' needs highspy; install it: pip install highspy")


def improve(
    problem: PlacementProblem, start: Nodes, seconds: float, solver: str
) -> tuple[Nodes, float]:
    """Return an assignment at least as good as one to begin with, and a proven bound.

    What a solver calls its distance need not be that of its assignment, so it is computed again.
    """
    program = PlacementProgram(problem)
    program.begin_with(start)
    found, bound = program.solve(seconds, solver, warm=True)
    if found is None or not problem.affords(problem.cost(found)):
        return start, bound
    better = (problem.distance(found), problem.left(found)) < (
        problem.distance(start),
        problem.left(start),
    )
    return (found if better else start), bound
