"""Machines of a simulation, which come a while after a plan wants them, and go at once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as counted

import numpy as np

from optimizers.cluster import Cluster, Node
from optimizers.simulation.observation import Stretch
from optimizers.topology import Topology
from sketches.arrays import Integers


class SimulatedMachines:
    """A cluster that grows and shrinks as plans want: a `Provisioner`, which can cancel.

    Nodes that a plan adds come as it describes them. Others are like the last declared one, with
    the first names of the form ``node-4`` that were never used.

    Args:
        declared: the machines as declared.
        delay: how many seconds a node takes to come.

    Attributes:
        now: the time, set by the simulation.
        added: the nodes that the plan in force adds, likewise.
    """

    def __init__(self, declared: Cluster, delay: float) -> None:
        self._delay = delay
        self._like = declared.nodes[-1]
        self._used = {node.name for node in declared.nodes}
        self._cluster = declared
        self._coming: list[tuple[float, Node | None]] = []  # when nodes come, and which
        self.now = 0.0
        self.added: tuple[Node, ...] = ()

    def acquire(self, count: int, _total: int, /) -> None:
        """Order this number of further nodes."""
        ordered = {node for _, node in self._coming}
        lacking = [node for node in self.added if not self._knows(node.name)]
        asked = [node for node in lacking if node not in ordered][:count]
        when = self.now + self._delay
        self._coming += [(when, node) for node in (*asked, *[None] * (count - len(asked)))]

    def cancel(self, count: int, _total: int, /) -> None:
        """Have this many of those that are to come not come: the last, but first unwanted ones."""
        for _ in range(min(count, len(self._coming))):
            unwanted = [
                place
                for place, (_, node) in enumerate(self._coming)
                if node is not None and node not in self.added
            ]
            del self._coming[unwanted[-1] if unwanted else -1]

    def release(self, nodes: Sequence[str], /) -> None:
        """Remove these nodes."""
        there = self._cluster.nodes
        self._cluster = self._cluster.became(node for node in there if node.name not in nodes)

    def look(self) -> Cluster:
        """Return the machines that are there."""
        come = [node for when, node in self._coming if when <= self.now]
        if come:
            self._coming = [(when, node) for when, node in self._coming if when > self.now]
            new = [self._like_declared() if node is None else node for node in come]
            self._used.update(node.name for node in new)
            self._cluster = self._cluster.became((*self._cluster.nodes, *new))
        return self._cluster

    def _knows(self, name: str) -> bool:
        return any(node.name == name for node in self._cluster.nodes)

    def _like_declared(self) -> Node:
        coming = {node.name for node in self.added}
        number = next(n for n in counted() if f"node-{n}" not in self._used | coming)
        self._used.add(f"node-{number}")
        return replace(self._like, name=f"node-{number}")


class Leftovers:
    """Counts the tuples that were sent to each instance and are not executed yet.

    An instance that a plan takes away goes on where it is until it has done all tuples that were
    sent to it. So a node may have work left though no plan has an instance there.

    Args:
        topology: the job.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._left: dict[str, Integers] = {
            name: np.zeros(0, dtype=np.int64) for name in topology.order if topology.inputs(name)
        }

    def add(self, batch: Stretch) -> None:
        """Take in what was sent and executed in a batch."""
        for name, left in self._left.items():
            count = len(batch.nodes[name])
            total = np.zeros(count, dtype=np.int64)
            total[: len(left)] = left
            for edge in self._topology.inputs(name):
                total += np.bincount(batch.sent[edge.name].instances, minlength=count)
            self._left[name] = total - np.bincount(batch.served[name].instances, minlength=count)

    def nodes(self, batch: Stretch) -> set[str]:
        """Return the nodes that have work left, given a batch's instances."""
        found = ((batch.nodes[name], left) for name, left in self._left.items())
        return {nodes[place] for nodes, left in found for place in np.flatnonzero(left).tolist()}
