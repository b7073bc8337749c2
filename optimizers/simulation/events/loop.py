"""Events: a job gone through from moment to moment, where operators depend on each other.

They do where sending keeps a sender from its work while what it sends depends on what it hears,
or where batches wait for more tuples. This is slower than to go through operators one after the
other, and equal to it wherever both can be done.

Of what happens at one time, batches leave first and then arrive; then instances are done, then
batches have waited long enough, and last of all tuples are sent, those of operators further up
before others. What an event makes happen at the same time comes in its own place.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from grouping.feedback import Message
from optimizers.simulation.events.batches import Batch, Way
from optimizers.simulation.events.operators import Item, Stand
from optimizers.simulation.network import Network
from optimizers.simulation.queues.conversation import Post
from optimizers.simulation.rows import Arrivals

Event: TypeAlias = tuple[float, int, float, int, int, int, int, Any]
"""When; what; four numbers to tell who is first; a number of its own; and the particulars."""

Key: TypeAlias = tuple[float, int, int, int]

_LEAVES, _ARRIVES, _IS_DONE, _WAITED, _SENDS = range(5)
_IN_TIME, _FULL, _AT_THE_END = range(3)


class Events:
    """What happens in a run, one event after the other.

    Args:
        stands: the operators by name, in the order of the job.
        network: what shipping costs.
        posts: the messages on their way to those who send to each operator.

    Attributes:
        now: the time.
    """

    def __init__(self, stands: dict[str, Stand], network: Network, posts: dict[str, Post]) -> None:
        self._stands = stands
        self._network = network
        self._posts = posts
        self._targets = {way: stand for stand in stands.values() for way in stand.into}
        self._sources = {way: stand for stand in stands.values() for way in stand.out}
        self._number = count()
        self._heap: list[Event] = []
        self.now = 0.0

    def admit(self, stand: Stand, arrivals: Arrivals) -> None:
        """Let tuples come in at a source."""
        columns = arrivals.rows, arrivals.times, arrivals.instances
        for row, time, instance in zip(*(column.tolist() for column in columns), strict=True):
            item = Item(row, -1, instance, time, None, None)
            self._push(time, _ARRIVES, (time, _FULL, -1, 0), (stand, instance, [item]))

    def leave(self, batch: Batch, departure: float) -> None:
        """Let a batch leave later that has been closed."""
        self._leave(batch, departure, _FULL)

    def arrive(self, stand: Stand, instance: int, item: Item, closed: float) -> None:
        """Let a tuple arrive later, of which it was settled at a time that it leaves."""
        key = (closed, _FULL, item.edge, item.sender)
        self._push(item.arrived, _ARRIVES, key, (stand, instance, [item]))

    def resume(self, stand: Stand, instance: int) -> None:
        """Let an instance go on with what it has, as it was left."""
        now = self.now
        free, queue = stand.free[instance], stand.queues[instance]
        start = max(free, queue[0].arrived) if queue else free
        if queue and start < now:
            self._start(stand, instance, start)
        elif queue or free > now:
            stand.busy[instance] = True
            self._push(start, _IS_DONE, (0.0, 0, stand.rank, instance), (stand, instance))

    def expire(self, way: Way) -> None:
        """Let all batches of an edge leave that are not full, as soon as their senders can."""
        stand = self._sources[way]
        for batch in way.waiting():
            way.close(batch, self.now)
            if self._network.charges:
                stand.late[batch.sender].append(batch)
            else:
                self._leave(batch, self.now, _IN_TIME)
        for instance, late in enumerate(stand.late):
            if late and not stand.busy[instance]:
                self._go_on(stand, instance)

    def advance(self, until: float) -> None:
        """Let everything happen that happens before a time."""
        heap = self._heap
        while heap and heap[0][0] < until:
            time, what, closed, cause, _, _, _, about = heappop(heap)
            self.now = time
            if what == _ARRIVES:
                self._arrived(*about)
            elif what == _IS_DONE:
                self._done(*about)
            elif what == _SENDS:
                self._send(*about)
            elif what == _LEAVES:
                self._left(about, closed, cause)
            else:
                self._waited(about)

    def settle(self) -> None:
        """Let operators end that nothing will reach any more, so that none waits for them."""
        for stand in self._stands.values():
            self._end_if_over(stand)

    def _push(self, time: float, what: int, key: Key, about: object) -> None:
        heappush(self._heap, (time, what, *key, next(self._number), about))

    def _arrived(self, stand: Stand, instance: int, items: list[Item]) -> None:
        stand.queues[instance] += items
        if not stand.busy[instance]:
            self._go_on(stand, instance)

    def _go_on(self, stand: Stand, instance: int) -> None:
        """Let an idle instance send what has waited long enough, else begin with a tuple."""
        late = stand.late[instance]
        while late:
            batch = late.popleft()
            if batch.gone:
                continue
            cost = self._network.cost(batch.size)
            self._spend(stand, instance, self.now, self.now + cost)
            self._close(batch, _IN_TIME, self.now + cost)
            if cost:
                return
        if not stand.queues[instance]:
            return
        paused = float(stand.station.paused[instance])
        if paused > self.now:
            stand.busy[instance] = True
            self._push(paused, _IS_DONE, (0.0, 0, stand.rank, instance), (stand, instance))
        else:
            self._start(stand, instance, self.now)

    def _spend(self, stand: Stand, instance: int, start: float, end: float) -> None:
        """Let an instance be busy with sending."""
        stand.free[instance] = end
        stand.station.shipping[instance] += end - start
        if end > self.now:
            stand.busy[instance] = True
            self._push(end, _IS_DONE, (0.0, 0, stand.rank, instance), (stand, instance))

    def _start(self, stand: Stand, instance: int, start: float) -> None:
        item = stand.queues[instance].popleft()
        taken = item.known
        if taken is None:
            taken = stand.seconds[item.row] * stand.rates[instance]
        end = start + taken
        stand.busy[instance] = True
        stand.outlook.begun(instance, stand.seconds[item.row], end)
        about = stand, instance, item, start, taken
        self._push(end, _IS_DONE, (0.0, 0, stand.rank, instance), about)

    def _done(
        self,
        stand: Stand,
        instance: int,
        item: Item | None = None,
        start: float = 0.0,
        taken: float = 0.0,
    ) -> None:
        """Let an instance be done with a tuple, or with sending where there is none."""
        stand.busy[instance] = False
        if item is not None:
            now = self.now
            stand.record.append((item.row, instance, item.edge, item.arrived, start, now))
            stand.outlook.ended(instance)
            self._report(stand, instance, item, taken)
            if stand.out:
                key = (stand.rank, instance, next(self._number), 0)
                self._push(now, _SENDS, key, (stand, instance, item.row, key))
                if self._network.charges:
                    stand.busy[instance] = True
                    return
            else:
                stand.left -= 1
                self._end_if_over(stand)
        self._go_on(stand, instance)

    def _report(self, stand: Stand, instance: int, item: Item, taken: float) -> None:
        talk = item.talk
        if talk is None:
            return
        way = stand.into[item.edge]
        if talk is not way.talk:  # those who sent it so are not there any more
            return
        code = way.codes[item.row]
        now, nodes = self.now, way.passage.source.nodes
        letters = talk.executed(instance, item.sender, code, taken, now, item.carried)
        for whom, message in letters:
            remote = stand.station.nodes[instance] != nodes[whom]
            time = now + self._network.latency * bool(remote)
            self._posts[stand.station.name].send(time, item.edge, instance, whom, message)

    def _send(
        self, stand: Stand, instance: int, row: int, key: Key, clock: float | None = None
    ) -> None:
        """Send what comes of a tuple by all edges, one after the other, and then go on.

        Args:
            stand: the operator.
            instance: who sends.
            row: the tuple.
            key: who is first; the last of it is how many have been sent already.
            clock: when they are sent, with all that it takes.
        """
        clock = self.now if clock is None else clock
        copies = stand.emits(row)
        total = copies * len(stand.out)
        for given in range(key[3], total + 1):
            if self._heap and self._heap[0][:6] < (self.now, _SENDS, *key):
                # What comes of the one may matter to the next.
                key = (*key[:3], given)
                self._push(self.now, _SENDS, key, (stand, instance, row, key, clock))
                return
            if given < total:
                clock = self._offer(stand.out[given // copies], instance, row, clock)
        stand.left -= 1
        if self._network.charges:
            stand.busy[instance] = False
            self._spend(stand, instance, self.now, clock)
            if not stand.busy[instance]:
                self._go_on(stand, instance)
        self._end_if_over(stand)

    def _offer(self, way: Way, sender: int, row: int, clock: float) -> float:
        """Put a tuple into its batch, send that if it is full, and return when that is done."""
        target = self._targets[way]
        instance, carried = self._choose(way, target, sender, row)
        target.left += 1
        target.outlook.sent(instance, target.seconds[row])
        batch = way.put(sender, instance, row, carried)
        if len(batch.rows) >= way.limit:
            clock += self._network.cost(batch.size)
            self._close(batch, _FULL, clock)
        elif len(batch.rows) == 1 and self._network.linger < np.inf:
            self._wait(batch, self.now + self._network.linger)
        return clock

    def _choose(self, way: Way, target: Stand, sender: int, row: int) -> tuple[int, Message]:
        talk = way.talk
        if talk is None:
            return way.choose(sender, row), None
        now, outlook = self.now, target.outlook
        post = self._posts[target.station.name]
        if post.parcels and post.parcels[0][0] <= now:
            post.deliver(now, lambda *letter: self._deliver(target, *letter))
        outlook.now, outlook.taken = now, target.seconds[row]
        return talk.dispatch(sender, way.codes[row], now)

    @staticmethod
    def _deliver(target: Stand, edge: int, sender: int, message: Message, time: float) -> None:
        target.outlook.now = time
        talk = target.into[edge].talk
        if talk is not None:
            talk.receive(sender, message, time)

    def _wait(self, batch: Batch, until: float) -> None:
        key = (0.0, batch.way.rank, batch.way.passage.number, batch.sender)
        self._push(until, _WAITED, key, batch)

    def _waited(self, batch: Batch) -> None:
        """Send a batch that has waited long enough, or let it be sent when its sender is idle."""
        if batch.closed is not None:
            return
        if not self._network.charges:
            self._close(batch, _IN_TIME, self.now)
            return
        stand = self._sources[batch.way]
        stand.late[batch.sender].append(batch)
        if not stand.busy[batch.sender]:
            self._go_on(stand, batch.sender)

    def _close(self, batch: Batch, cause: int, departure: float) -> None:
        if batch.closed is None:
            batch.way.close(batch, self.now)
        self._leave(batch, departure, cause)

    def _leave(self, batch: Batch, departure: float, cause: int) -> None:
        batch.gone = True
        closed = self.now if batch.closed is None else batch.closed
        if departure <= self.now:
            self._left(batch, closed, cause)
        else:
            key = (closed, cause, batch.way.passage.number, batch.sender)
            self._push(departure, _LEAVES, key, batch)

    def _left(self, batch: Batch, closed: float, cause: int) -> None:
        """Let a batch leave its sender, now, and arrive when it has travelled."""
        passage, network, time = batch.way.passage, self._network, self.now
        start = int(passage.source.nodes[batch.sender])
        end = int(passage.target.nodes[batch.instance])
        if start != end:
            if network.bandwidth < np.inf:
                link = (start << 32) + end
                time = max(time, passage.links.get(link, 0.0)) + batch.size / network.bandwidth
                passage.links[link] = time
            time += network.latency
        stand = self._targets[batch.way]
        edge, sender, instance = passage.number, batch.sender, batch.instance
        items = [
            Item(row, edge, sender, time, carried, batch.talk)
            for row, carried in zip(batch.rows, batch.carried, strict=True)
        ]
        key = (closed, cause, edge, sender)
        self._push(time, _ARRIVES, key, (stand, instance, items))

    def _end_if_over(self, stand: Stand) -> None:
        """End an operator once it and all before it have executed their last: nothing waits on."""
        if stand.left or stand.ended or not self._all_before_ended(stand):
            return
        stand.ended = True
        waiting = [batch for late in stand.late for batch in late]
        waiting += [batch for way in stand.out for batch in way.waiting()]
        for batch in waiting:
            if not batch.gone:
                start = max(self.now, stand.free[batch.sender])
                end = start + self._network.cost(batch.size)
                self._spend(stand, batch.sender, start, end)
                self._close(batch, _AT_THE_END, end)
        for way in stand.out:
            self._end_if_over(self._targets[way])

    def _all_before_ended(self, stand: Stand) -> bool:
        return all(self._sources[way].ended for way in stand.into)
