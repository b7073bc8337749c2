"""A dataflow as arrays: operators, edges between them, and how much comes along each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from batching.checks import amounts, counts, marks
from batching.errors import DataflowError
from sketches.arrays import Floats, Integers, Marks
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, listed, protect


@dataclass(frozen=True, eq=False)
class Dataflow(ArrayValue):
    """Operators without cycles, with what was measured of each.

    An operator into which no edge goes is a *source*: it gets its tuples from outside, and its
    number of instances is given, not planned.

    Attributes:
        names: the name of each operator.
        seconds: pure processing time of each operator for one tuple.
        rates: what comes from outside, in tuples a second; infinite for a source that gives as
            fast as it can, 0 for operators that are not sources.
        hottest: the share of the hottest key in what an operator gets; one instance has all of
            it. 0 if any instance may have any tuple.
        given: how many instances each source has; 1 for operators that are not sources.
        producers: the operator that each edge begins at, by number.
        consumers: the operator that each edge ends at.
        selectivity: how many tuples go along each edge for one that the producer processes.
        sizes: bytes of a tuple on each edge.
        keyed: whether a tuple's key decides which instance of the consumer gets it, so that the
            producer needs a buffer for each.
    """

    names: tuple[str, ...]
    seconds: Floats
    rates: Floats
    hottest: Floats
    given: Integers
    producers: Integers
    consumers: Integers
    selectivity: Floats
    sizes: Floats
    keyed: Marks

    def __post_init__(self) -> None:
        protect(self, "seconds", "rates", "hottest", "given")
        protect(self, "producers", "consumers", "selectivity", "sizes", "keyed")

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        names: Iterable[str],
        edges: Iterable[tuple[str, str]],
        *,
        seconds: Any,
        rates: Any,
        hottest: Any = 0.0,
        given: Any = 1,
        selectivity: Any = 1.0,
        sizes: Any = 1.0,
        keyed: Any = True,
    ) -> "Dataflow":
        """Check and build a dataflow.

        Args:
            names: the operators.
            edges: pairs of producer and consumer, by name.
            seconds: as the attributes; a single number stands for each operator or edge.
            rates: what comes from outside, by operator.
            hottest: the share of the hottest key.
            given: instances of sources.
            selectivity: tuples out for a tuple in, by edge.
            sizes: bytes of a tuple, by edge; at least 1.
            keyed: whether keys decide, by edge.

        Raises:
            InvalidValueError: a number is out of range, or columns do not fit.
            DataflowError: an edge to no operator, an edge twice, or a cycle.
        """
        operators = _operators(names)
        producers, consumers = _ends(operators, edges)
        length, width = len(operators), len(producers)
        flow = cls(
            names=operators,
            seconds=amounts("seconds", seconds, length, "operator"),
            rates=amounts("rates", rates, length, "operator", finite=False),
            hottest=amounts("hottest", hottest, length, "operator", at_most=1.0),
            given=counts("given", given, length, "operator", at_least=1),
            producers=producers,
            consumers=consumers,
            selectivity=amounts("selectivity", selectivity, width, "edge"),
            sizes=amounts("sizes", sizes, width, "edge", at_least=1.0),
            keyed=marks("keyed", keyed, width, "edge"),
        )
        _require_order(flow)
        fed = np.flatnonzero(~flow.sources & (flow.rates > 0))
        if len(fed):
            raise DataflowError(
                f"rates[{fed[0]}]={flow.rates[fed[0]]}: {operators[fed[0]]!r} gets its tuples from "
                "other operators; give 0 for all but sources"
            )
        several = np.flatnonzero(~flow.sources & (flow.given > 1))
        if len(several):
            raise DataflowError(
                f"given[{several[0]}]={flow.given[several[0]]}: the instances of "
                f"{operators[several[0]]!r} are planned; give them for sources only"
            )
        return flow

    @property
    def operators(self) -> int:
        """How many operators there are."""
        return len(self.names)

    @cached_property
    def sources(self) -> Marks:
        """Which operators are sources."""
        found = np.ones(self.operators, np.bool_)
        found[self.consumers] = False
        return found

    @cached_property
    def outgoing(self) -> tuple[tuple[int, ...], ...]:
        """The edges that begin at each operator."""
        found: list[list[int]] = [[] for _ in self.names]
        for edge, producer in enumerate(self.producers.tolist()):
            found[producer].append(edge)
        return tuple(tuple(edges) for edges in found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The operators, each after all of its producers; fewer of them if there is a cycle."""
        waiting = np.bincount(self.consumers, minlength=self.operators).tolist()
        consumers = self.consumers.tolist()
        ready = [operator for operator, left in enumerate(waiting) if not left]
        for operator in ready:
            for edge in self.outgoing[operator]:
                consumer = consumers[edge]
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    ready.append(consumer)
        return tuple(ready)

    def arrivals(self, emitted: Floats) -> Floats:
        """Return the tuples a second that each operator gets at these rates of the sources.

        What several producers send adds up.

        Args:
            emitted: for each source, its tuples a second; 0 for other operators.
        """
        found = emitted.tolist()
        consumers, selectivity = self.consumers.tolist(), self.selectivity.tolist()
        for operator in self.order:
            rate = found[operator]
            for edge in self.outgoing[operator]:
                found[consumers[edge]] += rate * selectivity[edge]
        arriving = np.array(found)
        beyond = np.flatnonzero(~np.isfinite(arriving))
        if len(beyond):
            raise DataflowError(
                f"the rate of {self.names[beyond[0]]!r} is beyond all floats; check the rates and "
                "selectivities before it"
            )
        return arriving


