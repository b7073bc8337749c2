"""A simulation that goes from event to event in the plainest way, to compare the engine with."""

import math
from collections import defaultdict
from heapq import heappop, heappush
from typing import ClassVar

from naive_parts import NaiveTruth, Pack, Tuple

from optimizers.layout import Layout


class Naive:
    """All events in one heap, of which the first is taken out again and again."""

    PHASES: ClassVar = {"leave": 0, "hop": 0, "arrive": 1, "free": 2, "linger": 4, "emit": 5}

    def __init__(self, case, changes=()):
        job, cluster, network, plan, streams, work, self.cores = case
        self.declared, self.cluster, self.network, self.work = job, cluster, network, work
        self.order, self.streams, self.changes = list(job.order), streams, list(changes)
        self.rows = [
            (source, place) for source in job.sources for place in range(len(streams[source]))
        ]
        self.events, self.serial, self.now = [], 0, -1.0
        self.queue, self.busy = defaultdict(list), defaultdict(bool)
        self.wanting, self.at_work = [], {}  # places that want a core; the node of those that have
        self.packs, self.late = {}, defaultdict(list)
        self.links = defaultdict(float)
        self.served = defaultdict(list)
        self.shipped, self.received = defaultdict(float), defaultdict(float)
        self.there = defaultdict(list)  # tuples sent to an operator and not done
        self.left, self.ended = dict.fromkeys(self.order, 0), set()
        self.messages, self.letters, self.carried = [], defaultdict(int), defaultdict(int)
        self.sent, self.local = defaultdict(int), defaultdict(int)
        self.homes, self.rates = {}, {}
        self.routers, self.dispatchers, self.reporters, self.conversations = {}, {}, {}, {}
        self.made_for, self.locals, self.limits, self.pools = {}, {}, {}, []
        self.under(plan)
        for row, (source, _) in enumerate(self.rows):
            self.left[source] += 1
            time = float(streams[source].times[row - self.rows.index((source, 0))])
            self.at(time, "arrive", (time, 1, -1, 0), (source, [row]))

    def under(self, plan):
        """Go on under a plan: an instance for which it changes something starts again."""
        layout = Layout.of(self.declared, self.cluster, plan)
        self.job, self.plan, self.layout = layout.topology, plan, layout
        for name in self.order:
            for instance, home in enumerate(layout.homes[name].nodes):
                speeds = self.work[name].speeds
                node = self.cluster.node(home)
                speed = node.capacity / (node.cores or 1.0) * (speeds[instance] if speeds else 1.0)
                self.homes[name, instance], self.rates[name, instance] = home, 1.0 / speed
        self.assign()
        changed = [edge.name for edge in self.job.edges if self.prepare(edge)]
        before, self.pools = self.pools, self.pooled()
        for pool in before:
            if pool not in self.pools or any(name in changed for name in pool):
                for key in sorted(key for key in self.packs if key[0] == pool):
                    self.hasten(self.packs.pop(key))

    def pooled(self):
        """The names of edges, those together that share batches, the first of them first."""
        pools = []
        for edge in self.job.edges:
            for pool in pools:
                if self.share(self.job.edge(*pool[0]), edge):
                    pool.append(edge.name)
                    break
            else:
                pools.append([edge.name])
        return [tuple(pool) for pool in pools]

    def share(self, one, other):
        """Whether two edges share batches: all may, or those that send each tuple alike."""
        edges = one, other
        spread = [self.made_for[edge.name][:2] for edge in edges]
        if one.source != other.source or any(grouping.listens for grouping, _ in spread):
            return False
        if self.network.buffers != "alike":
            return self.network.buffers == "shared"
        homes = [self.layout.homes[edge.target] for edge in edges]
        keys = [self.job.key_columns(*edge.name) for edge in edges]
        keyed = [self.job.operator(edge.target).keyed for edge in edges]
        where = [
            home.groups if keyed else home.nodes for home, keyed in zip(homes, keyed, strict=True)
        ]
        return spread[0] == spread[1] and len({*keys}) == len({*keyed}) == len({*where}) == 1

    def prepare(self, edge):
        """Go by what an edge says, and return whether its open packs are to leave."""
        grouping = self.job.grouping(*edge.name)
        senders, instances = (self.job.operator(name).parallelism for name in edge.name)
        limit = self.plan.batch.get(edge.source, 1)
        before = self.made_for.get(edge.name)
        made_for = grouping, instances, senders if grouping.listens else None
        same, self.made_for[edge.name] = made_for == before, made_for
        if not same:
            self.conversations[edge.name] = object()
            for known in (self.routers, self.dispatchers, self.reporters):
                for key in [key for key in known if key[0] == edge.name]:
                    del known[key]
            self.messages = [letter for letter in self.messages if letter[4].name != edge.name]
            if grouping.listens:
                self.converse(edge, grouping, senders, instances)
        limited, self.limits[edge.name] = self.limits.get(edge.name, limit), limit
        return before is not None and (not same or limited != limit)

    def converse(self, edge, grouping, senders, instances):
        for sender in range(senders):
            truth = NaiveTruth(self, edge.target)
            made = grouping.dispatcher(instances, sender=sender, senders=senders, truth=truth)
            self.dispatchers[edge.name, sender] = made, truth
        for instance in range(instances):
            made = grouping.reporter(instance, instances=instances, senders=senders)
            self.reporters[edge.name, instance] = made

    def hasten(self, pack):
        """Let a pack leave that nothing will be added to any more."""
        pack.closed, place = self.now, (pack.edges[0].source, pack.sender)
        if not self.charged:
            self.ship(pack, 0, self.now)
            return
        self.late[place].append(pack)
        self.begin(*place)

    @property
    def charged(self):
        return self.network.per_batch or self.network.per_byte or self.both_pay

    @property
    def both_pay(self):
        return self.network.remote_per_batch or self.network.remote_per_byte

    def takes_time(self, operator):
        """Return whether anything that an operator may do takes time."""
        before = {operator}
        for name in reversed(self.order):
            if any(edge.target in before for edge in self.job.outputs(name)):
                before.add(name)
        return (
            any(
                self.streams[s].columns[f"{operator} takes"].any()
                for s in self.streams
                if s in before
            )
            or (self.charged and self.job.outputs(operator))
            or (self.both_pay and self.job.inputs(operator))
        )

    def router(self, edge, sender):
        """Return the router of a sender; a new one if what is around it has changed."""
        home = self.layout.homes[edge.source].nodes[sender : sender + 1]
        local = self.layout.local(edge.target, home[0]) if home else ()
        key = edge.name, sender
        if key not in self.routers or self.locals[key] != local:
            grouping, instances, _ = self.made_for[edge.name]
            self.routers[key] = grouping.router(instances, sender=sender, local=local)
            self.locals[key] = local
        return self.routers[key]

    def column(self, name, row):
        source, place = self.rows[row]
        return self.streams[source].columns[name][place]

    def seconds(self, operator, row):
        return float(self.column(f"{operator} takes", row))

    def size(self, row):
        source, place = self.rows[row]
        return float(self.streams[source].bytes[place])

    def rate(self, operator, instance):
        return self.rates[operator, instance]

    def into(self, operator):
        return sorted(self.job.inputs(operator), key=lambda edge: self.order.index(edge.source))

    def at(self, time, what, key, about):
        self.serial += 1
        heappush(self.events, (time, self.PHASES[what], *key, self.serial, what, about))

    def run(self):
        while self.events:
            while self.changes and self.changes[0][0] <= self.events[0][0]:
                self.now, plan = self.changes.pop(0)
                self.under(plan)
            first = heappop(self.events)
            self.now = first[0]
            getattr(self, first[7])(*first[8])
        return self

    def arrive(self, operator, tuples):
        for one in tuples:
            if isinstance(one, int):
                place = self.rows[one][1] % self.job.operator(operator).parallelism
                one = Tuple(one, -1, place, place, self.seconds(operator, one))  # noqa: PLW2901
            one.arrived = self.now
            self.queue[operator, one.instance].append(one)
        self.begin(operator, one.instance)

    def begin(self, operator, instance):
        """Let an idle instance want a core if it has anything to do."""
        place = operator, instance
        if self.busy[place] or place in self.wanting:
            return
        if self.late[place] or self.queue[place]:
            self.wanting.append(place)
            self.assign()

    def assign(self):
        """Give cores that are free to those that want one, in the order in which they came."""
        for place in list(self.wanting):
            home = self.homes[place]
            taken = sum(node == home for node in self.at_work.values())
            if taken < (self.machine(home).cores or self.cores) or not self.takes_time(place[0]):
                self.wanting.remove(place)
                self.work_at(place)

    def work_at(self, place):
        while not self.busy[place] and self.late[place]:
            pack = self.late[place].pop(0)
            if not pack.gone:
                self.ship(pack, pack.cause, self.now)
        if not self.busy[place] and self.queue[place]:
            one = self.queue[place].pop(0)
            one.begun = self.now + one.receiving
            self.received[place] += one.receiving
            self.busy[place] = True
            one.spent = one.taken * self.rate(*place)
            end = one.begun + one.spent
            self.at(end, "free", (0.0, 0, self.order.index(place[0]), place[1]), (place, one))
        if self.busy[place] and self.takes_time(place[0]):
            self.at_work[place] = self.homes[place]

    def rest(self, place):
        """Let an instance give back its core, and want it again if there is more to do."""
        self.at_work.pop(place, None)
        self.assign()
        self.begin(*place)

    def ship(self, pack, cause, start):
        """Close a pack, and let its sender be busy with it from a time on."""
        pack.gone = True
        pack.closed = self.now if pack.closed is None else pack.closed
        self.packs = {key: each for key, each in self.packs.items() if each is not pack}
        size = sum(self.size(tuples[0].row) for tuples in pack.tuples)
        network, clock = self.network, start
        for place, (edge, instance) in enumerate(zip(pack.edges, pack.instances, strict=True)):
            ends = self.nodes(edge, pack.sender, instance)
            clock += network.per_batch + (0 if place else size * network.per_byte)
            if ends[0] != ends[1]:
                clock += network.remote_per_batch + size * network.remote_per_byte
            key = (pack.closed, cause, self.number(edge), pack.sender)
            tuples = [each[place] for each in pack.tuples]
            self.at(clock, "leave", key, ((edge, pack.sender, instance, tuples), size, key))
        if clock > start:
            place = pack.edges[0].source, pack.sender
            self.shipped[place] += clock - start
            if cause != 1:
                self.busy[place] = True
                rank = self.order.index(place[0])
                self.at(clock, "free", (0.0, 0, rank, place[1]), (place, None))
        return clock

    def number(self, edge):
        return [each.name for each in self.into(edge.target)].index(edge.name)

    def free(self, place, one):
        self.busy[place] = False
        if one is not None:
            operator, instance = place
            one.done = True
            self.served[operator].append((one.row, instance, one.arrived, one.begun, self.now))
            self.report(operator, instance, one)
            if self.job.outputs(operator):
                key = (self.order.index(operator), instance, self.serial, 0)
                self.at(self.now, "emit", key, (place, one.row, key))
                if self.charged:
                    self.busy[place] = True
                    return
            else:
                self.left[operator] -= 1
                self.end(operator)
        self.rest(place)

    def report(self, operator, instance, one):
        if one.edge < 0:
            return
        edge = self.into(operator)[one.edge]
        reporter = self.reporters.get((edge.name, instance))
        if reporter is None or one.conversation is not self.conversations[edge.name]:
            return
        code = self.code(edge, one.row)
        sender = one.sender % self.made_for[edge.name][2]
        for whom, message in reporter.executed(sender, code, one.spent, self.now, one.carried):
            self.letters[edge.name] += 1
            nodes = self.nodes(edge, whom, instance)
            time = self.now + self.latency(*nodes)
            self.serial += 1
            self.messages.append((time, one.edge, instance, self.serial, edge, whom, message))

    def code(self, edge, row):
        columns = self.job.key_columns(*edge.name)
        return int(self.column(columns[0], row)) if columns else 0

    def nodes(self, edge, sender, instance):
        return self.homes[edge.source, sender], self.homes[edge.target, instance]

    def emit(self, place, row, key, clock=None):
        """Send the next of what comes of a tuple, and come again for what is left of it."""
        operator, sender = place
        clock = self.now if clock is None else clock
        pools = [pool for pool in self.pools if pool[0][0] == operator]
        copies = int(self.column(f"{operator} emits", row))
        given = key[3]
        if given < len(pools) * copies:
            clock = self.offer(pools[given // copies], sender, row, clock)
            key = (*key[:3], given + 1)
            self.at(self.now, "emit", key, (place, row, key, clock))
            return
        self.left[operator] -= 1
        if self.charged:
            self.busy[place] = clock > self.now
            if clock > self.now:
                key = (0.0, 0, self.order.index(operator), sender)
                self.at(clock, "free", key, (place, None))
            else:
                self.rest(place)
        self.end(operator)

    def offer(self, pool, sender, row, clock):
        edges = tuple(self.job.edge(*name) for name in pool)
        tuples = [self.addressed(edge, sender, row) for edge in edges]
        instances = tuple(one.instance for one in tuples)
        key = pool, sender, instances
        pack = self.packs.setdefault(key, Pack(edges, sender, instances))
        pack.tuples.append(tuples)
        size = sum(self.size(tuples[0].row) for tuples in pack.tuples)
        if len(pack.tuples) >= self.limits[pool[0]] or size >= self.network.batch_bytes:
            return self.ship(pack, 1, clock)
        if len(pack.tuples) == 1 and self.network.linger < math.inf:
            rank = self.order.index(edges[0].source)
            key = (0.0, rank, self.number(edges[0]), sender)
            self.at(self.now + self.network.linger, "linger", key, (pack,))
        return clock

    def addressed(self, edge, sender, row):
        """A tuple as it is sent by an edge."""
        instance, carried = self.choose(edge, sender, row)
        one = Tuple(
            row,
            self.number(edge),
            sender,
            instance,
            self.seconds(edge.target, row),
            carried,
            self.conversations[edge.name],
        )
        self.there[edge.target].append(one)
        self.left[edge.target] += 1
        self.sent[edge.name] += 1
        nodes = self.nodes(edge, sender, instance)
        self.local[edge.name] += nodes[0] == nodes[1]
        return one

    def choose(self, edge, sender, row):
        owners = self.layout.owners_on(edge)
        if owners is not None:
            return int(owners.assign([self.column("k", row)])[0]), None
        if not self.made_for[edge.name][0].listens:
            columns = self.job.key_columns(*edge.name)
            keys = [self.column(columns[0], row)] if columns else None
            return int(self.router(edge, sender).route(1, keys)[0]), None
        due = [letter for letter in self.messages if letter[0] <= self.now]
        due = [letter for letter in due if letter[4].target == edge.target]
        for letter in sorted(due, key=lambda letter: letter[:4]):
            self.messages.remove(letter)
            time, _, _, _, on, whom, message = letter
            self.dispatchers[on.name, whom][0].receive(message, time)
        senders = self.made_for[edge.name][2]
        dispatcher, truth = self.dispatchers[edge.name, sender % senders]
        truth.row = row
        instance, carried = dispatcher.dispatch(self.code(edge, row), self.now)
        self.carried[edge.name] += carried is not None
        return instance, carried

    def linger(self, pack):
        if pack.closed is not None:
            return
        if self.charged:
            self.late[pack.edges[0].source, pack.sender].append(pack)
            self.begin(pack.edges[0].source, pack.sender)
        else:
            self.ship(pack, 0, self.now)

    def latency(self, start, end):
        if start == end:
            return 0.0
        far = self.machine(start).rack != self.machine(end).rack
        return self.network.latency + far * self.network.rack_latency

    def machine(self, name):
        return next(node for node in self.cluster.nodes if node.name == name)

    def leave(self, load, size, key):
        edge, sender, instance, tuples = load
        network, ends = self.network, self.nodes(edge, sender, instance)
        links = []
        if ends[0] != ends[1]:
            tuples[0].receiving = network.remote_per_batch + size * network.remote_per_byte
            racks = [self.machine(end).rack for end in ends]
            cards = [self.machine(end).bandwidth or network.bandwidth for end in ends]
            whose = {
                "nodes": [(("leaves", ends[0]), cards[0]), (("enters", ends[1]), cards[1])],
                "pairs": [(("goes", *ends), min(cards))],
                "edges": [(("goes", *ends, edge.name), min(cards))],
            }
            links = whose[network.links]
            if racks[0] != racks[1]:
                links[1:1] = [
                    (("leaves rack", racks[0]), network.rack_bandwidth),
                    (("enters rack", racks[1]), network.rack_bandwidth),
                ]
        links = [link for link in links if link[1] < math.inf]
        self.hop((edge, tuples, size, key), links, self.now, self.latency(*ends))

    def hop(self, what, links, through, latency):
        """Let the head of a pack enter its next link, which the whole of it has to pass."""
        edge, tuples, size, key = what
        if links:
            link, bandwidth = links[0]
            head = max(self.links[link], self.now)
            self.links[link] = head + size / bandwidth
            through = max(through, self.links[link])
            if links[1:]:
                self.at(head, "hop", key, (what, links[1:], through, latency))
                return
        self.at(through + latency, "arrive", key, (edge.target, tuples))

    def end(self, operator):
        inputs = self.job.inputs(operator)
        if self.left[operator] or operator in self.ended:
            return
        if any(edge.source not in self.ended for edge in inputs):
            return
        self.ended.add(operator)
        lingering = [pack for place in sorted(self.late) for pack in self.late[place]]
        edges = [edge.name for edge in self.job.outputs(operator)]
        open_packs = [pack for pack in self.packs.values() if pack.edges[0].source == operator]
        lingering += sorted(
            open_packs,
            key=lambda pack: (edges.index(pack.edges[0].name), pack.sender, pack.instances),
        )
        for pack in lingering:
            if not pack.gone and pack.edges[0].source == operator:
                place = operator, pack.sender
                pack.closed = self.now if pack.closed is None else pack.closed
                pack.cause = 2
                self.packs = {key: each for key, each in self.packs.items() if each is not pack}
                if not self.charged:
                    self.ship(pack, 2, self.now)
                elif pack not in self.late[place]:
                    self.late[place].append(pack)
        for instance in range(len(self.homes)):
            self.begin(operator, instance)
        for _, target in edges:
            self.end(target)
