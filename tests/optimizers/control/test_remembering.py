"""What the control loop remembers of epochs, on each engine, held against what happened."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver

from grouping.routing_table import GroupTable
from optimizers import (
    Cluster,
    Deployment,
    Note,
    Operator,
    OperatorStatistics,
    Optimizer,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.control.checking import EngineLimits
from optimizers.control.loop import ControlLoop, Observed
from optimizers.control.remembering import Remembering
from optimizers.control.run_summary import RunSummary
from optimizers.control.settings import Asking
from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.past import MOST_EPOCHS
from optimizers.simulation import Network, SimulationEngine, Stream, Work

GROUPS = 8
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 2, apply=Count(emit=Emit.TUPLES), key_groups=GROUPS))
    .then(Operator("b", "l", 2, apply=Count(emit=Emit.CHANGES), key_groups=GROUPS))
)
BATCH = 200
SEEN = Statistics(operators={"a": OperatorStatistics(tuples=14.0)})


class Script(Optimizer):
    """Decides one plan after the other, and keeps the statistics that it was given."""

    observes = frozenset({Probe.GROUPS})

    def __init__(self, *plans):
        self.plans = plans
        self.heard = []

    def plan(self, topology, cluster, statistics, current):
        if not statistics:
            return Plan()
        self.heard.append(statistics)
        place = len(self.heard) - 1
        return self.plans[place] if place < len(self.plans) else Plan()


def placed(*groups):
    return Plan(placement={"a": Deployment(("node-0", "node-1"), groups)})


def table(cluster_groups=GROUPS):
    return GroupTable(list(range(cluster_groups)), [0] * cluster_groups, cluster_groups)


def columns(batches, seed=0):
    drawn = np.random.default_rng(seed)
    number = batches * BATCH
    return {"k": drawn.zipf(1.5, number) % 40, "l": drawn.integers(0, 40, number)}


def in_the_simulation(optimizer, batches, every=1, work=None):
    engine = SimulationEngine(
        cluster=Cluster.uniform(2),
        network=Network(per_batch=1e-5) if work is None else Network(),
        batch_tuples=BATCH,
        every=every,
        work={"a": Work(0.0002), "b": Work(0.0001)} if work is None else work,
    )
    return engine.run(JOB, Stream.steady(columns(batches), rate=1000.0), optimizer)


def test_epochs_tell_what_their_batches_did():
    script = Script()
    run = in_the_simulation(script, batches=9, every=2)
    past = script.heard[-1].past
    assert [epoch.epoch for epoch in past.epochs] == [0, 1, 2]
    assert [seen.epoch for seen in script.heard] == [0, 1, 2, 3]
    for number, epoch in enumerate(past.epochs):
        batches = run.batches[2 * number : 2 * number + 2]
        assert epoch.batches == 2
        assert epoch.seconds == script.heard[number].seconds == pytest.approx(2 * BATCH / 1000)
        for name in ("s", "a", "b"):
            mine = [i for batch in batches for i in batch.instances if i.operator == name]
            assert epoch.tuples[name] == sum(i.tuples for i in mine) > 0
            assert epoch.busy[name] == pytest.approx(sum(i.seconds + i.shipping for i in mine))
        for node in ("node-0", "node-1"):
            mine = [i for batch in batches for i in batch.instances if i.node == node]
            assert epoch.nodes[node] == pytest.approx(sum(i.seconds + i.shipping for i in mine))
        assert epoch.instances == {"s": 1, "a": 2, "b": 2}
        assert epoch.decision is not None
        assert not epoch.decision.applied


def test_epochs_and_summaries_tell_all_cpu_time_that_is_measured(tmp_path):
    """Most of it is for receiving, as folds that count cost little."""
    script, given = Script(), pa.table(columns(6))
    driver = Driver(tmp_path, JOB, script, every=2)
    for start in range(0, len(given), BATCH):
        driver.batch({"s": given.slice(start, BATCH)})

    past = script.heard[-1].past.epochs
    assert len(past) == 2
    for number, epoch in enumerate(past):
        batches = driver.coordinator.batches[2 * number : 2 * number + 2]
        told, seen = RunSummary.of_batches(JOB, batches), script.heard[number].instances
        nodes = dict.fromkeys(epoch.nodes, 0.0)
        for name in ("s", "a", "b"):
            assert (seen[name].receiving > 0).all()
            assert told.operator(name).busy == pytest.approx(seen[name].seconds)
            assert epoch.busy[name] == pytest.approx(seen[name].seconds.sum())
            for node, seconds in zip(seen[name].nodes, seen[name].seconds, strict=True):
                nodes[node] += seconds
        assert epoch.nodes == pytest.approx(nodes)
        for batch in batches:
            stages = RunSummary.of_batches(JOB, [batch]).operators
            assert batch.makespan == pytest.approx(sum(max(stage.busy) for stage in stages))


def test_work_is_remembered_of_the_node_that_did_it():
    """As after a host was lost in a batch, which another one then does."""
    remembering = Remembering()
    ran = {"x": 1.0, "y": 2.0, None: 4.0, "unknown": 8.0}
    instances = [
        InstanceSummary("a", number, "x", 1, 1, seconds, 0.0, 0, host=host)
        for number, (host, seconds) in enumerate(ran.items())
    ]
    remembering.hear(BatchSummary(0, 0, 1.0, instances, {}, nodes=("x", "y")))
    remembering.hear(BatchSummary(1, 0, 1.0, instances, {}))  # of nodes that are no hosts

    ended = remembering.end_epoch(0, SEEN, 1.0, Layout.of(JOB, Cluster.uniform(1), Plan()))

    assert {"x": 1.0 + 4.0 + 8.0 + 15.0, "y": 2.0} == ended.nodes
    assert {"a": 30.0} == ended.busy


def test_decisions_are_remembered_with_what_became_of_them():
    there = placed(*[0, 1] * 4)
    impossible = Plan(parallelism={"a": 999})
    script = Script(there, there, impossible)
    in_the_simulation(script, batches=6)
    told = [epoch.decision for epoch in script.heard[-1].past.epochs]
    assert [decision.applied for decision in told] == [True, False, False, False]
    assert told[0].parts == (("placement", "a"),)
    assert told[0].changed("placement")
    assert not told[1].changed("placement")  # it restated the present
    assert "999" in told[2].refused
    assert script.heard[-1].past.since("placement") == 4
    assert script.heard[1].past.since("placement") == 1


def test_loads_come_to_be_what_was_expected():
    """The stream is steady: what a placement is expected to bring to nodes is then measured."""
    there = placed(0, 0, 1, 1, 0, 1, 0, 1)
    script = Script(there)
    in_the_simulation(script, batches=13, every=4)
    first, second = script.heard[-1].past.epochs[:2]
    expected = first.decision.loads
    assert set(expected) == {"node-0", "node-1"}
    assert sum(expected.values()) == pytest.approx(sum(first.loads.values()))
    assert expected != pytest.approx(first.loads, rel=0.05)  # it did change something
    assert second.loads == pytest.approx(expected, rel=0.1)  # other tuples of the same stream


def said(plan, **figures):
    named = {name.replace("_", " "): value for name, value in figures.items()}
    return plan | Plan(notes=(Note("Me", "a and b", "it is better", named),))


def test_a_decision_is_told_with_what_it_was_expected_to_bring_and_what_was_found():
    for plan in (Plan(routing={"a": table()}), placed(*[0, 1] * 4)):
        script = Script(said(plan, local_now=0.625, worth=3.0))
        done = in_the_simulation(script, batches=5)
        first, second = script.heard[-1].past.epochs[:2]
        assert 0.625 == first.decision.expected["local"]
        assert "worth" not in first.decision.expected
        # What is found is what the epoch after it remembers of itself.
        assert second.local == first.decision.found["local"]
        assert {*first.decision.expected} == {*first.decision.found}
        for name, load in first.decision.loads.items():
            assert load <= first.decision.expected["busiest node"], name
        if first.decision.loads:
            found = max(second.loads.values())
            assert found == pytest.approx(first.decision.found["busiest node"])
        # A strategy sees it at once, at the end of that epoch.
        assert first.decision == script.heard[1].past.epochs[0].decision
        # And so does who reads the run.
        (told,) = [one for one in done.decisions if one.applied]
        assert (first.decision.expected, first.decision.found) == (told.expected, told.found)
        assert "; expected " in str(told)
        assert f"; found {'busiest' if first.decision.loads else 'local'}" in str(told)


def test_nothing_is_expected_of_what_was_not_done_or_is_said_in_two_ways():
    idle = said(Plan(), local_now=0.5)
    two = said(said(placed(*[0, 1] * 4), local_now=0.5), local_now=0.75)
    script = Script(idle, two)
    in_the_simulation(script, batches=4)
    first, second = (epoch.decision for epoch in script.heard[-1].past.epochs[:2])
    assert {} == first.expected == first.found
    assert ["busiest node"] == [*second.expected] == [*second.found]


def test_a_batch_is_told_with_the_seconds_that_it_was_expected_to_take():
    script = Script(said(placed(*[0, 1] * 4), seconds_of_a_batch=2.0))
    in_the_simulation(script, batches=13, every=3)
    first, second = script.heard[-1].past.epochs[:2]
    assert 2.0 == first.decision.expected["seconds of a batch"]
    took = second.seconds / second.batches
    assert took == first.decision.found["seconds of a batch"]


def test_nothing_is_expected_where_it_is_not_known():
    for plan in (
        Plan(routing={"a": table()}),
        Plan(placement={"s": Deployment(("node-1",))}),
        Plan(parallelism={"a": 3}, placement={"s": Deployment(("node-1",))}),
    ):
        script = Script(plan)
        in_the_simulation(script, batches=3)
        decision = script.heard[-1].past.epochs[0].decision
        assert decision.applied
        assert decision.expected == {} == decision.loads


def test_loads_of_groups_are_averages_until_keys_get_other_groups():
    script = Script(Plan(), Plan(), Plan(routing={"a": table()}))
    in_the_simulation(script, batches=6)
    cpu = [seen.groups["a"].cpu for seen in script.heard]
    pasts = [seen.past.groups for seen in script.heard]
    assert pasts[0] == {}
    np.testing.assert_array_equal(pasts[1]["a"].cpu, cpu[0])
    np.testing.assert_allclose(pasts[2]["a"].cpu, 0.5 * cpu[0] + 0.5 * cpu[1])
    assert set(pasts[3]) == {"b"}  # the third decision gave keys of `a` other groups
    np.testing.assert_array_equal(pasts[4]["a"].cpu, cpu[3])
    b = [seen.groups["b"].cpu for seen in script.heard]
    third = 0.5 * (0.5 * b[0] + 0.5 * b[1]) + 0.5 * b[2]
    np.testing.assert_allclose(pasts[3]["b"].cpu, third)


def test_an_epoch_that_a_new_plan_cuts_short_is_forgotten():
    cluster, script = Cluster.uniform(2), Script()
    loop = ControlLoop(JOB, cluster, script, Asking(every=2))
    summary = BatchSummary(0, 0, 0.5, (InstanceSummary("a", 0, "node-0", 7, 7, 0.25, 0.0, 3),), {})
    loop.hear(summary, tuples=7, plan=Plan())
    loop.begin(Layout.of(JOB, cluster, Plan()))
    for _ in range(2):
        loop.hear(summary, tuples=7, plan=Plan())
        loop.decide(Plan(), Observed(lambda _: SEEN, lambda _: None), EngineLimits())
    for _ in range(2):
        loop.hear(summary, tuples=7, plan=Plan())
        loop.decide(Plan(), Observed(lambda _: SEEN, lambda _: None), EngineLimits())
    (epoch,) = script.heard[-1].past.epochs
    assert (epoch.batches, epoch.tuples["a"], epoch.nodes, epoch.taken_over) == (
        2,
        14,
        {"node-0": 0.5},
        6,
    )


def test_it_is_bounded():
    script = Script()
    in_the_simulation(script, batches=MOST_EPOCHS + 6)
    epochs = script.heard[-1].past.epochs
    assert len(epochs) == MOST_EPOCHS
    assert epochs[-1].epoch == script.heard[-1].epoch - 1


def test_the_runner_remembers_as_the_simulation_does(tmp_path):
    there = placed(*[1, 0] * 4)
    given, heard = columns(5), []
    for engine in ("runner", "simulation"):
        script = Script(Plan(), there)
        if engine == "runner":
            driver = Driver(tmp_path, JOB, script, every=1)
            for start in range(0, len(given["k"]), BATCH):
                driver.batch({"s": pa.table(given).slice(start, BATCH)})
        else:
            in_the_simulation(script, batches=6, work={})
        heard.append(script.heard[:5])
    for one, other in zip(*heard, strict=True):
        mine, theirs = one.past.epochs, other.past.epochs
        assert [e.epoch for e in mine] == [e.epoch for e in theirs]
        assert [e.tuples for e in mine] == [e.tuples for e in theirs]
        assert [e.instances for e in mine] == [e.instances for e in theirs]
        decided = [
            [(e.decision.parts, e.decision.applied) for e in past] for past in (mine, theirs)
        ]
        assert decided[0] == decided[1]
        assert set(one.past.groups) == set(other.past.groups)
