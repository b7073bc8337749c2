"""Aeolus as a strategy: what it decides by both cost models, and what it says of the unknown."""

from dataclasses import replace

import numpy as np
import pytest

from batching.calibration import Fit
from batching.dataflow import Dataflow
from batching.planner import plan_tuples
from batching.planner_published import plan_as_published
from batching.stages import StageCosts
from batching.tuple_costs import Shipping
from grouping.groupings import LocalOrShuffle, PartialKey, Shuffle
from optimizers import BatchTime, Cluster, Deployment, Node, Plan, StageTime, Topology
from optimizers.calibration import Calibration
from optimizers.cli.calibration_jobs import NAMES
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.layout import Layout
from optimizers.simulation import MicroBatches
from optimizers.simulation.engine import SimulationEngine
from optimizers.simulation.network import Network
from optimizers.simulation.service import Work
from optimizers.simulation.stream import Stream
from optimizers.statistics import EdgeStatistics, OperatorStatistics, Statistics
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.aeolus_published import PublishedAeolus
from optimizers.testing import OptimizerContract

NODES = Cluster.uniform(3)
JOB = (
    Topology.source("s", parallelism=2)
    .then("parse", parallelism=3)
    .then("count", key="k", parallelism=3, key_groups=8)
    .then("write", parallelism=5)
)
TUPLES = Statistics(
    seconds=10,
    operators={
        "s": OperatorStatistics(10_000, shipping=4.0),
        "parse": OperatorStatistics(10_000, seconds=24.0, shipping=16.0),
        "count": OperatorStatistics(40_000, seconds=8.0, hottest_key=0.05, shipping=16.0),
        "write": OperatorStatistics(40_000, seconds=2.0),
    },
    edges={
        ("s", "parse"): EdgeStatistics(10_000, 1e6, parcels=10_000),
        ("parse", "count"): EdgeStatistics(40_000, 2e6, parcels=40_000),
        ("count", "write"): EdgeStatistics(40_000, 2e6, parcels=40_000),
    },
    execution=Execution(micro_batches=False),
)
SOURCE = SourceStatistics(arrived=10_000, admitted=10_000, waiting=0, seconds=10)
BATCHES = replace(
    TUPLES,
    execution=Execution(micro_batches=True, slots=4, sized=("s",)),
    sources={"s": replace(SOURCE, arrived=2_000)},
    operators={name: replace(seen, shipping=None) for name, seen in TUPLES.operators.items()},
)
COSTS = {"base": 0.1, "stage": 0.05, "task": 0.05, "work": 1.0}
CALIBRATED = Calibration(
    "made up",
    "nowhere",
    4,
    Fit(NAMES, *map(np.array, ([0.1, 0.05, 0.05, 1.0, 1e-6], [0.0] * 5, [1e9] * 5)), 0.1, 0.1),
    0.01,
    9,
)


def times_of(trigger):
    """Return where the time of the batches of a stream went, all alike."""
    stages = [StageTime((name,), 3, 1, 0.05, 0.05, work=0.2) for name in JOB.order]
    seconds = 0.15 + 4 * 0.3 + (trigger or 0.0)
    return [BatchTime(n, 1_000, seconds, 0.1, stages, 0.05, trigger) for n in range(4)]


class TestAeolus(OptimizerContract):
    optimizer = Aeolus(message=0.001)


class TestAeolusUnderABound(OptimizerContract):
    optimizer = Aeolus(latency=30.0, costs={"base": 0.1})


class TestPublishedAeolus(OptimizerContract):
    optimizer = PublishedAeolus()


def ask(seen, strategy=None, job=JOB, current=None):
    plan = (strategy or Aeolus()).plan(job, NODES, seen, current or Plan())
    (current or Plan()).amended(plan, NODES).check(job, NODES)
    return plan


def figures(plan):
    return dict(
        next(note for note in plan.notes if note.about == "the job" and note.figures).figures
    )


def told(plan):
    return " | ".join(map(str, plan.notes))


