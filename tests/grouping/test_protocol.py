"""The migration protocol: whatever the order of messages and whoever crashes, nothing is lost."""

import copy
import pickle
import random
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from grouping.protocol import (
    MANAGER,
    OUTSIDE,
    Ack,
    Address,
    Begin,
    Configuration,
    DataTuple,
    Decide,
    Decided,
    Done,
    GetMetrics,
    Instance,
    Job,
    Manager,
    Message,
    Migrate,
    Phase,
    Propagate,
    Save,
    Saved,
    SendMetrics,
    SendReconfiguration,
)
from grouping.reconfiguration import reconfigure
from grouping.routing_table import RoutingTable
from sketches.errors import InvalidKeyError, InvalidValueError
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
        self.instances = {a: Instance.fresh(a, job, first) for a in job.addresses}
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
        """Start a process with what was durable; its channels may begin anew from anywhere."""
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


def owners_of(job, operator):
    def table(instances):
        parts = st.lists(st.integers(0, instances - 1), min_size=len(KEYS), max_size=len(KEYS))
        return parts.map(lambda chosen: Owners(instances, tuple(zip(KEYS, chosen, strict=True))))

    return st.integers(1, job.instances[operator]).flatmap(table)


def owners_of_all(job, keyed):
    return st.fixed_dictionaries({operator: owners_of(job, operator) for operator in keyed})


class AnyRun(RuleBasedStateMachine):
    """Any job, any order of messages, any crashes, any number of reconfigurations.

    A seed decides between messages: drawn one by one, few examples would get far.
    """

    cluster = None

    @initialize(name=st.sampled_from(sorted(KEYED)), seed=st.integers(0, 1 << 32), data=st.data())
    def start(self, name, seed, data):
        self.job, self.keyed = KEYED[name]
        self.cluster = Cluster(self.job, data.draw(owners_of_all(self.job, self.keyed)))
        self.random = random.Random(seed)  # noqa: S311
        self.inject(count=4)
        self.wish(data)
        self.run(steps=data.draw(st.integers(0, 80)))

    @rule(count=st.integers(1, 8))
    def inject(self, count):
        for _ in range(count):
            keys = {operator: self.random.choice(KEYS) for operator in self.keyed}
            self.cluster.inject(self.random.choice(self.job.sources), keys)

    @rule(data=st.data())
    def wish(self, data):
        """Ask for other owners; the manager may be busy, or down."""
        self.wished = data.draw(owners_of_all(self.job, self.keyed))
        if MANAGER not in self.cluster.down:
            self.cluster.tell_manager(Begin())

    @rule(steps=st.integers(1, 80))
    def run(self, steps):
        for _ in range(steps):
            self.cluster.step(self.random.randrange, self.wished)
            self.cluster.check_always()

    @rule(steps=st.integers(1, 60), slow=st.integers(0, 99))
    def run_with_one_channel_standing_still(self, steps, slow):
        channels = sorted(self.cluster.channels) or [None]
        still = channels[slow % len(channels)]
        for _ in range(steps):
            self.cluster.step(self.random.randrange, self.wished, still=still)
            self.cluster.check_always()

    @rule(manager=st.booleans())
    def crash(self, manager):
        up = [address for address in self.job.addresses if address not in self.cluster.down]
        victims = [MANAGER] if manager and MANAGER not in self.cluster.down else up
        if victims:
            self.cluster.crash(self.random.choice(victims), lose=self.up_to)

    @rule(durable=st.booleans())
    def crash_in_a_step(self, durable):
        """Crash when a message is handled: before that is durable, or before it is acknowledged."""
        ready = self.cluster.deliverable()
        if ready:
            ends = self.random.choice(ready)
            if durable:
                self.cluster.deliver(ends, acknowledged=False)
            else:
                copy.deepcopy(self.cluster).deliver(ends)
            self.cluster.crash(ends[1], lose=self.up_to)

    @precondition(lambda self: self.cluster and self.cluster.down)
    @rule()
    def restart(self):
        self.cluster.restart(self.random.choice(sorted(self.cluster.down)), rewind=self.up_to)

    @precondition(lambda self: self.cluster and self.cluster.channels)
    @rule()
    def send_again(self):
        channel = self.random.choice(
            [self.cluster.channels[e] for e in sorted(self.cluster.channels)]
        )
        channel.delivered -= self.up_to(channel.delivered)

    @invariant()
    def nothing_is_lost_or_doubled(self):
        if self.cluster:
            self.cluster.check_always()

    def teardown(self):
        if self.cluster:
            self.cluster.drain(self.random.randrange, self.wished)
            self.cluster.check_always()
            self.cluster.check_at_rest()

    def up_to(self, most):
        return self.random.randint(0, most)


TestAnyRun = AnyRun.TestCase
TestAnyRun.settings = settings(max_examples=50, stateful_step_count=25)


