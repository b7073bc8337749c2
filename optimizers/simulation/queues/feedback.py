"""One operator whose instances report to their senders, simulated by whole queues.

The instance of a tuple may depend on reports of earlier ones, so tuples are simulated one by one,
in the order of sending. As queues are infinite, the time at which a tuple is done is known as soon
as it arrives, and its report waits until that arrives, too. This is for tuples that leave one by
one, at no cost; for others see `events`.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import numpy as np

from grouping.feedback import Message
from optimizers.simulation.edges import EdgeRun
from optimizers.simulation.events.backlog import QueueBacklog
from optimizers.simulation.network import Network
from optimizers.simulation.queues.conversation import Conversation, Mailbox
from optimizers.simulation.queues.queue import OperatorQueues
from optimizers.simulation.rows import Arrivals, Served


class Listener:
    """An operator that tuples reach by groupings that listen, for the time of one epoch.

    Args:
        operator_queue: the operator.
        edge_runs: the edges into it.
        conversations: the conversations of those that listen, by the number of the edge.
        post: the messages on their way.
        network: what it takes to travel.
        offered: the tuples that are sent, in that order; those without an instance yet have a
            negative one.
        until: when the epoch ends.

    Attributes:
        truth: what the instances have before them.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        operator_queue: OperatorQueues,
        edge_runs: Sequence[EdgeRun],
        conversations: Mapping[int, Conversation],
        post: Mailbox,
        network: Network,
        offered: Arrivals,
        until: float,
    ) -> None:
        self._operator_queue = operator_queue
        self._edge_runs = edge_runs
        self._conversations = conversations
        self._post = post
        self._network = network
        self._until = until
        self._waiting = len(operator_queue.queue)
        self._every = every = operator_queue.queue.joined(offered)
        self.truth = QueueBacklog(operator_queue.rates, operator_queue.free)
        self._nodes: list[int] = operator_queue.nodes.tolist()
        self._instances: list[int] = every.instances.tolist()
        self._times: list[float] = every.times.tolist()
        self._edges: list[int] = every.edges.tolist()
        self._senders: list[int] = every.senders.tolist()
        self._taken: list[float] = operator_queue.seconds[every.rows].tolist()
        self._codes: list[int] = self._all_codes()
        self._carried: list[Message] = every.carried.tolist()
        self._order: list[int] = []
        self._started: list[float] = []
        self._ended: list[float] = []
        self._coming: list[tuple[float, float, int, int, int]] = []

    def serve(self) -> tuple[Served, Arrivals]:
        """Execute waiting and offered tuples, as far as they are done before the epoch ends.

        Returns:
            What was executed; and what was offered, each with its instance.
        """
        self._take_queue()
        self._dispatch()
        self._land(np.nextafter(self._until, 0.0))
        operator_queue, order = self._operator_queue, np.array(self._order, dtype=np.int64)
        every = self._settled()
        arrived = every.take(order)
        started, ended = np.array(self._started), np.array(self._ended)
        left = np.array([place for *_, place in sorted(self._coming)], dtype=np.int64)
        operator_queue.queue = operator_queue.waiting(arrived, started, ended, self._until).joined(
            every.take(left)
        )
        done = ended < self._until
        came = arrived.rows, arrived.instances, arrived.edges, arrived.times
        served = Served(*came, started, ended, ended - started).take(done)
        np.maximum.at(operator_queue.free, served.instances, served.ended)
        return served, every.take(slice(self._waiting, None))

    def _settled(self) -> Arrivals:
        """Return all that was there and was offered, each with its instance and its arrival."""
        every = self._every
        return Arrivals(
            every.rows,
            np.array(self._instances, dtype=np.int64),
            np.array(self._times),
            every.closed,
            every.edges,
            every.senders,
            every.seconds,
            _objects(self._carried),
        )

    def _all_codes(self) -> list[int]:
        """Return the code of each tuple's key, as its edge has it; 0 where that has none."""
        every = self._every
        codes = np.zeros(len(every), dtype=np.uint64)
        for number in self._conversations:
            edge_run = self._edge_runs[number]
            if edge_run.columns:
                own = every.edges == number
                keys = edge_run.tuples.keys(edge_run.edge.source, edge_run.columns)
                codes[own] = keys.codes(every.rows[own])
        found: list[int] = codes.tolist()
        return found

    def _take_queue(self) -> None:
        """Let what waits, and what is on its way, arrive at its time."""
        closed = self._every.closed.tolist()
        for place in range(self._waiting):
            self.truth.sent(self._instances[place], self._taken[place])
            key = (self._times[place], closed[place], self._edges[place], self._senders[place])
            heappush(self._coming, (*key, place))

    def _dispatch(self) -> None:
        """Send tuple by tuple; execute at once what arrives at once."""
        truth, post, conversations, coming = (
            self.truth,
            self._post,
            self._conversations,
            self._coming,
        )
        parcels, instances, carried = post.parcels, self._instances, self._carried
        delays = self._network.delays
        columns = (self._times, self._edges, self._senders, self._codes, self._taken)
        rows = zip(*(islice(column, self._waiting, None) for column in columns), strict=True)
        # Columns change after the present place only.
        for place, (now, edge, sender, code, taken) in enumerate(rows, self._waiting):
            if coming and coming[0][0] <= now:
                self._land(now)
            if parcels and parcels[0][0] <= now:
                post.deliver(now, self._receive)
            conversation = conversations.get(edge)
            if conversation is not None:
                truth.now, truth.taken = now, taken
                instances[place], carried[place] = conversation.dispatch(sender, code, now)
            if delays:
                time = self._arrival(place, now)
                if time > now:
                    self._times[place] = time
                    truth.sent(instances[place], taken)
                    heappush(coming, (time, now, edge, sender, place))
                    continue
            self._execute(place, now, taken * truth.rates[instances[place]], conversation)

    def _arrival(self, place: int, now: float) -> float:
        """Return when a tuple arrives that is sent now."""
        edge_run, network = self._edge_runs[self._edges[place]], self._network
        start = int(edge_run.source.nodes[self._senders[place]])
        end = self._nodes[self._instances[place]]
        if start == end:
            return now
        if network.bandwidth < np.inf:
            link = (start << 32) + end
            size = float(edge_run.tuples.sizes[self._every.rows[place]])
            now = max(now, edge_run.links.get(link, 0.0)) + size / network.bandwidth
            edge_run.links[link] = now
        return now + network.latency

    def _land(self, now: float) -> None:
        """Execute what was on its way and has arrived by now."""
        coming, truth = self._coming, self.truth
        while coming and coming[0][0] <= now:
            time, closed, edge, _, place = heappop(coming)
            instance, taken = self._instances[place], self._taken[place]
            truth.landed(instance, taken)
            conversation = self._conversations.get(edge)
            if conversation is not None and closed < conversation.since:
                conversation = None
            if place < self._waiting and not np.isnan(self._every.seconds[place]):
                self._execute(place, time, float(self._every.seconds[place]), conversation)
            else:
                self._execute(place, time, taken * truth.rates[instance], conversation)

    def _execute(
        self, place: int, now: float, seconds: float, conversation: Conversation | None
    ) -> None:
        """Settle when a tuple is done that has arrived, and send what is reported of it."""
        instance, truth = self._instances[place], self.truth
        begin = truth.free[instance]
        begin = max(now, begin)
        end = truth.free[instance] = begin + seconds
        truth.ends[instance].append(end)
        self._order.append(place)
        self._started.append(begin)
        self._ended.append(end)
        if conversation is None or end >= self._until:
            return
        sender, code, note = self._senders[place], self._codes[place], self._carried[place]
        letters = conversation.executed(instance, sender, code, seconds, end, note)
        if letters:
            self._report(place, end, letters)

    def _report(self, place: int, end: float, letters: Any) -> None:
        edge, instance = self._edges[place], self._instances[place]
        nodes = self._edge_runs[edge].source.nodes
        for whom, message in letters:
            time = end
            if self._network.latency and nodes[whom] != self._nodes[instance]:
                time += self._network.latency
            self._post.send(time, edge, instance, whom, message)

    def _receive(self, edge: int, sender: int, message: Message, time: float) -> None:
        """Let a dispatcher take in a message."""
        self.truth.now = time
        self._conversations[edge].receive(sender, message, time)


def _objects(values: list[Any]) -> Any:
    """Return an array of these objects, one cell each."""
    array = np.full(len(values), None, dtype=object)
    for place, value in enumerate(values):
        if value is not None:
            array[place] = value
    return array
