"""Cases that chance seldom makes: worked out by hand, on each way through the engine."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from grouping.feedback import Dispatcher, Reporter
from grouping.groupings import Grouping, LocalOrShuffle, RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    Edge,
    Node,
    Operator,
    Optimizer,
    Plan,
    Probe,
    Topology,
)
from optimizers.simulation import Network, SimulationEngine, Stream, Work


@dataclass(frozen=True)
class Script(Optimizer):
    """Decides one plan after the other, as written."""

    plans: tuple
    probes: frozenset = frozenset()
    told: tuple = ()

    @property
    def observes(self):
        return self.probes

    def plan(self, topology, cluster, statistics, current):
        number = statistics.epoch + 1 if statistics else 0
        self.told[0].append(statistics) if self.told else None
        return self.plans[number] if number < len(self.plans) else Plan()


@dataclass(frozen=True, slots=True)
class First(Grouping):
    """Listens, and sends all to the first."""

    letters: tuple = ()
    kind = "first"
    listens = True

    def _dispatcher(self, instances, sender, senders, truth):
        return FirstDispatcher(sender, HEARD)

    def _reporter(self, instance, instances, senders):
        return FirstReporter(instance)


class FirstDispatcher(Dispatcher):
    def __init__(self, sender, heard):
        self.sender, self.heard, self.next = sender, heard, -1

    def dispatch(self, code, now):
        self.next += 1
        return self.next % 2, None

    def receive(self, message, now):
        self.heard.append((self.sender, message, now))


class FirstReporter(Reporter):
    def __init__(self, instance):
        self.instance = instance

    def executed(self, sender, code, seconds, now, carried):
        return [(sender, (self.instance, seconds))]


HEARD = []

# The same run, once operator by operator and once event by event: a batch of two that may not
# linger is a batch of one.
WAYS = [({}, Network(linger=0.0)), ({"in": 2}, Network(linger=0.0))]


@pytest.mark.parametrize("then", [{}, {"in": 2}])
@pytest.mark.parametrize(("batch", "network"), WAYS)
def test_work_that_has_begun_takes_as_long_as_it_would_have_on_a_new_node(batch, network, then):
    cluster = Cluster((Node("slow", 0.5), Node("fast", 2.0)))
    job = Topology.source("in").then("work")
    start = Plan(placement={"work": Deployment(("slow",))}, batch=batch)
    moved = Plan(placement={"work": Deployment(("fast",))}, batch=then)

    run = SimulationEngine(cluster=cluster, network=network, batch_tuples=2).run(
        job, Stream([0.0, 0.0, 1.0]), Script((start, moved)), work={"work": Work(1.0)}
    )

    assert [2.0, 2.5, 3.0] == run.operators["work"].ended.tolist()


def test_work_that_has_begun_takes_as_long_where_a_sender_listens():
    cluster = Cluster((Node("slow", 0.5), Node("fast", 2.0)))
    job = Topology([Operator("in"), Operator("work", parallelism=2)], [Edge("in", "work", First())])
    start = Plan(placement={"work": Deployment(("slow", "slow"))})
    moved = Plan(placement={"work": Deployment(("fast", "fast"))})

    run = SimulationEngine(cluster=cluster, batch_tuples=3, cores=math.inf).run(
        job, Stream([0.0, 0.0, 0.0, 1.0]), Script((start, moved)), work={"work": Work(1.0)}
    )

    result = run.operators["work"]
    assert [2.0, 2.0, 2.5, 2.5] == result.ended[np.argsort(result.rows)].tolist()


def test_of_batches_that_leave_at_once_the_one_that_was_settled_first_takes_the_link_first():
    # The second sender settles at 0 and sends for 2 seconds, the first settles at 1 and takes 1.
    network = Network(per_byte=1.0, bandwidth=1.0)
    job = Topology([Operator("in", parallelism=2), Operator("work")], [Edge("in", "work")])
    stream = Stream([1.0, 1.0], bytes=[1.0, 2.0])
    plan = Plan(placement={"in": Deployment(("node-0",) * 2), "work": Deployment(("node-1",))})
    work = {"in": Work(lambda c: np.array([1.0, 0.0]))}

    run = SimulationEngine(network=network, cluster=Cluster.uniform(2), cores=2).run(
        job, stream, plan, work=work
    )

    # Both leave at 3: two bytes until 5, then one until 6.
    assert [6.0, 5.0] == run.completed.tolist()


def test_of_what_arrives_and_was_settled_at_one_time_the_first_sender_is_served_first():
    network = Network(per_byte=1.0, latency=0.5)
    job = Topology([Operator("in", parallelism=2), Operator("work")], [Edge("in", "work")])
    homes = {"in": Deployment(("node-0", "node-1")), "work": Deployment(("node-0",))}
    engine = SimulationEngine(network=network, cluster=Cluster.uniform(2))

    run = engine.run(
        job, Stream([0.0, 0.0], bytes=[1.5, 1.0]), Plan(placement=homes), work={"work": Work(1.0)}
    )

    # The second left earlier, but had further to go: both arrive at 1.5.
    assert [2.5, 3.5] == run.completed.tolist()


def test_what_leaves_after_an_epoch_does_not_take_the_link_before_what_leaves_earlier():
    network = Network(per_byte=1.0, bandwidth=1.0)
    job = Topology([Operator("in", parallelism=2), Operator("work")], [Edge("in", "work")])
    stream = Stream([0.0, 1.0], bytes=[4.0, 1.0])
    plan = Plan(placement={"in": Deployment(("node-0",) * 2), "work": Deployment(("node-1",))})

    for every in (None, 1):
        engine = SimulationEngine(
            network=network, cluster=Cluster.uniform(2), batch_tuples=every, cores=2
        )
        run = engine.run(job, stream, plan)
        # The second leaves at 2 and is there at 3, the first leaves at 4 and is there at 8.
        assert [8.0, 3.0] == run.completed.tolist()


@pytest.mark.parametrize(("batch", "network"), WAYS)
def test_who_stays_on_its_node_looks_around_anew_when_instances_move(batch, network):
    job = Topology(
        [Operator("in"), Operator("work", parallelism=2)], [Edge("in", "work", LocalOrShuffle())]
    )
    start = Plan(placement={"in": Deployment(("a",)), "work": Deployment(("a", "b"))}, batch=batch)
    moved = Plan(placement={"work": Deployment(("b", "a"))})

    run = SimulationEngine(
        cluster=Cluster((Node("a"), Node("b"))), network=network, batch_tuples=2
    ).run(job, Stream.steady(rate=1.0, count=4), Script((start, moved)))

    assert [0, 0, 1, 1] == run.operators["work"].instances.tolist()
    assert 1.0 == run.edges["in", "work"].locality


@pytest.mark.parametrize(("batch", "network"), WAYS)
def test_who_deals_out_in_turn_begins_anew_where_there_are_more_instances(batch, network):
    run = SimulationEngine(network=network, batch_tuples=3).run(
        Topology.source("in").then("work", parallelism=2),
        Stream.steady(rate=1.0, count=6),
        Script((Plan(batch=batch), Plan(parallelism={"work": 3}))),
    )

    assert [0, 1, 0, 0, 1, 2] == run.operators["work"].instances.tolist()


def test_messages_of_one_moment_arrive_in_the_order_of_their_instances():
    HEARD.clear()
    job = Topology([Operator("in"), Operator("work", parallelism=2)], [Edge("in", "work", First())])

    run = SimulationEngine().run(
        job, Stream([0.0, 0.0, 3.0]), work={"work": Work(lambda c: np.array([1.0, 1.0, 0.0]))}
    )

    assert [(0, (0, 1.0), 1.0), (0, (1, 1.0), 1.0)] == HEARD
    assert 3 == run.edges["in", "work"].messages


@pytest.mark.parametrize("network", [Network(latency=1.0), Network(latency=1.0, per_byte=1.0)])
def test_what_arrives_and_is_done_at_a_moment_is_not_waiting_for_who_sends_then(network):
    job = Topology([Operator("in"), Operator("work")], [Edge("in", "work", Curious())])
    plan = Plan(placement={"in": Deployment(("node-0",)), "work": Deployment(("node-1",))})
    SEEN.clear()

    SimulationEngine(network=network, cluster=Cluster.uniform(2)).run(
        job, Stream([0.0, 0.5, 1.0, 2.0]), plan, work={"work": Work(lambda c: [0, 1, 0, 0])}
    )

    assert [(0, 0.0), (1, 0.0), (1, 1.0), (2, 0.5)] == SEEN


@dataclass(frozen=True, slots=True)
class Curious(Grouping):
    """Looks at how much there is to do before it sends."""

    kind = "curious"
    listens = True

    def _dispatcher(self, instances, sender, senders, truth):
        return CuriousDispatcher(truth)

    def _reporter(self, instance, instances, senders):
        return FirstReporter(instance)


class CuriousDispatcher(Dispatcher):
    def __init__(self, truth):
        self.truth = truth

    def dispatch(self, code, now):
        SEEN.append((self.truth.waiting(0), self.truth.backlog(0)))
        return 0, None


SEEN = []


@pytest.mark.parametrize("network", [Network(), Network(per_batch=0.125)])
def test_senders_that_are_taken_away_send_and_are_heard_of_by_those_who_stay(network):
    HEARD.clear()
    job = Topology(
        [Operator("in", parallelism=2), Operator("work", parallelism=2)],
        [Edge("in", "work", First())],
    )

    run = SimulationEngine(network=network, batch_tuples=4).run(
        job,
        Stream([0.0, 0.0, 0.0, 0.0, 1.0]),
        Script((Plan(), Plan(parallelism={"in": 1}))),
        work={"in": Work(0.75)},
    )

    # Two are done before, whose messages are no longer waited for. Two and the last are sent by
    # the one who stays; of the last it hears after all is sent, which is of no use.
    assert 5 == run.edges["in", "work"].tuples
    assert {0} == {sender for sender, _, now in HEARD if now >= 1.0}
    assert 2 == len([now for _, _, now in HEARD if now >= 1.0])


def swapped(state_bytes, network, batch=None, *, told=(), probes=frozenset(), taken=0.125):
    """Run four keys on two nodes, which change places after four tuples."""
    job = Topology.source("in").then("work", key="k", parallelism=2, key_groups=2)
    keys = np.arange(4)
    tables = [RoutingTable(keys, owners, 2) for owners in ([0, 0, 0, 1], [1, 1, 0, 0])]
    start, then = (Plan(routing={"work": table}) for table in tables)
    start |= Plan(batch=batch or {})
    engine = SimulationEngine(network=network, cluster=Cluster.uniform(2), batch_tuples=4)
    return engine.run(
        job,
        Stream(np.arange(8.0), {"k": np.tile(keys, 2)}),
        Script((start, then), probes, told),
        work={"work": Work(taken, state_bytes=state_bytes)},
    )


@pytest.mark.parametrize("batch", [{}, {"in": 2}])
def test_who_gets_keys_from_another_node_waits_for_their_state(batch):
    network = Network(latency=0.25, bandwidth=100.0, linger=0.0)

    run = swapped(100.0, network, batch)

    # Keys 0 and 1 go one way and key 3 the other: 0.25 + 2 and 0.25 + 1 seconds from 4 on.
    assert (3, 300.0, 2.25) == run.batches[1].moved
    result = run.operators["work"]
    began = dict(zip(result.rows.tolist(), result.started.tolist(), strict=True))
    assert [6.25, 6.375, 6.0, 7.0] == [began[row] for row in (4, 5, 6, 7)]


@pytest.mark.parametrize("batch", [{}, {"in": 2}])
def test_work_that_has_begun_does_not_wait_for_state(batch):
    network = Network(latency=0.25, bandwidth=100.0, linger=0.0)

    result = swapped(100.0, network, batch, taken=2.0).operators["work"]

    # By 4, only key 0 was executed; instance 1 gets it at 5.25, and is at row 3 meanwhile.
    began = dict(zip(result.rows.tolist(), result.started.tolist(), strict=True))
    assert [0.0, 2.0, 4.0, 3.25] == [began[row] for row in range(4)]


def test_state_travels_with_an_instance_that_keeps_its_keys():
    job = Topology.source("in").then("work", key="k", parallelism=2, key_groups=2)
    plans = [
        Plan(placement={"work": Deployment(list(nodes), (0, 1))}) for nodes in ("ab", "ba", "ba")
    ]
    cluster = Cluster((Node("a"), Node("b")))

    run = SimulationEngine(cluster=cluster, network=Network(bandwidth=100.0), batch_tuples=8).run(
        job,
        Stream(np.arange(24.0), {"k": np.tile(np.arange(8), 3)}),
        Script(tuple(plans)),
        work={"work": Work(0.125, state_bytes=50.0)},
    )

    assert [0, 8, 0] == [batch.moved.keys for batch in run.batches]
    assert [0.0, 400.0, 0.0] == [batch.moved.bytes for batch in run.batches]


def test_keys_that_come_again_have_one_state():
    told = []
    job = Topology.source("in").then("work", key="k")

    SimulationEngine(batch_tuples=3).run(
        job,
        Stream(np.arange(10.0), {"k": [1, 2, 3, 1, 2, 4, 4, 4, 4, 4]}),
        Script((), frozenset(), (told,)),
        work={"work": Work(0.125, state_bytes=10.0)},
    )

    assert [30.0, 40.0, 40.0] == [
        statistics.operators["work"].state_bytes for statistics in told[1:]
    ]


def test_keys_without_state_move_at_no_cost_and_none_move_in_vain():
    run = swapped(0.0, Network(latency=0.25, bandwidth=100.0))

    assert [(0, 0.0, 0.0), (3, 0.0, 0.0)] == [batch.moved for batch in run.batches]


def test_optimizers_are_told_how_much_state_there_is():
    told = []

    swapped(100.0, Network(), told=(told,), probes=frozenset({Probe.GROUPS}))

    assert [0.0, 400.0] == [
        statistics.operators["work"].state_bytes if statistics else 0.0 for statistics in told
    ]
    assert 400.0 == told[1].groups["work"].state_bytes.sum()
    assert 0.0 == told[1].operators["in"].state_bytes


def test_work_that_waited_for_state_takes_as_long_as_it_would_have_in_the_next_batch():
    job = Topology.source("in").then("work", key="k", key_groups=1)
    there, then = (Plan(placement={"work": Deployment((node,), (0,))}) for node in ("x", "y"))
    engine = SimulationEngine(
        cluster=Cluster((Node("x"), Node("y"))),
        network=Network(bandwidth=100.0, links="edges"),
        batch_tuples=1,
    )

    run = engine.run(
        job,
        Stream([0.0, 1.0, 2.25], {"k": [7, 7, 7]}),
        Script((there, then)),
        work={"work": Work(0.5, state_bytes=100.0)},
    )

    # State travels until 2, in the second batch; the third begins at 2.25, amid the work.
    assert [0.5, 2.5, 3.0] == run.operators["work"].ended.tolist()
