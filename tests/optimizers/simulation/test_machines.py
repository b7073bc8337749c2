"""In a simulation, too, nodes come a while after plans want them, and go once they are empty."""

import numpy as np
import pytest

from optimizers import Cluster, Deployment, Fixed, Node, Operator, Optimizer, Plan, Topology
from optimizers.errors import InvalidValueError
from optimizers.simulation import Network, SimulationEngine, Stream, Work
from optimizers.simulation.machines import SimulatedMachines

JOB = Topology.source("s").then(Operator("a", "k", 4, key_groups=8))
TUPLES = 1_200
STREAM = Stream.steady({"k": np.arange(TUPLES) % 40}, rate=100.0)
GROUPS = (0, 1, 2, 3, 0, 1, 2, 3)


class Wanting(Optimizer):
    """Decides these plans, one after the other, and keeps the clusters it was shown."""

    def __init__(self, *plans):
        self.plans, self.seen = list(plans), []

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(tuple(node.name for node in cluster.working))
        return self.plans.pop(0) if self.plans else Plan()


def run_of(optimizer, *, cluster=None, job=JOB, work=None, **settings):
    cluster = cluster or Cluster.uniform(2)
    engine = SimulationEngine(cluster=cluster, batch_seconds=1.0, **settings)
    run = engine.run(job, STREAM, optimizer, work=work or {"a": Work(0.001)})
    assert TUPLES == sum(run.operators["a"].tuples)
    return run


def nodes_by_batch(run, operator="a"):
    return [
        {instance.node for instance in batch.instances if instance.operator == operator}
        for batch in run.batches
    ]


TWO = {"node-0", "node-1"}


@pytest.mark.parametrize(("delay", "first"), [(0.0, 1), (2.5, 4)])
def test_nodes_come_after_their_delay_and_get_a_share(delay, first):
    optimizer = Wanting(Plan(nodes=3))  # before the first batch, after which it is asked for

    run = run_of(optimizer, node_delay=delay)

    three = TWO | {"node-2"}
    assert [TWO] * first + [three] * (len(run.batches) - first) == nodes_by_batch(run)
    told = [said for said in run.decisions if said.provisions]
    assert ["1 node more was asked for"] == [note.text for one in told for note in one.notes]
    assert (1, 0) == (run.totals.provisioned, run.totals.refused)
    assert tuple(sorted(three)) == tuple(sorted(optimizer.seen[-1]))


def test_work_goes_on_the_cores_of_nodes_that_come():
    def latency(optimizer):
        cluster = Cluster((Node("x", cores=1),))
        return run_of(optimizer, cluster=cluster, work={"a": Work(0.012)}).batches[-1].latency.mean

    # 1.2 cores are needed. On one, tuples of the last second wait for a sixth of those before; on
    # two, only for each other, and for what the first batch left, which is done by then.
    assert latency(Fixed(Plan())) > 1.5
    assert latency(Wanting(Plan(nodes=2))) < 0.05


def test_a_node_is_given_back_after_a_batch_in_which_nothing_was_on_it():
    optimizer = Wanting(Plan(), Plan(nodes=1))  # decided after batch 0, in force with batch 1

    run = run_of(optimizer)

    assert [TWO, {"node-0"}] == nodes_by_batch(run)[:2]
    # It drains while batch 1 runs, and is gone with the batch after.
    both, one = ("node-0", "node-1"), ("node-0",)
    assert [both, both, one] == optimizer.seen[:3]
    assert () == run.plan.drain
    assert ["node-0"] == [node.name for node in run.cluster.nodes]
    notes = [note.text for said in run.decisions if said.provisions for note in said.notes]
    assert ["nothing was left on node-1, which was given back"] == notes


def released_after(run):
    (batch,) = [said.after for said in run.decisions if said.provisions and said.applied]
    return batch


@pytest.mark.parametrize("pause", [0.5, 2.5])
def test_a_node_stays_while_state_travels(pause):
    # All of the 20 keys that move go from one node to the other at once.
    work = {"a": Work(0.001, state_bytes=1e3)}
    network = Network(bandwidth=20 * 1e3 / pause)

    run = run_of(Wanting(Plan(), Plan(nodes=1)), work=work, network=network)

    assert 1 + int(pause) == released_after(run)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_node_stays_while_instances_work_off_what_was_sent_to_them(batch):
    # Two instances, the second on the second node, take 1.5 times as long as tuples need to come;
    # of those that came in the first second, what the second instance has left takes .5 s more.
    job = Topology.source("s").then("a", parallelism=2).then("b")
    fewer = Plan(parallelism={"a": 1}, placement={"a": Deployment(("node-0",))}, nodes=1)
    plans = Plan(batch={"s": batch}, placement={"a": Deployment(("node-0", "node-1"))}), fewer
    stream = Stream.steady({"k": np.arange(400)}, rate=100.0)
    engine = SimulationEngine(cluster=Cluster.uniform(2), batch_seconds=1.0)

    def released(seconds):
        run = engine.run(job, stream, Wanting(*plans), work={"a": Work(seconds)})
        executed = run.operators["a"]
        last = executed.ended[executed.instances == 1].max()
        return released_after(run), int(last)

    # It is gone after the first batch in which it has done the last.
    assert (1, 1) == released(0.030)
    assert (2, 2) == released(0.045)


