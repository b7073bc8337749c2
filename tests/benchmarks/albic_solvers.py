"""Placements beside solvers: the paper's program cold within seconds, and solves of ten minutes.

Solvers run with a limit on the wall clock, so that on a busy machine they come less far; the CPU
time that they got is kept with what they found.
"""

import resource
import time

from albic_proof import judged, reached
from albic_study import BUDGETS, OURS, SCENARIOS, instance, methods, timed
from page import Json

from grouping.placement import PlacementProblem, least_distance, place_groups
from grouping.placement.milp import PlacementProgram

SOLVER_SECONDS = 20.0
PROVEN_SEEDS = 11  # of each scenario; some seconds of CPU time each
CLOSE = 1.1  # times the best
LONG_SECONDS = 600.0
LARGE = ((60, 1_200, 20), (60, 1_200, 60))
BOUND = "bound"


def solver(scale: float) -> Json:
    """Return what CBC finds, cold, with the paper's program, beside ours on the same instances."""
    seconds = SOLVER_SECONDS * min(scale, 1.0)
    found = []
    for scenario in SCENARIOS:
        for budget in BUDGETS:
            problem = PlacementProblem.of(*instance(scenario, 0), 20, budget=budget)
            program = PlacementProgram(problem, as_printed=True)
            begun = time.perf_counter()
            assignment, _ = program.solve(seconds)
            taken = time.perf_counter() - begun
            distance, own = timed(methods(0)[OURS], problem)
            found.append(
                {
                    "scenario": scenario,
                    "budget": budget,
                    "CBC": None if assignment is None else problem.distance(assignment),
                    "seconds": taken,
                    "ours": distance,
                    "ms": 1e3 * own,
                }
            )
    return found


def proven(scale: float) -> Json:
    """Return of answers for ten moves whether a better one, by a tenth, is impossible."""
    found = []
    for seed in range(max(2, round(PROVEN_SEEDS * min(scale, 1.0)))):
        for scenario in SCENARIOS:
            problem = PlacementProblem.of(*instance(scenario, seed), 20, budget=10)
            loads, at = problem.loads, problem.current
            answer = place_groups(loads, at, 20, budget=10, rounds=10)
            row = {"scenario": scenario, "ours": answer.load_distance, "bound": answer.bound}
            if answer.load_distance <= CLOSE * answer.bound:
                verdict: str | float = BOUND
            else:
                result = judged(problem, answer.load_distance / CLOSE)
                verdict = result if isinstance(result, str) else reached(problem, result)
            found.append({**row, "verdict": verdict})
    return found


def long(scale: float) -> Json:
    """Return what solvers find in ten minutes, cold, one after the other."""
    seconds = LONG_SECONDS * min(scale, 1.0)
    return [long_solve(size, name, seconds) for size in LARGE for name in ("HiGHS", "CBC")]


def large_problem(nodes: int, groups: int, budget: int) -> PlacementProblem:
    """Return the first drifted instance of a size."""
    return PlacementProblem.of(*instance("drift .4", 0, nodes, groups), nodes, budget=budget)


def long_solve(size: tuple[int, int, int], name: str, seconds: float) -> Json:
    """Return what a solver finds on a large instance, cold, and the CPU seconds that it got."""
    problem = large_problem(*size)
    before = _cpu()
    program = PlacementProgram(problem)
    built = _cpu()
    assignment, proven = program.solve(seconds, name)
    return {
        "nodes": size[0],
        "groups": size[1],
        "budget": size[2],
        "solver": name,
        "distance": None if assignment is None else problem.distance(assignment),
        "affordable": assignment is not None and problem.affords(problem.cost(assignment)),
        "proven": max(proven, least_distance(problem)),
        "building": built - before,
        "cpu": _cpu() - built,
    }


def _cpu() -> float:
    """Return the CPU seconds of this process and of those it has waited for."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
