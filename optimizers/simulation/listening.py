"""Listening: one operator whose instances tell those who send to them how it goes.

Who gets a tuple may depend on what was reported of those before, so tuples are gone through one
by one, in the order in which they are sent. As queues are infinite, the time at which a tuple is
done is known as soon as it is sent, and what is reported of it waits until it has arrived.

This is for tuples and messages that need no time to travel; for others see `events`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grouping.dispatcher import Message
from optimizers.simulation.conversation import Conversation, Post
from optimizers.simulation.passage import Passage
from optimizers.simulation.station import Station
from optimizers.simulation.stream import Floats
from optimizers.simulation.table import Arrivals, Served
from optimizers.simulation.truth import Backlog


@dataclass(frozen=True)
class Listener:
    """An operator that tuples reach by groupings that listen.

    Attributes:
        station: the operator.
        passages: the edges into it.
        talks: the conversations of those that listen, by the number of the edge.
        post: the messages on their way.
        truth: what the instances have before them.
    """

    station: Station
    passages: Sequence[Passage]
    talks: Mapping[int, Conversation]
    post: Post
    truth: Backlog

    def serve(self, offered: Arrivals, until: float) -> tuple[Served, Arrivals]:
        """Execute what waits and what is offered, as far as it ends before a time.

        Args:
            offered: what was sent, in the order in which that happened; what still has to be
                given an instance has a negative one.
            until: the time.

        Returns:
            What was executed; and what was offered, each with its instance.
        """
        station, queue = self.station, self.station.queue
        first = self._execute_queue(queue, until)
        chosen, carried, times = self._dispatch(offered, until)
        settled = Arrivals(
            offered.rows,
            np.array(chosen, dtype=np.int64),
            offered.times,
            offered.closed,
            offered.edges,
            offered.senders,
            offered.seconds,
            _objects(carried),
        )
        started, ended = (
            np.concatenate([before, np.array(after)])
            for before, after in zip(first, times, strict=True)
        )
        every = queue.joined(settled)
        done = ended < until
        station.queue = station.waiting(every, started, ended, until)
        served = Served(every.rows, every.instances, every.edges, every.times, started, ended)
        served = served.take(done)
        np.maximum.at(station.free, served.instances, served.ended)
        return served, settled

    def codes(self, arrivals: Arrivals) -> list[int]:
        """Return the code of each tuple's key, as its edge has it; 0 where that has none."""
        codes = np.zeros(len(arrivals), dtype=np.uint64)
        for number in self.talks:
            passage = self.passages[number]
            if passage.columns:
                own = arrivals.edges == number
                keys = passage.tuples.keys(passage.edge.source, passage.columns)
                codes[own] = keys.codes(arrivals.rows[own])
        found: list[int] = codes.tolist()
        return found

    def _execute_queue(self, queue: Arrivals, until: float) -> tuple[Floats, Floats]:
        """Settle when each tuple that waits is done, and report those that are."""
        free, ends = self.truth.free, self.truth.ends
        started, ended = [], []
        seconds = self.station.durations(queue).tolist()
        rows = zip(
            queue.instances.tolist(),
            queue.times.tolist(),
            queue.closed.tolist(),
            queue.edges.tolist(),
            queue.senders.tolist(),
            self.codes(queue),
            queue.carried.tolist(),
            seconds,
            strict=True,
        )
        for instance, time, closed, edge, sender, code, carried, taken in rows:
            begin = max(free[instance], time)
            end = free[instance] = begin + taken
            ends[instance].append(end)
            started.append(begin)
            ended.append(end)
            talk = self.talks.get(edge)
            if talk is not None and end < until and closed >= talk.since:
                for whom, message in talk.executed(instance, sender, code, taken, end, carried):
                    self.post.send(end, edge, instance, whom, message)
        return np.array(started), np.array(ended)

    def _dispatch(
        self, offered: Arrivals, until: float
    ) -> tuple[list[int], list[Any], tuple[list[float], list[float]]]:
        """Send tuple by tuple, and settle when each is done."""
        truth, post, talks = self.truth, self.post, self.talks
        free, ends, rates, parcels = truth.free, truth.ends, truth.rates, post.parcels
        chosen: list[int] = []
        carried: list[Message] = []
        started: list[float] = []
        ended: list[float] = []
        rows = zip(
            offered.times.tolist(),
            offered.edges.tolist(),
            offered.senders.tolist(),
            offered.instances.tolist(),
            self.codes(offered),
            self.station.seconds[offered.rows].tolist(),
            strict=True,
        )
        for now, edge, sender, given, code, taken in rows:
            if parcels and parcels[0][0] <= now:
                post.deliver(now, self.receive)
            instance, note = given, None
            talk = talks.get(edge)
            if talk is not None:
                truth.now, truth.taken = now, taken
                instance, note = talk.dispatch(sender, code, now)
            begin = free[instance]
            begin = max(now, begin)
            seconds = taken * rates[instance]
            end = free[instance] = begin + seconds
            ends[instance].append(end)
            chosen.append(instance)
            carried.append(note)
            started.append(begin)
            ended.append(end)
            if talk is not None and end < until:
                for whom, message in talk.executed(instance, sender, code, seconds, end, note):
                    post.send(end, edge, instance, whom, message)
        return chosen, carried, (started, ended)

    def receive(self, edge: int, sender: int, message: Message, time: float) -> None:
        """Let a dispatcher take in a message."""
        self.truth.now = time
        self.talks[edge].receive(sender, message, time)


def _objects(values: list[Any]) -> Any:
    """Return an array of objects, whatever they are."""
    array = np.full(len(values), None, dtype=object)
    for place, value in enumerate(values):
        if value is not None:
            array[place] = value
    return array
