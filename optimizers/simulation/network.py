"""What it costs to get tuples from one instance to another."""

import math
from dataclasses import dataclass

from sketches.checks import amount, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The costs of shipping; by default there are none.

    An instance that sends a batch of tuples is busy for ``per_batch`` seconds, and for ``per_byte``
    more with each byte, before it goes on with its next tuple, also where the batch stays on its
    node. Then the batch travels, at no time within a node, else over the connection of the two
    nodes: one batch of an edge after the other at ``bandwidth``, and each ``latency`` later.
    Different edges, and different pairs of nodes, are not in each other's way. Messages that report
    to senders take the latency alone.

    >>> Network(per_batch=0.001, per_byte=1e-6).cost(500)
    0.0015

    Attributes:
        latency: how many seconds a batch or message is on its way between two nodes.
        bandwidth: how many bytes a second pass from one node to another, on each edge.
        per_batch: how many seconds a batch of any size costs its sender.
        per_byte: how many seconds each byte of a batch costs its sender.
        linger: how many seconds the first tuple of a batch may wait for the others; infinite for
            until the batch is full or the sending operator has ended.

    References:
        M. J. Sax, M. Castellanos, Q. Chen, M. Hsu, "Aeolus: An optimizer for distributed
        intra-node-parallel streaming systems", ICDE 2013: the shipping cost n + b * t * s.
    """

    latency: float = 0.0
    bandwidth: float = math.inf
    per_batch: float = 0.0
    per_byte: float = 0.0
    linger: float = math.inf

    def __post_init__(self) -> None:
        for name in ("latency", "per_batch", "per_byte"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        if self.bandwidth != math.inf:
            above = number("bandwidth", self.bandwidth, above=0)
            object.__setattr__(self, "bandwidth", above)
        if self.linger != math.inf:
            object.__setattr__(self, "linger", amount("linger", self.linger))

    @property
    def delays(self) -> bool:
        """Whether anything takes time between two nodes."""
        return self.latency > 0 or self.bandwidth < math.inf

    @property
    def charges(self) -> bool:
        """Whether sending costs the sender anything."""
        return self.per_batch > 0 or self.per_byte > 0

    def cost(self, size: float) -> float:
        """Return how many seconds a batch of ``size`` bytes costs its sender."""
        return self.per_batch + size * self.per_byte
