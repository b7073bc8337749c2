"""How close to the best an answer is: a proof for placements of few moves, by clusters of nodes.

Nodes that exchange key groups form clusters, and a cluster of k nodes takes k - 1 moves at least.
For a distance to be possible, each node that is further off has to be in a cluster whose loads are
even enough together, and the clusters must not take more moves than the budget has. Which clusters
are best is a small program over sets of nodes. The clusters that it chooses are then tried out,
exactly, and those that cannot be put right with so few moves cost one more: until no program is
left (the distance is impossible) or all of its clusters are right (there is a better answer).
All moves cost 1 here, and nodes are alike.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import highspy
import numpy as np

from grouping.placement import PlacementProblem
from sketches.arrays import Floats

_MOST = 6  # nodes of a cluster that are told apart; a share of a larger one stands for all of it
_SECONDS = 60.0  # for each program
_ROUNDS = 200
_CLOSE = 1e-9

IMPOSSIBLE, OPEN = "impossible", "open"
Move = tuple[int, int, int]  # from a node, which of its groups, to a node


def judged(problem: PlacementProblem, distance: float) -> str | list[Move]:
    """Return whether a load distance is impossible, or moves to it, or that it stays open."""
    world = _World.of(problem, distance)
    clusters, costs = world.clusters()
    try:
        return _settled(problem, world, clusters, costs)
    except _UnsolvedError:
        return OPEN


class _UnsolvedError(Exception):
    """A program was not solved in time."""


def _settled(
    problem: PlacementProblem,
    world: "_World",
    clusters: list[tuple[int, ...]],
    costs: Floats,
) -> str | list[Move]:
    """Choose clusters, and try them out, until they are right or there are none."""
    tried: dict[tuple[tuple[int, ...], int], list[Move] | None] = {}
    for _ in range(_ROUNDS):
        chosen, total = _covering(clusters, costs, world.needy)
        if total > problem.budget + 1e-6:
            return IMPOSSIBLE
        if chosen is None:
            return OPEN
        moves: list[Move] | None = []
        for number in chosen:
            key = clusters[number], int(costs[number])
            if key not in tried:
                tried[key] = world.mended(*key)
            one = tried[key]
            if one is None:
                costs[number] += 1
                moves = None
            elif moves is not None:
                moves += one
        if moves is not None:
            return moves
    return OPEN


def reached(problem: PlacementProblem, moves: list[Move]) -> float:
    """Return the load distance after some moves."""
    at = problem.current.copy()
    for node, place, target in moves:
        at[np.flatnonzero(problem.current == node)[place]] = target
    if not problem.affords(problem.cost(at)):
        raise ValueError("the proof moves more than the budget allows")
    return problem.distance(at)


@dataclass(frozen=True)
class _World:
    """Nodes, by how much their load is off, and the loads of their groups."""

    off: Floats
    groups: list[Floats]
    distance: float

    @classmethod
    def of(cls, problem: PlacementProblem, distance: float) -> "_World":
        loads, at = problem.loads[0], problem.current
        groups = [loads[at == node] for node in range(problem.nodes)]
        return cls(problem.excess(at)[0], groups, distance)

    @property
    def needy(self) -> Any:
        return np.abs(self.off) > self.distance

    def clusters(self) -> tuple[list[tuple[int, ...]], Floats]:
        """Return sets of nodes that are even enough together, and how many moves each takes."""
        found: list[tuple[int, ...]] = []
        costs: list[int] = []
        for size in range(2, _MOST + 1):
            sets = np.array(list(combinations(range(len(self.off)), size)))
            even = np.abs(self.off[sets].sum(axis=1)) <= size * self.distance + _CLOSE
            for nodes in map(tuple, sets[even & self.needy[sets].any(axis=1)].tolist()):
                few = size > 3 or self._tree(list(nodes), self.off.copy(), ()) is not None
                found.append(nodes)
                costs.append(size - 1 if few else size)
        return found, np.array(costs, dtype=np.float64)

    def mended(self, nodes: tuple[int, ...], most: int) -> list[Move] | None:
        """Return at most this many moves that bring all nodes of a cluster near enough."""
        if most == len(nodes) - 1:
            return self._tree(list(nodes), self.off.copy(), ())
        moves = [
            (node, place, other)
            for node in nodes
            for place in range(len(self.groups[node]))
            for other in nodes
            if other != node
        ]
        rows: dict[Any, tuple[list[int], list[float]]] = {node: ([], []) for node in nodes}
        for number, (node, place, other) in enumerate(moves):
            load = float(self.groups[node][place])
            for key, value in ((node, -load), (other, load), ((node, place), 1.0), ("all", 1.0)):
                columns, values = rows.setdefault(key, ([], []))
                columns.append(number)
                values.append(value)
        low = [-self.distance - self.off[key] if key in nodes else 0.0 for key in rows]
        high = [
            self.distance - self.off[key] if key in nodes else (most if key == "all" else 1.0)
            for key in rows
        ]
        found = _solved(np.zeros(len(moves)), len(moves), list(rows.values()), low, high)
        if found is None:
            return None
        return [moves[number] for number in np.flatnonzero(found > 0.5)]

    def _tree(
        self, nodes: list[int], off: Floats, used: tuple[tuple[int, int], ...]
    ) -> list[Move] | None:
        """Return moves along a tree that mend all nodes, leaf by leaf."""
        if len(nodes) == 1:
            return [] if abs(off[nodes[0]]) <= self.distance + _CLOSE else None
        if abs(sum(off[node] for node in nodes)) > len(nodes) * self.distance + _CLOSE:
            return None
        for leaf in nodes:
            rest = [node for node in nodes if node != leaf]
            for other in rest:
                for source, target, sign in ((leaf, other, -1.0), (other, leaf, 1.0)):
                    after = np.abs(off[leaf] + sign * self.groups[source])
                    for place in np.flatnonzero(after <= self.distance + _CLOSE).tolist():
                        if (source, place) in used:
                            continue
                        before = off[other]
                        off[other] -= sign * self.groups[source][place]
                        further = self._tree(rest, off, (*used, (source, place)))
                        off[other] = before
                        if further is not None:
                            return [(source, place, target), *further]
        return None


def _covering(
    clusters: list[tuple[int, ...]], costs: Floats, needy: Any
) -> tuple[list[int] | None, float]:
    """Return clusters that hold each needy node once for the fewest moves, and how many these are.

    No clusters are returned where a part of one larger than all of them would take fewer.
    """
    rows: list[tuple[list[int], list[float]]] = [([], []) for _ in needy]
    for number, nodes in enumerate(clusters):
        for node in nodes:
            rows[node][0].append(number)
            rows[node][1].append(1.0)
    larger = np.flatnonzero(needy).tolist()
    for number, node in enumerate(larger):
        rows[node][0].append(len(clusters) + number)
        rows[node][1].append(1.0)
    weights = np.concatenate([costs, np.full(len(larger), _MOST / (_MOST + 1))])
    low = np.where(needy, 1.0, 0.0)
    found = _solved(weights, len(clusters), rows, low, np.ones(len(needy)))
    if found is None:
        return None, float("inf")
    if found[len(clusters) :].max(initial=0.0) > 1e-6:
        return None, float(weights @ found)
    return np.flatnonzero(found > 0.5).tolist(), float(weights @ found)


def _solved(
    weights: Floats, whole: int, rows: list[tuple[list[int], list[float]]], low: Any, high: Any
) -> Any:
    """Return the variables of a program, the first ones whole; None if it is impossible."""
    model = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", _SECONDS)):
        model.setOptionValue(option, value)
    program, size = highspy.HighsLp(), len(weights)
    program.num_col_, program.num_row_ = size, len(rows)
    program.col_cost_ = np.asarray(weights, dtype=np.float64)
    program.col_lower_, program.col_upper_ = np.zeros(size), np.ones(size)
    program.row_lower_ = np.asarray(low, dtype=np.float64)
    program.row_upper_ = np.asarray(high, dtype=np.float64)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *(len(row[0]) for row in rows)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate([row[0] for row in rows]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate([row[1] for row in rows]).astype(np.float64)
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger] * whole + [kinds.kContinuous] * (size - whole)
    model.passModel(program)
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise _UnsolvedError
    return np.array(model.getSolution().col_value)
