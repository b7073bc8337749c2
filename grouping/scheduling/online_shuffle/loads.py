"""Instances in the order of their loads, the least loaded first."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace


class InstanceLoads:
    """The loads of instances, and which is least; of equals, the one whose turn is longest ago.

    Finding the least and changing one takes time in the order of log(instances).

    >>> loads = InstanceLoads([0.0, 0.0, 0.0], first=1)
    >>> loads.give(loads.least, 2.0)
    >>> loads.least
    2
    >>> loads.change(1, -3.0)
    >>> loads.least, loads.all
    (1, [0.0, -1.0, 0.0])

    Args:
        loads: that of each instance.
        first: whose turn it is, if all are equal.
    """

    __slots__ = ("_current", "_heap", "_turns")

    def __init__(self, loads: Sequence[float], *, first: int = 0) -> None:
        count = len(loads)
        # Each has one entry that holds: its load, when it had its turn, its number. Former ones
        # stay in the heap until they come up.
        self._current = [
            (load, (instance - first) % count, instance) for instance, load in enumerate(loads)
        ]
        self._turns = count
        self._sort()

    @property
    def all(self) -> list[float]:
        """The load of each instance."""
        return [load for load, _, _ in self._current]

    @property
    def least(self) -> int:
        """The instance with the least load."""
        heap, current = self._heap, self._current
        while heap[0] is not current[heap[0][2]]:
            heappop(heap)
        return heap[0][2]

    def __getitem__(self, instance: int) -> float:
        """Return the load of an instance."""
        return self._current[instance][0]

    def give(self, instance: int, load: float) -> None:
        """Add to the load of an instance; it has had its turn."""
        before = self._current[instance]
        after = (before[0] + load, self._turns, instance)
        self._turns += 1
        self._current[instance] = after
        if self._heap[0] is before:
            heapreplace(self._heap, after)
        else:
            self._push(after)

    def change(self, instance: int, load: float) -> None:
        """Add to the load of an instance, be it less than nothing; its turn stays."""
        before, turn, _ = self._current[instance]
        self._current[instance] = after = (before + load, turn, instance)
        self._push(after)

    def _push(self, entry: tuple[float, int, int]) -> None:
        heappush(self._heap, entry)
        if len(self._heap) > 4 * len(self._current) + 16:  # mostly former ones
            self._sort()

    def _sort(self) -> None:
        self._heap = self._current.copy()
        heapify(self._heap)
