"""One loop: the same stream, job and strategy come to the same decisions on every engine.

The runner of the runtime keeps state in files and counts by reports; the simulation counts by
rows. A strategy that decides by what both see alike must not be able to tell them apart.
"""

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import CLUSTER, Driver
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.groupings import PartialKey
from grouping.routing_table import RoutingTable
from optimizers import Note, Operator, Optimizer, Plan, Probe, Topology
from optimizers.control.engine import JobRun
from optimizers.folds import Count, EachKey, Emit
from optimizers.simulation import SimulationEngine, Stream
from optimizers.simulation.result import Simulated
from optimizers.spark.run import Run

BATCH = 40
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 3, apply=Count(emit=Emit.TUPLES), key_groups=16))
    .then(Operator("b", "l", 2, apply=Count(emit=Emit.CHANGES), key_groups=16))
)
HOP = ("a", "b")


class ByCounts(Optimizer):
    """Decides by tuples and pairs only, and keeps what it was asked.

    What it decides depends on the pair that came most often: at times what is impossible.
    """

    def __init__(self, memory=0.0):
        self._memory = memory
        self.heard = []

    @property
    def observes(self):
        return frozenset({Probe.PAIRS})

    @property
    def memory(self):
        return self._memory

    def plan(self, topology, cluster, statistics, current):
        tuples = {name: seen.tuples for name, seen in statistics.operators.items()}
        edges = {name: (seen.tuples, seen.local) for name, seen in statistics.edges.items()}
        edges.pop(("s", "a"), None)  # a source's partitions are not where its instances are
        pairs = counted(statistics.pairs, statistics.held_out)
        history = counted(statistics.history)
        self.heard.append((topology, cluster, current, tuples, edges, pairs, history))
        if not pairs:
            return Plan(notes=(Note("ByCounts", "job", "nothing was seen"),))
        (left, right), count = max(pairs.items(), key=lambda item: (item[1], item[0]))
        return self.decision(topology, left, right, count)

    def decision(self, topology, left, right, count):
        number = topology.operator("a").parallelism
        adopting = {
            name: RoutingTable([key], [0], topology.operator(name).parallelism)
            for name, key in zip(HOP, (left, right), strict=True)
        }
        choices = [
            Plan(parallelism={"a": 1 + right % 5}),
            Plan(routing=adopting, adopt=HOP),
            Plan(routing={"b": RoutingTable(["text"], [1], 2)}),
            Plan(routing={"a": RoutingTable([left], [right % number], number)}),
            Plan(parallelism={"a": 999}),
            Plan(batch={"nowhere": 1}),
            Plan(),
            None,
        ]
        return choices[(left + int(count)) % len(choices)]


def counted(*parts):
    """Return how often each pair came, over some statistics."""
    found = {}
    for part in parts:
        if HOP in part:
            seen = part[HOP]
            for pair in zip(seen.left.tolist(), seen.right.tolist(), seen.counts, strict=True):
                found[pair[:2]] = found.get(pair[:2], 0) + float(pair[2])
    return found


def on_the_runner(folder, columns, optimizer, every=1):
    driver = Driver(folder, JOB, optimizer, every=every)
    for start in range(0, len(columns["k"]) - BATCH, BATCH):
        driver.batch({"s": pa.table(columns).slice(start, BATCH)})
    driver.coordinator.assign()  # what was decided last comes into force
    return driver.coordinator.decisions, driver.coordinator.plan


def in_the_simulation(columns, optimizer, every=1):
    stream = Stream.steady(columns, rate=1000.0)
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=BATCH, every=every)
    run = engine.run(JOB, stream, optimizer)
    return run.decisions, run.plan


def told(decision):
    """Return what a decision says that does not depend on clocks."""
    return decision.after, decision.notes, decision.refused, decision.applied, decision.before


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.5]),
    st.integers(1, 3),
)
def test_a_strategy_cannot_tell_the_simulation_from_the_runner(seed, batches, keys, memory, every):
    random = np.random.default_rng(seed)
    count = BATCH * (batches + 1)  # no one is asked after the last batch of a simulation
    columns = {"k": random.integers(0, keys, count), "l": random.integers(0, 5, count)}
    strategies = [ByCounts(memory), ByCounts(memory)]

    with any_job.temporary() as folder:
        first, plan = on_the_runner(folder, columns, strategies[0], every)
    second, simulated = in_the_simulation(columns, strategies[1], every)

    assert strategies[0].heard == strategies[1].heard
    assert [told(decision) for decision in first] == [told(decision) for decision in second]
    assert plan == simulated


