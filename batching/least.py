"""The least number of instances, and then the least batch, that carry a load.

Both are searched for by the very test that a plan has to pass, so that no rounding of a closed form
is between them: the test is monotone in floats, too.
"""

from collections.abc import Callable

import numpy as np

from batching.dataflow import Dataflow
from batching.tuple_costs import FULL, MOST_INSTANCES, TupleCosts, shares
from sketches.arrays import Floats, Integers, Marks


def least_where(holds: Callable[[Integers], Marks], low: Integers, high: Integers) -> Integers:
    """Return the least numbers from `low` to `high` where a monotone test holds, each on its own.

    Where it holds nowhere, one above `high`.
    """
    low, high = low.copy(), high + 1
    while (low < high).any():
        middle = (low + high) // 2
        good = holds(middle)
        high = np.where(good & (low < high), middle, high)
        low = np.where(~good & (low < high), middle + 1, low)
    return low


def least_instances(loads: Floats, hottest: Floats) -> Integers:
    """Return with how many instances the busiest of each operator is not always busy.

    Args:
        loads: seconds of work that come to each operator in a second.
        hottest: the share of its hottest key.

    Returns:
        One above `MOST_INSTANCES` where no number of instances is enough.
    """

    def carried(instances: Integers) -> Marks:
        found: Marks = loads * np.maximum(hottest, 1.0 / instances) <= FULL
        return found

    size = len(loads)
    return least_where(carried, np.ones(size, np.int64), np.full(size, MOST_INSTANCES))


def least_batches(
    flow: Dataflow, costs: TupleCosts, rates: Floats, instances: Integers
) -> Integers:
    """Return with which batches the busiest instance of each operator is not always busy.

    Where the largest batch is not enough, one above it.
    """
    share = rates * shares(flow, instances)

    def carried(batches: Integers) -> Marks:
        found: Marks = share * costs.work(batches) <= FULL
        return found

    return least_where(carried, np.ones(flow.operators, np.int64), costs.largest)
