"""The placement problem as arrays: loads of key groups, where they are, and what a move costs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from grouping.errors import PlacementError
from sketches.arrays import Floats, Integers, Marks, Parts
from sketches.checks import amount, whole
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, listed, numeric, protect

Nodes: TypeAlias = Parts
"""The number of a node, for each group."""

ROUNDING = 1e-9
"""By how much sums of costs may exceed a budget, as a share of it: what rounding adds up to."""


@dataclass(frozen=True, eq=False)
class PlacementProblem(ArrayValue):
    """Where key groups are now, and what limits where they may go.

    The *usage* of a node is the load on it divided by its capacity. Each node that stays has the
    same target usage, `mean`: all load over the capacity of the nodes that stay. The *load
    distance* of an assignment is the largest difference between usage and target on these nodes,
    in any dimension. Nodes that drain have the target 0 and do not count.

    Attributes:
        loads: the load of each group, of shape (dimensions, groups): on Spark, one dimension for
            each stage, as stages do not overlap.
        current: the node of each group now.
        capacities: the capacity of each node.
        draining: whether each node is to be emptied.
        costs: what it costs to move each group.
        budget: what all moves together may cost.
        sets: for each group, the number of the set that it belongs to; groups of a set end up on
            one node. A group by itself is a set of one.
        pins: for each group, the node that it has to end up on; -1 where there is a choice.
        able: which group may be on which node, of shape (groups, nodes): where it is now, and on
            nodes that do not drain. A node on which nothing with load in a dimension may be has
            no target there.
    """

    loads: Floats
    current: Nodes
    capacities: Floats
    draining: Marks
    costs: Floats
    budget: float
    sets: Integers
    pins: Nodes
    able: Marks

    def __post_init__(self) -> None:
        names = "loads", "current", "capacities", "draining", "costs", "sets", "pins", "able"
        protect(self, *names)

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        loads: Any,
        current: Any,
        nodes: int,
        *,
        budget: float,
        migration_cost: Any = None,
        capacities: Any = None,
        draining: Iterable[int] = (),
        together: Iterable[Iterable[int]] = (),
        pinned: Mapping[int, int] | None = None,
        able: Any = None,
    ) -> "PlacementProblem":
        """Check and build a problem; see `grouping.placement.place_groups` for the arguments."""
        count = whole("nodes", nodes, at_least=1)
        load = _amounts("loads", loads)
        load = load[None, :] if load.ndim == 1 else load
        if load.ndim != 2 or not len(load):
            raise InvalidValueError(
                f"loads of shape {load.shape}: give one load for each group, or one row of them "
                "for each dimension"
            )
        groups = load.shape[1]
        homes = _numbers("current", current, groups, count, "node")
        power = np.ones(count) if capacities is None else _amounts("capacities", capacities)
        _fit("capacities", power, count, "node")
        if not (power > 0).all():
            place = int(np.flatnonzero(~(power > 0))[0])
            raise InvalidValueError(f"capacities[{place}]={power[place]}: a capacity is above 0")
        costs = np.ones(groups)
        if migration_cost is not None:
            costs = _amounts("migration_cost", migration_cost)
        _fit("migration_cost", costs, groups, "group")
        leaving = np.zeros(count, np.bool_)
        drained = np.array(listed("draining", draining))
        leaving[_numbers("draining", drained, len(drained), count, "node")] = True
        if leaving.all():
            raise PlacementError(
                f"all {count} nodes drain, so that nothing can hold the groups; keep one"
            )
        return cls(
            loads=load,
            current=homes,
            capacities=power,
            draining=leaving,
            costs=costs,
            budget=amount("budget", budget),
            sets=_sets(together, groups),
            pins=_pins(pinned or {}, groups, count),
            able=_able(able, homes, groups, leaving),
        )

    def joined(
        self, together: Iterable[Iterable[int]], pinned: Mapping[int, int]
    ) -> "PlacementProblem":
        """Return the same problem with these sets and pins in place of its own."""
        sets = _sets(together, self.groups)
        return replace(self, sets=sets, pins=_pins(pinned, self.groups, self.nodes))

    @property
    def nodes(self) -> int:
        """How many nodes there are, with those that drain."""
        return len(self.capacities)

    @property
    def groups(self) -> int:
        """How many key groups there are."""
        return len(self.current)

    @cached_property
    def mean(self) -> Floats:
        """The target usage of nodes that stay, by dimension."""
        power = (self.counted * np.where(self.draining, 0.0, self.capacities)).sum(axis=1)
        found: Floats = self.loads.sum(axis=1) / np.where(power > 0, power, np.inf)
        return found

    @cached_property
    def counted(self) -> Marks:
        """Which nodes can have load, by dimension and node."""
        if self.able.all():
            return np.ones((len(self.loads), self.nodes), dtype=np.bool_)
        found: Marks = ((self.loads > 0).astype(np.float64) @ self.able.astype(np.float64)) > 0
        return found

    def excess(self, assignment: Nodes) -> Floats:
        """Return by how much each node's usage is above its target, by dimension and node."""
        held = [np.bincount(assignment, row, self.nodes) for row in self.loads]
        usage: Floats = np.stack(held) / self.capacities
        target = np.where(self.counted & ~self.draining, self.mean[:, None], 0.0)
        found: Floats = usage - target
        return found

    def distance(self, assignment: Nodes) -> float:
        """Return the load distance of an assignment, over the nodes that stay."""
        return float(np.abs(self.excess(assignment)[:, ~self.draining]).max())

    def unevenness(self, assignment: Nodes) -> tuple[float, float]:
        """Return how far the farthest node is from its target, and the farthest of those that stay.

        Where a node that drains cannot be emptied, the others can be evened out all the same.
        """
        off = np.abs(self.excess(assignment))
        return float(off.max()), float(off[:, ~self.draining].max())

    def left(self, assignment: Nodes) -> int:
        """Return how many groups are on nodes that drain."""
        return int(self.draining[assignment].sum())

    def cost(self, assignment: Nodes) -> float:
        """Return what it costs to get from where the groups are to an assignment."""
        return float(self.costs[assignment != self.current].sum())

    def affords(self, cost: float) -> bool:
        """Return whether a cost is within the budget, but for rounding."""
        return cost <= self.budget * (1 + ROUNDING)

    def whole(self, assignment: Nodes) -> bool:
        """Return whether each set is on one node, and each group where it may and has to be."""
        first = np.full(int(self.sets.max(initial=-1)) + 1, -1)
        first[self.sets[::-1]] = assignment[::-1]
        pinned = self.pins >= 0
        kept = assignment[pinned] == self.pins[pinned]
        able = self.able[np.arange(self.groups), assignment]
        return bool((assignment == first[self.sets]).all() and kept.all() and able.all())