def test_nodes_are_called_by_names_that_were_never_used():
    machines = SimulatedMachines(Cluster((Node("node-1"), Node("y", 3.0, "rack-7"))), delay=5.0)
    machines.acquire(2, 4)
    machines.now = 4.9
    assert 2 == len(machines.look().nodes)
    machines.now = 5.0
    there = machines.look()
    assert ["node-1", "y", "node-0", "node-2"] == [node.name for node in there.nodes]
    assert {(3.0, "rack-7")} == {(node.capacity, node.rack) for node in there.nodes[1:]}

    machines.release(("node-0",))
    machines.acquire(1, 4)
    machines.now = 10.0

    assert ["node-1", "y", "node-2", "node-3"] == [node.name for node in machines.look().nodes]


def test_nodes_that_are_cancelled_are_the_last_to_come():
    machines = SimulatedMachines(Cluster.uniform(1), delay=5.0)
    machines.acquire(1, 2)
    machines.now = 3.0
    machines.acquire(3, 5)
    machines.cancel(2, 3)
    counts = []
    for machines.now in (4.9, 5.0, 7.9, 8.0, 99.0):
        counts.append(len(machines.look().nodes))

    assert [1, 2, 2, 3, 3] == counts


def test_nodes_that_are_wanted_no_more_before_they_come_do_not_come():
    # Decided before batch 0 and after it: asked for after batch 0, and cancelled after batch 1.
    run = run_of(Wanting(Plan(nodes=4), Plan(nodes=3)), node_delay=3.5)

    three = TWO | {"node-2"}
    assert [TWO] * 5 + [three] * (len(run.batches) - 5) == nodes_by_batch(run)
    notes = [note.text for said in run.decisions if said.provisions for note in said.notes]
    assert ["2 nodes more were asked for", "the request for 1 node was cancelled"] == notes


BIG = Node("big", capacity=8.0, cores=8, memory=64e9, rack="rack-9")


@pytest.mark.parametrize("delay", [0.0, 2.5])
def test_a_node_that_a_plan_adds_comes_as_it_was_asked_for(delay):
    shown = []

    class Adding(Wanting):
        def plan(self, topology, cluster, statistics, current):
            shown.append({node.name: node for node in cluster.nodes})
            return super().plan(topology, cluster, statistics, current)

    # Another is wanted beside it, which no plan describes: that is like the last declared one.
    run = run_of(Adding(Plan(), Plan(add=(BIG,)), Plan(nodes=4)), node_delay=delay)

    assert [BIG] * (len(shown) - 2) == [seen["big"] for seen in shown[2:]]
    assert {*TWO, "big", "node-2"} == {*shown[-1]} == {node.name for node in run.cluster.nodes}
    assert shown[-1]["node-2"] == Node("node-2")
    assert not [said for said in run.decisions if "in its stead" in str(said)]


def test_nodes_that_no_plan_describes_are_called_by_no_name_that_one_has():
    machines = SimulatedMachines(Cluster.uniform(1), delay=5.0)
    machines.added = (Node("node-1", 3.0),)
    machines.acquire(3, 4)
    machines.now = 5.0

    there = machines.look()
    assert ["node-0", "node-1", "node-2", "node-3"] == [node.name for node in there.nodes]
    assert [1.0, 3.0, 1.0, 1.0] == [node.capacity for node in there.nodes]


def test_a_node_that_no_plan_adds_any_more_is_cancelled_before_others():
    machines = SimulatedMachines(Cluster.uniform(1), delay=5.0)
    machines.added = (BIG,)
    machines.acquire(2, 3)
    machines.added = ()
    machines.cancel(1, 2)
    machines.now = 5.0

    assert ["node-0", "node-1"] == [node.name for node in machines.look().nodes]


def test_a_delay_is_no_negative_number():
    with pytest.raises(InvalidValueError, match="node_delay=-1"):
        SimulationEngine(node_delay=-1)
