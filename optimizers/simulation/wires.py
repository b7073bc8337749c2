"""The links between the nodes of a run: the path of a batch, and when each link is free."""

import math
from collections.abc import Hashable, Mapping

from optimizers.cluster import Cluster
from optimizers.operators import EdgeName
from optimizers.simulation.network import Network

Path = tuple[tuple[Hashable, float], ...]
"""Links one after the other, each with the bytes a second that pass it."""


class Wires:
    """The links of a run. A batch takes each of its path for as long as its bytes take to pass.

    Args:
        network: what travelling takes.

    Attributes:
        free: when each link that has carried something is free again.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._racks: list[str] = []
        self._cards: list[float] = []  # what leaves or enters each node in a second
        self._routes: dict[tuple[EdgeName, int, int], tuple[Path, float]] = {}
        self.free: dict[Hashable, float] = {}

    def fit(self, cluster: Cluster, numbers: Mapping[str, int]) -> None:
        """Take over the present nodes, by their numbers."""
        for name in list(numbers)[len(self._racks) :]:
            node = cluster.node(name)
            self._racks.append(node.rack)
            own = self._network.bandwidth if node.bandwidth is None else node.bandwidth
            self._cards.append(own)

    def latency(self, start: int, end: int) -> float:
        """Return how long something is on its way, besides the time of its bytes."""
        if start == end:
            return 0.0
        network = self._network
        far = self._racks[start] != self._racks[end]
        return network.latency + network.rack_latency if far else network.latency

    def path(self, edge: EdgeName, start: int, end: int) -> Path:
        """Return the links from one node to another, for what an edge carries."""
        return self.route(edge, start, end)[0]

    def route(self, edge: EdgeName, start: int, end: int) -> tuple[Path, float]:
        """Return the links from one node to another, and the latency."""
        known = self._routes.get((edge, start, end))
        if known is None:
            known = self._path(edge, start, end), self.latency(start, end)
            self._routes[edge, start, end] = known
        return known

    def _path(self, edge: EdgeName, start: int, end: int) -> Path:
        if start == end:
            return ()
        network, cards = self._network, (self._cards[start], self._cards[end])
        links: list[tuple[Hashable, float]]
        if network.links == "nodes":
            links = [(("out", start), cards[0]), (("in", end), cards[1])]
        elif network.links == "pairs":
            links = [((start, end), min(cards))]
        else:
            links = [((edge, start, end), min(cards))]
        up, down = self._racks[start], self._racks[end]
        if up != down:
            wide = network.rack_bandwidth
            links[1:1] = [(("up", up), wide), (("down", down), wide)]
        return tuple(link for link in links if link[1] < math.inf)

    def take_over(self, edge: EdgeName, links: Mapping[int, float]) -> None:
        """Learn when links are free again that only an edge has used, by both ends in a number."""
        for both, time in links.items():
            for link, _ in self.path(edge, both >> 32, both & 0xFFFFFFFF):
                self.free[link] = max(time, self.free.get(link, 0.0))

    def take(self, link: Hashable, now: float, seconds: float) -> float:
        """Let something pass a link that is at it now, and return when it begins to."""
        begin = max(now, self.free.get(link, 0.0))
        self.free[link] = begin + seconds
        return begin
