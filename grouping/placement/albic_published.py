"""ALBIC's own steps, as printed: sets of collocated groups, one more pair at a time.

What the print leaves open is decided here, and said: a score factor of 1.5; partitions of at most
a tenth of the mean load of a node to begin with, halved until the load distance is met.

References:
    Madsen, Zhou, Cao, "Integrative dynamic reconfiguration in a parallel stream processing
    engine", ICDE 2017, section III.B.2.
"""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from grouping.errors import PlacementError
from grouping.keygraph import metis
from grouping.placement.aim import Aim
from grouping.placement.descent import Descent, Units
from grouping.placement.problem import Nodes, PlacementProblem
from grouping.placement.solvers import check_solver
from grouping.placement.traffic import Traffic
from sketches.arrays import Floats, Integers, Marks

_WHOLE = 1 << 24  # METIS counts in whole numbers: all weights add up to so much
_USUAL_PART = 0.1  # of the mean load of a node


def scored(traffic: Traffic, downstream: Integers, score_factor: float) -> Marks:
    """Step 1: return which pairs send more than is usual, so that it pays to collocate them.

    Args:
        traffic: what the groups send each other; rows of one pair add up.
        downstream: how many groups are downstream of each group.
        score_factor: ``sF``: how many times the average of its sender a pair has to send.
    """
    sent = np.bincount(traffic.sources, traffic.rates, traffic.groups)
    average = sent / np.maximum(downstream, 1)
    return traffic.of_pair > average[traffic.sources] * score_factor


def collocated_sets(problem: PlacementProblem, traffic: Traffic, chosen: Marks) -> list[list[int]]:
    """Step 2, first half: return the sets of groups that pairs on one node add up to."""
    here = problem.current[traffic.sources] == problem.current[traffic.targets]
    pairs = np.stack([traffic.sources, traffic.targets])[:, chosen & here].T.tolist()
    found: dict[int, list[int]] = {}
    for group, number in enumerate(problem.joined(pairs, {}).sets.tolist()):
        found.setdefault(number, []).append(group)
    return [members for members in found.values() if len(members) > 1]


def divided(
    problem: PlacementProblem,
    traffic: Traffic,
    members: list[int],
    max_load: float,
    *,
    seed: int = 0,
) -> Iterator[list[int]]:
    """Step 2, second half: yield parts of a set that are light enough, and cheap enough to move.

    The set is cut where little is sent, into parts that are even by what exceeds its limit more:
    the cost of moving it or its load. Groups that are over a limit by themselves stay alone.
    """
    chosen = np.array(members)
    load = problem.loads[:, chosen].max(axis=0)
    cost = problem.costs[chosen]
    excess = cost.sum() / max(problem.budget, 1e-300), load.sum() / max_load
    if max(excess) <= 1 or len(members) == 1:
        yield members
        return
    parts = min(int(np.ceil(max(excess))), len(members))
    weights = cost if excess[0] > excess[1] else load
    at = _cut(traffic, chosen, weights, max(parts, 2), seed)
    for part in np.unique(at):
        inner = chosen[at == part].tolist()
        if len(inner) == len(members):  # METIS could not divide it
            yield from ([group] for group in inner)
        else:
            yield from divided(problem, traffic, inner, max_load, seed=seed)


def _cut(traffic: Traffic, chosen: Integers, weights: Floats, parts: int, seed: int) -> Integers:
    """Divide some groups evenly, so that little is sent between parts."""
    place = np.full(traffic.groups, len(chosen))
    place[chosen] = np.arange(len(chosen))
    inside = (place[traffic.sources] < len(chosen)) & (place[traffic.targets] < len(chosen))
    inner = Traffic(
        place[traffic.sources[inside]],
        place[traffic.targets[inside]],
        traffic.rates[inside],
        groups=len(chosen),
    )
    pulls = inner.between(np.arange(len(chosen)))
    total = float(pulls.rates.sum()) or 1.0
    edges = np.maximum(pulls.rates * (_WHOLE / total), 1).astype(np.int64)
    scale = _WHOLE / (float(weights.sum()) or 1.0)
    loads = np.rint(weights * scale).astype(np.int64)[:, None]
    found: Integers = metis.split(
        metis.Graph(pulls.starts, pulls.partners, edges),
        loads,
        np.full((1, parts), 1 / parts),
        np.array([1.1]),
        seed=seed,
    ).astype(np.int64)
    return found


