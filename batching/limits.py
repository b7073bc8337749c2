"""More instances or other batches, until a plan keeps to a latency and to a memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from batching.dataflow import Dataflow
from batching.errors import OverloadError
from batching.least import least_batches
from batching.tuple_costs import TupleCosts, buffer_bytes, latencies
from sketches.arrays import Floats, Integers

_STEPS = (0, 1, 2, 4, 8, 16, 32, 64)  # how many instances more are tried at once
_TIE = 0.1  # what operators off the slowest path count: of two such paths, each has to be left
_WORTH = 1e-3  # a step gains at least so much of what is missing; less would take too many of them


@dataclass(frozen=True)
class Limits:
    """What a plan keeps to.

    Attributes:
        latency: seconds that a tuple may be on its way, on average; infinite for any.
        memory: bytes that full buffers may take; infinite for any.
    """

    latency: float = np.inf
    memory: float = np.inf


@dataclass(frozen=True)
class _Raise:
    operator: int
    more: int
    batch: int


class LimitSearch:
    """Finds a plan that keeps to limits, by changing one operator after another.

    It takes time in the square of the operators: it is for some dozens of them.

    Args:
        flow: the operators.
        costs: what a tuple costs them.
        rates: tuples a second that come to each.
        planned: tuples a second that instances and batches have to carry.
        limits: what to keep to.
    """

    def __init__(
        self,
        flow: Dataflow,
        costs: TupleCosts,
        rates: Floats,
        planned: Floats,
        limits: Limits,
    ) -> None:
        self._flow = flow
        self._costs = costs
        self._rates = rates
        self._planned = planned
        self._limits = limits

    def found(
        self, instances: Integers, batches: Integers, workers: int
    ) -> tuple[Integers, Integers]:
        """Return instances and batches that keep to the limits, beginning with those of a plan.

        Each step takes the change that lowers the worst excess most for an instance; a change of
        a batch alone comes first, as it takes none.

        Raises:
            OverloadError: no change of one operator gains a thousandth of what is missing.
        """
        fewest = instances
        while self.worst(instances, batches) > 1:
            change = self._best(instances, batches, workers - int(instances.sum()))
            if change is None:
                self._refuse(instances, batches)
            instances, batches = _changed(instances, batches, change)
        return self._trimmed(fewest, instances, batches)

    def worst(self, instances: Integers, batches: Integers) -> float:
        """Return by which factor a plan is above the limit that it keeps to least; 1 is within."""
        return max(self._excess(instances, batches))

    def _excess(self, instances: Integers, batches: Integers) -> tuple[float, float]:
        flow, limits = self._flow, self._limits
        times = latencies(flow, self._costs, self._rates, instances, batches)
        room = buffer_bytes(flow, instances, batches)
        return float(times.max()) / limits.latency, room / limits.memory

    def _strain(self, instances: Integers, batches: Integers) -> float:
        """Return what a step is to lower: the worst excess, and a little of everything."""
        flow, limits = self._flow, self._limits
        times = latencies(flow, self._costs, self._rates, instances, batches)
        room = buffer_bytes(flow, instances, batches) / limits.memory
        worst = max(float(times.max()) / limits.latency, room)
        every = _TIE * (float(times.mean()) / limits.latency + room)
        return max(worst, 1.0) + every

    def _best(self, instances: Integers, batches: Integers, room: int) -> _Raise | None:
        now = self._strain(instances, batches)
        best, highest = None, (0.0, 0.0)
        for change in self._changes(instances, room):
            gain = now - self._strain(*_changed(instances, batches, change))
            score = (gain / change.more if change.more else np.inf, gain)
            if gain > _WORTH * (now - 1) and score > highest:
                best, highest = change, score
        return best

    def _changes(self, instances: Integers, room: int) -> Iterator[_Raise]:
        for more in _STEPS:
            if more > room:
                return
            least = least_batches(self._flow, self._costs, self._planned, instances + more)
            for operator in range(self._flow.operators):
                if more and self._flow.sources[operator]:
                    continue
                largest = int(self._costs.largest[operator])
                batch = int(least[operator])
                while batch < largest:
                    yield _Raise(operator, more, batch)
                    batch *= 2
                if least[operator] <= largest:
                    yield _Raise(operator, more, largest)

    def _trimmed(
        self, fewest: Integers, instances: Integers, batches: Integers
    ) -> tuple[Integers, Integers]:
        """Take instances back that later changes made needless."""
        for operator in np.flatnonzero(instances > fewest).tolist():
            while instances[operator] > fewest[operator]:
                fewer = instances.copy()
                fewer[operator] -= 1
                least = least_batches(self._flow, self._costs, self._planned, fewer)
                larger = np.maximum(batches, least)
                if (larger > self._costs.largest).any() or self.worst(fewer, larger) > 1:
                    break
                instances, batches = fewer, larger
        return instances, batches

    def _refuse(self, instances: Integers, batches: Integers) -> NoReturn:
        late, large = self._excess(instances, batches)
        limits = self._limits
        name, limit, least = (
            ("latency", limits.latency, late) if late > large else ("memory", limits.memory, large)
        )
        unit = "s" if name == "latency" else "bytes"
        raise OverloadError(
            f"{name}={limit:g}: the best plan that was found has {least * limit:.4g} {unit}; allow "
            "as much, more workers, or a lower rate"
        )


def _changed(instances: Integers, batches: Integers, change: _Raise) -> tuple[Integers, Integers]:
    instances, batches = instances.copy(), batches.copy()
    instances[change.operator] += change.more
    batches[change.operator] = change.batch
    return instances, batches
