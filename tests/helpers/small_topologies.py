"""Small jobs that tests of topologies share."""

from itertools import pairwise

from optimizers import Edge, Operator, Topology


def chain(*names):
    return [Operator(name) for name in names], [Edge(*pair) for pair in pairwise(names)]


def keyed(name, **fields):
    return Operator(name, key="k", **fields)


JOB = Topology.source("in").then("mid", key="k", parallelism=2).then("out")


def paths(topology, through=lambda _: True):
    """All (first, last) joined by a path whose inner operators pass; by plain enumeration."""
    found = set()

    def walk(first, here):
        for edge in topology.edges:
            if edge.source == here:
                found.add((first, edge.target))
                if through(topology.operator(edge.target)):
                    walk(first, edge.target)

    for operator in topology.operators:
        walk(operator.name, operator.name)
    return found
