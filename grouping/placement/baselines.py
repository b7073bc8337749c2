"""Other ways to place key groups, to compare with: Flux, Readj, COLA, both choices, longest first.

References:
    Shah, Hellerstein, Chandrasekaran, Franklin, "Flux: an adaptive partitioning operator for
    continuous query systems", ICDE 2003.
    Gedik, "Partitioning functions for stateful data parallelism in stream processing",
    VLDB Journal 23, 2014.
    Khandekar et al., "COLA: optimizing stream processing applications via graph partitioning",
    Middleware 2009.
"""

import numpy as np

from grouping.keygraph import metis
from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.traffic import Traffic
from sketches.arrays import Floats

_WHOLE = 1 << 24  # METIS counts in whole numbers: all loads, or all traffic, add up to so much
_PORTIONS = 20  # in which the load of each group comes, one after the other


def flux(problem: PlacementProblem) -> Nodes:
    """Pair the fullest node with the emptiest, the second with the second, and so on.

    Each pair moves the one group that evens it out best, from the fuller to the emptier. This is
    repeated until no pair is better off, or the budget is spent. Loads of all dimensions add up.
    """
    loads, at, moved = problem.loads.sum(axis=0), problem.current.copy(), True
    while moved:
        moved = False
        excess = problem.excess(at).sum(axis=0)
        order = np.argsort(-excess, kind="stable")
        for full, empty in zip(order.tolist(), order[::-1].tolist(), strict=True):
            if excess[full] <= excess[empty]:
                break
            mine = np.flatnonzero(at == full)
            after = np.maximum(
                np.abs(excess[full] - loads[mine] / problem.capacities[full]),
                np.abs(excess[empty] + loads[mine] / problem.capacities[empty]),
            )
            worst = max(abs(excess[full]), abs(excess[empty])) * (1 - ROUNDING)
            for chosen in mine[np.argsort(after, kind="stable")[: int((after < worst).sum())]]:
                tried = at.copy()
                tried[chosen] = empty
                may = problem.able[chosen, empty] and not problem.draining[empty]
                if may and problem.affords(problem.cost(tried)):
                    at, moved = tried, True
                    break
    return at


def readjusted(problem: PlacementProblem) -> Nodes:
    """Move or swap groups of the fullest node with the emptiest, while that evens both out.

    This is the readjustment of Gedik's ``readj``: of all single moves and swaps of two, the one
    that gains most for its cost, within the budget. Loads of all dimensions add up.
    """
    loads = np.append(problem.loads.sum(axis=0), 0.0)  # the last one is nothing: a mere move
    nothing, at = problem.groups, problem.current.copy()
    while True:
        excess = problem.excess(at).sum(axis=0)
        full, empty = int(excess.argmax()), int(np.where(problem.draining, np.inf, excess).argmin())
        mine = np.flatnonzero(at == full)
        theirs = np.append(np.flatnonzero(at == empty), nothing)
        shifted = loads[mine][:, None] - loads[theirs]
        after = np.maximum(
            np.abs(excess[full] - shifted / problem.capacities[full]),
            np.abs(excess[empty] + shifted / problem.capacities[empty]),
        )
        gained = max(abs(excess[full]), abs(excess[empty])) * (1 - ROUNDING) - after
        best, highest = None, 0.0
        for place in np.argwhere(gained > 0).tolist():
            one, other = int(mine[place[0]]), int(theirs[place[1]])
            tried = at.copy()
            tried[one] = empty
            if other != nothing:
                tried[other] = full
            back = other == nothing or problem.able[other, full]
            if not (back and problem.able[one, empty]):
                continue
            cost = problem.cost(tried)
            worth = gained[tuple(place)] / max(cost - problem.cost(at), ROUNDING)
            if problem.affords(cost) and worth > highest:
                best, highest = tried, worth
        if best is None:
            return at
        at = best


def longest_first(problem: PlacementProblem) -> Nodes:
    """Place all groups from scratch, the heaviest first, each on the node with the least usage.

    Neither the budget nor where groups are now makes a difference.
    """
    loads = problem.loads.sum(axis=0)
    usage = np.where(problem.draining, np.inf, 0.0)
    at = problem.current.copy()
    for group in np.argsort(-loads, kind="stable").tolist():
        after = np.where(problem.able[group], usage + loads[group] / problem.capacities, np.inf)
        if np.isinf(after).all():  # all nodes that it may be on drain
            continue
        at[group] = int(after.argmin())
        usage[at[group]] = after[at[group]]
    return at


def cola(
    problem: PlacementProblem, traffic: Traffic, *, imbalance: float = 0.02, seed: int = 0
) -> Nodes:
    """Divide the graph of groups from scratch, so that little traffic crosses nodes.

    Neither the budget nor where groups are now makes a difference.

    Args:
        problem: what is to be placed.
        traffic: what the groups send each other.
        imbalance: by how much a node may get more than its share.
        seed: of METIS.
    """
    staying = np.flatnonzero(~problem.draining)
    pulls = traffic.between(np.arange(problem.groups))
    heaviest = float(pulls.rates.sum()) or 1.0
    weights = np.maximum(pulls.rates * (_WHOLE / heaviest), 1).astype(np.int64)
    totals = np.maximum(problem.loads.sum(axis=1, keepdims=True), ROUNDING)
    loads = np.rint(problem.loads * (_WHOLE / totals)).astype(np.int64).T
    power = problem.capacities[staying]
    shares = np.tile(power / power.sum(), (len(problem.loads), 1))
    tolerances = np.full(len(problem.loads), 1 + imbalance)
    graph = metis.Graph(pulls.starts, pulls.partners, weights)
    parts = metis.split(graph, loads, shares, tolerances, seed=seed)
    found: Nodes = staying[parts].astype(np.int32)
    may = problem.able[np.arange(problem.groups), found]
    return np.where(may, found, problem.current)


def both_choices(
    problem: PlacementProblem, *, merge: Floats | float = 0.0, seed: int = 0
) -> Floats:
    """Return the load of each node where each tuple goes to the emptier of two nodes of its group.

    Both hold state of the group, which the first of them merges from time to time. What that takes
    is not there when tuples are sent, so that no choice evens it out.

    Args:
        problem: what is to be placed; loads of all dimensions add up, nothing moves.
        merge: what merging takes for each group, as a share of its load.
        seed: of the two nodes of each group.

    References:
        Nasir et al., "The power of both choices: practical load balancing for distributed stream
        processing engines", ICDE 2015.
    """
    loads = problem.loads.sum(axis=0)
    drawn = np.random.default_rng(seed)
    staying = np.flatnonzero(~problem.draining)
    first = staying[drawn.integers(0, len(staying), problem.groups)]
    second = staying[drawn.integers(0, len(staying), problem.groups)]
    held = np.zeros(problem.nodes)
    for part in np.tile(loads / _PORTIONS, (_PORTIONS, 1)):
        for group, load in enumerate(part.tolist()):
            one, other = int(first[group]), int(second[group])
            usages = held[one] / problem.capacities[one], held[other] / problem.capacities[other]
            held[one if usages[0] <= usages[1] else other] += load
    merging = np.bincount(first, loads * merge, problem.nodes)
    return held + merging
