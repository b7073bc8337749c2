"""Tasks on slots: which runs where, and when it begins."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np

from sketches.arrays import Floats, Integers


@dataclass(frozen=True)
class Schedule:
    """When tasks begin, counted from when the first does.

    Attributes:
        starts: when each begins.
        chain: the tasks that follow one another on the slot that is done last.
        seconds: when all are done.
    """

    starts: Floats
    chain: Integers
    seconds: float


def scheduled(seconds: Floats, nodes: Sequence[int], slots: Mapping[int, float]) -> Schedule:
    """Let tasks begin in their order, each on the slot of its node that is free first.

    >>> found = scheduled(np.array([3.0, 2.0, 2.0]), [0, 0, 0], {0: 2})
    >>> found.starts.tolist(), found.chain.tolist(), found.seconds
    ([0.0, 0.0, 2.0], [1, 2], 4.0)

    Args:
        seconds: how long each task takes.
        nodes: the node of each.
        slots: how many tasks run on each node at a time.
    """
    free: dict[int, list[tuple[float, int]]] = {}
    starts = np.zeros(len(seconds))
    ends = np.zeros(len(seconds))
    where: list[tuple[int, int]] = []
    for task, (taken, node) in enumerate(zip(seconds.tolist(), nodes, strict=True)):
        if slots[node] == math.inf:
            where.append((node, -1 - task))
        else:
            if node not in free:
                free[node] = [(0.0, slot) for slot in range(int(slots[node]))]
                heapify(free[node])
            starts[task], slot = free[node][0]
            heapreplace(free[node], (float(starts[task]) + taken, slot))
            where.append((node, slot))
        ends[task] = starts[task] + taken
    last = int(ends.argmax())
    chain = np.array([task for task, slot in enumerate(where) if slot == where[last]])
    return Schedule(starts, chain, float(ends[last]))
