"""The tuples that wait at their senders until a batch is full, and leave together.

Which edges share batches says `Network.buffers`, as `batching.buffers` has it: each has its own, or
those have one that spread tuples alike, or all of an operator. Edges that listen are always alone:
where they send a tuple may depend on what came of the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from grouping.feedback import Message
from optimizers.layout import Layout
from optimizers.simulation.events.edges import EventEdge
from optimizers.simulation.network import Buffers
from optimizers.simulation.queues.conversation import Conversation


@dataclass(slots=True, eq=False)
class Load:
    """Tuples of one sender that travel together to one instance.

    Attributes:
        edge: their edge.
        sender: which instance sends.
        instance: which instance they are for.
        rows: the tuples.
        carried: what travels with each.
        size: how many bytes they have.
        closed: when it was settled that they leave.
        conversation: the conversation to which they are reported, if any.
    """

    edge: EventEdge
    sender: int
    instance: int
    rows: list[int]
    carried: list[Message]
    size: float
    closed: float
    conversation: Conversation | None = None

    @property
    def remote(self) -> bool:
        """Whether they go to another node, as instances are placed now."""
        return self.edge.starts[self.sender] != self.edge.ends[self.instance]


@dataclass(slots=True, eq=False)
class TupleBatch:
    """Tuples of one sender that leave together: for one instance by each edge of a pool.

    Attributes:
        pool: their edges.
        sender: which instance sends.
        instances: for each edge, which instance they are for.
        conversations: for each edge, the conversation to which they are reported, if any.
        rows: the tuples.
        carried: for each edge, what travels with each.
        size: how many bytes they have.
        closed: when it was settled that they leave; None as long as more may come.
        gone: whether they leave or have left, and do not wait for their sender any more.
        cause: which of those that leave at one time it is, see `events.loop`.
    """

    pool: "EdgePool"
    sender: int
    instances: tuple[int, ...]
    conversations: list[Conversation | None]
    carried: list[list[Message]]
    rows: list[int] = field(default_factory=list)
    size: float = 0.0
    closed: float | None = None
    gone: bool = False
    cause: int = 0

    def loads(self, now: float) -> list[Load]:
        """Return what goes to each instance, in the order of the edges."""
        closed = now if self.closed is None else self.closed
        return [
            Load(edge, self.sender, instance, self.rows, carried, self.size, closed, conversation)
            for edge, instance, carried, conversation in zip(
                self.pool.edges, self.instances, self.carried, self.conversations, strict=True
            )
        ]


class EdgePool:
    """The batches that some edges out of an operator share, and that are not full.

    Args:
        edges: the edges.

    Attributes:
        edges: the edges.
        open: the batches, by sender and an instance for each edge.
    """

    def __init__(self, edges: Sequence[EventEdge]) -> None:
        self.edges = tuple(edges)
        self.open: dict[tuple[int, ...], TupleBatch] = {}

    def put(self, sender: int, chosen: Sequence[tuple[int, Message]], row: int) -> TupleBatch:
        """Put a tuple into its batch.

        Args:
            sender: the instance that sends it.
            chosen: for each edge, the instance that is to get it, and what travels with it.
            row: the tuple.
        """
        edges = self.edges
        if len(edges) == 1:  # as in most runs, and this is done for each tuple
            ((instance, carries),) = chosen
            batch = self.open.get((sender, instance)) or self._begun(sender, instance)
            batch.carried[0].append(carries)
            edges[0].count(sender, instance, row)
        else:
            instances = [instance for instance, _ in chosen]
            batch = self.open.get((sender, *instances)) or self._begun(sender, *instances)
            for edge, (instance, carries), along in zip(edges, chosen, batch.carried, strict=True):
                along.append(carries)
                edge.count(sender, instance, row)
        batch.rows.append(row)
        batch.size += edges[0].sizes[row]
        return batch

    def _begun(self, sender: int, *instances: int) -> TupleBatch:
        conversations = [edge.conversation for edge in self.edges]
        carried: list[list[Message]] = [[] for _ in self.edges]
        batch = TupleBatch(self, sender, instances, conversations, carried)
        for edge in self.edges:
            edge.flow.parcels += edge.rules.rows > 1
        self.open[sender, *instances] = batch
        return batch

    def close(self, batch: TupleBatch, now: float) -> None:
        """Let no more tuples into a batch."""
        batch.closed = now
        del self.open[batch.sender, *batch.instances]

    def waiting(self) -> list[TupleBatch]:
        """Return the batches that are not full, by sender and instances."""
        return [self.open[ends] for ends in sorted(self.open)]


def pooled(
    operator: str, edges: Sequence[EventEdge], layout: Layout, buffers: Buffers
) -> list[tuple[EventEdge, ...]]:
    """Return the edges out of an operator, those together that share batches.

    Args:
        operator: the operator.
        edges: its edges.
        layout: the job as laid out.
        buffers: see `Network.buffers`.
    """
    by_name = {edge.edge_run.edge.name: edge for edge in edges}
    if buffers == "alike":
        groups = [tuple(by_name[edge.name] for edge in each) for each in layout.alike(operator)]
    elif buffers == "shared":
        silent = tuple(edge for edge in edges if edge.conversation is None)
        groups = [silent] * bool(silent)
        groups += [(edge,) for edge in edges if edge.conversation is not None]
    else:
        groups = [(edge,) for edge in edges]
    return sorted(groups, key=lambda group: edges.index(group[0]))
