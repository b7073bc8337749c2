"""A job as a dataflow that can be planned, with what was measured of it and what was not."""

from dataclasses import dataclass, replace

import numpy as np

from batching.dataflow import Dataflow
from optimizers.operators import Edge
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Floats

TUPLE_BYTES = 100.0
"""What a tuple is taken for where the sizes of none were seen."""


@dataclass(frozen=True, eq=False)
class ObservedDataflow:
    """A dataflow as it was seen.

    Attributes:
        flow: the operators in the order of the job, and the edges.
        assumed: what was not seen, as an operator or edge and what is taken for it, in words.
    """

    flow: Dataflow
    assumed: tuple[tuple[str, str], ...]

    def at(self, rate: float) -> "ObservedDataflow":
        """Return it with this many tuples a second from all sources, in the same shares."""
        total = float(self.flow.rates.sum())
        shares = self.flow.rates / total if total else self.flow.sources / self.flow.sources.sum()
        return replace(self, flow=replace(self.flow, rates=shares * rate))


def observed_dataflow(
    topology: Topology,
    statistics: Statistics,
    *,
    with_shipping: bool = False,
    period: float = 0.0,
) -> ObservedDataflow | None:
    """Return what was seen of a job; None where no operator was seen to receive a tuple.

    What was not seen is taken from what was, or for nothing, and named as assumed.

    Args:
        topology: the job.
        statistics: what was seen.
        with_shipping: whether the seconds of an operator are to have in them what it worked to
            route and pack what it emitted, where that was seen.
        period: how many seconds passed at least from the beginning of a batch to that of the next.

    >>> from optimizers.statistics import EdgeStatistics, OperatorStatistics
    >>> job = Topology.source("words").then("count", key="word")
    >>> seen = Statistics(
    ...     seconds=10, operators={"words": OperatorStatistics(500), "count": OperatorStatistics(
    ...     500, seconds=2, hottest_key=0.3)}, edges={("words", "count"): EdgeStatistics(500, 4e3)})
    >>> found = observed_dataflow(job, seen)
    >>> found.flow.rates.tolist(), found.flow.seconds.tolist(), found.flow.hottest.tolist()
    ([50.0, 0.0], [0.0, 0.004], [0.0, 0.3])
    >>> found.assumed[0]
    ('words', 'what arrives was not seen; planned for the 50/s that it let in')
    """
    if not any(seen.tuples for seen in statistics.operators.values()):
        return None
    seconds = max(statistics.seconds, period * len(statistics.batch_times))
    return _Reading(topology, statistics, seconds, with_shipping=with_shipping).result()


class _Reading:
    """Puts a dataflow together, and takes down what had to be assumed."""

    def __init__(
        self, topology: Topology, statistics: Statistics, seconds: float, *, with_shipping: bool
    ) -> None:
        self._topology = topology
        self._passed = seconds  # by the clock, as far as that is known
        self._with_shipping = with_shipping
        self._seen = statistics
        self._assumed: list[tuple[str, str]] = []

    def result(self) -> ObservedDataflow:
        job = self._topology
        names = job.order
        flow = Dataflow.of(
            names,
            [edge.name for edge in job.edges],
            seconds=np.array([self._seconds(name) for name in names]),
            rates=np.array([self._rate(name) for name in names]),
            hottest=np.array([self._hottest(name) for name in names]),
            given=np.array(
                [job.operator(n).parallelism if n in job.sources else 1 for n in names], np.int64
            ),
            selectivity=_floats([self._selectivity(edge) for edge in job.edges]),
            sizes=_floats([self._size(edge) for edge in job.edges]),
            keyed=np.array([job.grouping(*edge.name).needs_key for edge in job.edges], np.bool_),
        )
        return ObservedDataflow(flow, tuple(self._assumed))

    def _rate(self, name: str) -> float:
        """Return the tuples a second that arrive at a source; 0 for what is none."""
        if name not in self._topology.sources:
            return 0.0
        source, operator = self._seen.sources.get(name), self._seen.operators.get(name)
        if source is not None and source.rate is not None:
            return source.rate
        let_in = 0.0 if operator is None else operator.tuples
        if not self._passed:
            self._assume(name, "neither what arrives was seen nor in how much time; planned for 0")
            return 0.0
        rate = let_in / self._passed
        self._assume(name, f"what arrives was not seen; planned for the {rate:g}/s that it let in")
        return rate

    def _seconds(self, name: str) -> float:
        seen = self._seen.operators.get(name)
        if seen is not None and seen.tuples:
            shipping = seen.shipping if self._with_shipping else None
            return (seen.seconds + (shipping or 0.0)) / seen.tuples
        self._assume(name, "it received nothing, so what a tuple takes is not known; taken for 0 s")
        return 0.0

    def _hottest(self, name: str) -> float:
        """Return the share of the hottest key, where all of its tuples go to one instance."""
        operator = self._topology.operator(name)
        inputs = self._topology.inputs(name)
        if not any(self._topology.grouping(*edge.name).one_owner for edge in inputs):
            return 0.0
        seen = self._seen.operators.get(name)
        if seen is not None and seen.hottest_key is not None:
            return seen.hottest_key
        groups = self._seen.groups.get(name)
        if groups is not None:
            self._assume(name, "its hottest key was not seen; taken for its hottest key group")
            return float(groups.weights.max() / groups.weights.sum())
        if operator.keyed or any(edge.key for edge in inputs):
            self._assume(name, "its hottest key was not seen; taken for one with no share")
        return 0.0

    def _selectivity(self, edge: Edge) -> float:
        sender, seen = self._seen.operators.get(edge.source), self._seen.edges.get(edge.name)
        if sender is not None and sender.tuples and seen is not None:
            return seen.tuples / sender.tuples
        if sender is not None and sender.selectivity is not None:
            return sender.selectivity
        self._assume(str(edge), "what it carries was not seen; taken for a tuple for each")
        return 1.0

    def _size(self, edge: Edge) -> float:
        seen = self._seen.edges.get(edge.name)
        if seen is not None and seen.tuples and seen.bytes:
            return max(1.0, seen.bytes / seen.tuples)
        known = [each for each in self._seen.edges.values() if each.tuples and each.bytes]
        tuples = sum(each.tuples for each in known)
        size = sum(each.bytes for each in known) / tuples if tuples else TUPLE_BYTES
        self._assume(str(edge), f"sizes of its tuples were not seen; taken for {size:g} bytes")
        return max(1.0, size)

    def _assume(self, about: str, what: str) -> None:
        self._assumed.append((about, what))


def _floats(values: list[float]) -> Floats:
    return np.array(values, np.float64)
