"""How a batch travels: from link to link, until the last of it is there."""

from dataclasses import dataclass

from optimizers.simulation.events.batches import Batch
from optimizers.simulation.events.operators import Item
from optimizers.simulation.network import Network
from optimizers.simulation.wires import Path, Wires


@dataclass(slots=True)
class Trip:
    """A batch on its way.

    Attributes:
        batch: the batch.
        path: the links that its head has yet to reach.
        through: when its last byte is through those that it has reached.
        latency: how much later it is there.
        receiving: how long its receiver has to work before it has it.
    """

    batch: Batch
    path: Path
    through: float
    latency: float
    receiving: float

    @classmethod
    def of(cls, batch: Batch, network: Network, wires: Wires, now: float) -> "Trip":
        """Return how a batch travels that leaves its sender now."""
        way = batch.way
        start, end = way.starts[batch.sender], way.ends[batch.instance]
        if start == end:
            return cls(batch, (), now, 0.0, 0.0)
        path, latency = wires.way(way.edge_run.edge.name, start, end)
        return cls(batch, path, now, latency, network.received(batch.size))

    def goes_on(self, wires: Wires, now: float) -> float | None:
        """Pass the link that its head is at, and return when it is at the next; None if at none."""
        (link, bandwidth), *rest = self.path
        seconds = self.batch.size / bandwidth
        head = wires.take(link, now, seconds)
        self.through = max(self.through, head + seconds)
        self.path = tuple(rest)
        return head if rest else None

    def arrival(self) -> tuple[float, list[Item]]:
        """Return when it is there, and the tuples that it has brought."""
        batch, time = self.batch, self.through + self.latency
        edge, sender = batch.way.edge_run.number, batch.sender
        items = [
            Item(row, edge, sender, time, carried, batch.conversation)
            for row, carried in zip(batch.rows, batch.carried, strict=True)
        ]
        if self.receiving:
            items[0] = items[0]._replace(receiving=self.receiving)
        return time, items
