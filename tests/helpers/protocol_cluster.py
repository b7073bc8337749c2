"""A cluster that only passes messages, in any order and with crashes, to try the protocol on."""

import pickle
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from grouping.migration.protocol import (
    MANAGER,
    OUTSIDE,
    Configuration,
    DataTuple,
    Decide,
    Decided,
    Job,
    Manager,
    Message,
    Migrate,
    Phase,
    ProtocolInstance,
    Save,
    Saved,
)
from grouping.migration.reconfiguration import reconfigure
from sketches.keys import as_keys


@dataclass(frozen=True)
class Owners:
    """Stands for a routing table: explicit owners, the rest by the remainder of the key."""

    instances: int
    parts: tuple[tuple[int, int], ...] = ()

    def assign(self, keys):
        known = dict(self.parts)
        listed = keys if isinstance(keys, list) else as_keys(keys).values.tolist()
        return np.array([known.get(key, key % self.instances) for key in listed], np.int32)


CHAIN = Job({"read": 1, "a": 2, "b": 2}, (("read", "a"), ("a", "b")))
FORK = Job({"read": 2, "a": 2, "b": 3}, (("read", "a"), ("read", "b")))
DIAMOND = Job(
    {"read": 1, "a": 2, "b": 2, "c": 2}, (("read", "a"), ("read", "b"), ("a", "c"), ("b", "c"))
)
TWO_SOURCES = Job({"east": 1, "west": 2, "a": 3}, (("east", "a"), ("west", "a")))
STATELESS_BETWEEN = Job({"read": 1, "map": 2, "a": 3}, (("read", "map"), ("map", "a")))
KEYED = {
    "chain": (CHAIN, "ab"),
    "fork": (FORK, "ab"),
    "diamond": (DIAMOND, "abc"),
    "two sources": (TWO_SOURCES, "a"),
    "stateless between": (STATELESS_BETWEEN, "a"),
}
KEYS = range(4)


def numbers_due(job, injected):
    """How often each operator is to process each tuple: once for every path that leads there."""
    due = {address.operator: Counter() for address in job.sources}
    for name, numbers in injected.items():
        due[name].update(numbers)
    remaining = [name for name in job.instances if name not in due]
    while remaining:
        for name in list(remaining):
            feeding = {source for source, target in job.edges if target == name}
            if feeding <= set(due):
                due[name] = sum((due[source] for source in feeding), Counter())
                remaining.remove(name)
    return due


class Channel:
    """What one process ever sent to another, and how far that was delivered."""

    def __init__(self):
        self.log = []
        self.delivered = 0