def next_pair(
    problem: PlacementProblem, traffic: Traffic, chosen: Marks, *, seed: int = 0
) -> tuple[int, int] | None:
    """Step 3: return the pair that sends most of those apart; of equals, one by chance."""
    apart = problem.current[traffic.sources] != problem.current[traffic.targets]
    rows = np.flatnonzero(chosen & apart)
    if not len(rows):
        return None
    most = rows[traffic.of_pair[rows] == traffic.of_pair[rows].max()]
    row = np.random.default_rng(seed).choice(most)
    return int(traffic.sources[row]), int(traffic.targets[row])


def target_of(problem: PlacementProblem, sets: list[list[int]], pair: tuple[int, int]) -> int:
    """Step 3: return the node for a pair that is to be collocated.

    Case 1, neither belongs to a set, and case 3, both do: the node with less load of the two.
    Case 2, one does: the node where that set is.
    """
    nodes = [int(problem.current[group]) for group in pair]
    within = [any(group in members for members in sets) for group in pair]
    if within[0] != within[1]:
        return nodes[within.index(True)]
    usage = problem.excess(problem.current).max(axis=0)
    return min(nodes, key=lambda node: (usage[node], node))


def albic(  # noqa: PLR0913
    problem: PlacementProblem,
    traffic: Traffic,
    downstream: Integers,
    *,
    max_load_distance: float,
    score_factor: float = 1.5,
    max_partition_load: float | None = None,
    time_limit: float | None = None,
    solver: str = "CBC",
    seed: int = 0,
) -> Nodes:
    """Return where each group is to be, by the four steps.

    With a time limit, what step 4 has left to place is placed by the printed program. It begins
    with the answer of a descent, which remains where a solver finds none that is more even in that
    time. Without one, the descent's answer is it: so the answer is the same in every process.

    Args:
        problem: what is to be placed; sets of its own are not heeded.
        traffic: what the groups send each other; rows of one pair add up.
        downstream: how many groups are downstream of each group.
        max_load_distance: ``maxLD``.
        score_factor: ``sF``.
        max_partition_load: ``maxPL`` to begin with; without, a tenth of the mean load of a node.
        time_limit: how many seconds a solver has each time that step 4 asks it; without, none is
            asked.
        solver: which one: "CBC" or "HiGHS".
        seed: for choices between equals.

    Raises:
        InvalidValueError: the solver is not known.
        MissingPackageError: the solver is not installed.
        SolverError: the solver failed.
    """
    check_solver(solver, asked=time_limit is not None)
    chosen = scored(traffic, downstream, score_factor)
    whole = collocated_sets(problem, traffic, chosen)
    pair = next_pair(problem, traffic, chosen, seed=seed)
    limit = max_partition_load or _USUAL_PART * float(
        (problem.mean * problem.capacities.mean()).max()
    )
    lightest = float(problem.loads.max(axis=0).min(initial=limit))
    while True:
        parts = [
            part
            for members in whole
            for part in divided(problem, traffic, members, limit, seed=seed)
            if len(part) > 1
        ]
        found = _solved(problem, parts, pair, time_limit, solver)
        if problem.distance(found) <= max_load_distance or not parts or limit < lightest:
            return found
        limit /= 2


def _solved(
    problem: PlacementProblem,
    parts: list[list[int]],
    pair: tuple[int, int] | None,
    seconds: float | None,
    solver: str,
) -> Nodes:
    """Step 4: place the parts as units, and the pair on its node if the budget has room for it."""
    if pair is not None:
        pinned = {pair[0]: target_of(problem, parts, pair)}
        with suppress(PlacementError):  # the pair waits for another period
            return _placed(problem.joined([*parts, [*pair]], pinned), seconds, solver)
    return _placed(problem.joined(parts, {}), seconds, solver)


def _placed(problem: PlacementProblem, seconds: float | None, solver: str) -> Nodes:
    found: Nodes = Descent(problem, Units.of(problem)).run()[problem.sets].astype(np.int32)
    if seconds is None:
        return found
    from grouping.placement.milp import improve  # noqa: PLC0415  heavy, and few ask for it

    return improve(problem, found, seconds, solver, Aim(problem), as_printed=True)[0]