def flow(rate=1000.0, hottest=0.05):
    return Dataflow.of(
        ["s", "parse", "count", "write"],
        [("s", "parse"), ("parse", "count"), ("count", "write")],
        seconds=[0, 0.0024, 0.0002, 0.00005],
        rates=[rate, 0, 0, 0],
        hottest=[0, 0, hottest, 0],
        given=[2, 1, 1, 1],
        selectivity=[1, 4, 1],
        sizes=[100, 50, 50],
        keyed=[False, True, False],
    )


class TestTuples:
    def test_instances_and_batches_are_those_of_the_planner(self):
        expected = plan_tuples(flow(), Shipping(4e-4, 0.0), headroom=0.25)

        plan = ask(TUPLES)

        wanted = dict(zip(flow().names, expected.instances.tolist(), strict=True))
        now = {name: JOB.operator(name).parallelism for name in JOB.order}
        assert {n: c for n, c in wanted.items() if c != now[n]} == dict(plan.parallelism)
        batches = dict(zip(flow().names, expected.batches.tolist(), strict=True))
        batches.pop("write")
        assert {n: b for n, b in batches.items() if b > 1} == dict(plan.batch)
        assert plan.batch
        assert "what arrives was not seen" in told(plan)

    def test_what_arrives_counts_and_not_what_was_let_in(self):
        source = replace(SOURCE, arrived=30_000)

        plan = ask(replace(TUPLES, sources={"s": source}))

        expected = plan_tuples(flow(3000.0), Shipping(4e-4, 0.0), headroom=0.25).instances
        assert expected[1] == plan.parallelism["parse"]
        assert "was not seen" not in told(plan)

    def test_without_what_a_message_costs_batches_stay_and_it_says_so(self):
        edges = {name: replace(edge, parcels=None) for name, edge in TUPLES.edges.items()}

        plan = ask(replace(TUPLES, edges=edges))

        assert {} == dict(plan.batch)
        assert plan.parallelism
        assert "what a message costs was not seen, so batches stay" in told(plan)
        assert ask(replace(TUPLES, edges=edges), Aeolus(message=4e-4)).batch == ask(TUPLES).batch

    def test_too_few_workers_carry_a_part_and_the_one_in_the_way_is_named(self):
        plan = ask(TUPLES, Aeolus(workers=5))

        instances = {**{n: JOB.operator(n).parallelism for n in JOB.order}, **plan.parallelism}
        assert 5 >= sum(instances.values())
        assert "workers=5 carry" in told(plan)
        assert "'parse' limits it" in told(plan)
        carried = next(
            dict(n.figures)["planned carried"] for n in plan.notes if "instances" in n.text
        )
        assert 0 < carried < 1

    def test_a_hot_key_that_no_instances_carry_is_named(self):
        operators = {
            **TUPLES.operators,
            "count": replace(TUPLES.operators["count"], seconds=80.0, hottest_key=0.5),
        }

        plan = ask(replace(TUPLES, operators=operators))

        assert "no parallelism carries the load of 'count': its hottest key has 50.0%" in told(plan)

    def test_workers_below_one_for_each_operator_change_nothing(self):
        plan = ask(TUPLES, Aeolus(workers=3))

        assert not plan
        assert "workers=3 are too few: 3 operators need one each" in told(plan)

    def test_more_than_its_key_groups_is_said_of_an_operator(self):
        plan = ask(TUPLES, Aeolus(rate=20_000.0))

        assert 8 == plan.parallelism["count"]
        assert "and has 8 key groups" in told(plan)

    def test_keys_that_may_be_split_limit_nothing(self):
        job = Topology.source("s").then("parts", key="k", partial=True, grouping=PartialKey())
        seen = Statistics(
            seconds=1,
            operators={
                "s": OperatorStatistics(100),
                "parts": OperatorStatistics(100, seconds=3, hottest_key=0.9),
            },
            execution=Execution(micro_batches=False),
        )

        assert 4 == Aeolus().plan(job, NODES, seen, Plan()).parallelism["parts"]

    def test_it_lets_a_simulated_job_keep_up_that_did_not(self):
        stream = Stream.steady({"k": np.arange(6000) % 97}, rate=2000.0)
        work = {"parse": Work(0.001), "count": Work(0.0004)}
        engine = SimulationEngine(
            network=Network(per_batch=0.0004),
            batch_seconds=0.1,
            work=work,
            cluster=Cluster(
                tuple(Node(f"node-{place}", capacity=4, cores=4) for place in range(3))
            ),
        )
        job = Topology.source("s", parallelism=2).then("parse").then("count", key="k")

        alone = engine.run(job, stream)
        planned = engine.run(job, stream, Aeolus(message=0.0004))

        last = [
            np.mean([batch.latency.mean for batch in run.batches[-5:]]) for run in (alone, planned)
        ]
        assert last[1] < 0.05
        assert last[0] > 1.0
        assert 1 == sum(decision.applied for decision in planned.decisions)

    @pytest.mark.parametrize(
        ("rate", "moving", "then"),
        [
            (1200.0, 0.3, {"parse": 4}),
            (1200.0, 0.01, {"parse": 4, "count": 2}),
            (300.0, 0.3, {"parse": 1, "count": 1}),
            (4000.0, 0.3, {"parse": 11, "count": 5}),
        ],
    )
    def test_state_moves_only_where_the_load_needs_it_or_that_saves_much(self, rate, moving, then):
        times = np.concatenate([np.arange(0, 2, 1 / 2000), 2 + np.arange(0, 8, 1 / rate)])
        stream = Stream(times, {"k": np.arange(len(times)) % 97})
        work = {"parse": Work(0.002), "count": Work(0.0008)}
        engine = SimulationEngine(
            network=Network(per_batch=1e-5), batch_seconds=0.1, work=work, cores=np.inf
        )
        job = Topology.source("s", parallelism=2).then("parse")
        job = job.then("count", key="k", key_groups=16)

        run = engine.run(job, stream, Aeolus(message=1e-5, moving=moving))

        first, *changes = [dict(each.plan.parallelism) for each in run.decisions if each.applied]
        assert {"count": 3, "parse": 6} == first
        assert [then] == changes
        said = any("no state moves for" in told(each.plan) for each in run.decisions)
        assert said == ("count" not in then)


