"""The sender's half of `LeastWork`: each tuple goes where it is expected to be done first."""

import heapq
from collections import deque

import numpy as np

from grouping.feedback import Dispatcher, Message
from grouping.scheduling.least_work.costs import InstanceCosts
from grouping.scheduling.least_work.messages import Expected, Report

_REMEMBERED = 64  # serial numbers kept to recognise reports that come twice
_RECENT = 0.9  # the weight of earlier reports in this sender's share of an instance's work


class WorkDispatcher(Dispatcher):
    """Keeps a clock for each instance: when it will have done all tuples sent to it.

    A tuple goes to the instance with the earliest clock, and moves it on by the tuple's expected
    cost. A clock never falls behind the time, as no instance works in advance. A report says when a
    certain tuple was really done; clock and expectation are then corrected by the same amount,
    since all later tuples wait for it.

    If others send to the same instances, their present tuples are not known. They are expected to
    send the same amount per tuple sent from here as before; a clock is moved on by that as well.

    Nothing is waited for. A report that is lost leaves a clock a little wrong, until the next; one
    that is late or comes twice is recognised by its numbers.

    Args:
        costs: the known costs and paces; it goes on learning.
        instances: how many there are.
        sender: the number of this sender; senders begin at different instances.
    """

    def __init__(self, costs: InstanceCosts, instances: int, *, sender: int) -> None:
        self._costs = costs
        self._instances = instances
        self._turn = sender % instances
        self._clocks = [0.0] * instances
        self._queues: list[deque[tuple[int, float]]] = [deque() for _ in range(instances)]
        self._offsets = [0.0] * instances
        self._numbers = [0] * instances
        self._heard = [_Heard() for _ in range(instances)]
        self._mine = 0.0
        self._busy = 0.0
        self._stretch = 1.0
        order = ((instance + sender) % instances for instance in range(instances))
        # The least of these is the instance of least clock, or one whose clock has since changed.
        self._soonest = [(0.0, rank, instance) for rank, instance in enumerate(order)]
        self._ranks = {instance: rank for _, rank, instance in self._soonest}

    @property
    def clocks(self) -> list[float]:
        """When each instance will have done all that it was sent from here, by estimate."""
        return list(self._clocks)

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance that will finish a tuple first, and its expected cost."""
        costs = self._costs
        if costs.empty:
            chosen, seconds = self._turn, 0.0
            self._turn = (chosen + 1) % self._instances
        elif costs.uniform:
            chosen, seconds = self._least(), costs.shared.estimate(code)
        else:
            chosen, seconds = self._first_done(code, now)
        clock = max(self._clocks[chosen], now) + seconds * self._stretch
        self._set(chosen, clock)
        number = self._numbers[chosen] = self._numbers[chosen] + 1
        self._queues[chosen].append((number, clock - self._offsets[chosen]))
        return chosen, Expected(number, seconds)

    def receive(self, message: Message, now: float) -> None:
        """Learn from a report, and correct the clock of its instance."""
        if not isinstance(message, Report):
            return
        instance = message.instance
        heard = self._heard[instance]
        if not heard.is_new(message.serial):
            return
        self._costs.learn(instance, message.tallies)
        if message.done <= heard.done:
            return
        heard.done = message.done
        self._hear_of_others(heard, message)
        queue = self._queues[instance]
        expected = None
        while queue and queue[0][0] <= message.done:
            expected = queue.popleft()[1]
        if not queue:
            self._set(instance, now)
        elif expected is not None:
            late = now - (expected + self._offsets[instance])
            self._offsets[instance] += late
            self._set(instance, self._clocks[instance] + late)

    def _set(self, instance: int, clock: float) -> None:
        self._clocks[instance] = clock
        heap = self._soonest
        entry = (clock, self._ranks[instance], instance)
        if heap[0][2] == instance:
            heapq.heapreplace(heap, entry)
        else:
            heapq.heappush(heap, entry)
            if len(heap) > 4 * self._instances + 16:
                self._soonest = [(c, self._ranks[i], i) for i, c in enumerate(self._clocks)]
                heapq.heapify(self._soonest)

    def _least(self) -> int:
        """Return the instance with the earliest clock."""
        heap, clocks = self._soonest, self._clocks
        while heap[0][0] != clocks[heap[0][2]]:
            heapq.heappop(heap)
        return heap[0][2]

    def _first_done(self, code: int, now: float) -> tuple[int, float]:
        """Return the instance that will finish a tuple first, where they are not equal."""
        costs = self._costs
        usual = costs.shared.estimate(code)
        seconds = usual * np.array(costs.paces)
        for instance in costs.apart:
            seconds[instance] = costs.estimate(code, instance)
        chosen = int(np.argmin(np.maximum(self._clocks, now) + seconds))
        return chosen, float(seconds[chosen])

    def _hear_of_others(self, heard: "_Heard", report: Report) -> None:
        """Compute the whole work of instances per second of work from here."""
        self._mine = _RECENT * self._mine + report.mine - heard.mine
        self._busy = _RECENT * self._busy + report.busy - heard.busy
        heard.mine, heard.busy = report.mine, report.busy
        if self._mine > 0:
            self._stretch = max(1.0, self._busy / self._mine)


class _Heard:
    """The reports of one instance."""

    __slots__ = ("_last", "_seen", "busy", "done", "mine")

    def __init__(self) -> None:
        self.done = 0
        self.mine = 0.0
        self.busy = 0.0
        self._last = 0
        self._seen = 0  # bit i: whether report number last - i has come

    def is_new(self, serial: int) -> bool:
        """Return whether a report comes for the first time; of very old ones, it does not."""
        ahead = serial - self._last
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _ALL if ahead < _REMEMBERED else 1
            self._last = serial
            return True
        bit = 1 << -ahead
        if -ahead >= _REMEMBERED or self._seen & bit:
            return False
        self._seen |= bit
        return True


_ALL = (1 << _REMEMBERED) - 1