@pytest.mark.parametrize("name", sorted(KEYED))
@pytest.mark.parametrize("seed", range(8))
def test_in_long_runs_with_many_reconfigurations_and_crashes_nothing_is_lost(name, seed):
    dice = random.Random(seed)  # noqa: S311
    job, keyed = KEYED[name]
    cluster = Cluster(job, any_owners(dice, job, keyed))
    still = None
    for event in dice.choices(*zip(*EVENTS.items(), strict=True), k=300):
        match event:
            case "tuple":
                keys = {operator: dice.choice(KEYS) for operator in keyed}
                cluster.inject(dice.choice(job.sources), keys)
            case "wish" if MANAGER not in cluster.down:
                cluster.tell_manager(Begin())
            case "another channel stands still":
                still = dice.choice([None, *sorted(cluster.channels)])
            case "crash" if len(cluster.down) <= len(job.addresses):
                up = sorted({MANAGER, *job.addresses} - cluster.down)
                cluster.crash(dice.choice(up), lose=lambda most: dice.randint(0, most))
            case "restart" if cluster.down:
                down = dice.choice(sorted(cluster.down))
                cluster.restart(down, rewind=lambda most: dice.randint(0, most))
            case "send again" if cluster.channels:
                channel = cluster.channels[dice.choice(sorted(cluster.channels))]
                channel.delivered -= dice.randint(0, channel.delivered)
            case _:
                cluster.step(dice.randrange, any_owners(dice, job, keyed), still=still)
        cluster.check_always()
    cluster.drain(dice.randrange, any_owners(dice, job, keyed))
    cluster.check_always()
    cluster.check_at_rest()


# What happens in a long run, and how often.
EVENTS = {
    "a step": 90,
    "tuple": 10,
    "wish": 4,
    "another channel stands still": 2,
    "crash": 1,
    "restart": 4,
    "send again": 1,
}


def any_owners(dice, job, keyed):
    chosen = {}
    for operator in keyed:
        instances = dice.randint(1, job.instances[operator])
        chosen[operator] = Owners(instances, tuple((k, dice.randrange(instances)) for k in KEYS))
    return chosen


def test_it_leads_from_one_routing_table_to_another():
    dice = random.Random(1)  # noqa: S311
    cluster = Cluster(CHAIN, {"a": RoutingTable([], [], 2), "b": RoutingTable([0], [1], 2)})
    for number in range(20):
        cluster.inject(READ, {"a": f"key {number % 5}", "b": number % 4})
    cluster.tell_manager(Begin())
    new = {
        "a": RoutingTable([f"key {n}" for n in range(5)], [1, 1, 0, 1, 0], 2),
        "b": RoutingTable([0, 1, 2], [0, 0, 0], 1),
    }

    cluster.drain(dice.randrange, new)

    cluster.check_always()
    cluster.check_at_rest()
    assert Configuration(1, new) == cluster.stored


# One job for what follows: key 1 of "count" moves from instance 1 to instance 0.
SMALL = Job({"read": 1, "count": 2}, (("read", "count"),))
READ, COUNT_0, COUNT_1 = Address("read"), Address("count", 0), Address("count", 1)
OLD = Configuration(0, {"count": Owners(2)})
NEW = Configuration(1, {"count": Owners(2, ((1, 0),))})


def spoken(wish):
    """Lead a job to other owners, always by the first channel with a message; return all said."""
    cluster = Cluster(SMALL, OLD.owners)
    cluster.tell_manager(Begin())
    said = []
    handle = cluster.handle
    cluster.handle = lambda message: (said.append(message), handle(message))
    cluster.drain(lambda _: 0, wish.owners)
    cluster.check_at_rest()
    return said


def told(instance, *messages):
    """Return an instance after messages that were numbered in order, and all that it sent."""
    sent = []
    for sender, body in messages:
        number = None if sender == MANAGER else instance.received.get(sender, 0)
        instance, more = instance.handle(Message(sender, instance.address, body, number))
        sent += more
    return instance, [(message.recipient, message.body) for message in sent]


def fresh(address):
    return Instance.fresh(address, SMALL, OLD)


def of_key(key, number=0):
    return DataTuple(number, {"count": key})


def test_the_messages_come_in_the_order_of_the_papers_figure():
    said = spoken(NEW)
    kinds = [GetMetrics, SendMetrics, SendReconfiguration, Ack, Propagate, Migrate, Done]
    first = {kind: [type(m.body) for m in said].index(kind) for kind in kinds}
    last = {kind: max(n for n, m in enumerate(said) if isinstance(m.body, kind)) for kind in kinds}

    assert last[GetMetrics] < first[SendReconfiguration]
    assert last[SendMetrics] < first[SendReconfiguration]
    assert last[Ack] < first[Propagate] < first[Migrate]
    assert {
        "GetMetrics": 3,
        "SendMetrics": 3,
        "SendReconfiguration": 3,
        "Ack": 3,
        "Propagate": 3,
        "Migrate": 2,
        "Done": 3,
    } == Counter(type(message.body).__name__ for message in said)