class TestMicroBatches:
    def test_stages_are_fused_where_no_key_forces_an_exchange(self):
        plan = ask(BATCHES, Aeolus(costs=COSTS))

        after = Layout.of(JOB, NODES, Plan().amended(plan, NODES))
        assert LocalOrShuffle() == plan.scheduling["count", "write"]
        assert "write" in after.attached
        assert "count" not in after.attached
        assert len(after.stages) < len(Layout.of(JOB, NODES, Plan()).stages)

    def test_what_is_fused_is_parted_again_where_that_is_faster(self):
        job = Topology.source("s").then("count", key="k").then("score", grouping=LocalOrShuffle())
        seen = Statistics(
            seconds=10,
            operators={
                "s": OperatorStatistics(1e6),
                "count": OperatorStatistics(1e6, seconds=0.5, hottest_key=0.9),
                "score": OperatorStatistics(1e6, seconds=30),
            },
            execution=Execution(micro_batches=True, slots=8),
        )
        assert "score" in Layout.of(job, NODES, Plan()).attached

        plan = Aeolus(costs=COSTS).plan(job, NODES, seen, Plan())

        after = Layout.of(job, NODES, Plan().amended(plan, NODES))
        assert "score" not in after.attached
        assert {("count", "score"): Shuffle()} == dict(plan.scheduling)
        assert 3 < after.topology.operator("score").parallelism

    def test_what_shares_a_stage_gets_the_homes_of_the_one_that_begins_it(self):
        home = Deployment(("node-2",) * 3, (0, 0, 0, 1, 1, 1, 2, 2))
        current = Plan(placement={"count": home})

        plan = ask(BATCHES, Aeolus(costs=COSTS), current=current)

        after = Layout.of(JOB, NODES, current.amended(plan, NODES))
        assert "write" in after.attached
        assert {"node-2"} == {*after.homes["write"].nodes[:3]}

    def test_what_is_as_good_already_stays_though_the_load_is_not_quite_the_same(self):
        first = ask(BATCHES, Aeolus(costs=COSTS))
        current = Plan().amended(first, NODES)
        more = replace(BATCHES, sources={"s": replace(SOURCE, arrived=2_200)})

        again = ask(more, Aeolus(costs=COSTS), JOB.under(current), current)

        assert first.scheduling
        assert not again

    def test_a_gain_that_is_not_worth_it_changes_nothing(self):
        plan = ask(BATCHES, Aeolus(costs=COSTS, change=9.0))

        assert {} == dict(plan.scheduling)
        assert {} == dict(plan.parallelism)

    def test_few_tuples_get_few_tasks(self):
        source = replace(SOURCE, arrived=100)

        strategy = Aeolus(costs=COSTS, change=0.0)

        plan = ask(replace(BATCHES, sources={"s": source}), strategy)

        assert 1 == plan.parallelism["count"]

    def test_what_is_sent_is_work_of_its_sender(self):
        costly = {
            **BATCHES.operators,
            "s": replace(BATCHES.operators["s"], shipping=80.0),  # 8 ms a tuple, in 2 tasks
        }

        plan = ask(replace(BATCHES, operators=costly), Aeolus(costs=COSTS, rate=400.0))

        assert "50.0% of the rows of 's' are in one task" in told(plan)

    def test_a_simulated_job_of_stages_gets_faster(self):
        keys = np.arange(24_000)
        stream = Stream.steady({"k": keys % 97, "l": keys % 57}, rate=3000.0)
        engine = SimulationEngine(
            work={"parse": Work(0.0002), "count": Work(0.0001), "score": Work(0.0002)},
            cluster=Cluster(tuple(Node(f"node-{n}", capacity=4, cores=4) for n in range(2))),
            micro_batches=MicroBatches(StageCosts(0.1, 0.03, 0.05)),
            every=4,
        )
        job = (
            Topology.source("s", parallelism=2)
            .then("parse", parallelism=8)
            .then("count", key="k", parallelism=8)
            .then("score", parallelism=8)
            .then("total", key="l", parallelism=8)
        )

        alone = engine.run(job, stream)
        planned = engine.run(job, stream, Aeolus())

        seconds = [np.mean([b.seconds for b in run.batches[-5:-1]]) for run in (alone, planned)]
        assert seconds[1] < 0.8 * seconds[0]
        assert 1 == sum(decision.applied for decision in planned.decisions)

    def test_a_bound_saves_cores(self):
        quick = ask(BATCHES, Aeolus(costs=COSTS, change=0.0))
        cheap = ask(BATCHES, Aeolus(costs=COSTS, change=0.0, latency=8.0))

        used = [figures(plan)["planned cores"] for plan in (quick, cheap)]
        assert used[1] < used[0]
        assert "begun every" in told(cheap)

    def test_a_bound_that_cannot_be_kept_is_told_and_the_fastest_is_planned(self):
        plan = ask(BATCHES, Aeolus(costs=COSTS, latency=0.2))

        assert "latency=0.2: the fastest plan of 4 cores needs" in told(plan)
        assert plan.scheduling

    def test_a_rate_that_is_not_there_yet_says_how_many_cores_it_takes(self):
        plan = ask(BATCHES, Aeolus(costs=COSTS, rate=4000.0))

        assert "4 cores carry" in told(plan)
        assert "cores would do" in told(plan)
        assert plan.parallelism["parse"] == 4  # for what they do carry

    def test_bounded_data_is_cut_only_where_batches_are_longer_than_that(self):
        """To cut a batch costs something, so nothing is admitted that cuts none."""
        strategy = Aeolus(costs=COSTS, longest=8.0)
        admitted = ask(BATCHES, strategy).admit["s"]
        how = Execution(micro_batches=True, slots=4, sized=("s",), cuts=True)

        def asked(rows):
            batch = BatchTime(0, rows, 4.0, 0.1, (), 0.1)
            return ask(replace(BATCHES, execution=how, batch_times=(batch,)), strategy)

        assert not asked(admitted / 2).admit
        assert admitted == asked(2 * admitted).admit["s"]

    def test_admission_is_what_a_batch_of_the_longest_time_has(self):
        short = ask(BATCHES, Aeolus(costs=COSTS, longest=2.0)).admit["s"]
        long = ask(BATCHES, Aeolus(costs=COSTS, longest=8.0)).admit["s"]
        unsized = replace(BATCHES, execution=Execution(micro_batches=True, slots=4))

        assert short < long < 5 * short
        assert {} == dict(ask(unsized, Aeolus(costs=COSTS)).admit)
        again = ask(BATCHES, Aeolus(costs=COSTS, longest=8.0), current=Plan(admit={"s": long}))
        assert {} == dict(again.admit)

    def test_what_a_batch_takes_is_assumed_where_it_was_not_measured_and_that_is_said(self):
        assert "base, stage, task, byte, work of a batch were not measured" in told(ask(BATCHES))
        assert "were not measured" not in told(ask(BATCHES, Aeolus(costs=StageCosts(0.1, 0, 0))))

    def test_what_a_trigger_takes_is_part_of_what_each_batch_takes(self):
        bounded, stream, unknown = (
            replace(BATCHES, batch_times=times_of(trigger)) for trigger in (0.0, 0.4, None)
        )

        base = figures(ask(bounded))["planned fixed"]
        assert base + 0.4 == pytest.approx(figures(ask(stream))["planned fixed"])
        assert base == pytest.approx(figures(ask(unknown))["planned fixed"])
        assert "trigger of a batch were not measured, and are assumed" in told(ask(unknown))
        # What a user says of all that a batch takes counts; a calibration knows of no triggers.
        assert figures(ask(bounded, Aeolus(costs=COSTS))) == figures(
            ask(stream, Aeolus(costs=COSTS))
        )
        assert "were not measured" not in told(ask(unknown, Aeolus(costs=COSTS)))
        calibrated = Aeolus(costs=CALIBRATED)
        assert figures(ask(bounded, calibrated))["planned fixed"] + 0.4 == pytest.approx(
            figures(ask(stream, calibrated))["planned fixed"]
        )

    def test_without_a_number_of_cores_nothing_is_decided(self):
        unknown = replace(BATCHES, execution=Execution(micro_batches=True))

        assert not ask(unknown, Aeolus(costs=COSTS))
        assert "say how many tasks run at a time, by cores=" in told(ask(unknown))
        assert ask(unknown, Aeolus(costs=COSTS, cores=4)).scheduling