def public(kind):
    """Return the public names of a class, with the fields that have no default."""
    return {
        name for name in (*dir(kind), *vars(kind).get("__dataclass_fields__", ())) if name[0] != "_"
    }


def test_runs_of_both_engines_have_the_names_of_the_protocol_and_share_no_others():
    assert {
        "batches",
        "cluster",
        "decisions",
        "epochs",
        "layout",
        "plan",
        "plans",
        "summary",
        "totals",
    } == public(JobRun)
    assert public(JobRun) == public(Run) & public(Simulated)


def test_the_plans_of_a_run_are_those_of_its_batches_on_the_runner_and_in_the_simulation():
    columns = {"k": np.arange(4 * BATCH) % 7, "l": np.arange(4 * BATCH) % 3}
    wanted = [Plan(), Plan(parallelism={"a": 2}), Plan(parallelism={"a": 4})]

    def told(run):
        return [(plan.parallelism.get("a", 3), plan.nodes, plan.notes) for plan in run.plans]

    with any_job.temporary() as folder:
        driver = Driver(folder, JOB, Listed(wanted), every=1)
        for start in range(0, 3 * BATCH, BATCH):
            driver.batch({"s": pa.table(columns).slice(start, BATCH)})
        first = told(driver.coordinator)
        last = driver.coordinator.plans[-1]
        in_force = driver.coordinator.plan
    stream = Stream.steady(
        {name: values[: 3 * BATCH] for name, values in columns.items()}, rate=1e3
    )
    second = SimulationEngine(cluster=CLUSTER, batch_tuples=BATCH).run(JOB, stream, Listed(wanted))

    assert [3, 2, 4] == [parallelism for parallelism, _, _ in first]
    assert first == told(second)
    assert in_force is last
    assert second.plan is second.plans[-1]


class Listed(Optimizer):
    """Decides one plan after the other."""

    def __init__(self, plans):
        self._plans = list(plans)

    def plan(self, topology, cluster, statistics, current):
        return self._plans.pop(0) if self._plans else Plan()


def test_the_law_meets_decisions_of_all_kinds():
    """What the test above draws is refused, applied, adopted from, and left alone."""
    kinds = set()
    for seed in range(20):
        random = np.random.default_rng(seed)
        columns = {"k": random.integers(0, 9, 400), "l": random.integers(0, 5, 400)}
        decisions, plan = in_the_simulation(columns, ByCounts())
        kinds |= {said.refused.split()[0] for said in decisions if said.refused}
        kinds |= {"applied" for said in decisions if said.applied}
        kinds |= {"quiet" for said in decisions if not said.applied and not said.refused}
        table = plan.routing["a"]
        kinds |= {"adopted"} if isinstance(table, RoutingTable) and len(table) > 1 else set()

    assert {
        "applied",
        "quiet",
        "adopted",
        "parallelism['a']=999",
        "routing['b']:",
        "batch:",
        "ByCounts",
    } == kinds


class Once(Optimizer):
    """Decides one plan after the first batch."""

    def __init__(self, plan):
        self.told = plan

    def plan(self, topology, cluster, statistics, current):
        return self.told if statistics.operators and statistics.epoch == 0 else Plan()


SPLIT = Topology.source("s").then(
    Operator("a", "k", 3, apply=EachKey(lambda key, rows, state: 1, pa.int64()), partial=True),
    grouping=PartialKey(),
)


@pytest.mark.parametrize(
    ("job", "plan", "words"),
    [
        (
            JOB,
            Plan(routing={"a": RoutingTable(["x"], [1], 3)}),
            "by keys of type int64, and",
        ),
        (JOB, Plan(routing={"a": RoutingTable([1], [1], 4)}), "made for 4 instances"),
        (SPLIT, Plan(parallelism={"a": 1}), "cannot put parts together"),
        (JOB, Plan(drain=("node-9",)), "unknown node 'node-9'"),
    ],
)
def test_a_plan_is_refused_with_the_same_reason_everywhere(tmp_path, job, plan, words):
    columns = {"k": np.arange(3 * BATCH) % 7, "l": np.arange(3 * BATCH) % 5}
    driver = Driver(tmp_path, job, Once(plan))
    for start in (0, BATCH):
        driver.batch({"s": pa.table(columns).slice(start, BATCH)})
    run = SimulationEngine(cluster=CLUSTER, batch_tuples=BATCH).run(
        job, Stream.steady(columns, rate=1000.0), Once(plan)
    )

    found = [decision.refused for decision in driver.coordinator.decisions]
    assert words in found[1]
    assert found == [decision.refused for decision in run.decisions]
