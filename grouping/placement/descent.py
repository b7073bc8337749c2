"""Steepest descent: move and swap key groups as long as that evens the load out, within a budget.

What is made smaller is the sum, over nodes and dimensions, of the fourth power of the excess over
the target: close to the largest excess, but it also tells apart two assignments with the same one.
Where traffic matters as well, what crosses nodes is added, by a weight.
Each step takes, of all moves of one set of groups and all swaps of two, the one that gains most for
what it costs. A step may take a former one back, and then has its cost returned.

Which step is best between two nodes depends on these two alone. So the best of each pair is kept,
and after a step only the pairs with one of its two nodes are looked at again. Of many nodes, only
pairs with one of those furthest from their target are looked at: others decide nothing yet.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from grouping.errors import PlacementError
from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem, is_evener
from grouping.placement.traffic import Pulls
from sketches.arrays import Floats, Integers

_NEGLIGIBLE = 1e-12  # of the sum: what rounding may seem to gain
_FREE = 1e30  # so much better is a step that costs nothing
_LARGEST = float(np.finfo(np.float64).max)
_NONE = -np.inf
_FURTHEST = 16  # nodes, at least, whose pairs with all others are looked at
_SWAPS = 1 << 15  # that are looked at for a node at once, about, where there is traffic
_LEAST_TRIED = 16  # units of each node, however many nodes there are


@dataclass(frozen=True)
class Units:
    """Sets of groups that move as one, and behind them an empty unit for each node.

    With the empty ones, to move a unit is to swap it with the empty unit of another node.

    Attributes:
        loads: of shape (dimensions, units).
        price: what has been paid once a unit is on a node, of shape (units, nodes).
        count: how many units hold groups.
    """

    loads: Floats
    price: Floats
    count: int

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Units":
        """Gather the groups of each set."""
        count, nodes = int(problem.sets.max(initial=-1)) + 1, problem.nodes
        held = np.zeros((count, nodes))
        np.add.at(held, (problem.sets, problem.current), problem.costs)
        price = held.sum(axis=1, keepdims=True) - held
        price[price < ROUNDING * held.sum(axis=1, keepdims=True)] = 0.0
        pinned = np.flatnonzero(problem.pins >= 0)
        elsewhere = np.arange(nodes) != problem.pins[pinned][:, None]
        np.maximum.at(price, problem.sets[pinned], np.where(elsewhere, np.inf, 0.0))
        if not problem.able.all():
            np.maximum.at(price, problem.sets, np.where(problem.able, 0.0, np.inf))
        loads = np.stack([np.bincount(problem.sets, row, count) for row in problem.loads])
        empty = np.zeros((len(loads), nodes))
        return cls(np.hstack([loads, empty]), np.vstack([price, np.zeros((nodes, nodes))]), count)


@dataclass(frozen=True)
class Attraction:
    """Traffic that is to stay on nodes, and how much that counts beside even load.

    Attributes:
        pulls: between the sets of groups.
        weight: what a unit of traffic between nodes adds to what is made smaller.
        tolerance: no step brings a node further than this from its target, unless it was further
            before. An excess of this adds 1 to what is made smaller.
    """

    pulls: Pulls
    weight: float
    tolerance: float


class Descent:
    """A search that stands at one assignment and goes down from it.

    Args:
        problem: what is to be placed.
        units: its units.
        at: the node of each unit to begin with; without, where most of it is now.
        attraction: traffic to be kept on nodes; without, only load counts.

    Raises:
        PlacementError: sets that are on several nodes cannot be brought together in the budget.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        units: Units,
        at: Nodes | None = None,
        attraction: Attraction | None = None,
    ) -> None:
        self._problem, self._units = problem, units
        count = units.count
        homes = units.price[:count].argmin(axis=1) if at is None else at
        self._at = np.concatenate([homes, np.arange(problem.nodes)]).astype(np.int64)
        self.spent = float(units.price[np.arange(count), self._at[:count]].sum())
        if np.isinf(self.spent):
            raise PlacementError(
                "groups that belong together are pinned to different nodes, or may be on none "
                "together; pin one of each set"
            )
        if not problem.affords(self.spent):
            raise PlacementError(
                f"it costs {self.spent:g} to bring the groups that belong together to one node "
                f"each, and the budget is {problem.budget:g}; give more, or fewer of them"
            )
        self._excess = problem.excess(self.assignment)
        self._attraction = attraction
        self._weights = units.loads.sum(axis=0)
        self._most_tried = max(_LEAST_TRIED, isqrt(_SWAPS // max(problem.nodes, 1)))
        self._scale = float(np.abs(self._excess).max()) or 1.0
        if attraction is not None:
            self._scale = attraction.tolerance
            self._drawn = attraction.pulls.to_nodes(self._at[:count], problem.nodes)
            self._traffic = attraction.weight * float(self._drawn.sum()) / 2
        else:
            self._traffic = 0.0

    @property
    def units_at(self) -> Nodes:
        """The node of each unit."""
        return self._at[: self._units.count].astype(np.int32)

    @property
    def assignment(self) -> Nodes:
        """The node of each group."""
        found: Nodes = self._at[self._problem.sets].astype(np.int32)
        return found

    @property
    def strain(self) -> float:
        """How far the farthest node is from its target, those that drain included."""
        return float(np.abs(self._excess).max())

    @property
    def _unevenness(self) -> tuple[float, float]:
        staying = self._excess[:, ~self._problem.draining]
        return self.strain, float(np.abs(staying).max())

    @property
    def energy(self) -> float:
        """What is made smaller, in units of its own."""
        found = float(_fourth(self._excess / self._scale).sum())
        if self._attraction is not None:
            units = np.arange(self._units.count)
            kept = float(self._drawn[units, self._at[units]].sum())
            found += self._attraction.weight * (float(self._drawn.sum()) - kept) / 2
        return found

    def run(self, enough: float | None = None) -> Nodes:
        """Go down to the end, or until all is even enough; return the units' nodes there.

        Where only load counts, they are those where the strain was least on the way, and of equal
        strain those where the nodes that stay were most even.

        Args:
            enough: the strain that is even enough; without, it goes on to the end.
        """
        nodes = self._problem.nodes
        self._score = np.full((nodes, nodes), _NONE)
        self._seen = np.zeros(nodes, np.bool_)
        self._sort()
        best, lowest = self.units_at, self._unevenness
        while (enough is None or self.strain > enough) and self._step():
            reached = self._unevenness
            if is_evener(reached, lowest):
                best, lowest = self.units_at, reached
        return best if self._attraction is None else self.units_at

    def _step(self) -> bool:
        """Take the best step; return whether there was one."""
        self._look_at_furthest()
        while True:
            here, there = divmod(int(self._score.argmax()), self._problem.nodes)
            if self._score[here, there] == _NONE:
                return False
            score, one, other = self._best_between(here, there)
            if score >= self._score[here, there]:
                break
            # Less is left by now than when these two were looked at.
            self._score[here, there] = self._score[there, here] = score
        source, target = here, there
        self.spent += self._cost(one, other)
        moved = self._units.loads[:, one] - self._units.loads[:, other]
        self._excess[:, source] -= moved / self._problem.capacities[source]
        self._excess[:, target] += moved / self._problem.capacities[target]
        for unit, old, new in ((one, source, target), (other, target, source)):
            if unit < self._units.count:
                self._at[unit] = new
                if self._attraction is not None:
                    partners, rates = self._attraction.pulls.of(unit)
                    self._drawn[partners, old] -= rates
                    self._drawn[partners, new] += rates
        self._sort()
        self._look_at(source)
        self._look_at(target)
        return True

    def _sort(self) -> None:
        """Put the units in the order of their nodes; on each node, its empty unit is the last."""
        self._order = np.argsort(self._at, kind="stable")
        self._starts = np.searchsorted(self._at[self._order], np.arange(self._problem.nodes + 1))
        # What is paid more once the units, in this order, are on each node.
        paid = self._units.price[self._order, self._at[self._order]]
        self._more = self._units.price[self._order] - paid[:, None]
        # Where all traffic stays on nodes, what is left is what rounding leaves of it.
        self._negligible = _NEGLIGIBLE * max(self.energy, self._traffic)

    def _look_at_furthest(self) -> None:
        """Look at the nodes furthest from their target that were not looked at yet."""
        far = np.abs(self._excess).max(axis=0)
        count = len(far) if self._attraction is not None else min(_FURTHEST, len(far))
        for node in np.argpartition(-far, count - 1)[:count]:
            if not self._seen[node]:
                self._look_at(int(node))

    def _cost(self, one: int, other: int) -> float:
        """Return what it costs to swap two units."""
        price, here, there = self._units.price, self._at[one], self._at[other]
        forth, back = price[one, there] - price[one, here], price[other, here] - price[other, there]
        return float(forth + back)

    def _look_at(self, node: int) -> None:
        """Find out how good the best step between a node and each other is."""
        self._seen[node] = True
        others = self._tried(np.arange(len(self._order)), node)
        mine = np.arange(*self._starts[node : node + 2])
        if self._is_crowded:
            mine = self._drawn_away(mine, node)
        score = self._scores(mine, others)
        starts = np.searchsorted(self._at[self._order[others]], np.arange(self._problem.nodes))
        best = np.maximum.reduceat(score.max(axis=0), starts)
        best[node] = _NONE
        self._score[node] = self._score[:, node] = best

    def _best_between(self, here: int, there: int) -> tuple[float, int, int]:
        """Return the best step between two nodes: its score, and the two units to be swapped."""
        mine, theirs = (
            self._tried(np.arange(*self._starts[node : node + 2]), other)
            for node, other in ((here, there), (there, here))
        )
        score = self._scores(mine, theirs)
        row, column = divmod(int(score.argmax()), score.shape[1])
        one, other = self._order[mine[row]], self._order[theirs[column]]
        return float(score[row, column]), int(one), int(other)

    @property
    def _is_crowded(self) -> bool:
        """Whether nodes hold too many units to try all of each."""
        most = int(np.diff(self._starts).max())
        return self._attraction is not None and most > self._most_tried + 1

    def _tried(self, places: Integers, node: int) -> Integers:
        """Return of some places in the order those whose units are tried at a node.

        Of each node, these are its empty unit, the units that exchange most with the node in
        place of their own, and some of any load. All are, unless nodes hold too many.
        """
        if not self._is_crowded:
            return places
        units = self._order[places]
        gained = np.zeros(len(units))
        real = np.flatnonzero(units < self._units.count)
        rows = units[real]
        gained[real] = self._drawn[rows, node] - self._drawn[rows, self._at[rows]]
        return self._first_of_each(places, gained)

    def _drawn_away(self, places: Integers, node: int) -> Integers:
        """Return the places of the units of a node that are tried at all others."""
        units = self._order[places]
        real = np.flatnonzero(units < self._units.count)
        gained = np.zeros(len(units))
        if len(real):
            drawn = self._drawn[units[real]].copy()
            kept = drawn[:, node].copy()
            drawn[:, node] = _NONE
            gained[real] = drawn.max(axis=1) - kept
        return self._first_of_each(places, gained)

    def _first_of_each(self, places: Integers, gained: Floats) -> Integers:
        """Return of each node the places with the most gained, and some evenly by load."""
        units = self._order[places]
        at = self._at[units]
        empty = units >= self._units.count
        chosen = empty.copy()
        spread = max(1, self._most_tried // 4)
        chosen[_ranks(at, -gained) < self._most_tried - spread] = True
        rest = np.flatnonzero(~chosen)
        if len(rest):
            ranks = _ranks(at[rest], self._weights[units[rest]])
            step = -(-np.bincount(at[rest], minlength=self._problem.nodes) // spread)
            chosen[rest[ranks % step[at[rest]] == 0]] = True
        return places[chosen]

    def _scores(self, own: Integers, span: Integers) -> Floats:
        """Return what each swap of a unit of a node with one of others gains for its cost.

        Args:
            own: where the units of the node are in the order of the units.
            span: where the others are.
        """
        units, capacities = self._units, self._problem.capacities
        mine, others = self._order[own], self._order[span]
        node = int(self._at[mine[0]])
        theirs = self._at[others]
        gained = np.zeros((len(mine), len(others)))
        for row, excess in zip(units.loads, self._excess / self._scale, strict=True):
            far = excess[theirs]
            moved = np.subtract.outer(row[mine] / self._scale, row[others] / self._scale)
            here = moved / -capacities[node]
            here += excess[node]
            there = np.divide(moved, capacities[theirs], out=moved)
            there += far
            gained += _fourth(excess[node]) + _fourth(far)
            if self._attraction is not None:  # nothing is worth a node beyond the tolerance
                gained[np.abs(here) > max(1.0, abs(excess[node]))] = _NONE
                gained[np.abs(there) > np.maximum(1.0, np.abs(far))] = _NONE
            gained -= _fourth(here)
            gained -= _fourth(there)
        if self._attraction is not None:
            gained += self._attraction.weight * self._kept(node, mine, others)
        cost = self._more[own].take(theirs, axis=1)
        cost += self._more[span, node]
        limit = self._problem.budget * (1 + ROUNDING) - self.spent
        np.putmask(gained, gained <= self._negligible, _NONE)
        np.putmask(gained, cost > limit, _NONE)
        np.clip(cost, 1 / _FREE, _LARGEST, out=cost)
        return np.divide(gained, cost, out=gained)

    def _kept(self, node: int, mine: Integers, others: Integers) -> Floats:
        """Return how much more traffic stays on nodes by each swap of two units."""
        count, at = self._units.count, self._at
        theirs = at[others]
        kept = np.zeros((len(mine), len(others)))
        real, full = mine < count, others < count
        kept[real] += self._drawn[mine[real]][:, theirs] - self._drawn[mine[real], node][:, None]
        kept[:, full] += self._drawn[others[full], node] - self._drawn[others[full], theirs[full]]
        # What two units exchange with each other stays between the nodes when they are swapped.
        place = np.full(len(at), -1)
        place[others] = np.arange(len(others))
        rows, partners, rates = self._attraction.pulls.of_all(mine[real])  # type: ignore[union-attr]
        columns = place[partners]
        there = columns >= 0
        kept[rows[there], columns[there]] -= 2 * rates[there]  # each two units are there once
        return kept


def _ranks(of: Integers, values: Floats) -> Integers:
    """Return the rank of each value among those that are of the same; equal ones by place."""
    order = np.lexsort((values, of))
    firsts = np.searchsorted(of[order], of[order])
    ranks: Integers = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - firsts
    return ranks


def _fourth(values: Floats) -> Floats:
    squares = values * values
    found: Floats = squares * squares
    return found