def test_the_manager_saves_before_it_tells_anyone():
    manager = Manager(SMALL, OLD, Phase.DECIDING)
    manager, asked = manager.handle(Decided(NEW.owners))

    assert (Save(NEW),) == asked

    _, asked = manager.handle(Saved(1))

    assert [SendReconfiguration(NEW)] * 3 == [message.body for message in asked]


def test_metrics_say_how_often_each_key_came():
    _, sent = told(
        fresh(COUNT_1),
        (READ, of_key(1)),
        (READ, of_key(3)),
        (READ, of_key(1)),
        (MANAGER, GetMetrics(0)),
    )

    assert [(MANAGER, SendMetrics(0, {1: 2, 3: 1}))] == sent


def test_a_tuple_waits_for_state_that_another_instance_still_has():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1)),
    )

    assert ((READ, of_key(1)),) == instance.waiting
    assert (MANAGER, Done(1)) not in sent


def test_a_tuple_of_a_key_that_stays_does_not_wait():
    instance, _ = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(0)),
    )

    assert ((), {0: ((0, READ),)}) == (instance.waiting, instance.state)


def test_the_state_comes_before_the_tuples_that_waited_for_it_in_their_order():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1, number=8)),
        (READ, of_key(1, number=9)),
        (COUNT_1, Migrate(1, {1: ((7, READ),)})),
    )

    assert ((), {1: ((7, READ), (8, READ), (9, READ))}) == (instance.waiting, instance.state)
    assert (MANAGER, Done(1)) == sent[-1]


def test_an_empty_migrate_lets_waiting_tuples_go():
    instance, _ = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1)),
        (COUNT_1, Migrate(1, {})),
    )

    assert ((), {1: ((0, READ),)}) == (instance.waiting, instance.state)


def test_state_that_comes_before_the_switch_is_kept_for_it():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (COUNT_1, Migrate(1, {1: ((7, READ),)})),
    )

    assert [(MANAGER, Ack(1))] == sent

    instance, sent = told(instance, (READ, Propagate(1)), (READ, of_key(1, number=8)))

    assert [(COUNT_1, Migrate(1, {})), (MANAGER, Done(1))] == sent
    assert {1: ((7, READ), (8, READ))} == instance.state


def test_a_key_that_came_after_the_metrics_moves_as_well():
    instance, sent = told(
        fresh(COUNT_1),
        (MANAGER, GetMetrics(0)),
        (READ, of_key(1)),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
    )

    assert (MANAGER, SendMetrics(0, {})) == sent[0]
    assert (COUNT_0, Migrate(1, {1: ((0, READ),)})) in sent
    assert {} == instance.state


def test_an_instance_goes_on_without_waiting_for_its_siblings_state():
    instance, sent = told(
        Instance.fresh(Address("a"), CHAIN, Configuration(0, {"a": Owners(2), "b": Owners(2)})),
        (MANAGER, SendReconfiguration(Configuration(1, {"a": Owners(1), "b": Owners(2)}))),
        (READ, Propagate(1)),
    )

    assert instance.switched
    assert [(Address("b", n), Propagate(1)) for n in range(2)] == sent[1:]


def test_an_operator_whose_owners_stay_exchanges_nothing():
    said = spoken(OLD)

    assert [] == [message for message in said if isinstance(message.body, Migrate)]


def test_an_instance_that_is_done_says_so_again_to_a_manager_that_crashed():
    done, _ = told(fresh(READ), (MANAGER, SendReconfiguration(NEW)), (MANAGER, Propagate(1)))

    again, sent = told(done, (MANAGER, SendReconfiguration(NEW)), (MANAGER, Propagate(1)))

    assert done == again
    assert [(MANAGER, Ack(1)), (MANAGER, Done(1))] == sent


def test_a_wish_during_a_reconfiguration_waits_for_its_end():
    manager, _ = Manager.restarted(SMALL, NEW)
    manager, asked = manager.handle(Begin())

    assert () == asked

    for body in (Ack(1), Done(1)):
        for address in SMALL.addresses:
            manager, asked = manager.handle(Message(address, MANAGER, body))

    assert [GetMetrics(1)] * 3 == [message.body for message in asked]
    assert (Phase.MEASURING, False) == (manager.phase, manager.again)


def test_where_the_present_owners_shall_stay_nothing_is_saved_or_sent():
    manager, asked = Manager(SMALL, OLD, Phase.DECIDING).handle(Decided(None))

    assert ((), Manager(SMALL, OLD)) == (asked, manager)


