"""Events: a job run from event to event, where operators depend on each other.

They do where sending takes a sender's time while its choices depend on reports, or where batches
wait for more tuples. This is slower than running operators one after the other, and has the same
results wherever both are possible.

At one time, batches first leave and then arrive; then instances finish, then batches end their
waiting, and last tuples are sent, those of operators further up first. An event that follows from
another at the same time comes in its own place in this order.

Work needs a core of its node if there are fewer cores than instances that may want one: see
`cores`. Batches that travel pass one link after the other: see `wires`.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from grouping.feedback import Message
from optimizers.simulation.events.batches import EdgePool, Load, TupleBatch
from optimizers.simulation.events.cores import Cores
from optimizers.simulation.events.edges import EventEdge
from optimizers.simulation.events.operators import EventOperator, Item
from optimizers.simulation.events.travel import Trip
from optimizers.simulation.network import Network
from optimizers.simulation.queues.conversation import Mailbox
from optimizers.simulation.rows import Arrivals
from optimizers.simulation.wires import Wires

Event: TypeAlias = tuple[float, int, float, int, int, int, int, Any]
"""The time; the kind; four numbers for the order; a number of its own; and the particulars."""

Key: TypeAlias = tuple[float, int, int, int]

_LEAVES, _ARRIVES, _IS_DONE, _WAITED, _SENDS = range(5)
_IN_TIME, _FULL, _AT_THE_END = range(3)


class Events:
    """The events of a run, one after the other.

    Args:
        event_operators: the operators by name, in the order of the job.
        network: the costs of shipping.
        posts: the messages on their way to the senders of each operator.
        wires: the links between nodes.
        cores: which instances have a core, and which wait for one.

    Attributes:
        now: the time.
    """

    def __init__(
        self,
        event_operators: dict[str, EventOperator],
        network: Network,
        posts: dict[str, Mailbox],
        wires: Wires,
        cores: Cores,
    ) -> None:
        self._event_operators = event_operators
        self._network = network
        self._posts = posts
        self._wires = wires
        self._cores = cores
        self._targets = {
            edge: operator for operator in event_operators.values() for edge in operator.into
        }
        self._sources = {
            edge: operator for operator in event_operators.values() for edge in operator.out
        }
        self._number = count()
        self._heap: list[Event] = []
        self.now = 0.0

    def admit(self, operator: EventOperator, arrivals: Arrivals) -> None:
        """Let tuples come in at a source."""
        columns = arrivals.rows, arrivals.times, arrivals.instances
        for row, time, instance in zip(*(column.tolist() for column in columns), strict=True):
            item = Item(row, -1, instance, time, None, None)
            self._push(time, _ARRIVES, (time, _FULL, -1, 0), (operator, instance, [item]))

    def leave(self, load: Load, departure: float) -> None:
        """Let tuples leave later of which that was settled."""
        self._leave(load, departure, _FULL)

    def arrive(self, operator: EventOperator, instance: int, item: Item, closed: float) -> None:
        """Let a tuple arrive later, given when it was settled that it leaves."""
        key = (closed, _FULL, item.edge, item.sender)
        self._push(item.arrived, _ARRIVES, key, (operator, instance, [item]))

    def resume(self, operator: EventOperator, instance: int, node: int) -> None:
        """Let an instance go on with the work that it has begun on a node."""
        free, queue = operator.free[instance], operator.queues[instance]
        begun = bool(queue) and queue[0].known is not None
        if operator.works and (begun or free > self.now):
            self._cores.hold(operator, instance, node)
        if begun:
            self._start(operator, instance, max(free, queue[0].arrived))
        elif queue or free > self.now:
            self._rest(operator, instance, max(free, self.now))

    def begin(self, cores: Mapping[int, float]) -> None:
        """Let instances go on that can get a core now."""
        for operator, instance in self._cores.fit(cores):
            self._work(operator, instance)

    def expire(self, pool: EdgePool) -> None:
        """Let all open batches of a pool leave, as soon as their senders can."""
        for batch in pool.waiting():
            pool.close(batch, self.now)
            self._send_when_idle(batch, _IN_TIME)
        self._wake(self._sources[pool.edges[0]])

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
        """End operators that no tuple will reach any more, so that none waits for them."""
        for operator in self._event_operators.values():
            self._end_if_over(operator)

    def _push(self, time: float, what: int, key: Key, about: object) -> None:
        heappush(self._heap, (time, what, *key, next(self._number), about))

    def _arrived(self, operator: EventOperator, instance: int, items: list[Item]) -> None:
        operator.queues[instance] += items
        if not operator.busy[instance]:
            self._go_on(operator, instance)

    def _go_on(self, operator: EventOperator, instance: int) -> None:
        """Let an idle instance do the next thing that it has, once it has a core."""
        late = operator.late[instance]
        if not late:
            if not operator.queues[instance]:
                return
            paused = float(operator.operator_queue.paused[instance])
            if paused > self.now:
                self._rest(operator, instance, paused)
                return
        if self._cores.limited and not self._cores.take(operator, instance):
            operator.busy[instance] = True
            operator.since[instance] = self.now
        elif late:
            self._work(operator, instance)
        else:
            self._start(operator, instance, self.now)

    def _work(self, operator: EventOperator, instance: int) -> None:
        """Let an instance that has a core send what has waited long enough, else begin a tuple."""
        operator.busy[instance] = False
        since, operator.since[instance] = operator.since[instance], None
        late = operator.late[instance]
        while late and not operator.busy[instance]:
            batch = late.popleft()
            if not batch.gone:
                end = self._ship(batch, batch.cause, self.now)
                self._spend(operator, instance, self.now, end)
        if operator.busy[instance]:
            return
        if not operator.queues[instance]:
            self._give_back(operator, instance)
        elif float(operator.operator_queue.paused[instance]) > self.now:
            self._finish(operator, instance)
        else:
            if since is not None:
                item = operator.queues[instance][0]
                operator.queues[instance][0] = item._replace(waited=self.now - since)
            self._start(operator, instance, self.now)

    def _finish(self, operator: EventOperator, instance: int) -> None:
        """Let an instance that is done with something pass on its core, and go on."""
        if self._cores.limited:
            self._give_back(operator, instance)
        self._go_on(operator, instance)

    def _give_back(self, operator: EventOperator, instance: int) -> None:
        following = self._cores.give_back(operator, instance)
        if following is not None:
            self._work(*following)

    def _rest(self, operator: EventOperator, instance: int, until: float) -> None:
        """Let an instance do nothing more until a time."""
        operator.busy[instance] = True
        self._push(until, _IS_DONE, (0.0, 0, operator.rank, instance), (operator, instance))

    def _wake(self, operator: EventOperator) -> None:
        """Let idle instances send what has waited long enough."""
        for instance, late in enumerate(operator.late):
            if late and not operator.busy[instance]:
                self._go_on(operator, instance)

    def _spend(self, operator: EventOperator, instance: int, start: float, end: float) -> None:
        """Let an instance be busy with sending."""
        operator.free[instance] = end
        operator.operator_queue.shipping[instance] += end - start
        if end > self.now:
            self._rest(operator, instance, end)

    def _start(self, operator: EventOperator, instance: int, start: float) -> None:
        item = operator.queues[instance].popleft()
        taken = item.known
        if taken is None:
            taken = operator.seconds[item.row] * operator.rates[instance]
        if item.receiving:
            operator.operator_queue.receiving[instance] += item.receiving
            start += item.receiving
        end = start + taken
        operator.busy[instance] = True
        operator.backlog.begun(instance, operator.seconds[item.row], end)
        about = operator, instance, item, start, taken
        self._push(end, _IS_DONE, (0.0, 0, operator.rank, instance), about)

    def _done(
        self,
        operator: EventOperator,
        instance: int,
        item: Item | None = None,
        start: float = 0.0,
        taken: float = 0.0,
    ) -> None:
        """Let an instance be done with a tuple, or with sending where there is none."""
        operator.busy[instance] = False
        if item is not None:
            now = self.now
            times = item.arrived, start, now, now - start + item.waited
            operator.record.append((item.row, instance, item.edge, *times))
            operator.backlog.ended(instance)
            self._report(operator, instance, item, taken)
            if operator.out:
                key = (operator.rank, instance, next(self._number), 0)
                self._push(now, _SENDS, key, (operator, instance, item.row, key))
                if self._network.charges:
                    operator.busy[instance] = True
                    return
            else:
                operator.left -= 1
                self._end_if_over(operator)
        self._finish(operator, instance)

    def _report(self, operator: EventOperator, instance: int, item: Item, taken: float) -> None:
        conversation = item.conversation
        if conversation is None:
            return
        edge = operator.into[item.edge]
        if conversation is not edge.conversation:  # its conversation is over
            return
        code = edge.codes[item.row]
        now, nodes = self.now, edge.edge_run.source.nodes
        letters = conversation.executed(instance, item.sender, code, taken, now, item.carried)
        for whom, message in letters:
            time = now + self._wires.latency(operator.nodes[instance], int(nodes[whom]))
            self._posts[operator.operator_queue.name].send(time, item.edge, instance, whom, message)

    def _send(
        self, operator: EventOperator, instance: int, row: int, key: Key, clock: float | None = None
    ) -> None:
        """Send the results of a tuple by all pools, one after the other, and then go on.

        Args:
            operator: the operator.
            instance: the sender.
            row: the tuple.
            key: the order; its last number is how many have been sent already.
            clock: when they are sent, with all that it takes.
        """
        clock = self.now if clock is None else clock
        copies = operator.emits(row)
        total = copies * len(operator.pools)
        for given in range(key[3], total + 1):
            if self._heap and self._heap[0][:6] < (self.now, _SENDS, *key):
                # The effects of the one may matter to the next.
                key = (*key[:3], given)
                self._push(self.now, _SENDS, key, (operator, instance, row, key, clock))
                return
            if given < total:
                clock = self._offer(operator.pools[given // copies], instance, row, clock)
        operator.left -= 1
        if self._network.charges:
            operator.busy[instance] = False
            self._spend(operator, instance, self.now, clock)
            if not operator.busy[instance]:
                self._finish(operator, instance)
        self._end_if_over(operator)

    def _offer(self, pool: EdgePool, sender: int, row: int, clock: float) -> float:
        """Put a tuple into its batch, send that if it is full, and return when that is done."""
        chosen = [self._choose(edge, sender, row) for edge in pool.edges]
        batch = pool.put(sender, chosen, row)
        if pool.edges[0].rules.full(len(batch.rows), batch.size) is not None:
            return self._ship(batch, _FULL, clock)
        if len(batch.rows) == 1 and self._network.linger < np.inf:
            edge = pool.edges[0]
            key = (0.0, edge.rank, edge.edge_run.number, sender)
            self._push(self.now + self._network.linger, _WAITED, key, batch)
        return clock

    def _choose(self, edge: EventEdge, sender: int, row: int) -> tuple[int, Message]:
        """Choose who gets a tuple, and what travels with it, and let that be known."""
        conversation, target = edge.conversation, self._targets[edge]
        target.left += 1
        if conversation is None:
            instance, carried = edge.choose(sender, row), None
        else:
            now, backlog = self.now, target.backlog
            post = self._posts[target.operator_queue.name]
            if post.parcels and post.parcels[0][0] <= now:
                post.deliver(now, lambda *letter: self._deliver(target, *letter))
            backlog.now, backlog.taken = now, target.seconds[row]
            instance, carried = conversation.dispatch(sender, edge.codes[row], now)
        target.backlog.sent(instance, target.seconds[row])
        return instance, carried

    @staticmethod
    def _deliver(
        target: EventOperator, edge: int, sender: int, message: Message, time: float
    ) -> None:
        target.backlog.now = time
        conversation = target.into[edge].conversation
        if conversation is not None:
            conversation.receive(sender, message, time)

    def _waited(self, batch: TupleBatch) -> None:
        """Send a batch that has waited long enough, or let it be sent when its sender is idle."""
        if batch.closed is not None:
            return
        self._send_when_idle(batch, _IN_TIME)
        operator = self._sources[batch.pool.edges[0]]
        if not operator.busy[batch.sender]:
            self._go_on(operator, batch.sender)

    def _send_when_idle(self, batch: TupleBatch, cause: int) -> None:
        """Send a batch as soon as its sender is idle, which must be where that costs anything."""
        if self._network.charges:
            batch.cause = cause
            self._sources[batch.pool.edges[0]].late[batch.sender].append(batch)
        else:
            self._ship(batch, cause, self.now)

    def _ship(self, batch: TupleBatch, cause: int, clock: float) -> float:
        """Let a batch leave for each of its instances, and return when its sender is done."""
        if batch.closed is None:
            batch.pool.close(batch, self.now)
        batch.gone = True
        for number, load in enumerate(batch.loads(self.now)):
            # What edges share is packed once; each instance gets a message of its own.
            clock += self._network.cost(load.size, remote=load.remote, again=number > 0)
            self._leave(load, clock, cause)
        return clock

    def _leave(self, load: Load, departure: float, cause: int) -> None:
        if departure <= self.now:
            self._left(load, load.closed, cause)
        else:
            key = (load.closed, cause, load.edge.edge_run.number, load.sender)
            self._push(departure, _LEAVES, key, load)

    def _left(self, what: Load | Trip, closed: float, cause: int) -> None:
        """Let what leaves its sender, or is at another link, go on or arrive."""
        wires, now = self._wires, self.now
        trip = what if isinstance(what, Trip) else Trip.of(what, self._network, wires, now)
        load, head = trip.load, trip.goes_on(wires, now) if trip.path else None
        key = closed, cause, load.edge.edge_run.number, load.sender
        if head is not None:
            self._push(head, _LEAVES, key, trip)
        else:
            time, items = trip.arrival()
            self._push(time, _ARRIVES, key, (self._targets[load.edge], load.instance, items))

    def _end_if_over(self, operator: EventOperator) -> None:
        """End an operator once it and all before it have executed their last tuple."""
        if operator.left or operator.ended or not self._all_before_ended(operator):
            return
        operator.ended = True
        late = [batch for late in operator.late for batch in late if not batch.gone]
        waiting = [batch for pool in operator.pools for batch in pool.waiting()]
        for batch in late + [batch for batch in waiting if batch not in late]:
            batch.cause = _AT_THE_END
            if batch.closed is None:
                batch.pool.close(batch, self.now)
            if batch not in late:
                self._send_when_idle(batch, _AT_THE_END)
        self._wake(operator)
        for edge in operator.out:
            self._end_if_over(self._targets[edge])

    def _all_before_ended(self, operator: EventOperator) -> bool:
        return all(self._sources[edge].ended for edge in operator.into)
