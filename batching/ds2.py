"""How many instances, by the speed that operators would have if they never waited: DS2.

An operator's *true rate* is what it processes in a second of useful work. From the rates of the
sources on, each operator gets as many instances as its true rate needs for what comes to it, in
one step for the whole dataflow.

References:
    Kalavri, Liagouris, Hoffmann, Dimitrova, Forshaw, Roscoe, "Three steps is all you need: fast,
    accurate, automatic scaling decisions for distributed streaming dataflows", OSDI 2018:
    Equations 7 and 8.
"""

import numpy as np

from batching.dataflow import Dataflow
from batching.errors import DataflowError, OverloadError
from batching.tuple_costs import MOST_INSTANCES
from sketches.arrays import Integers

_ROUNDING = 1e-9  # 3.0000000001 instances are 3


def ds2_instances(flow: Dataflow) -> Integers:
    """Return how many instances each operator needs; those of sources are as given.

    As in the paper, an instance may be busy all of the time, its share of the tuples is that of
    all others, and what it costs to send is part of its work only where it was measured as such.

    >>> flow = Dataflow.of(
    ...     ["source", "split", "count"], [("source", "split"), ("split", "count")],
    ...     seconds=[0, 0.002, 0.0001], rates=[2000, 0, 0], selectivity=[1, 20])
    >>> ds2_instances(flow).tolist()
    [1, 4, 4]

    Args:
        flow: the operators, with the useful time that each takes for a tuple.

    Raises:
        DataflowError: a source gives as fast as it can, so that there is no rate to provide for.
        OverloadError: an operator needs more instances than any engine has.
    """
    endless = np.flatnonzero(np.isinf(flow.rates))
    if len(endless):
        raise DataflowError(
            f"{flow.names[endless[0]]!r} gives as fast as it can; give the rate to provide for"
        )
    work = flow.arrivals(flow.rates) * flow.seconds
    needed = np.maximum(1, np.ceil(work * (1 - _ROUNDING)))
    beyond = np.flatnonzero(~flow.sources & (needed > MOST_INSTANCES))
    if len(beyond):
        raise OverloadError(
            f"{flow.names[beyond[0]]!r} needs {needed[beyond[0]]:.3g} instances, more than any "
            "engine has; check its rate and its seconds"
        )
    return np.where(flow.sources, flow.given, np.minimum(needed, MOST_INSTANCES)).astype(np.int64)
