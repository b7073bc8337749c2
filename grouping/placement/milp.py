"""The placement of key groups as a mixed-integer linear program, solved through PuLP.

As printed in the paper (section III.B), and in our own form: with the true mean in place of its
ceiling, without constraint (5), for nodes of different capacity, and with nothing but the load
distance in its objective, so that what a solver proves of that is true of the load distance.

References:
    Madsen, Zhou, Cao, "Integrative dynamic reconfiguration in a parallel stream processing
    engine", ICDE 2017.
"""

import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pulp

from grouping.errors import SolverError
from grouping.placement.aim import Aim
from grouping.placement.problem import Nodes, PlacementProblem
from grouping.placement.solvers import check_solver
from sketches.arrays import Floats

_DISTANCE, _TIGHTNESS = 1.0, 1e-3  # w1 and w2, as printed: the distance first, then tight bounds
_SCALE = 100.0  # the mean, as solvers are given it: their tolerances are absolute
_TOLERANCE = 1e-6  # of the mean: by how much the distance that a solver proves may be off
_LOWER_BOUND = re.compile(r"^Lower bound:\s+(\S+)", re.MULTILINE)
_OPTIMAL = re.compile(r"^Result - Optimal solution found.*\nObjective value:\s+(\S+)", re.MULTILINE)


class PlacementProgram:
    """A placement problem as variables and constraints, numbered as in the paper.

    Attributes:
        problem: what is to be placed.
        left_out: which printed constraint is left out, and why; empty for none.

    Args:
        problem: what is to be placed.
        as_printed: the mean is rounded up, nodes that drain are held to it as well, and the
            distance does not exceed it, by constraint (5). That is left out where staying put
            exceeds it: then it could make the program impossible, and it never makes an answer
            better, as the distance is made as small as can be anyway.
        emptying: nodes that drain are held to a load of 0 plus the distance.
    """

    def __init__(
        self, problem: PlacementProblem, *, as_printed: bool = False, emptying: bool = False
    ) -> None:
        self.problem, self.left_out = problem, ""
        nodes, sets = range(problem.nodes), range(int(problem.sets.max(initial=-1)) + 1)
        # What a solver proves of its distance is true of the load distance.
        self._certain = not as_printed and not (emptying and problem.draining.any())
        self._unit = 1.0 if as_printed else float(problem.mean.max()) / _SCALE or 1.0
        means = np.ceil(problem.mean) if as_printed else problem.mean / self._unit
        held = problem.counted if as_printed or emptying else problem.counted & ~problem.draining
        target = np.where(problem.draining & (not as_printed), 0.0, means[:, None])
        self._above = np.where(held, target, np.inf)
        self._below = np.where(problem.counted & ~problem.draining, target, -np.inf)
        self._model = pulp.LpProblem("placement", pulp.LpMinimize)
        self._at = self._model.add_variable_dicts("x", (nodes, sets), cat=pulp.LpBinary)
        self._distance = self._model.add_variable("d", lowBound=0)
        self._slack = [
            self._model.add_variable(name, lowBound=0) for name in ("d_u", "d_l") if as_printed
        ]
        self._model += _DISTANCE * self._distance - _TIGHTNESS * pulp.lpSum(self._slack)
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
        upper, lower = self._slack or (0.0, 0.0)
        for row, above, below in zip(loads / self._unit, self._above, self._below, strict=True):
            for node in np.flatnonzero(np.isfinite(above)).tolist():
                usage = pulp.LpAffineExpression(
                    (self._at[node][each], float(row[each] / problem.capacities[node]))
                    for each in np.flatnonzero(row).tolist()
                )
                # (3) no node is above the mean by more than the distance
                self._model += usage <= float(above[node]) + self._distance - upper
                # (4) and none of those that stay below it by more
                if np.isfinite(below[node]):
                    self._model += usage >= float(below[node]) - self._distance + lower
        if as_printed:
            self._bound_by(means)
        for slack in self._slack:
            self._model += slack <= self._distance

    def _bound_by(self, means: Floats) -> None:
        """Add constraint (5): the distance does not exceed the mean."""
        here = self._level(self.problem.current)
        if not self.problem.whole(self.problem.current) or here > means.min():
            self.left_out = (
                f"constraint (5) is left out: the distance would be {means.min():g} at most, and "
                f"it is {here:g} where the groups are"
            )
            return
        for mean in means.tolist():
            self._model += self._distance <= mean

    def _prices(self, sets: int) -> Any:
        problem = self.problem
        held = np.zeros((sets, problem.nodes))
        np.add.at(held, (problem.sets, problem.current), problem.costs)
        return held.sum(axis=1, keepdims=True) - held

    def _level(self, assignment: Nodes) -> float:
        """Return the least distance for which an assignment keeps to (3) and (4)."""
        held = [np.bincount(assignment, row, self.problem.nodes) for row in self.problem.loads]
        usage = np.stack(held) / self.problem.capacities / self._unit
        return float(np.maximum(usage - self._above, self._below - usage).max().clip(0.0))

    def begin_with(self, assignment: Nodes) -> None:
        """Give the solver an assignment to begin with."""
        of_set = np.empty(int(self.problem.sets.max(initial=-1)) + 1, dtype=np.int64)
        of_set[self.problem.sets] = assignment
        for node, variables in self._at.items():
            for each, variable in variables.items():
                variable.setInitialValue(int(of_set[each] == node))
        self._distance.setInitialValue(self._level(assignment))
        for variable in self._slack:
            variable.setInitialValue(0.0)

    def lines(self) -> list[str]:
        """Return the objective and the constraints, in the order of the paper."""
        rows = (str(row) for row in self._model.constraints())
        return [str(self._model.objective), *rows]

    def solve(
        self, seconds: float, solver: str = "CBC", *, warm: bool = False
    ) -> tuple[Nodes | None, float]:
        """Return what a solver has found in some time, if anything, and what it has proven.

        The second is a load distance below which there is none, also where the time was over; 0 if
        nothing was proven, and for a program whose distance is another, as that of the printed one
        is. What a solver calls the distance of its answer need not be its load distance.

        Raises:
            MissingPackageError: the solver is not installed.
            SolverError: the solver failed.
        """
        check_solver(solver, asked=True)
        try:
            proven = (_by_highs if solver == "HiGHS" else _by_cbc)(self._model, seconds, warm=warm)
        except (pulp.PulpError, OSError) as error:
            raise SolverError(
                f"the solver {solver} failed: {' '.join(str(error).split())}; mend it, choose "
                "another one, or leave the time limit out"
            ) from error
        bound = max(0.0, proven - _TOLERANCE * _SCALE) * self._unit if self._certain else 0.0
        if self._model.sol_status not in (
            pulp.LpSolutionOptimal,
            pulp.LpSolutionIntegerFeasible,
        ):
            return None, bound
        chosen = np.array(
            [[variable.value() or 0.0 for variable in row.values()] for row in self._at.values()]
        )
        assignment: Nodes = chosen.argmax(axis=0)[self.problem.sets].astype(np.int32)
        return assignment, bound


