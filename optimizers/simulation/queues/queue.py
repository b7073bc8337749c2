"""The queues of the instances of one operator."""

from typing import TypeAlias

import numpy as np

from optimizers.simulation.rows import Arrivals, Served
from sketches.arrays import Floats, Integers

Done: TypeAlias = tuple[Served, Arrivals]


class OperatorQueues:
    """The instances of one operator: the queue of each, and when its present work ends.

    Args:
        name: of the operator.
        seconds: how long each tuple of the run takes at rate 1.

    Attributes:
        rates: the factor of that time at each instance.
        nodes: the number of the node that each instance is on. Instances that a plan has taken
            away stay to the end, for tuples may be on their way to them.
        free: when each instance is free to begin with what waits.
        paused: until when each waits for state before it begins with anything.
        shipping: how many seconds each has spent on sending.
        receiving: how many seconds each has spent on taking in what was sent to it.
        queue: what waits and what arrives later, in the order in which it is served.
    """

    def __init__(self, name: str, seconds: Floats) -> None:
        self.name = name
        self.seconds = seconds
        self.rates: Floats = np.empty(0)
        self.nodes: Integers = np.empty(0, dtype=np.int64)
        self.free: Floats = np.empty(0)
        self.paused: Floats = np.empty(0)
        self.shipping: Floats = np.empty(0)
        self.receiving: Floats = np.empty(0)
        self.queue = Arrivals.none()

    def fit(self, nodes: Integers, rates: Floats) -> None:
        """Put the instances on nodes, new ones among them; what has begun is not affected."""
        more = max(0, len(nodes) - len(self.free))
        self.free = np.concatenate([self.free, np.zeros(more)])
        self.paused = np.concatenate([self.paused, np.zeros(more)])
        self.shipping = np.concatenate([self.shipping, np.zeros(more)])
        self.receiving = np.concatenate([self.receiving, np.zeros(more)])
        self.nodes = np.concatenate([nodes, self.nodes[len(nodes) :]])
        self.rates = np.concatenate([rates, self.rates[len(rates) :]])

    def durations(self, queue: Arrivals) -> Floats:
        """Return how long each tuple takes where it is."""
        seconds: Floats = self.seconds[queue.rows] * self.rates[queue.instances]
        return np.where(np.isnan(queue.seconds), seconds, queue.seconds)

    def ready(self, queue: Arrivals) -> Floats:
        """Return from when on each tuple may be begun with: it is there, and so is its state."""
        waits = np.isnan(queue.seconds)
        later = np.maximum(queue.times, self.paused[queue.instances])
        return np.where(waits, later, queue.times)

    def serve(self, extra: Floats | None, until: float) -> Served:
        """Execute what has arrived, as far as it ends before a time; the rest keeps waiting.

        Each instance takes the first in its queue when it has arrived and the one before is done:
        Lindley's recursion, number by number, so that nothing depends on how it is added up.

        Args:
            extra: how long each tuple of the run keeps its instance busy once it is done, with
                sending what comes of it; None for not at all.
            until: the time.
        """
        queue = self.queue
        more = np.zeros(len(queue)) if extra is None else extra[queue.rows]
        started, ended = _lindley(
            self.free, queue.instances, self.ready(queue), self.durations(queue), more
        )
        done = ended < until
        came = queue.rows, queue.instances, queue.edges, queue.times
        served = Served(*came, started, ended, ended - started)
        if done.all():
            self.queue = Arrivals.none()
        else:
            self.queue = self.waiting(queue, started, ended, until)
            served, more = served.take(done), more[done]
        np.maximum.at(self.free, served.instances, served.ended + more)
        if extra is not None:
            np.add.at(self.shipping, served.instances, more)
        return served

    def waiting(self, queue: Arrivals, started: Floats, ended: Floats, until: float) -> Arrivals:
        """Return what has not ended by a time; what has begun will take as long as it would."""
        rest = np.flatnonzero(ended >= until)
        left = queue.take(rest)
        begun = started[rest] < until
        left.seconds[begun] = ended[rest][begun] - started[rest][begun]
        # It has not begun before, either, where it had to wait for state.
        np.maximum.at(self.free, left.instances[begun], started[rest][begun])
        return left


def _lindley(
    free: Floats, instances: Integers, times: Floats, seconds: Floats, extra: Floats
) -> tuple[Floats, Floats]:
    """Return when work on each tuple begins and ends, in the order of the queue."""
    at: list[float] = free.tolist()
    started: list[float] = []
    ended: list[float] = []
    begin, end = started.append, ended.append
    rows = zip(
        instances.tolist(),
        times.tolist(),
        seconds.tolist(),
        extra.tolist(),
        strict=True,
    )
    for instance, time, taken, after in rows:
        now = at[instance]
        now = max(time, now)
        begin(now)
        now += taken
        end(now)
        at[instance] = now + after
    return np.array(started), np.array(ended)
