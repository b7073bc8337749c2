"""A run that goes from event to event: how it takes over, and what it reports of each batch."""

import math
from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.simulation.edges import EdgeRun
from optimizers.simulation.events.backlog import CurrentTruth
from optimizers.simulation.events.batches import Load, Pool, pooled
from optimizers.simulation.events.cores import Cores
from optimizers.simulation.events.edges import EventEdge
from optimizers.simulation.events.loop import Events
from optimizers.simulation.events.operators import EventOperator, Item
from optimizers.simulation.network import Network
from optimizers.simulation.observation import EdgeFlow, Stretch
from optimizers.simulation.queues.conversation import Conversation, Mailbox
from optimizers.simulation.queues.queue import OperatorQueues
from optimizers.simulation.rows import Arrivals, Sent
from optimizers.simulation.tuples import Tuples
from optimizers.simulation.wires import Wires

Talks: TypeAlias = Mapping[int, Conversation]
"""Conversations by the number of their edge into an operator."""


class EventRun:
    """A job whose events are gone through in the order of time, from some moment to the end.

    Args:
        operator_queues: the operators by name, in the order of the job.
        entering: the edges into each.
        edge_runs: the edges by their names.
        network: what shipping costs.
        tuples: what comes in.
        posts: the messages on their way.
        witnesses: who tells the truth of each operator.
        wires: the links between nodes.
        needing: the operators whose instances take time, for which they need a core.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        operator_queues: Mapping[str, OperatorQueues],
        entering: Mapping[str, list[EdgeRun]],
        edge_runs: Mapping[EdgeName, EdgeRun],
        network: Network,
        tuples: Tuples,
        posts: dict[str, Mailbox],
        witnesses: Mapping[str, CurrentTruth],
        wires: Wires,
        needing: Container[str],
    ) -> None:
        self._tuples = tuples
        self._network = network
        self._event_operators = {
            name: EventOperator(operator_queue, rank, tuples.emitted(name), works=name in needing)
            for rank, (name, operator_queue) in enumerate(operator_queues.items())
        }
        self._ways: dict[EdgeName, EventEdge] = {}
        for edge, edge_run in edge_runs.items():
            self._ways[edge] = EventEdge(edge_run, self._event_operators[edge[0]].rank)
            self._event_operators[edge[0]].out.append(self._ways[edge])
        for name, each in entering.items():
            self._event_operators[name].into = [self._ways[edge_run.edge.name] for edge_run in each]
            witnesses[name].by = self._event_operators[name].backlog
        self._events = Events(self._event_operators, network, posts, wires, Cores())

    def take_over(
        self,
        waiting: Mapping[str, int],
        conversations: Mapping[str, Talks],
        nodes: Mapping[str, Sequence[int]],
        cores: Mapping[int, float],
        now: float,
    ) -> None:
        """Take over what waits at each operator and between them.

        Args:
            waiting: how many tuples have not come in yet at each source.
            conversations: the conversations.
            nodes: by operator, the node on which each instance is at what it has begun.
            cores: how many cores each node has.
            now: the time.
        """
        self._events.now = now
        for way in self._ways.values():
            way.locate()
        self._events.begin(cores)
        for name, stand in self._event_operators.items():
            stand.fit()
            queue = stand.operator_queue.queue
            stand.left = len(queue) + waiting.get(name, 0)
            self._take_queue(stand, queue, conversations[name])
        for way in self._ways.values():
            self._take_departing(way)
        for name, stand in self._event_operators.items():
            for instance, node in enumerate(nodes[name]):
                self._events.resume(stand, instance, node)
        self._events.settle()

    def begin(
        self,
        plan: Plan,
        layout: Layout,
        conversations: Mapping[str, Talks],
        cores: Mapping[int, float],
        now: float,
    ) -> None:
        """Go on under a plan, by which the job is laid out like this."""
        self._events.now = now
        for stand in self._event_operators.values():
            stand.fit()
        for way in self._ways.values():
            way.locate()
        self._events.begin(cores)
        changed = {
            way
            for (source, target), way in self._ways.items()
            if way.under(plan.batch.get(source, 1), conversations[target].get(way.edge_run.number))
        }
        self._pool(layout, changed)

    def _pool(self, layout: Layout, changed: Container[EventEdge]) -> None:
        """Let edges share batches as they do from now on; where that is new, open ones leave."""
        stale: list[Pool] = []
        for name, operator in self._event_operators.items():
            groups = pooled(name, operator.out, layout, self._network.buffers)
            stay = {pool.ways: pool for pool in operator.pools if pool.ways in groups}
            stale += [
                pool
                for pool in operator.pools
                if pool.ways not in stay or any(way in changed for way in pool.ways)
            ]
            operator.pools = [stay.get(ways) or Pool(ways) for ways in groups]
        order = list(self._ways.values())
        for pool in sorted(stale, key=lambda pool: order.index(pool.ways[0])):
            self._events.expire(pool)

    def advance(self, stretch: Stretch, admitted: Mapping[str, Arrivals], until: float) -> None:
        """Let everything happen that happens before a time."""
        for name, arrivals in admitted.items():
            self._events.admit(self._event_operators[name], arrivals)
        self._events.advance(until)
        for name, stand in self._event_operators.items():
            stretch.served[name] = stand.served()
        for edge, way in self._ways.items():
            stretch.sent[edge] = _sent(way)
            stretch.flows[edge] = way.flow
            way.sent, way.flow = [], EdgeFlow()
            if way.conversation is not None:
                stretch.flows[edge].count(way.conversation)

    def _take_queue(self, stand: EventOperator, queue: Arrivals, conversations: Talks) -> None:
        columns = zip(
            queue.rows.tolist(),
            queue.instances.tolist(),
            queue.times.tolist(),
            queue.closed.tolist(),
            queue.edges.tolist(),
            queue.senders.tolist(),
            queue.seconds.tolist(),
            queue.carried.tolist(),
            strict=True,
        )
        for row, instance, time, closed, edge, sender, known, carried in columns:
            conversation = conversations.get(edge)
            if conversation is not None and closed < conversation.since:
                conversation = None
            begun = None if math.isnan(known) else known
            item = Item(row, edge, sender, time, carried, conversation, begun)
            stand.backlog.sent(instance, stand.seconds[row])
            if time < self._events.now:
                stand.queues[instance].append(item)
            else:
                self._events.arrive(stand, instance, item, closed)

    def _take_departing(self, way: EventEdge) -> None:
        """Take over tuples that have yet to leave, which are on their own until now."""
        departing = way.edge_run.departing
        target = self._event_operators[way.edge_run.edge.target]
        target.left += len(departing)
        columns = zip(
            departing.rows.tolist(),
            departing.senders.tolist(),
            departing.instances.tolist(),
            departing.closed.tolist(),
            departing.departures.tolist(),
            strict=True,
        )
        for row, sender, instance, closed, departure in columns:
            size = float(self._tuples.sizes[row])
            load = Load(way, sender, instance, [row], [None], size, closed)
            target.backlog.sent(instance, target.seconds[row])
            self._events.leave(load, departure)


def _sent(way: EventEdge) -> Sent:
    """Return the tuples that were put into batches in this epoch."""
    table = np.array(way.sent, dtype=np.int64).reshape(-1, 3)
    rows, senders, instances = table.T
    nodes = way.edge_run.source.nodes[senders], way.edge_run.target.nodes[instances]
    return Sent(rows, senders, instances, nodes[0] == nodes[1])