def _by_cbc(model: Any, seconds: float, *, warm: bool) -> float:
    """Solve a model by CBC; return below what its objective cannot come."""
    from cbcbox import cbc_bin_path  # noqa: PLC0415  the rest works without

    with TemporaryDirectory(prefix="penstock-cbc-") as folder:
        log = Path(folder) / "log"
        command = pulp.COIN_CMD(
            path=cbc_bin_path(),
            msg=False,
            timeLimit=seconds,
            threads=1,
            gapRel=0.0,
            gapAbs=0.0,
            options=["increment 1e-9"],  # by which a solution has to be better than the last one
            warmStart=warm,
            logPath=str(log),
        )
        command.tmpDir = folder
        model.solve(command)
        said = log.read_text("utf-8", errors="replace")
    found = _LOWER_BOUND.search(said) or _OPTIMAL.search(said)
    # It is printed in six digits.
    return float(found[1]) * (1 - math.copysign(1e-5, float(found[1]))) if found else -math.inf


def _by_highs(model: Any, seconds: float, *, warm: bool) -> float:
    """Solve a model by HiGHS; return below what its objective cannot come."""
    command = pulp.HiGHS(msg=False, timeLimit=seconds, threads=1, gapRel=0.0, gapAbs=0.0)
    if warm:  # which PuLP does not hand on
        values = np.array([variable.value() or 0.0 for variable in model.variables()])

        def begun(model: Any) -> None:
            places = np.arange(len(values), dtype=np.int32)
            model.solverModel.setSolution(len(values), places, values)
            model.solverModel.run()

        command.callSolver = begun
    model.solve(command)
    return float(model.solverModel.getInfo().mip_dual_bound)


def improve(  # noqa: PLR0913
    problem: PlacementProblem,
    start: Nodes,
    seconds: float,
    solver: str,
    aim: Aim,
    *,
    as_printed: bool = False,
) -> tuple[Nodes, float]:
    """Return an assignment at least as good as one to begin with, and a proven bound.

    Each answer of a solver is judged by what it is: its cost and load distance are computed again.
    Solvers show their last answer only. Where nodes drain, half of the time goes to the bound,
    which does not count them, and half to an answer that empties them.
    """
    draining = bool(problem.draining.any()) and not as_printed
    best, bound = start, 0.0
    for emptying in (False, True) if draining else (False,):
        program = PlacementProgram(problem, as_printed=as_printed, emptying=emptying)
        program.begin_with(best)
        time = seconds / 2 if draining else seconds
        found, proven = program.solve(time, solver, warm=True)
        bound = max(bound, proven)
        if found is None or not (problem.affords(problem.cost(found)) and problem.whole(found)):
            continue
        found = aim.finished(found)
        if aim.better(found, best):
            best = found
    return best, bound
