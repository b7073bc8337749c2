"""How a batch travels: from link to link, until the last of it is there."""

from dataclasses import dataclass

from optimizers.simulation.events.batches import Load
from optimizers.simulation.events.operators import Item
from optimizers.simulation.network import Network
from optimizers.simulation.wires import Path, Wires


@dataclass(slots=True)
class Trip:
    """A batch on its way.

    Attributes:
        load: its tuples.
        path: the links that its head has yet to reach.
        through: when its last byte is through those that it has reached.
        latency: how much later it is there.
        receiving: how long its receiver has to work before it has it.
    """

    load: Load
    path: Path
    through: float
    latency: float
    receiving: float

    @classmethod
    def of(cls, load: Load, network: Network, wires: Wires, now: float) -> "Trip":
        """Return how a batch travels that leaves its sender now."""
        edge = load.edge
        start, end = edge.starts[load.sender], edge.ends[load.instance]
        if start == end:
            return cls(load, (), now, 0.0, 0.0)
        path, latency = wires.route(edge.edge_run.edge.name, start, end)
        return cls(load, path, now, latency, network.received(load.size))

    def goes_on(self, wires: Wires, now: float) -> float | None:
        """Pass the link that its head is at, and return when it is at the next; None if at none."""
        (link, bandwidth), *rest = self.path
        seconds = self.load.size / bandwidth
        head = wires.take(link, now, seconds)
        self.through = max(self.through, head + seconds)
        self.path = tuple(rest)
        return head if rest else None

    def arrival(self) -> tuple[float, list[Item]]:
        """Return when it is there, and the tuples that it has brought."""
        load, time = self.load, self.through + self.latency
        number, sender = load.edge.edge_run.number, load.sender
        items = [
            Item(row, number, sender, time, carried, load.conversation)
            for row, carried in zip(load.rows, load.carried, strict=True)
        ]
        if self.receiving:
            items[0] = items[0]._replace(receiving=self.receiving)
        return time, items
