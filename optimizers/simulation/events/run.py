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
from optimizers.simulation.events.batches import EdgePool, Load, pooled
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

Conversations: TypeAlias = Mapping[int, Conversation]
"""Conversations by the number of their edge into an operator."""


class EventRun:
    """A job whose events are gone through in the order of time, from some moment to the end.

    Args:
        operator_queues: the operators by name, in the order of the job.
        inputs: the edges into each.
        edge_runs: the edges by their names.
        network: what shipping costs.
        tuples: what comes in.
        posts: the messages on their way.
        truths: what dispatchers that know all may ask of each operator, which these events answer.
        wires: the links between nodes.
        needing: the operators whose instances take time, for which they need a core.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        operator_queues: Mapping[str, OperatorQueues],
        inputs: Mapping[str, list[EdgeRun]],
        edge_runs: Mapping[EdgeName, EdgeRun],
        network: Network,
        tuples: Tuples,
        posts: dict[str, Mailbox],
        truths: Mapping[str, CurrentTruth],
        wires: Wires,
        needing: Container[str],
    ) -> None:
        self._tuples = tuples
        self._network = network
        self._event_operators = {
            name: EventOperator(operator_queue, rank, tuples.emitted(name), works=name in needing)
            for rank, (name, operator_queue) in enumerate(operator_queues.items())
        }
        self._edges: dict[EdgeName, EventEdge] = {}
        for edge_name, edge_run in edge_runs.items():
            source = self._event_operators[edge_name[0]]
            self._edges[edge_name] = EventEdge(edge_run, source.rank)
            source.out.append(self._edges[edge_name])
        for name, each in inputs.items():
            self._event_operators[name].into = [
                self._edges[edge_run.edge.name] for edge_run in each
            ]
            truths[name].by = self._event_operators[name].backlog
        self._events = Events(self._event_operators, network, posts, wires, Cores())

    def take_over(
        self,
        waiting: Mapping[str, int],
        conversations: Mapping[str, Conversations],
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
        for edge in self._edges.values():
            edge.locate()
        self._events.begin(cores)
        for name, operator in self._event_operators.items():
            operator.fit()
            queue = operator.operator_queue.queue
            operator.left = len(queue) + waiting.get(name, 0)
            self._take_queue(operator, queue, conversations[name])
        for edge in self._edges.values():
            self._take_departing(edge)
        for name, operator in self._event_operators.items():
            for instance, node in enumerate(nodes[name]):
                self._events.resume(operator, instance, node)
        self._events.settle()

    def begin(
        self,
        plan: Plan,
        layout: Layout,
        conversations: Mapping[str, Conversations],
        cores: Mapping[int, float],
        now: float,
    ) -> None:
        """Go on under a plan, by which the job is laid out like this."""
        self._events.now = now
        for operator in self._event_operators.values():
            operator.fit()
        for edge in self._edges.values():
            edge.locate()
        self._events.begin(cores)
        changed = {
            edge
            for (source, target), edge in self._edges.items()
            if edge.under(
                self._network.rules(plan.batch.get(source, 1)),
                conversations[target].get(edge.edge_run.number),
            )
        }
        self._pool(layout, changed)

    def _pool(self, layout: Layout, changed: Container[EventEdge]) -> None:
        """Let edges share batches as they do from now on; where that is new, open ones leave."""
        stale: list[EdgePool] = []
        for name, operator in self._event_operators.items():
            groups = pooled(name, operator.out, layout, self._network.buffers)
            stay = {pool.edges: pool for pool in operator.pools if pool.edges in groups}
            stale += [
                pool
                for pool in operator.pools
                if pool.edges not in stay or any(edge in changed for edge in pool.edges)
            ]
            operator.pools = [stay.get(edges) or EdgePool(edges) for edges in groups]
        order = list(self._edges.values())
        for pool in sorted(stale, key=lambda pool: order.index(pool.edges[0])):
            self._events.expire(pool)

    def advance(self, stretch: Stretch, admitted: Mapping[str, Arrivals], until: float) -> None:
        """Let everything happen that happens before a time."""
        for name, arrivals in admitted.items():
            self._events.admit(self._event_operators[name], arrivals)
        self._events.advance(until)
        for name, operator in self._event_operators.items():
            stretch.served[name] = operator.served()
        for edge_name, edge in self._edges.items():
            stretch.sent[edge_name] = _sent(edge)
            stretch.flows[edge_name] = edge.flow
            edge.sent, edge.flow = [], EdgeFlow()
            if edge.conversation is not None:
                stretch.flows[edge_name].count(edge.conversation)

    def _take_queue(
        self, operator: EventOperator, queue: Arrivals, conversations: Conversations
    ) -> None:
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
            operator.backlog.sent(instance, operator.seconds[row])
            if time < self._events.now:
                operator.queues[instance].append(item)
            else:
                self._events.arrive(operator, instance, item, closed)

    def _take_departing(self, edge: EventEdge) -> None:
        """Take over tuples that have yet to leave, which are on their own until now."""
        departing = edge.edge_run.departing
        target = self._event_operators[edge.edge_run.edge.target]
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
            load = Load(edge, sender, instance, [row], [None], size, closed)
            target.backlog.sent(instance, target.seconds[row])
            self._events.leave(load, departure)


def _sent(edge: EventEdge) -> Sent:
    """Return the tuples that were put into batches in this epoch."""
    table = np.array(edge.sent, dtype=np.int64).reshape(-1, 3)
    rows, senders, instances = table.T
    nodes = edge.edge_run.source.nodes[senders], edge.edge_run.target.nodes[instances]
    return Sent(rows, senders, instances, nodes[0] == nodes[1])
