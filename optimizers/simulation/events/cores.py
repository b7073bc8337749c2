"""The cores of nodes, which instances take turns on."""

import math
from collections import deque
from collections.abc import Mapping
from itertools import count
from operator import itemgetter
from typing import TypeAlias

from optimizers.simulation.events.operators import EventOperator

Waiting: TypeAlias = tuple[int, EventOperator, int]
"""A number for the order of waiting, an operator, and an instance of it."""


class Cores:
    """Which instances have a core, and which wait for one.

    An instance keeps its core for one tuple and for the sending of what comes of it. Then it gives
    it to the one that has waited longest on the node, and waits in its turn.

    Attributes:
        limited: whether any node has a number of cores.
    """

    def __init__(self) -> None:
        self.limited = False
        self._free: dict[int, float] = {}
        self._held: dict[tuple[int, int], int] = {}  # by rank and instance: the node
        self._waiting: dict[int, deque[Waiting]] = {}
        self._number = count()

    def fit(self, counts: Mapping[int, float]) -> list[tuple[EventOperator, int]]:
        """Take over the present cores and nodes, and return the instances that are to begin.

        Args:
            counts: how many cores each node has, by its number.
        """
        for node, cores in counts.items():
            self._free.setdefault(node, cores)
            self.limited |= cores < math.inf
        everyone = sorted(
            (waiting for each in self._waiting.values() for waiting in each), key=itemgetter(0)
        )
        self._waiting = {node: deque() for node in self._free}
        for number, operator, instance in everyone:  # which may be on another node by now
            self._waiting[operator.nodes[instance]].append((number, operator, instance))
        found = []
        for node in self._waiting:
            while (following := self._next(node)) is not None:
                found.append(following)
        return found

    def take(self, operator: EventOperator, instance: int) -> bool:
        """Take a core for an instance, or let it wait for one."""
        if not operator.works:
            return True
        node = operator.nodes[instance]
        if self._free[node] < 1:
            self._waiting[node].append((next(self._number), operator, instance))
            return False
        self.hold(operator, instance, node)
        return True

    def hold(self, operator: EventOperator, instance: int, node: int) -> None:
        """Let an instance have a core of a node."""
        if self._free[node] < math.inf:
            self._free[node] -= 1
            self._held[operator.rank, instance] = node

    def give_back(self, operator: EventOperator, instance: int) -> tuple[EventOperator, int] | None:
        """Take its core from an instance, if it has one, and return the instance that gets it."""
        node = self._held.pop((operator.rank, instance), None)
        if node is None:
            return None
        self._free[node] += 1
        return self._next(node)

    def _next(self, node: int) -> tuple[EventOperator, int] | None:
        waiting = self._waiting[node]
        if not waiting or self._free[node] < 1:
            return None
        _, operator, instance = waiting.popleft()
        self.hold(operator, instance, node)
        return operator, instance
