"""How much of a load a limited number of instances carries, and how to divide them."""

import heapq

import numpy as np

from batching.least import least_instances
from batching.tuple_costs import FULL
from sketches.arrays import Floats, Integers

BELOW = 1 - 1e-12
"""By what a share is lowered so that rounding takes none over a limit."""


def greatest_scale(
    loads: Floats, hottest: Floats, workers: int, ceiling: float = 1.0
) -> tuple[float, int | None]:
    """Return the greatest share of all loads that this many instances carry, and what limits it.

    Each operator has at least one instance. The share is the least of what each operator carries,
    which only grows with its own instances; so giving each next instance to the operator that
    carries least is exact (max-min of separable increasing functions). It starts from numbers that
    the best division reaches for certain, and so has at most one step for each operator.

    >>> import numpy as np
    >>> scale, limit = greatest_scale(np.array([10.0, 1.0]), np.zeros(2), workers=6)
    >>> round(scale, 6), limit
    (0.5, 0)

    Args:
        loads: seconds of work that come to each operator in a second.
        hottest: the share of the hottest key of each, which one instance has.
        workers: how many instances there may be; at least one for each operator.
        ceiling: the greatest share that is asked for.

    Returns:
        The share, and the number of the operator that limits it: None if the ceiling does.
    """
    if not len(loads):
        return ceiling, None
    # 1. One instance has the hottest key, however many there are.
    with np.errstate(divide="ignore", over="ignore"):
        most = FULL / (loads * hottest)
    limit = int(most.argmin()) if most.min() < ceiling else None
    top = min(ceiling, float(most.min()) * BELOW)
    # 2. Rounded up, these shares of the load take at most one instance an operator more than
    #    there is work for: the best is no less.
    total = float(loads.sum())
    certain = FULL * BELOW * (workers - len(loads)) / total if total > 0 else np.inf
    instances = least_instances(loads * min(top, certain), hottest)
    spare = workers - int(instances.sum())
    # 3. Each instance that is left goes to the operator that carries least.
    queue = [(_carried(load, count), place) for place, (load, count) in _pairs(loads, instances)]
    heapq.heapify(queue)
    held = instances.tolist()
    while queue[0][0] < top:
        scale, place = queue[0]
        if not spare:
            return scale * BELOW, place
        spare -= 1
        held[place] += 1
        heapq.heapreplace(queue, (_carried(float(loads[place]), held[place]), place))
    return top, limit


def _pairs(loads: Floats, instances: Integers) -> enumerate[tuple[float, int]]:
    return enumerate(zip(loads.tolist(), instances.tolist(), strict=True))


def _carried(load: float, instances: int) -> float:
    return FULL * instances / load if load > 0 else np.inf
