"""Search for an assignment with all nodes near their target, where the budget is for few moves.

Steepest descent evens out the worst node first, and may then lack a move for the last. Here each
move brings at least one node within a given distance of its target, for good if it can be: with
half as many moves as there are nodes to mend, each has to mend two. Many sequences of moves are
followed at once, those with the fewest nodes left to mend first (a beam search); then the distance
is narrowed.
"""

from dataclasses import dataclass

import numpy as np

from grouping.placement.descent import Units
from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from sketches.arrays import Floats, Integers, Marks

_HALVINGS = 8
_ENOUGH = 0.01  # of the distance: closer to the bound is not looked for
_LOOKED_AT = 200_000  # moves in a step, at most
_SAME = 9  # digits; moves with equal scores are the same in another order
_BEYOND = 0.05  # what a load beyond the distance counts, in nodes, for each distance


def narrowed(
    problem: PlacementProblem, units: Units, start: Nodes, bound: float, width: int
) -> Nodes:
    """Return nodes of the units that are at least as even as those given, within the budget.

    Args:
        problem: what is to be placed; where nodes drain, the start is the answer.
        units: its units.
        start: the node of each unit.
        bound: a load distance below which there is none.
        width: how many sequences of moves are followed at once.
    """
    if problem.draining.any():
        return start
    best, low, high = start, bound, problem.distance(start[problem.sets])
    for _ in range(_HALVINGS):
        if high - low <= _ENOUGH * high:
            break
        middle = (low + high) / 2
        found = within(problem, units, middle, width)
        if found is None:
            low = middle
        else:
            best, high = found, problem.distance(found[problem.sets])
    return best


def within(problem: PlacementProblem, units: Units, distance: float, width: int) -> Nodes | None:
    """Return nodes of the units so that all are within a distance of their target, if found."""
    search = _Search(problem, units, distance)
    beam = search.begin()
    widest = max(1, min(width, _LOOKED_AT // max(2 * units.count, 1)))
    while len(beam.at):
        left = search.beyond(beam).sum(axis=1)
        if not left.min():
            found: Nodes = beam.at[int(left.argmin())].astype(np.int32)
            return found
        beam = search.step(beam, left, widest)
    return None


@dataclass(frozen=True)
class _Beam:
    """Sequences of moves that are followed at once: a row for each."""

    at: Integers  # the node of each unit
    excess: Floats  # of shape (rows, dimensions, nodes)
    spent: Floats

    def of(self, rows: Marks | Integers) -> "_Beam":
        return _Beam(self.at[rows], self.excess[rows], self.spent[rows])


class _Search:
    """Moves that bring nodes within a distance of their target."""

    def __init__(self, problem: PlacementProblem, units: Units, distance: float) -> None:
        self._problem, self._distance = problem, distance * (1 + ROUNDING)
        self._loads = units.loads[:, : units.count]
        price = units.price[: units.count]
        self._homes = price.argmin(axis=1)
        begun = price[np.arange(units.count), self._homes]
        self._spent, self._more = float(begun.sum()), price - begun[:, None]
        elsewhere = np.arange(problem.nodes) != self._homes[:, None]
        each = self._more[elsewhere & np.isfinite(self._more)]
        self._least = float(each.min(initial=np.inf))
        self._usual = float(each.mean()) if each.any() else 1.0

    def begin(self) -> _Beam:
        """Return the one sequence without moves."""
        at = self._homes[self._problem.sets].astype(np.int32)
        return _Beam(self._homes[None], self._problem.excess(at)[None], np.array([self._spent]))

    def beyond(self, beam: _Beam) -> Marks:
        """Return which nodes are further from their target, by row and node."""
        found: Marks = np.abs(beam.excess).max(axis=1) > self._distance
        return found

    def step(self, beam: _Beam, left: Integers, width: int) -> _Beam:
        """Return the best sequences that are one move longer."""
        # 1. A move mends two nodes at most.
        limit = self._problem.budget * (1 + ROUNDING)
        kept = beam.spent + left / 2 * self._least <= limit
        beam, left = beam.of(kept), left[kept]
        if not len(left):
            return beam
        # 2. Moves from and to the node that is furthest from its target.
        row, unit, target = self._moves(beam)
        spent = beam.spent[row] + self._more[unit, target]
        payable = spent <= limit
        row, unit, target, spent = row[payable], unit[payable], target[payable], spent[payable]
        source = self._homes[unit]
        power = self._problem.capacities
        before = np.stack([beam.excess[row, :, source], beam.excess[row, :, target]])
        moved = self._loads[:, unit].T
        after = before + np.stack([-moved / power[source, None], moved / power[target, None]])
        # 3. Those that mend a node, and not at the expense of the other.
        one, other = (np.abs(x).max(axis=2) > self._distance for x in (before, after))
        mended = one & ~other
        gained = mended.sum(axis=0) - (other & ~one).sum(axis=0)
        good = np.flatnonzero(mended.any(axis=0) & (gained >= 0))
        if not len(good):
            return beam.of(np.zeros(0, dtype=np.int64))
        far = self._far(beam.excess).sum(axis=1)[row[good]]
        far += (self._far(after[:, good], 2) - self._far(before[:, good], 2)).sum(axis=0)
        score = left[row[good]] - gained[good] + _BEYOND * far / max(self._distance, ROUNDING)
        score += 2 * spent[good] / self._usual
        # 4. The best of them, each once.
        best = _best(score, width)
        chosen = good[best]
        found = beam.of(row[chosen])
        rows = np.arange(len(chosen))
        found.at[rows, unit[chosen]] = target[chosen]
        found.excess[rows, :, source[chosen]] = after[0, chosen]
        found.excess[rows, :, target[chosen]] = after[1, chosen]
        return _Beam(found.at, found.excess, spent[chosen])

    def _moves(self, beam: _Beam) -> tuple[Integers, Integers, Integers]:
        """Return rows, units and targets: of units at home, from or to the worst node."""
        worst = np.abs(beam.excess).max(axis=1).argmax(axis=1)
        free = beam.at == self._homes
        mine = self._homes == worst[:, None]
        count = self._problem.nodes
        row, unit = np.nonzero(free & mine)
        target = np.tile(np.arange(count), len(row))
        row, unit = np.repeat(row, count), np.repeat(unit, count)
        leaves = target != self._homes[unit]
        coming, comer = np.nonzero(free & ~mine)
        return (
            np.concatenate([row[leaves], coming]),
            np.concatenate([unit[leaves], comer]),
            np.concatenate([target[leaves], worst[coming]]),
        )

    def _far(self, excess: Floats, axis: int = 1) -> Floats:
        """Return by how much nodes are beyond the distance."""
        found: Floats = np.maximum(np.abs(excess).max(axis=axis) - self._distance, 0.0)
        return found


def _best(score: Floats, width: int) -> Integers:
    """Return the places of the least scores, of equal ones the first."""
    order = np.argsort(score, kind="stable")[: 8 * width]
    _, first = np.unique(np.round(score[order], _SAME), return_index=True)
    found: Integers = order[np.sort(first)][:width]
    return found