@pytest.mark.parametrize(
    ("address", "messages", "match"),
    [
        (COUNT_0, [(READ, of_key(1))], "who does not own its key; route by the owners"),
        (
            COUNT_1,
            [
                (MANAGER, SendReconfiguration(NEW)),
                (READ, Propagate(1)),
                (READ, of_key(1)),
            ],
            "who does not own its key",
        ),
        (READ, [(MANAGER, Propagate(1))], "of epoch 1, which is not under way there; nobody may"),
        (COUNT_0, [(COUNT_1, Migrate(1, {}))], "of epoch 1, which is not under way"),
        (COUNT_0, [(COUNT_1, Migrate(0, {}))], "of epoch 0, which is not under way"),
        (
            COUNT_0,
            [(MANAGER, SendReconfiguration(Configuration(2, OLD.owners)))],
            "asked for epoch 2 before it has ended 1; wait until all",
        ),
        (READ, [(MANAGER, Done(1))], "is for the manager, not for .*read.*; send it there"),
    ],
)
def test_what_cannot_come_if_all_keep_to_the_protocol_is_refused(address, messages, match):
    with pytest.raises(InvalidValueError, match=match):
        told(fresh(address), *messages)


def test_a_tuple_without_the_key_of_an_operator_is_refused():
    data = DataTuple(5, {"other": 1})

    with pytest.raises(InvalidKeyError, match=r"tuple 5 has no key for 'count'.*for \['other'\]"):
        told(fresh(READ), (OUTSIDE, data))
    with pytest.raises(InvalidKeyError, match="tuple 5 has no key for 'count'"):
        told(fresh(COUNT_0), (READ, data))


def test_a_lost_message_is_noticed():
    with pytest.raises(InvalidValueError, match=r"message 1 of .*, not 0; channels must be first"):
        fresh(COUNT_0).handle(Message(READ, COUNT_0, of_key(0), 1))


def test_a_message_that_came_before_is_passed_over():
    instance, _ = told(fresh(COUNT_0), (READ, of_key(0)))

    assert (instance, ()) == instance.handle(Message(READ, COUNT_0, of_key(0), 0))


@pytest.mark.parametrize(
    ("phase", "event", "match"),
    [
        (Phase.IDLE, Decided(NEW.owners), "told a decision while it is idle, not deciding"),
        (Phase.IDLE, Saved(1), "that epoch 1 was saved while it is idle, not saving; answer only"),
        (Phase.DECIDING, Decided({}), r"decided for \[\]; decide for \['count'\], which keep"),
        (Phase.DECIDING, Decided({"count": Owners(3)}), r"instances=3 is out of range"),
        (Phase.IDLE, Message(READ, MANAGER, Propagate(1)), "is for an instance, not for the man"),
    ],
)
def test_the_manager_refuses_answers_that_it_did_not_ask_for(phase, event, match):
    with pytest.raises(InvalidValueError, match=match):
        Manager(SMALL, OLD, phase).handle(event)


@pytest.mark.parametrize("body", [Ack(0), Ack(2), Done(0), Done(2), SendMetrics(1, {})])
@pytest.mark.parametrize("phase", sorted(Phase))
def test_the_manager_passes_over_answers_of_another_epoch(phase, body):
    manager = Manager(SMALL, NEW, phase)
    if phase is Phase.MEASURING and isinstance(body, SendMetrics):
        body = SendMetrics(0, {})

    assert (manager, ()) == manager.handle(Message(READ, MANAGER, body))


@pytest.mark.parametrize(
    ("instances", "edges", "match"),
    [
        ({"a": 0}, (), r"instances\['a'\]=0 is out of range"),
        ({"a": 1}, (("a", "b"),), r"there is no operator 'b'; name one of \['a'\]"),
        ({"a": 1, "b": 1}, (("a", "b"), ("a", "b")), "name an edge twice"),
        ({"a": 1, "b": 1}, ("ab",), "'ab' is no edge; write"),
        ({"(manager)": 1}, (), "which is taken; rename it"),
        ({"a": 1, "b": 1}, (("a", "b"), ("b", "a")), "feed each other, so each would wait"),
    ],
)
def test_a_job_that_cannot_run_is_refused(instances, edges, match):
    with pytest.raises(InvalidValueError, match=match):
        Job(instances, edges)


@pytest.mark.parametrize(
    ("owners", "match"),
    [
        ({"read": Owners(1)}, r"owners\['read'\]: no operator of that name is fed"),
        ({"lost": Owners(1)}, r"owners\['lost'\]: no operator of that name"),
        ({"count": Owners(3)}, r"owners\['count'\].instances=3 is out of range"),
        ({"count": Owners(0)}, "instances=0 is out of range"),
    ],
)
def test_owners_that_do_not_fit_the_job_are_refused(owners, match):
    with pytest.raises(InvalidValueError, match=match):
        Configuration(0, owners).check(SMALL)
