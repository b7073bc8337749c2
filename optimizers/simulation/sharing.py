"""The cores and links that the instances of a run share, and may have to wait for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimizers.cluster import Cluster, Node
from optimizers.simulation.network import Network
from optimizers.simulation.tuples import Tuples
from optimizers.topology import Topology


class Sharing:
    """Tells whether anything is shared; if not, operators can be simulated one by one.

    Args:
        topology: the job.
        network: what shipping costs.
        tuples: what comes in.
        cores: how many cores a node has that does not say so.

    Attributes:
        needing: the operators whose instances take time, for which they need a core.
        cores: how many cores each node has, by its number.
    """

    def __init__(self, topology: Topology, network: Network, tuples: Tuples, cores: float) -> None:
        self._topology = topology
        self._network = network
        self._default = cores
        self.needing = frozenset(
            name for name in topology.order if _takes_time(name, topology, network, tuples)
        )
        self.cores: dict[int, float] = {}
        self._knows_bandwidth = False
        self._been: dict[int, set[tuple[str, int]]] = {}  # instances that were on each node
        self._edges: dict[tuple[int, int], set[tuple[str, str]]] = {}

    def fit(
        self, machines: Cluster, numbers: Mapping[str, int], nodes: Mapping[str, Sequence[int]]
    ) -> None:
        """Learn of a layout.

        Args:
            machines: the nodes.
            numbers: the number of each.
            nodes: by operator, the number of the node that each instance is on.
        """
        for machine in machines.nodes:
            self.cores[numbers[machine.name]] = self.cores_of(machine)
            self._knows_bandwidth |= machine.bandwidth is not None
        for name in self.needing:
            for instance, node in enumerate(nodes[name]):
                # An instance that moves ends where it was what it has begun there.
                self._been.setdefault(node, set()).add((name, instance))
        if self._network.links == "pairs":
            for edge in self._topology.edges:
                for start in set(nodes[edge.source]):
                    for end in set(nodes[edge.target]) - {start}:
                        self._edges.setdefault((start, end), set()).add(edge.name)

    def cores_of(self, node: Node) -> float:
        """Return how many instances of a node work at a time."""
        return self._default if node.cores is None else at_once(node.cores)

    @property
    def shares(self) -> bool:
        """Whether more instances than cores may work on a node, or anything shares a link.

        Also where both ends pay for what is sent: then what is sent depends on where it goes.
        """
        crowded = any(len(there) > self.cores[node] for node, there in self._been.items())
        return crowded or self._network.charges_both or self._shares_links

    @property
    def _shares_links(self) -> bool:
        network = self._network
        if network.knows_racks or self._knows_bandwidth:
            return True
        if network.bandwidth == math.inf or network.links == "edges":
            return False
        return network.links == "nodes" or any(len(edges) > 1 for edges in self._edges.values())


def at_once(cores: float) -> int:
    """Return how many instances work at a time on a number of cores; part of one is a slow one."""
    return max(1, int(cores))


def with_cores(machines: Cluster, cores: float) -> Cluster:
    """Return machines of which each says how many cores it has, if a number is known.

    Args:
        machines: the nodes.
        cores: how many a node has that does not say so.
    """
    if math.isinf(cores):
        return machines
    told = (replace(node, cores=node.cores or cores) for node in machines.nodes)
    return replace(machines, nodes=tuple(told))


def speed(node: Node) -> float:
    """Return how fast an instance is on a node: its capacity is that of all its cores."""
    return node.capacity / (1 if node.cores is None else at_once(node.cores))


def _takes_time(name: str, topology: Topology, network: Network, tuples: Tuples) -> bool:
    sends = network.charges and bool(topology.outputs(name))
    receives = network.charges_both and bool(topology.inputs(name))
    return sends or receives or bool(tuples.seconds(name).any())