def _operators(names: Iterable[str]) -> tuple[str, ...]:
    operators = listed("names", names)
    if not operators:
        raise DataflowError("a dataflow without an operator cannot be planned; name one")
    for place, name in enumerate(operators):
        if not isinstance(name, str):
            raise InvalidValueError(f"names[{place}]={name!r} is not a name; give a string")
    name, times = Counter(operators).most_common(1)[0]
    if times > 1:
        raise DataflowError(f"operator {name!r} is there {times} times; name each differently")
    return operators


def _ends(
    operators: tuple[str, ...], edges: Iterable[tuple[str, str]]
) -> tuple[Integers, Integers]:
    numbers = {name: place for place, name in enumerate(operators)}
    ends: dict[tuple[int, int], None] = {}
    for place, edge in enumerate(listed("edges", edges)):
        if not isinstance(edge, tuple) or len(edge) != 2:
            raise InvalidValueError(
                f"edges[{place}]={edge!r} is no edge; write ('producer', 'consumer')"
            )
        for name in edge:
            if name not in numbers:
                raise DataflowError(
                    f"edges[{place}]={edge!r}: there is no operator {name!r}; name it in `names`"
                )
        pair = numbers[edge[0]], numbers[edge[1]]
        if pair in ends:
            raise DataflowError(f"edges[{place}]={edge!r} is there twice; add up what it carries")
        ends[pair] = None
    found = np.array(list(ends), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _require_order(flow: Dataflow) -> None:
    left = set(range(flow.operators)) - set(flow.order)
    if left:
        # Each that is left has a producer that is left: going backwards ends in a cycle.
        before = {
            consumer: producer
            for producer, consumer in zip(
                flow.producers.tolist(), flow.consumers.tolist(), strict=True
            )
            if producer in left
        }
        path = [min(left)]
        while before[path[-1]] not in path:
            path.append(before[path[-1]])
        cycle = path[path.index(before[path[-1]]) :][::-1]
        names = [flow.names[operator] for operator in [*cycle, cycle[0]]]
        raise DataflowError(f"{' -> '.join(names)} is a cycle; a plan needs a dataflow without one")
