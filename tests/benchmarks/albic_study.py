"""What docs/results/albic.md tells: each part is measured by a function of a scale.

Loads are percentage points of a node, 50 on average, and a move of any key group costs 1, as in the
paper. Times are CPU time of this process.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from page import Json

from grouping.placement import PlacementProblem, Traffic, least_distance, place_groups
from grouping.placement.albic_published import albic
from grouping.placement.baselines import both_choices, cola, flux, longest_first, readjusted
from sketches.arrays import Floats, Integers

MEAN = 50.0
DRIFTED = ("drift .2", "drift .4")
SCENARIOS = (*DRIFTED, "in turn")
BUDGETS = (10, 15, 20)
SEEDS = 30
RUNS = 3  # of what takes long, or goes on for many periods
OURS, SEARCHING, LONG = "ours", "ours, 10 rounds", "ours, 30 rounds"
AS_FLUX = "ours, as even as Flux"


def instance(
    scenario: str, seed: int, nodes: int = 20, groups: int = 300
) -> tuple[Floats, Integers]:
    """Return loads of key groups and where these are: balanced, then drifted; or dealt in turn."""
    drawn = np.random.default_rng([seed, SCENARIOS.index(scenario), nodes, groups])
    loads = drawn.gamma(2.0, 1.0, groups)
    current = np.arange(groups) % nodes
    if scenario in DRIFTED:
        current = longest_first(PlacementProblem.of(loads, current * 0, nodes, budget=0))
        loads *= drawn.lognormal(0.0, float(scenario.split()[1]), groups)
    return loads * (MEAN * nodes / loads.sum()), current


def small(scale: float) -> Json:
    """Return load distances of 20 nodes with 300 key groups, by scenario and budget."""
    seeds, rounds = max(1, round(SEEDS * min(scale, 1.0))), 10 if scale >= 0.1 else 1
    found = []
    methods(0)[OURS](PlacementProblem.of(*instance(SCENARIOS[0], 0), 20, budget=1))  # loads code
    for scenario in SCENARIOS:
        for budget in BUDGETS:
            rows: dict[str, list[float]] = {}
            for seed in range(seeds):
                problem = PlacementProblem.of(*instance(scenario, seed), 20, budget=budget)
                for name, method in methods(rounds).items():
                    distance, seconds = timed(method, problem)
                    rows.setdefault(name, []).append(distance)
                    rows.setdefault(f"{name}: ms", []).append(1e3 * seconds)
                rows.setdefault("before", []).append(problem.distance(problem.current))
                rows.setdefault("bound", []).append(least_distance(problem))
            found.append({"scenario": scenario, "budget": budget, "rows": rows})
    return found


def large(scale: float) -> Json:
    """Return distances and times of many nodes, beside a longer search."""
    found = []
    for nodes, groups, budget in ((60, 1_200, 20), (60, 1_200, 60), (200, 5_000, 200)):
        if scale < 1 and nodes > 60:
            continue
        for seed in range(runs(scale)):
            given = instance("drift .4", seed, nodes, groups)
            problem = PlacementProblem.of(*given, nodes, budget=budget)
            row: dict[str, Any] = {"nodes": nodes, "groups": groups, "budget": budget}
            row["before"] = problem.distance(problem.current)
            for name, rounds in ((OURS, 0), (LONG, 0 if nodes > 60 else round(30 * min(scale, 1)))):
                if name == OURS or rounds:
                    row[name], row[f"{name}: s"] = timed(methods(rounds)[SEARCHING], problem)
            row["bound"] = least_distance(problem)
            found.append(row)
    return found


def runs(scale: float) -> int:
    """Return how many seeds there are of parts that have few."""
    return RUNS if scale >= 1 else 1


def periods(scale: float) -> Json:
    """Return load distance and migrations over an hour of periods with load that drifts, by seed.

    The paper's first experiment in small: three operators of 100 key groups each on 20 nodes,
    windows that fill and empty; all methods see the same loads.
    """
    return [_hour(max(6, round(60 * min(scale, 1.0))), 1 + seed) for seed in range(runs(scale))]


def _hour(count: int, seed: int) -> Json:
    drawn = np.random.default_rng(seed)
    base = drawn.zipf(1.7, 300).clip(1, 12).astype(float)
    loads = []
    for period in range(count):
        base = base * drawn.lognormal(0.0, 0.08, 300)
        wave = 1.0 + 0.3 * np.sin(period / 5 + np.arange(300) % 7)
        loads.append(base * wave * (MEAN * 20 / (base * wave).sum()))
    return drifting(loads)


def collocation(scale: float) -> Json:
    """Return local traffic, load index and moves of the paper's second experiment, by seed.

    It is simulated. Three operators of 100 groups: delays by airplane and year, their sums by
    airplane (whose groups correspond), and sums by route (whose groups do not), which get one tuple
    for ten.
    """
    count = max(5, round(60 * min(scale, 1.0)))
    return [_flights(count, 4 + seed) for seed in range(runs(scale))]


def _flights(count: int, seed: int) -> Json:
    drawn = np.random.default_rng(seed)
    planes = drawn.gamma(4.0, 1.0, 100)
    routes = drawn.gamma(4.0, 1.0, 100)
    period = flown(np.outer(planes, routes / routes.sum()))
    return brought_together([period] * count, drawn.permutation(np.arange(300) % 20))


def flown(flights: Floats) -> tuple[Floats, Traffic]:
    """Return the work of the airline's key groups, and their traffic.

    Args:
        flights: how many there are, by group of airplanes and group of routes.
    """
    planes, count = flights.sum(axis=1), len(flights)
    spread = 0.1 * flights
    first = np.arange(count)
    sources = np.concatenate([first, np.repeat(first + count, count)])
    targets = np.concatenate([first + count, np.tile(first + 2 * count, count)])
    traffic = Traffic(sources, targets, np.concatenate([planes, spread.ravel()]), groups=3 * count)
    return np.concatenate([planes, planes, spread.sum(axis=0)]), traffic


def brought_together(periods: Sequence[tuple[Floats, Traffic]], start: Integers) -> Json:
    """Return what ours, the published method and COLA make of the same periods.

    A tuple that crosses nodes costs three times what it takes to process, half of it at each end.
    To move a group costs half of what all groups do on average in a period. The load index is
    the load of all nodes, of what it would be had nothing moved.

    Args:
        periods: the work of the key groups and their traffic, period by period; each is seen
            only after it has ended, and placed for is the next one.
        start: where the groups are to begin with.
    """
    downstream = np.repeat([len(start) // 3, len(start) // 3, 0], len(start) // 3)
    found = {}
    for name, budget in (("ours", 10.0), ("published", 10.0), ("COLA", 300.0)):
        at, rows = start, []
        for number, (work, traffic) in enumerate(periods):
            loads = _with_shipping(work, traffic, at)
            problem = _problem(loads * (MEAN * 20 / work.sum()), at, budget)
            if name == "COLA":
                new = cola(problem, traffic, seed=number)
            elif name == "published":
                new = albic(problem, traffic, downstream, max_load_distance=5.0, seed=number)
            else:
                new = place_groups(
                    problem.loads,
                    at,
                    20,
                    budget=budget,
                    traffic=traffic,
                    max_load_distance=5.0,
                    worth=0.0,
                ).assignment
            next_work, following = periods[min(number + 1, len(periods) - 1)]
            later = _with_shipping(next_work, following, new)
            begun = _with_shipping(next_work, following, start).sum()
            moved = int((new != at).sum())
            moving = 0.5 * later.mean() * moved
            rows.append(
                {
                    "local": following.local(new),
                    "index": 100 * float(later.sum() / begun),
                    "with moves": 100 * float((later.sum() + moving) / begun),
                    "moves": moved,
                    "distance": _problem(later * (MEAN * 20 / next_work.sum()), new, 0).distance(
                        new
                    ),
                }
            )
            at = new
        found[name] = rows
    return found


def drifting(loads: Sequence[Floats]) -> Json:
    """Return load distance and migrations of several methods that all see the same loads.

    Args:
        loads: of the key groups, period by period.
    """
    result = {name: _placed(loads, place) for name, place in _PLACES.items()}
    reached = iter(result["Flux"]["distance"])  # no more even than Flux was, period by period
    alike = _placed(loads, lambda problem: _even_enough(problem, next(reached)))
    result = {OURS: result.pop(OURS), AS_FLUX: alike, **result}
    both = [_both(load, 0.05, seed) for seed, load in enumerate(loads)]
    result["both choices, merging 5 %"] = {"distance": both, "moves": [0] * len(loads)}
    return result


def _placed(loads: Sequence[Floats], place: Callable[[PlacementProblem], Any]) -> Json:
    """Return load distance and moves, period by period, with at most 15 moves in each."""
    at, distances, moves = longest_first(_problem(loads[0], 0 * loads[0], 0.0)), [], []
    for load in loads:
        problem = _problem(load, at, 15.0)
        new = place(problem)
        distances.append(problem.distance(new))
        moves.append(int((new != at).sum()))
        at = new
    return {"distance": distances, "moves": moves}


MEASURED: dict[str, Callable[[float], Json]] = {
    "small": small,
    "large": large,
    "periods": periods,
    "collocation": collocation,
}


def _problem(loads: Floats, at: Any, budget: float) -> PlacementProblem:
    return PlacementProblem.of(loads, np.asarray(at).astype(int), 20, budget=budget)


def methods(rounds: int) -> dict[str, Callable[[PlacementProblem], float]]:
    return {
        OURS: lambda problem: _ours(problem, 0),
        SEARCHING: lambda problem: _ours(problem, rounds),
        "Flux": lambda problem: problem.distance(flux(problem)),
        "Readj": lambda problem: problem.distance(readjusted(problem)),
    }


_PLACES: dict[str, Callable[[PlacementProblem], Any]] = {
    OURS: lambda problem: _even_enough(problem, 0.9),
    "Flux": flux,
    "Readj": readjusted,
}


def _even_enough(problem: PlacementProblem, enough: float) -> Integers:
    return place_groups(
        problem.loads, problem.current, 20, budget=problem.budget, enough=enough
    ).assignment


def _ours(problem: PlacementProblem, rounds: int) -> float:
    return place_groups(
        problem.loads, problem.current, problem.nodes, budget=problem.budget, rounds=rounds
    ).load_distance


def _both(load: Floats, merge: float, seed: int) -> float:
    """Return the load distance of both choices, where merging takes more at some groups."""
    shares = np.random.default_rng(seed).gamma(1.0, merge, len(load))
    held = both_choices(_problem(load, np.zeros(len(load)), 0.0), merge=shares)
    return float(np.abs(held - held.mean()).max())


def _with_shipping(work: Floats, traffic: Traffic, at: Any) -> Floats:
    """Return the load of each group: its work, and what tuples cost that it sends or gets afar."""
    apart = at[traffic.sources] != at[traffic.targets]
    sent: Floats = np.bincount(traffic.sources, traffic.rates * apart, len(work))
    got: Floats = np.bincount(traffic.targets, traffic.rates * apart, len(work))
    return work + 1.5 * (sent + got)


def timed(method: Callable[[PlacementProblem], float], given: PlacementProblem) -> Any:
    begun = time.process_time()
    distance = method(given)
    return distance, time.process_time() - begun
