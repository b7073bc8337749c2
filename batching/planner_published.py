"""The planner as printed: Algorithm 1 (TopologyOptimizer) with Equations 2, 3 and 4.

What the print leaves open, or where it fails, and what is done here:

- A rate of 0 divides by 0 (input latency is its inverse). Here such an operator has one instance
  and batches of one tuple.
- If ``l_i <= ppt + t * s``, no batch is large enough, and Equation 2 has a negative or no value.
  Here the batch is then ``B_max``, as if it was larger.
- ``B_max`` is 64 KB, but is compared with tuples. Here it is what fits into the bytes.
- Line 7 raises the dop "to increase l_i", not saying to what. Here: until a batch of ``B_max`` is
  large enough. The batch stays at ``B_max`` then, as printed.
- Line 7 would raise the dop of sources too, where the text leaves it to the user. Here it is the
  user's; Equation 3 then says what the source gives.
- The equations know one output tuple for an input tuple, and one consumer. Table I needs measured
  output rates (``agg`` "aggregates"), so rates along edges are multiplied by the selectivity here;
  shipping in Equations 2 and 3 is as printed, that of one tuple, of the mean size.
- Rates of several producers add up; the print names one producer.
- The hottest key, other than in the text, does not exist: an operator has ``1 / dop`` of its input
  in each instance.

References:
    Sax, Castellanos, Chen, Hsu, "Performance optimization for distributed intra-node-parallel
    streaming systems", ICDE Workshops 2013.
"""

import math
from dataclasses import dataclass

import numpy as np

from batching.dataflow import Dataflow
from batching.errors import DataflowError, OverloadError
from batching.planner import BATCH_BYTES
from batching.tuple_costs import FULL, MOST_INSTANCES, Shipping
from sketches.arrays import Floats, Integers
from sketches.checks import whole
from sketches.values import ArrayValue, protect


@dataclass(frozen=True, eq=False)
class PublishedPlan(ArrayValue):
    """What Algorithm 1 decides.

    Attributes:
        instances: the dop of each operator.
        batches: how many tuples each puts into a batch.
        rates: the tuples a second that come to each operator, as the algorithm believes.
    """

    instances: Integers
    batches: Integers
    rates: Floats

    def __post_init__(self) -> None:
        protect(self, "instances", "batches", "rates")


def plan_as_published(
    flow: Dataflow, shipping: Shipping, *, batch_bytes: int = BATCH_BYTES
) -> PublishedPlan:
    """Return what Algorithm 1 decides; numbers of steps are its lines.

    Args:
        flow: the operators, and what was measured of them.
        shipping: what a message costs.
        batch_bytes: how many bytes a batch may have.

    Raises:
        DataflowError: a source gives as fast as it can, and shipping takes no time.
        OverloadError: a dop is beyond all that an engine can have.
    """
    batch_bytes = whole("batch_bytes", batch_bytes, at_least=1, at_most=MOST_INSTANCES)
    instances = flow.given.copy()
    batches = np.ones(flow.operators, np.int64)
    rates = flow.rates.copy()
    # 1-2. From the sources on, each operator after its producers.
    for operator in flow.order:
        seconds = float(flow.seconds[operator])
        # 12-14. As a consumer: the dop, by Equation 4.
        if not flow.sources[operator]:
            instances[operator] = _least_above(seconds * float(rates[operator]))
        edges = flow.outgoing[operator]
        if not edges or rates[operator] == 0:  # 16
            continue
        # 3-9. As a producer: the batch, by Equation 2, and the dop again.
        size = float(np.mean(flow.sizes[list(edges)]))
        largest = max(1, int(batch_bytes // size))
        fixed = shipping.message
        each = seconds + size * shipping.byte
        batch = _batch(instances[operator] / rates[operator], fixed, each)
        if batch > largest:  # 6
            batch = float(largest)
            if not flow.sources[operator]:  # 7
                needed = rates[operator] * (each + fixed / largest)
                instances[operator] = max(instances[operator], _least_from(float(needed)))
        batches[operator] = int(batch)
        # 10. What it gives, by Equation 3.
        latency = instances[operator] / rates[operator]
        taken = max(batch * latency, fixed + batch * each)
        if taken == 0:
            raise DataflowError(
                f"{flow.names[operator]!r} gives as fast as it can, and shipping takes no time; "
                "give its rate, or what a message costs"
            )
        output = instances[operator] * batch / taken
        if flow.sources[operator]:
            rates[operator] = output
        for edge in edges:
            rates[flow.consumers[edge]] += output * flow.selectivity[edge]
    return PublishedPlan(instances, batches, rates)


def _batch(latency: float, fixed: float, each: float) -> float:
    """Return the batch of Equation 2; infinite if none is large enough, 1 if none is needed."""
    if latency >= fixed + each:  # line 4
        return 1.0
    if latency <= each:
        return math.inf
    return float(np.ceil(fixed / (latency - each)))


def _least_above(work: float) -> int:
    """Return the least whole number above (Equation 4), one higher where rounding is between."""
    return _checked(math.floor(work / FULL) + 1 if math.isfinite(work) else math.inf)


def _least_from(work: float) -> int:
    return _checked(math.ceil(work * FULL) if math.isfinite(work) else math.inf)


def _checked(instances: float) -> int:
    if instances > MOST_INSTANCES:
        raise OverloadError(
            f"{instances} instances are more than any engine has; check rates and seconds"
        )
    return max(1, int(instances))
