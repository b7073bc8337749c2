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
JUDGED = (15, 20)  # the budgets at which more than the first instance of a scenario is solved
PROVEN_SEEDS = 11  # of each scenario; some seconds of CPU time each
CLOSE = 1.1  # times the best
LONG_SECONDS = 600.0
LARGE = ((60, 1_200, 20), (60, 1_200, 60), (200, 5_000, 200))
BOUND = "bound"


def solver(scale: float, *, instances: int = 1, seconds: float = SOLVER_SECONDS) -> Json:
    """Return what CBC finds, cold, with the paper's program, beside ours on the same instances.

    Args:
        scale: share of the seconds.
        instances: of each scenario; those after the first for budgets of 15 and 20 only. With 30
            they are all instances of `small`, and take an hour.
        seconds: of the wall clock for each, with one thread.
    """
    seconds *= min(scale, 1.0)
    found = []
    for seed in range(instances):
        for scenario in SCENARIOS:
            for budget in BUDGETS if seed == 0 else JUDGED:
                problem = PlacementProblem.of(*instance(scenario, seed), 20, budget=budget)
                program = PlacementProgram(problem, as_printed=True)
                begun, before = time.perf_counter(), _cpu()
                assignment, _ = program.solve(seconds)
                taken, cpu = time.perf_counter() - begun, _cpu() - before
                distance, own = timed(methods(0)[OURS], problem)
                found.append(
                    {
                        "scenario": scenario,
                        "seed": seed,
                        "budget": budget,
                        "CBC": None if assignment is None else problem.distance(assignment),
                        "seconds": taken,
                        "cpu": cpu,
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


def long(scale: float, *, seconds: float = LONG_SECONDS) -> Json:
    """Return what solvers find in ten minutes, one after the other, from nothing and from ours.

    Args:
        scale: share of the seconds; below 1 the largest is left out.
        seconds: of the wall clock for each.
    """
    seconds *= min(scale, 1.0)
    return [
        long_solve(size, name, seconds, warm=warm)
        for size in LARGE
        if scale >= 1 or size[0] <= 60
        for name in ("HiGHS", "CBC")
        for warm in (False, True)
    ]


def large_problem(nodes: int, groups: int, budget: int) -> PlacementProblem:
    """Return the first drifted instance of a size."""
    return PlacementProblem.of(*instance("drift .4", 0, nodes, groups), nodes, budget=budget)


def long_solve(size: tuple[int, int, int], name: str, seconds: float, *, warm: bool) -> Json:
    """Return what a solver finds on a large instance, and the CPU seconds that it got.

    Args:
        size: nodes, key groups and budget.
        name: of the solver.
        seconds: of the wall clock.
        warm: whether it begins with our answer, or with nothing.
    """
    problem = large_problem(*size)
    ours = place_groups(problem.loads, problem.current, problem.nodes, budget=problem.budget)
    before = _cpu()
    program = PlacementProgram(problem)
    if warm:
        program.begin_with(ours.assignment)
    built, begun = _cpu(), time.perf_counter()
    assignment, proven = program.solve(seconds, name, warm=warm)
    return {
        "nodes": size[0],
        "groups": size[1],
        "budget": size[2],
        "solver": name,
        "warm": warm,
        "distance": None if assignment is None else problem.distance(assignment),
        "affordable": assignment is not None and problem.affords(problem.cost(assignment)),
        "ours": ours.load_distance,
        "proven": max(proven, least_distance(problem)),
        "building": built - before,
        "cpu": _cpu() - built,
        "wall": time.perf_counter() - begun,
    }


def _cpu() -> float:
    """Return the CPU seconds of this process and of those it has waited for."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
