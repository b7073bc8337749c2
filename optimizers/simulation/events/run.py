"""A run that goes from event to event: how it takes over, and what it reports of each batch."""

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.simulation.edges import Passage
from optimizers.simulation.events.backlog import Witness
from optimizers.simulation.events.batches import Batch, Way
from optimizers.simulation.events.loop import Events
from optimizers.simulation.events.operators import Item, Stand
from optimizers.simulation.network import Network
from optimizers.simulation.observation import Flow, Stretch
from optimizers.simulation.queues.conversation import Conversation, Post
from optimizers.simulation.queues.queue import Station
from optimizers.simulation.rows import Arrivals
from optimizers.simulation.tuples import Tuples

Talks: TypeAlias = Mapping[int, Conversation]
"""Conversations by the number of their edge into an operator."""


class Happening:
    """A job whose events are gone through in the order of time, from some moment to the end.

    Args:
        stations: the operators by name, in the order of the job.
        entering: the edges into each.
        passages: the edges by their names.
        network: what shipping costs.
        tuples: what comes in.
        posts: the messages on their way.
        witnesses: who tells the truth of each operator.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        stations: Mapping[str, Station],
        entering: Mapping[str, list[Passage]],
        passages: Mapping[EdgeName, Passage],
        network: Network,
        tuples: Tuples,
        posts: dict[str, Post],
        witnesses: Mapping[str, Witness],
    ) -> None:
        self._tuples = tuples
        self._stands = {
            name: Stand(station, rank, tuples.emitted(name))
            for rank, (name, station) in enumerate(stations.items())
        }
        self._ways: dict[EdgeName, Way] = {}
        for edge, passage in passages.items():
            self._ways[edge] = Way(passage, self._stands[edge[0]].rank)
            self._stands[edge[0]].out.append(self._ways[edge])
        for name, each in entering.items():
            self._stands[name].into = [self._ways[passage.edge.name] for passage in each]
            witnesses[name].by = self._stands[name].outlook
        self._events = Events(self._stands, network, posts)

    def take_over(self, waiting: Mapping[str, int], talks: Mapping[str, Talks], now: float) -> None:
        """Take over what waits at each station and between them.

        Args:
            waiting: how many tuples have not come in yet at each source.
            talks: the conversations.
            now: the time.
        """
        self._events.now = now
        for name, stand in self._stands.items():
            stand.fit()
            queue = stand.station.queue
            stand.left = len(queue) + waiting.get(name, 0)
            self._take_queue(stand, queue, talks[name])
        for way in self._ways.values():
            self._take_departing(way)
        for stand in self._stands.values():
            for instance in range(len(stand.queues)):
                self._events.resume(stand, instance)
        self._events.settle()

    def begin(self, plan: Plan, talks: Mapping[str, Talks], now: float) -> None:
        """Go on under a plan."""
        self._events.now = now
        for stand in self._stands.values():
            stand.fit()
        for (source, target), way in self._ways.items():
            limit = plan.batch.get(source, 1)
            if way.under(limit, talks[target].get(way.passage.number)):
                self._events.expire(way)

    def advance(self, stretch: Stretch, admitted: Mapping[str, Arrivals], until: float) -> None:
        """Let everything happen that happens before a time."""
        for name, arrivals in admitted.items():
            self._events.admit(self._stands[name], arrivals)
        self._events.advance(until)
        for name, stand in self._stands.items():
            stretch.served[name] = stand.served()
        for edge, way in self._ways.items():
            stretch.sent[edge] = np.array(way.sent, dtype=np.int64)
            stretch.flows[edge] = way.flow
            way.sent, way.flow = [], Flow()
            if way.talk is not None:
                stretch.flows[edge].count(way.talk)

    def _take_queue(self, stand: Stand, queue: Arrivals, talks: Talks) -> None:
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
            talk = talks.get(edge)
            if talk is not None and closed < talk.since:
                talk = None
            begun = None if math.isnan(known) else known
            item = Item(row, edge, sender, time, carried, talk, begun)
            stand.outlook.sent(instance, stand.seconds[row])
            if time < self._events.now:
                stand.queues[instance].append(item)
            else:
                self._events.arrive(stand, instance, item, closed)

    def _take_departing(self, way: Way) -> None:
        """Take over tuples that have yet to leave, which are on their own until now."""
        departing = way.passage.departing
        target = self._stands[way.passage.edge.target]
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
            batch = Batch(way, sender, instance, [row], [None], size, closed)
            target.outlook.sent(instance, target.seconds[row])
            self._events.leave(batch, departure)
