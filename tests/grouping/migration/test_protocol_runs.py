"""The migration protocol: in any order of messages and after any crash, nothing is lost."""

import copy
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from protocol_cluster import (
    CHAIN,
    KEYED,
    KEYS,
    Cluster,
    Owners,
)

from grouping.migration.protocol import (
    MANAGER,
    Address,
    Begin,
    Configuration,
)
from grouping.routing_table import RoutingTable


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
        cluster.inject(Address("read"), {"a": f"key {number % 5}", "b": number % 4})
    cluster.tell_manager(Begin())
    new = {
        "a": RoutingTable([f"key {n}" for n in range(5)], [1, 1, 0, 1, 0], 2),
        "b": RoutingTable([0, 1, 2], [0, 0, 0], 1),
    }

    cluster.drain(dice.randrange, new)

    cluster.check_always()
    cluster.check_at_rest()
    assert Configuration(1, new) == cluster.stored