def test_an_engine_that_does_not_say_how_it_runs_gets_no_guess():
    plan = ask(replace(TUPLES, execution=None))

    assert not plan
    assert "the engine does not say how it runs a job" in told(plan)


def test_nothing_comes_in():
    seen = replace(TUPLES, sources={"s": replace(SOURCE, arrived=0)})

    assert not ask(seen)
    assert "nothing comes in; say rate=" in told(ask(seen))
    assert ask(seen, Aeolus(rate=1000.0))


def test_published_is_algorithm_1():
    found = plan_as_published(flow(), Shipping(1e-4, 1e-8))
    wanted = dict(zip(flow().names, found.instances.tolist(), strict=True))

    plan = ask(TUPLES, Aeolus.published())

    now = {name: JOB.operator(name).parallelism for name in JOB.order}
    assert {n: c for n, c in wanted.items() if c != now[n]} == dict(plan.parallelism)
    assert Plan() == ask(TUPLES, Aeolus.published(), JOB.under(plan), plan)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"latency": 0}, InvalidValueError, "latency=0"),
        ({"rate": float("nan")}, InvalidValueError, "rate=nan"),
        ({"headroom": 0}, InvalidValueError, "band=0"),
        ({"calm": 50}, InvalidValueError, "patience=3 times calm=50 are more epochs than the"),
        ({"workers": 0}, InvalidValueError, "workers=0"),
        ({"message": -1}, InvalidValueError, "message=-1"),
        ({"costs": {"stag": 1}}, UnknownNameError, "'stag'"),
        ({"costs": {"stage": -1}}, InvalidValueError, "costs\\['stage'\\]=-1"),
        ({"costs": 3}, InvalidValueError, "costs=3"),
    ],
)
def test_settings_that_mean_nothing(settings, error, words):
    with pytest.raises(error, match=words):
        Aeolus(**settings)
