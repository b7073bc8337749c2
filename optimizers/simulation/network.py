"""The costs of getting tuples from one instance to another."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from batching.buffers import FlushRules
from optimizers.errors import InvalidValueError
from sketches.checks import amount, number

Links = Literal["nodes", "pairs", "edges"]
Buffers = Literal["distinct", "alike", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The costs of shipping; by default there are none.

    An instance that sends a batch of tuples is busy for ``per_batch`` seconds, and for ``per_byte``
    more with each byte, before its next tuple, also if the batch stays on its node. A batch for
    another node costs ``remote_per_batch`` and ``remote_per_byte`` besides, and that at both ends:
    the receiver pays before it begins with the first of its tuples.

    Then the batch travels, at no time within a node, else over links that take one batch after the
    other, and ``latency`` later it is there. By default each node has a link out and a link in;
    ``links`` says whether each pair of nodes has its own instead, or each edge on each pair.
    Racks may have a link up and a link down for all that leaves and enters them. What is at the
    head of a batch goes on to its next link at once. Messages that report to senders take the
    latency alone.

    >>> Network(per_batch=0.001, per_byte=1e-6).cost(500)
    0.0015
    >>> Network(per_batch=0.001, remote_per_batch=0.004).cost(500, remote=True)
    0.005

    Attributes:
        latency: how many seconds a batch or message is on its way between two nodes.
        bandwidth: how many bytes a second pass a link, where a node does not say so itself.
        links: which batches share a link: all that leave or enter one of the ``"nodes"``, as on a
            network card; all between two nodes, for ``"pairs"``; or those of one edge of the job
            between two nodes, for ``"edges"``.
        rack_latency: how many seconds more it takes to another rack.
        rack_bandwidth: how many bytes a second leave or enter a rack.
        per_batch: how many seconds a batch of any size costs its sender.
        per_byte: how many seconds each byte of a batch costs its sender.
        remote_per_batch: how many more each end pays for a batch between two nodes.
        remote_per_byte: how many more each end pays for each byte of it.
        linger: how many seconds the first tuple of a batch may wait for the others; if infinite,
            until the batch is full or the sending operator has ended.
        batch_bytes: how many bytes fill a batch, however few its tuples are.
        buffers: which edges out of an operator share batches: none (``"distinct"``); those by which
            each tuple goes to instances of one number (``"alike"``); or all (``"shared"``), with a
            batch for each combination of their instances, which fill more slowly. A batch that is
            shared is packed once, which takes ``per_byte``, and is sent to one instance by each
            edge, which takes all the rest each time. Edges that listen share none.

    References:
        M. J. Sax, M. Castellanos, Q. Chen, M. Hsu, "Aeolus: An optimizer for distributed
        intra-node-parallel streaming systems", ICDE 2013: the shipping cost n + b * t * s.
    """

    latency: float = 0.0
    bandwidth: float = math.inf
    links: Links = "nodes"
    rack_latency: float = 0.0
    rack_bandwidth: float = math.inf
    per_batch: float = 0.0
    per_byte: float = 0.0
    remote_per_batch: float = 0.0
    remote_per_byte: float = 0.0
    linger: float = math.inf
    batch_bytes: float = math.inf
    buffers: Buffers = "distinct"

    def __post_init__(self) -> None:
        for name in (
            "latency",
            "rack_latency",
            "per_batch",
            "per_byte",
            "remote_per_batch",
            "remote_per_byte",
        ):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        for name in ("bandwidth", "rack_bandwidth", "batch_bytes"):
            if getattr(self, name) != math.inf:
                object.__setattr__(self, name, number(name, getattr(self, name), above=0))
        for name, kinds in (("links", Links), ("buffers", Buffers)):
            given = getattr(self, name)
            if given not in get_args(kinds):
                known = ", ".join(map(repr, get_args(kinds)))
                raise InvalidValueError(f"{name}={given!r} is unknown; say one of {known}")
        if self.linger != math.inf:
            object.__setattr__(self, "linger", amount("linger", self.linger))

    @property
    def delays(self) -> bool:
        """Whether anything takes time between two nodes."""
        return self.latency > 0 or self.bandwidth < math.inf or self.knows_racks

    @property
    def knows_racks(self) -> bool:
        """Whether it matters in which rack a node is."""
        return self.rack_latency > 0 or self.rack_bandwidth < math.inf

    @property
    def charges(self) -> bool:
        """Whether sending costs the sender anything."""
        return self.per_batch > 0 or self.per_byte > 0 or self.charges_both

    @property
    def charges_both(self) -> bool:
        """Whether a batch to another node costs both ends."""
        return self.remote_per_batch > 0 or self.remote_per_byte > 0

    def rules(self, rows: int) -> FlushRules:
        """Return when a batch of at most `rows` tuples is full; events see to `linger`."""
        return FlushRules(rows, None if self.batch_bytes == math.inf else self.batch_bytes)

    def cost(self, size: float, *, remote: bool = False, again: bool = False) -> float:
        """Return how many seconds a batch of ``size`` bytes costs its sender.

        Args:
            size: its bytes.
            remote: whether it goes to another node.
            again: whether it was packed already, for another edge.
        """
        own = self.per_batch if again else self.per_batch + size * self.per_byte
        return own + self.received(size) if remote else own

    def received(self, size: float) -> float:
        """Return how many seconds a batch of another node costs its receiver."""
        return self.remote_per_batch + size * self.remote_per_byte