def is_evener(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether one unevenness is less than another, by more than rounding."""
    for first, second in zip(one, other, strict=True):
        if abs(first - second) > ROUNDING * max(first, second):
            return first < second
    return False


def _amounts(name: str, values: Any) -> Floats:
    array = numeric(name, values)
    if array.dtype.kind not in "iuf":
        raise InvalidValueError(f"{name} of type {array.dtype} are not numbers; give floats")
    array = array.astype(np.float64)
    wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise InvalidValueError(
            f"{name}{list(place)}={array[place]}: each must be finite and not negative"
        )
    return array


def _fit(name: str, array: Floats, length: int, what: str) -> None:
    if array.shape != (length,):
        raise InvalidValueError(
            f"{name} of shape {array.shape} do not fit {length} {what}s; give one for each {what}"
        )


def _numbers(name: str, values: Any, length: int, limit: int, what: str) -> Nodes:
    array = numeric(name, values)
    if array.shape != (length,) or (array.size and array.dtype.kind not in "iu"):
        raise InvalidValueError(
            f"{name} of shape {array.shape} and type {array.dtype}: give {length} {what} numbers"
        )
    wrong = np.flatnonzero((array < 0) | (array >= limit))
    if len(wrong):
        raise InvalidValueError(
            f"{name}[{wrong[0]}]={array[wrong[0]]} is no {what}; give a number from 0 to "
            f"{limit - 1}"
        )
    return array.astype(np.int32)


def _able(values: Any, current: Nodes, groups: int, draining: Marks) -> Marks:
    """Return which group may be on which node: where it is, and on nodes that do not drain."""
    nodes = len(draining)
    here: Marks = np.arange(nodes) == current[:, None]
    if values is None:
        return here | ~draining
    array = numeric("able", values)
    if array.shape != (groups, nodes) or array.dtype.kind != "b":
        raise InvalidValueError(
            f"able of shape {array.shape} and type {array.dtype}: give True or False for each of "
            f"{groups} groups and {nodes} nodes"
        )
    wrong = np.flatnonzero(~array[np.arange(groups), current])
    if len(wrong):
        group = int(wrong[0])
        raise InvalidValueError(
            f"able[{group}, {current[group]}] is False, and group {group} is on that node; a group "
            "may stay where it is"
        )
    return here | (array & ~draining)


def _pins(pinned: Mapping[int, int], groups: int, nodes: int) -> Nodes:
    """Return the node of each pinned group, and -1 for the others."""
    pins = np.full(groups, -1, dtype=np.int32)
    chosen = np.array(list(pinned.keys()), dtype=np.int64)
    homes = np.array(list(pinned.values()), dtype=np.int64)
    pins[_numbers("pinned groups", chosen, len(chosen), groups, "group")] = _numbers(
        "pinned nodes", homes, len(homes), nodes, "node"
    )
    return pins


def _sets(together: Iterable[Iterable[int]], groups: int) -> Integers:
    """Number the sets of groups that stay together: sets that share a group are one."""
    parent = np.arange(groups)

    def root(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = int(parent[group])
        return group

    for place, members in enumerate(listed("together", together)):
        given = np.array(listed(f"together[{place}]", members))
        chosen = _numbers(f"together[{place}]", given, len(given), groups, "group").tolist()
        for member in chosen[1:]:
            first, other = sorted((root(chosen[0]), root(member)))
            parent[other] = first
    roots = np.array([root(group) for group in range(groups)], dtype=np.int64)
    found: Integers = np.unique(roots, return_inverse=True)[1].astype(np.int64)
    return found
