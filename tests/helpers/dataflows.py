"""Small dataflows with round numbers, so that a test can reckon with them in fractions."""

from fractions import Fraction

from hypothesis import strategies as st

from batching.dataflow import Dataflow
from batching.tuple_costs import Shipping

THOUSANDTHS = st.integers(0, 20).map(lambda count: Fraction(count, 1000))
HALVES = st.integers(0, 4).map(lambda count: Fraction(count, 2))


class Described:
    """A dataflow as lists of fractions, and the same as Penstock has it."""

    def __init__(self, columns, edges, edge_columns, message, byte):
        self.columns = columns
        self.edges = edges
        self.edge_columns = edge_columns
        self.message = message
        self.byte = byte

    @property
    def names(self):
        return [f"operator {place}" for place in range(len(self.columns["seconds"]))]

    def __repr__(self):
        return f"{self.columns} {self.edges} {self.edge_columns} {self.message} {self.byte}"

    def flow(self, **changed):
        names = self.names
        columns = {
            name: [float(value) for value in values]
            for name, values in {**self.columns, **self.edge_columns}.items()
            if name not in {"given", "keyed"}
        }
        return Dataflow.of(
            names,
            [(names[producer], names[consumer]) for producer, consumer in self.edges],
            given=self.columns["given"],
            keyed=self.edge_columns["keyed"],
            **{**columns, **changed},
        )

    def shipping(self):
        return Shipping(float(self.message), float(self.byte))

    def is_source(self, operator):
        return all(consumer != operator for _, consumer in self.edges)

    def outgoing(self, operator):
        return [place for place, (producer, _) in enumerate(self.edges) if producer == operator]

    def rate(self, operator, emitted):
        """The tuples a second that come to an operator, by following its producers back."""
        if self.is_source(operator):
            return emitted[operator]
        return sum(
            self.rate(producer, emitted) * self.edge_columns["selectivity"][place]
            for place, (producer, consumer) in enumerate(self.edges)
            if consumer == operator
        )

    def work(self, operator, batch):
        """The seconds that an operator works for a tuple, message by message."""
        total = self.columns["seconds"][operator]
        for edge in self.outgoing(operator):
            size = self.edge_columns["sizes"][edge]
            message = self.message + batch * size * self.byte
            total += self.edge_columns["selectivity"][edge] * message / batch
        return total

    def largest(self, operator, batch_bytes):
        sizes = [
            self.edge_columns["sizes"][edge]
            for edge in self.outgoing(operator)
            if self.edge_columns["selectivity"][edge]
        ]
        return max(1, int(batch_bytes // max(sizes))) if sizes else 1

    def usage(self, operator, rate, instances, batch):
        share = max(self.columns["hottest"][operator], Fraction(1, instances))
        return rate * share * self.work(operator, batch)


@st.composite
def dataflows(draw, *, most=5, hottest=None):
    """Up to some operators in layers; each may have several producers and consumers, or none."""
    count = draw(st.integers(1, most))
    edges = [
        (producer, consumer)
        for consumer in range(count)
        for producer in range(consumer)
        if draw(st.booleans())
    ]
    fed = {consumer for _, consumer in edges}

    def column(values, length):
        return draw(st.lists(values, min_size=length, max_size=length))

    shares = st.sampled_from([Fraction(0), Fraction(1, 20), Fraction(1, 3)])
    columns = {
        "seconds": column(THOUSANDTHS, count),
        "rates": [
            Fraction(0) if place in fed else Fraction(draw(st.integers(0, 100)))
            for place in range(count)
        ],
        "hottest": column(shares if hottest is None else hottest, count),
        "given": [1 if place in fed else draw(st.integers(1, 3)) for place in range(count)],
    }
    edge_columns = {
        "selectivity": column(HALVES, len(edges)),
        "sizes": column(st.integers(1, 30).map(Fraction), len(edges)),
        "keyed": column(st.booleans(), len(edges)),
    }
    message, byte = draw(THOUSANDTHS), draw(st.integers(0, 5)) * Fraction(1, 100_000)
    return Described(columns, edges, edge_columns, message, byte)
