"""Streams for buffers of several consumers, and their laws, for whatever implements buffers.

An implementation is a function of a stream, rules and whether batches are shared. It returns what
each instance of each consumer got, as numbers of tuples in the order in which they came.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from batching.buffers import FlushRules
from grouping.routing_table import RoutingTable
from optimizers import Edge, Operator, Topology


@dataclass(frozen=True)
class Consumers:
    """Consumers and the tuples that they are to get.

    Attributes:
        instances: how many instances each has.
        alike: the consumers that get each tuple at the same instance.
        pieces: the tuples as they come: columns, for each consumer the targets, and sizes.
    """

    instances: list
    alike: list
    pieces: list

    @property
    def expected(self):
        """For each instance of each consumer the numbers of its tuples, in order."""
        found = defaultdict(list)
        for columns, targets, _ in self.pieces:
            for consumer, given_to in enumerate(targets):
                for number, instance in zip(columns["number"], given_to, strict=True):
                    found[consumer, int(instance)].append(int(number))
        return dict(found)

    @property
    def job(self):
        """The same as a job: a source whose tuples name in a column the instance they are for."""
        operators, edges = [Operator("s")], []
        for number, count in enumerate(self.instances):
            table = RoutingTable([*range(count)], [*range(count)], count)
            operators.append(Operator(f"c{number}", self.column(number), count))
            edges.append(Edge("s", f"c{number}", table))
        return Topology(tuple(operators), tuple(edges))

    def column(self, consumer):
        """The column that names the instance of a consumer."""
        return f"to {min(self.alike[0]) if self.alike and consumer in self.alike[0] else consumer}"

    def columns(self, piece):
        """The columns of a piece, with those that name instances."""
        columns, targets, _ = piece
        named = {self.column(number): given for number, given in enumerate(targets)}
        return {"number": columns["number"], **named}


@st.composite
def streams(draw):
    """Some consumers, of which some may be alike, and tuples in several pieces."""
    instances = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    alike = []
    if len(instances) > 1 and draw(st.booleans()):
        instances[1] = instances[0]
        alike = [(1, 0)]
    pieces, number = [], 0
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 12))
        targets = [
            np.array(draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)), int)
            for n in instances
        ]
        if alike:
            targets[1] = targets[0]
        sizes = np.array(draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)), float)
        columns = {"number": np.arange(number, number + count), "size": sizes}
        pieces.append((columns, targets, sizes))
        number += count
    return Consumers(instances, alike, pieces)


RULES = st.builds(
    FlushRules,
    st.integers(1, 5),
    st.none() | st.sampled_from([1.0, 6.0, 20.0]),
    st.none() | st.sampled_from([0.5, 2.0]),
)


def check_order(stream, got):
    """Hold it against the law of distinct batches: each instance gets its tuples in their order."""
    assert stream.expected == {who: numbers for who, numbers in got.items() if numbers}


def check_once(stream, got):
    """Hold it against the law of shared batches: each instance gets its tuples once."""
    assert stream.expected == {who: sorted(numbers) for who, numbers in got.items() if numbers}