class Cluster:
    """A job with its manager on a network that is as bad as the engine's promises allow."""

    def __init__(self, job, owners):
        first = Configuration(0, owners)
        self.job = job
        self.stored = first
        self.manager, _ = Manager.restarted(job, first)
        self.tasks = []
        self.instances = {a: ProtocolInstance.fresh(a, job, first) for a in job.addresses}
        self.channels = defaultdict(Channel)
        self.down = set()
        self.tuples = {}
        self.emitted = defaultdict(list)

    def inject(self, source, keys):
        data = DataTuple(len(self.tuples), keys)
        self.tuples[data.number] = data
        log = self.channels[OUTSIDE, source].log
        log.append(Message(OUTSIDE, source, data, len(log)))

    def deliverable(self):
        return sorted(
            ends
            for ends, channel in self.channels.items()
            if channel.delivered < len(channel.log) and ends[1] not in self.down
        )

    def deliver(self, ends, *, acknowledged=True):
        """Deliver the next message of a channel; unacknowledged, it will come once more."""
        channel = self.channels[ends]
        message = channel.log[channel.delivered]
        channel.delivered += acknowledged
        self.handle(message)

    def handle(self, message):
        if message.recipient == MANAGER:
            self.tell_manager(message)
            return
        before = self.instances[message.recipient]
        after, sent = before.handle(message)
        self.instances[message.recipient] = after
        for each in sent:
            self.channels[each.sender, each.recipient].log.append(each)
            if isinstance(each.body, DataTuple):
                self.emitted[each.sender, each.recipient.operator].append(each.body)
        self.check_lists(before, after, sent)

    def check_lists(self, before, after, sent):
        """What is sent are the lists of `reconfigure`, made of what is held at that moment."""
        moves = {
            each.recipient.instance: sorted(each.body.states)
            for each in sent
            if isinstance(each.body, Migrate) and each.body.states
        }
        if not any(isinstance(each.body, Migrate) for each in sent):
            return
        name, me = before.address
        held = [key for key in before.state if before.old.owner(name, key) == me]
        lists = reconfigure(before.old.owners[name], before.new.owners[name], held).changes()[me]
        assert {t.recipient: sorted(t.keys.tolist()) for t in lists.send} == moves

    def tell_manager(self, event):
        self.manager, instructions = self.manager.handle(event)
        self.follow(instructions)

    def follow(self, instructions):
        for each in instructions:
            if isinstance(each, Message):
                self.channels[each.sender, each.recipient].log.append(each)
            else:
                self.tasks.append(each)

    def perform(self, owners):
        """Do the next thing that the manager asked for; a decision is for these owners."""
        match self.tasks.pop(0):
            case Decide(metrics):
                assert set(self.job.addresses) == set(metrics)
                self.tell_manager(Decided(owners))
            case Save(configuration):
                self.stored = configuration
                self.tasks.append(Saved(configuration.epoch))
            case Saved() as saved:
                self.tell_manager(saved)

    def crash(self, address, lose=lambda _: 0):
        """Stop a process; of what the manager sent, the last messages may be lost."""
        self.down.add(address)
        if address == MANAGER:
            self.tasks.clear()
            for recipient in self.job.addresses:
                channel = self.channels[MANAGER, recipient]
                lost = lose(len(channel.log) - channel.delivered)
                del channel.log[len(channel.log) - lost :]

    def restart(self, address, rewind=lambda _: 0):
        """Start a process with what was durable; its channels may begin again from anywhere."""
        self.down.remove(address)
        if address == MANAGER:
            self.manager, instructions = Manager.restarted(self.job, self.stored)
            self.follow(instructions)
        else:
            frozen = pickle.dumps(self.instances[address])
            self.instances[address] = pickle.loads(frozen)  # noqa: S301
        for ends in sorted(self.channels):
            if address in ends:
                self.channels[ends].delivered -= rewind(self.channels[ends].delivered)

    def step(self, choose, owners, still=None):
        """Deliver any message, or do what the manager asked for; tell whether there was any."""
        ready = [ends for ends in self.deliverable() if ends != still]
        chosen = choose(len(ready) + bool(self.tasks)) if ready or self.tasks else None
        if chosen is None:
            return False
        if chosen < len(ready):
            self.deliver(ready[chosen])
        else:
            self.perform(owners)
        return True

    def drain(self, choose, owners):
        """Let everybody run until nothing is left to do."""
        for address in sorted(self.down):
            self.restart(address)
        while self.step(choose, owners):
            pass

    def on_the_way(self, operator):
        """Messages to an operator that its instances have not handled, sent again or not."""
        for (sender, recipient), channel in self.channels.items():
            if recipient.operator == operator and sender != MANAGER:
                yield from channel.log[self.instances[recipient].received.get(sender, 0) :]

    def histories(self, operator):
        """Each key's history, once for every place where there is one."""
        for address in self.job.of(operator):
            yield from self.instances[address].state.items()
        for message in self.on_the_way(operator):
            if isinstance(message.body, Migrate):
                yield from message.body.states.items()

    def arrived(self, operator):
        """Tuples that were processed by an operator, or passed on by one without state."""
        if operator in self.stored.owners:
            for _, history in self.histories(operator):
                for number, sender in history:
                    yield number, sender.operator
            return
        for (sender, recipient), channel in self.channels.items():
            if recipient.operator == operator and sender != MANAGER:
                for message in channel.log[: self.instances[recipient].received.get(sender, 0)]:
                    if isinstance(message.body, DataTuple):
                        yield message.body.number, sender.operator

    def check_always(self):
        self.check_one_place()
        self.check_conservation()
        self.check_order()

    def check_one_place(self):
        for operator in self.stored.owners:
            keys = [key for key, _ in self.histories(operator)]
            assert len(set(keys)) == len(keys)

    def check_conservation(self):
        """What one operator has handled is, once each, somewhere at the next."""
        for source, target in self.job.edges:
            handled = Counter(number for number, _ in self.arrived(source))
            there = Counter(number for number, sender in self.arrived(target) if sender == source)
            there.update(
                data.number
                for address in self.job.of(target)
                for sender, data in self.instances[address].waiting
                if sender.operator == source
            )
            there.update(
                message.body.number
                for message in self.on_the_way(target)
                if isinstance(message.body, DataTuple) and message.sender.operator == source
            )
            assert handled == there

    def check_order(self):
        """Of each sender, a key's history is what that sent of the key, from the first on."""
        for operator in self.stored.owners:
            for key, history in self.histories(operator):
                for sender in {sender for _, sender in history if sender != OUTSIDE}:
                    seen = [number for number, origin in history if origin == sender]
                    sent = [
                        data.number
                        for data in self.emitted[sender, operator]
                        if data.keys[operator] == key
                    ]
                    assert sent[: len(seen)] == seen

    def check_at_rest(self):
        assert (Phase.IDLE, self.stored) == (self.manager.phase, self.manager.configuration)
        for address, instance in self.instances.items():
            assert self.stored == instance.old == instance.new
            assert ((), False) == (instance.waiting, instance.switched)
            for key in instance.state:
                assert address.instance == self.stored.owner(address.operator, key)
        injected = defaultdict(list)
        for (sender, recipient), channel in self.channels.items():
            if sender == OUTSIDE:
                injected[recipient.operator] += [message.body.number for message in channel.log]
        due = numbers_due(self.job, injected)
        for operator in self.stored.owners:
            expected = defaultdict(Counter)
            for number, times in due[operator].items():
                expected[self.tuples[number].keys[operator]][number] = times
            assert expected == {
                key: Counter(number for number, _ in history)
                for key, history in self.histories(operator)
            }
