"""What a tuple costs on engines whose tasks run all the time and ship batches to each other.

An operator that processes a tuple works for its pure processing time, and ships what comes out: a
message of ``b`` tuples of ``t`` bytes takes ``n + b * t * s`` seconds. With batches of ``b`` it so
works for ``steady + messages / b`` seconds for each tuple that comes in.

References:
    Sax, Castellanos, Chen, Hsu, "Performance optimization for distributed intra-node-parallel
    streaming systems", ICDE Workshops 2013: the form of the shipping time, and the three parts of
    a tuple's time.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from batching.dataflow import Dataflow
from sketches.arrays import Floats, Integers
from sketches.checks import amount
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, protect

FULL = 1 - 1e-9
"""How busy an instance may be: less than always, by what rounding adds up to."""

MOST_INSTANCES = 2**31 - 1

Sizes: TypeAlias = Integers | Floats


@dataclass(frozen=True)
class Shipping:
    """What a message costs on a network.

    Attributes:
        message: seconds for each message, however large (n in the paper).
        byte: seconds for each byte in it (s in the paper).
    """

    message: float
    byte: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", amount("message", self.message))
        object.__setattr__(self, "byte", amount("byte", self.byte))


@dataclass(frozen=True, eq=False)
class TupleCosts(ArrayValue):
    """What each operator works for one tuple that comes in.

    Attributes:
        shipping: what a message costs.
        steady: seconds that no batch changes: processing, and shipping of bytes.
        messages: seconds for messages of one tuple each; batches of ``b`` divide them by ``b``.
        largest: how many tuples a batch may have: what fits into its bytes, and at least one.
    """

    shipping: Shipping
    steady: Floats
    messages: Floats
    largest: Integers

    def __post_init__(self) -> None:
        protect(self, "steady", "messages", "largest")

    @classmethod
    def of(cls, flow: Dataflow, shipping: Shipping, batch_bytes: int) -> "TupleCosts":
        """Add up what operators do for a tuple: each logical consumer gets a message of its own."""
        out, operators = flow.producers, flow.operators
        with np.errstate(over="ignore"):
            sent = np.bincount(out, flow.selectivity, operators)
            size = np.bincount(out, flow.selectivity * flow.sizes, operators)
            steady = flow.seconds + shipping.byte * size
            messages: Floats = (shipping.message * sent).astype(np.float64)
        beyond = np.flatnonzero(~np.isfinite(steady + messages))
        if len(beyond):
            raise InvalidValueError(
                f"what {flow.names[beyond[0]]!r} does for a tuple is beyond all floats; check its "
                "selectivities and sizes"
            )
        # The largest tuple decides; batches of what is never sent need no room.
        used = flow.selectivity > 0
        widest = np.zeros(operators)
        np.maximum.at(widest, out[used], flow.sizes[used])
        largest = np.where(widest > 0, batch_bytes // np.maximum(widest, 1.0), 1.0)
        return cls(shipping, steady, messages, np.maximum(1, largest).astype(np.int64))

    def work(self, batches: Sizes) -> Floats:
        """Return the seconds that each operator works for one tuple that comes in."""
        found: Floats = self.steady + self.messages / batches
        return found


def shares(flow: Dataflow, instances: Sizes) -> Floats:
    """Return the share of an operator's tuples that its busiest instance gets, at the least."""
    found: Floats = np.maximum(flow.hottest, 1.0 / instances)
    return found


def busy(
    flow: Dataflow, costs: TupleCosts, rates: Floats, instances: Sizes, batches: Sizes
) -> Floats:
    """Return the share of its time that the busiest instance of each operator works."""
    found: Floats = rates * costs.work(batches) * shares(flow, instances)
    return found


def buffer_bytes(
    flow: Dataflow, instances: Integers, batches: Integers, *, shared: bool = False
) -> float:
    """Return what full buffers take in memory, in all instances together.

    A producer's instance has a buffer for each instance of a consumer that is reached by key, and
    one for a consumer of which any instance may have the tuple.

    Args:
        flow: the dataflow.
        instances: how many each operator has.
        batches: how many tuples each puts into a batch.
        shared: all consumers of an operator share buffers, one for each combination of their
            instances, in place of buffers for each consumer.
    """
    # A buffer that no tuple ever reaches is never filled.
    used = flow.selectivity > 0
    buffers = np.where(flow.keyed, instances[flow.consumers], 1).astype(np.float64)
    room = batches[flow.producers] * flow.sizes
    if not shared:
        return float((instances[flow.producers] * buffers * room)[used].sum())
    combined, widest = np.ones(flow.operators), np.zeros(flow.operators)
    np.multiply.at(combined, flow.producers[used], buffers[used])
    np.maximum.at(widest, flow.producers[used], room[used])
    return float((instances * combined * widest).sum())


def latencies(
    flow: Dataflow,
    costs: TupleCosts,
    rates: Floats,
    instances: Integers,
    batches: Integers,
) -> Floats:
    """Return how long a tuple is on its way, on average, until each operator is done with it.

    Along the slowest path from a source; queues are those of the busiest instances. Batches that
    arrive at random (Poisson) are served in order, each tuple in the same time.

    Args:
        flow: the dataflow.
        costs: what a tuple costs.
        rates: tuples a second that come to each operator.
        instances: how many each operator has.
        batches: how many tuples each puts into a batch.
    """
    out = flow.producers
    along = rates[out] * flow.selectivity
    # 1. A tuple waits until its batch is full: half as long as the batch takes to fill.
    buffers = instances[out] * np.where(flow.keyed, instances[flow.consumers], 1)
    size = batches[out].astype(np.float64)
    filling = np.divide((size - 1) * buffers, 2 * along, out=np.zeros(len(out)), where=along > 0)
    # 2. Then the batch is shipped.
    shipping = costs.shipping
    shipped = filling + shipping.message + size * flow.sizes * shipping.byte
    # 3. It waits in the queue of the consumer, and there for those of its batch before it.
    inside = queueing(
        busy(flow, costs, rates, instances, batches),
        costs.work(batches),
        _batch_seen(flow, along, size),
    )
    inside = np.where(flow.sources, 0.0, inside) + flow.seconds
    # 4. And is processed. The slowest path counts.
    found = inside.tolist()
    consumers, used, times = flow.consumers.tolist(), (along > 0).tolist(), shipped.tolist()
    for operator in flow.order:
        for edge in flow.outgoing[operator]:
            if used[edge]:
                consumer = consumers[edge]
                passed = found[operator] + times[edge] + inside[consumer]
                found[consumer] = max(found[consumer], passed)
    return np.array(found)


def queueing(usage: Floats, seconds: Floats, batch: Floats) -> Floats:
    """Return the mean wait of a tuple in a queue that batches arrive at, at random.

    The first of a batch waits as in a queue with one kind of customer (Pollaczek-Khinchine), the
    others for those before them as well.

    Args:
        usage: the share of the time that the queue's instance works.
        seconds: what it works for one tuple.
        batch: the size of the batch that a tuple is in, on average over tuples.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = usage * seconds * batch / (2 * (1 - usage)) + (batch - 1) * seconds / 2
    found = np.where(seconds == 0, 0.0, found)
    return np.where((usage >= 1) & (seconds > 0), np.inf, found)


def _batch_seen(flow: Dataflow, along: Floats, size: Floats) -> Floats:
    """Return the mean size of the batches that the tuples of each operator come in."""
    total = np.bincount(flow.consumers, along, flow.operators)
    weighted = np.bincount(flow.consumers, along * size, flow.operators)
    return np.divide(weighted, total, out=np.ones(flow.operators), where=total > 0)
