"""The instances of one operator, as events happen to them."""

from collections import deque
from typing import NamedTuple

import numpy as np

from grouping.feedback import Message
from optimizers.simulation.events.backlog import EventBacklog
from optimizers.simulation.events.batches import EdgePool, TupleBatch
from optimizers.simulation.events.edges import EventEdge
from optimizers.simulation.queues.conversation import Conversation
from optimizers.simulation.queues.queue import OperatorQueues
from optimizers.simulation.rows import Served
from sketches.arrays import Integers


class Item(NamedTuple):
    """A tuple at an instance.

    Attributes:
        row: which tuple.
        edge: by which edge into the operator it came.
        sender: which instance sent it.
        arrived: when it arrived.
        carried: what travelled with it.
        conversation: the conversation to which it is reported, if any.
        known: how long it takes where work on it has begun, else None.
        receiving: how long its instance has to receive before it can begin with it.
        waited: how long its instance waited for a core to begin with it.
    """

    row: int
    edge: int
    sender: int
    arrived: float
    carried: Message
    conversation: Conversation | None
    known: float | None = None
    receiving: float = 0.0
    waited: float = 0.0


class EventOperator:
    """The instances of one operator.

    Args:
        operator_queue: the operator.
        rank: its place in the order of the job.
        counts: how many tuples it emits for each tuple of the run; None for one each.
        works: whether its instances need a core, which not all have for themselves.

    Attributes:
        into: the edges into it.
        out: the edges out of it.
        pools: those of them together that share batches.
        nodes: the number of the node that each instance is on.
        queues: what waits at each instance.
        busy: whether each instance is at work, on a tuple or on sending, or waits for a core.
        free: when each has done its sending.
        since: when each began to wait for a core, if it does.
        late: batches that have waited long enough, but not for an idle sender.
        backlog: the truth of what is left to do.
        left: how many tuples are on their way to it, or there.
        ended: whether it and all before it have executed their last.
    """

    def __init__(
        self,
        operator_queue: OperatorQueues,
        rank: int,
        counts: Integers | None,
        *,
        works: bool,
    ) -> None:
        self.operator_queue = operator_queue
        self.rank = rank
        self.works = works
        self.into: list[EventEdge] = []
        self.out: list[EventEdge] = []
        self.pools: list[EdgePool] = []
        self.counts: list[int] | None = None if counts is None else counts.tolist()
        self.seconds: list[float] = operator_queue.seconds.tolist()
        self.rates: list[float] = []
        self.nodes: list[int] = []
        self.queues: list[deque[Item]] = []
        self.busy: list[bool] = []
        self.free: list[float] = []
        self.since: list[float | None] = []
        self.late: list[deque[TupleBatch]] = []
        self.backlog = EventBacklog()
        self.left = 0
        self.ended = False
        self.record: list[tuple[int, int, int, float, float, float, float]] = []

    def fit(self) -> None:
        """Make room for all instances that the operator has by now."""
        self.rates = self.operator_queue.rates.tolist()
        self.nodes = self.operator_queue.nodes.tolist()
        for number in range(len(self.queues), len(self.rates)):
            self.queues.append(deque())
            self.busy.append(False)
            self.free.append(float(self.operator_queue.free[number]))
            self.since.append(None)
            self.late.append(deque())
        self.backlog.fit(self.operator_queue.rates)

    def emits(self, row: int) -> int:
        """Return how many tuples come of a tuple."""
        return 1 if self.counts is None else self.counts[row]

    def served(self) -> Served:
        """Return what was executed since this was asked last."""
        record, self.record = self.record, []
        rows, instances, edges = (np.array([each[k] for each in record], int) for k in range(3))
        times = (np.array([each[k] for each in record], float) for k in range(3, 7))
        return Served(rows, instances, edges, *times)
