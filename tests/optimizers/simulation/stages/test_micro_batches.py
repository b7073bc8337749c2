"""Micro-batches: against the cost model of `batching.stages`, and against a plainer simulation."""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listening import Listening

from batching.calibration import fit
from batching.stages import StageCosts, StageJob, batch_cost
from batching.stages import Stages as Cut
from grouping.groupings import LocalOrShuffle, RoutingTable, Shuffle
from optimizers import (
    Cluster,
    Deployment,
    Fixed,
    Locality,
    Node,
    Optimizer,
    Plan,
    Probe,
    Topology,
    compare,
)
from optimizers.errors import InvalidValueError
from optimizers.simulation import MicroBatches, Network, SimulationEngine, Stream, Work
from optimizers.simulation.stages.micro_batches import COUNTED
from optimizers.simulation.stages.slots import scheduled
from optimizers.strategies.aeolus import Aeolus

COSTS = StageCosts(base=0.1, stage=0.05, task=0.02, byte=1e-6, work=1.25)
CHAIN = (
    Topology.source("in", parallelism=4)
    .then("work", parallelism=4, grouping=Shuffle())
    .then("count", key="k", parallelism=4, key_groups=4)
)
SINGLE_KEY = Topology.source("in").then("work", key="k")
FIXED = MicroBatches(COSTS)


class HearingGroups(Listening):
    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})


def at_once(count, **columns):
    return Stream(np.zeros(count), {name: np.asarray(given) for name, given in columns.items()})


def one_node(cores, **fields):
    node = Node("x", capacity=float(cores), cores=cores)
    return SimulationEngine(cluster=Cluster((node,)), **fields)


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("rows", [0.0, 2e-5])
def test_a_batch_that_is_even_takes_what_the_cost_model_says(cores, rows):
    taken, count = [1e-4, 5e-3, 2e-3], 4_000
    engine = one_node(cores, micro_batches=MicroBatches(COSTS, rows))
    work = {name: Work(each) for name, each in zip(CHAIN.order, taken, strict=True)}
    dealt = Plan(routing={"count": RoutingTable(np.arange(4), [0, 1, 2, 3], 4)})
    run = engine.run(CHAIN, at_once(count, k=np.arange(count) % 4), dealt, work=work)
    # What a tuple costs its task is work that is not multiplied.
    seconds = [each + rows / COSTS.work for each in taken]
    job = StageJob.of(CHAIN.order, seconds=seconds)
    cut = Cut(np.arange(3), np.full(3, 4))
    said = batch_cost(job, COSTS, cut, cores).seconds(count)
    assert run.makespan == pytest.approx(said)
    even = run.batches[0].time
    assert [stage.size for stage in even.stages] == [4, 4, 4]
    assert sum(even.parts.values()) == pytest.approx(run.makespan)
    assert even.stages[1].work == pytest.approx(COSTS.work * 5e-3 * count / cores)
    assert even.stages[1].turns == 4 // cores


def test_stages_do_not_overlap_and_their_tasks_begin_together():
    run = one_node(8, micro_batches=FIXED).run(
        CHAIN, at_once(400, k=np.arange(400)), work={"work": Work(0.01), "count": Work(0.01)}
    )
    work, count = (run.operators[name] for name in ("work", "count"))
    assert work.ended.max() + COSTS.stage < count.started.min()
    assert (count.arrived == count.arrived[0]).all()
    assert run.completed.tolist() == [run.batches[0].seconds] * 400


def test_tasks_of_a_node_take_turns_on_its_slots():
    job = Topology.source("in").then("work", parallelism=3, grouping=Shuffle())
    seconds = {
        cores: one_node(cores, micro_batches=FIXED)
        .run(job, at_once(300), work={"work": Work(0.01)})
        .batches[0]
        .time.stages[1]
        for cores in (1, 2, 3)
    }
    assert [round(time.work, 9) for time in seconds.values()] == [3.75, 2.5, 1.25]
    assert [time.turns for time in seconds.values()] == [3, 2, 1]
    assert [time.tasks for time in seconds.values()] == pytest.approx([0.06, 0.03, 0.02])


def test_an_operator_without_a_stage_of_its_own_works_in_the_tasks_of_another():
    apart = Topology.source("in", parallelism=2).then("a", parallelism=2, grouping=Shuffle())
    together = Topology.source("in", parallelism=2).then(
        "a", parallelism=2, grouping=LocalOrShuffle()
    )
    found = {
        len(run.layout.stages): run.makespan
        for run in (
            one_node(2, micro_batches=FIXED).run(job, at_once(100), work={"a": Work(0.01)})
            for job in (apart, together)
        )
    }
    assert found[2] - found[1] == pytest.approx(COSTS.stage + COSTS.task)


def test_bytes_that_cross_hosts_take_time_on_the_links_and_for_each_byte():
    job = Topology.source("in").then("work")
    cluster = Cluster((Node("x"), Node("y")))
    stream = Stream(np.zeros(10), bytes=100.0)
    took = {}
    for node in "xy":
        engine = SimulationEngine(
            cluster=cluster, network=Network(latency=0.5, bandwidth=500.0), micro_batches=FIXED
        )
        plan = Plan(placement={"in": Deployment(("x",)), "work": Deployment((node,))})
        took[node] = engine.run(job, stream, plan).makespan
    assert took["y"] - took["x"] == pytest.approx(0.5 + 1_000 / 500 + 1_000 * COSTS.byte)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_slots_are_those_of_a_plain_simulation(seconds, slots, seed):
    nodes = np.random.default_rng(seed).integers(0, len(slots), len(seconds)).tolist()
    found = scheduled(np.array(seconds, dtype=float), nodes, dict(enumerate(slots)))
    waiting, running, now, starts = list(range(len(seconds))), {}, 0.0, {}
    while waiting or running:
        for task in list(waiting):
            if sum(nodes[other] == nodes[task] for other in running) < slots[nodes[task]]:
                waiting.remove(task)
                starts[task], running[task] = now, now + seconds[task]
        now = min(running.values())
        running = {task: end for task, end in running.items() if end > now}
    assert found.starts.tolist() == [starts[task] for task in range(len(seconds))]
    assert found.seconds == max(starts[task] + seconds[task] for task in starts)
    chain = found.chain.tolist()
    assert sum(seconds[task] for task in chain) == found.seconds
    assert len({nodes[task] for task in chain}) == 1


def test_what_is_shared_by_slots_without_end_is_not_shared():
    found = scheduled(np.array([1.0, 3.0, 2.0]), [0, 0, 0], {0: math.inf})
    assert (found.starts.tolist(), found.chain.tolist(), found.seconds) == ([0, 0, 0], [1], 3.0)


# When batches begin.

SINGLE = Topology.source("in").then("work")
EACH = {"work": Work(0.001)}


def batches_of(run):
    return [(round(batch.start, 9), round(batch.seconds, 9)) for batch in run.batches]


def test_without_a_pause_batches_settle_where_the_cost_model_says():
    costs = StageCosts(base=0.2, stage=0.05, task=0.01)
    engine = one_node(2, micro_batches=MicroBatches(costs))
    run = engine.run(SINGLE, Stream.steady(rate=500.0, count=20_000), work=EACH)
    job = StageJob.of(["in", "work"], seconds=[0.0, 0.001])
    settled = batch_cost(job, costs, Cut(np.arange(2), np.ones(2, dtype=int)), 2).settled(500.0)
    assert [batch.seconds for batch in run.batches[-4:-1]] == pytest.approx([settled] * 3, rel=0.01)
    later = [one.start for one in run.batches[1:]]
    assert later == pytest.approx([one.start + one.seconds for one in run.batches[:-1]])


def test_batches_come_at_an_interval_or_at_once_if_one_took_longer():
    stream = Stream([0.0, 0.1, 1.5, 1.6, 6.5], {"slow": [0.1, 0.1, 2.4, 0.1, 0.1]})
    engine = one_node(1, micro_batches=MicroBatches(StageCosts(0, 0, 0)), batch_seconds=1.0)
    run = engine.run(SINGLE, stream, work={"work": Work(lambda columns: columns["slow"])})
    # One is there at 0, one at 1, two at 2; those take 2.5 s. Nothing comes until 6.5: so at 7.
    assert batches_of(run) == [(0.0, 0.1), (1.0, 0.1), (2.0, 2.5), (7.0, 0.1)]
    late = Stream([0.0, 0.5, 2.5], {"slow": [2.2, 0.1, 0.1]})
    run = engine.run(SINGLE, late, work={"work": Work(lambda columns: columns["slow"])})
    assert batches_of(run) == [(0.0, 2.2), (2.2, 0.1), (3.0, 0.1)]


def test_batches_of_a_size_begin_when_they_are_there_and_the_one_before_is_over():
    engine = one_node(1, micro_batches=MicroBatches(StageCosts(0.25, 0, 0)), batch_tuples=2)
    run = engine.run(SINGLE, Stream([0.0, 1.0, 1.05, 1.1, 9.0]), work={"work": Work(0.5)})
    assert batches_of(run) == [(1.0, 1.25), (2.25, 1.25), (9.0, 0.75)]
    assert run.latencies.tolist() == pytest.approx([2.25, 1.25, 2.45, 2.4, 0.75])


@given(st.integers(0, 99), st.sampled_from([{}, {"batch_seconds": 0.4}, {"batch_tuples": 7}]))
@settings(max_examples=25)
def test_all_tuples_are_in_one_batch_and_batches_follow_one_another(seed, pace):
    chance = np.random.default_rng(seed)
    stream = Stream(np.cumsum(chance.exponential(0.05, 60)), {"k": chance.integers(0, 5, 60)})
    engine = one_node(2, micro_batches=MicroBatches(StageCosts(0.1, 0.01, 0.01)), **pace)
    run = engine.run(CHAIN, stream, work={"work": Work(0.01)})
    for name in CHAIN.order:
        assert sorted(run.operators[name].rows.tolist()) == list(range(60))
    ends = [one.start + one.seconds for one in run.batches]
    assert all(a <= two.start + 1e-9 for a, two in zip(ends, run.batches[1:], strict=False))
    assert (run.completed >= run.came).all()
    assert sum(one.time.tuples for one in run.batches) == 60
    for one in run.batches:
        assert sum(one.time.parts.values()) == pytest.approx(one.seconds)


@settings(max_examples=25)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.sampled_from([{}, {"batch_seconds": 10.0}, {"batch_tuples": 12}]),
    st.integers(0, 99),
)
def test_pauses_between_batches_are_no_part_of_an_epoch(every, rate, pace, seed):
    random = np.random.default_rng(seed)
    stream = Stream(np.cumsum(random.exponential(1 / rate, 150)), {"k": random.integers(0, 9, 150)})
    engine = one_node(2, micro_batches=FIXED, every=every, **pace)
    listening = HearingGroups()
    run = engine.run(CHAIN, stream, listening, work={"count": Work(0.02)})
    told = listening.heard[1:]

    assert len(run.batches[:-1]) // every == len(told)
    for number, seen in enumerate(told):
        took = sum(one.time.seconds for one in run.batches[number * every : (number + 1) * every])
        assert took == pytest.approx(seen.seconds)
        assert took == pytest.approx(sum(one.seconds for one in seen.batch_times))
        groups = seen.groups["count"]
        # A share of two cores, for a node of capacity 2.
        assert groups.seconds.sum() / took == pytest.approx(groups.cpu.sum())
    # All that comes is counted in one epoch or another, with the time in which it came.
    sources = [seen.sources["in"] for seen in told]
    for number in range(len(sources)):
        until = sources[: number + 1]
        came, let_in = (
            sum(getattr(one, fact) for one in until) for fact in ("arrived", "admitted")
        )
        assert came - let_in == sources[number].waiting
        last = run.batches[(number + 1) * every - 1]
        passed = last.start + last.seconds - stream.times[0]
        assert passed == pytest.approx(sum(one.seconds for one in until))


@pytest.mark.parametrize("every", [1, 2, 4])
def test_one_load_reads_the_same_however_many_batches_an_epoch_has(every):
    stream = Stream(np.arange(400) / 40.0 * 16, {"k": np.arange(400) % 37})
    engine = one_node(1, micro_batches=FIXED, batch_seconds=10.0, every=every)
    listening = HearingGroups()
    engine.run(SINGLE_KEY, stream, listening, work={"work": Work(0.02)})

    settled = [seen for seen in listening.heard[1:] if seen.operators["work"].tuples >= 25 * every]
    assert settled
    cpu = [seen.groups["work"].cpu.sum() for seen in settled]
    batch = COSTS.base + 2 * (COSTS.stage + COSTS.task) + 25 * 0.02 * COSTS.work
    assert [25 * 0.02 / batch] * len(settled) == pytest.approx(cpu, rel=0.02)


def test_what_rows_take_is_told_of_those_who_take_them_in():
    """Those of a source and of a cheap count take little else, and it was told of nobody."""
    stream = Stream(np.arange(400) / 40.0 * 16, {"k": np.arange(400) % 37})
    engine = one_node(1, micro_batches=MicroBatches(COSTS, row=0.01), batch_seconds=10.0)
    listening = HearingGroups()
    run = engine.run(SINGLE_KEY, stream, listening, work={"work": Work(0.02)})

    for name, each in (("in", 0.0), ("work", 0.02)):
        for seen in listening.heard[1:]:
            operator, (whole,) = seen.operators[name], seen.instances[name].seconds
            assert operator.seconds == pytest.approx(operator.tuples * each)
            assert operator.receiving == pytest.approx(operator.tuples * 0.01)
            assert whole == pytest.approx(operator.seconds + operator.receiving)
            if name in seen.groups:
                groups = seen.groups[name]
                assert groups.seconds == pytest.approx(groups.tuples * (each + 0.01))
        assert run.operators[name].busy == pytest.approx(400 * (each + 0.01))


# Decisions.


@dataclass(frozen=True)
class Once(Optimizer):
    """Decides a plan after the first batch, and keeps what it is told."""

    then: Plan
    heard: list

    def plan(self, topology, cluster, statistics, current):
        self.heard.append(statistics)
        return self.then if len(self.heard) == 2 else Plan()


def test_a_plan_comes_into_force_with_the_next_batch_and_state_travels_with_it():
    heard = []
    job = Topology.source("in").then("count", key="k", parallelism=2, key_groups=2)
    cluster = Cluster((Node("x"), Node("y")))
    after = {"count": Deployment(("x", "y"), (1, 0))}
    engine = SimulationEngine(
        cluster=cluster,
        network=Network(bandwidth=1_000.0),
        micro_batches=MicroBatches(StageCosts(0.1, 0, 0)),
        batch_tuples=50,
    )
    stream = at_once(150, k=np.arange(150) % 10)
    stream = Stream(np.repeat([0.0, 1.0, 2.0], 50), stream.columns)
    plan = Plan(placement=after)
    run = engine.run(job, stream, Once(plan, heard), work={"count": Work(0.001, state_bytes=100.0)})
    moved = [batch.moved.keys for batch in run.batches]
    assert moved[0] == moved[2] == 0
    assert moved[1] > 0
    assert run.batches[1].time.stages[1].state > 0
    assert run.batches[2].time.stages[1].state == 0
    assert heard[1].execution.micro_batches
    assert heard[1].execution.slots == 2
    assert len(heard[1].batch_times) == 1


def test_constants_are_found_again_from_batches_that_were_counted():
    truth = MicroBatches(StageCosts(0.3, 0.06, 0.04, 2e-6, 1.5), 5e-6)
    cluster = Cluster((Node("x"), Node("y", cores=2, capacity=2.0)))
    rows, seconds = [], []
    for seed in range(24):
        chance = np.random.default_rng(seed)
        tasks, count = int(chance.integers(1, 6)), int(chance.integers(100, 5_000))
        job = Topology.source("in").then("work", parallelism=tasks, grouping=Shuffle())
        if seed % 2:
            job = job.then("count", key="k", parallelism=int(chance.integers(1, 5)))
        stream = Stream(np.zeros(count), {"k": chance.integers(0, 99, count)}, 40.0 * (seed % 3))
        work = {"work": Work(float(chance.uniform(1e-5, 1e-3)))}
        run = SimulationEngine(cluster=cluster, micro_batches=truth).run(job, stream, work=work)
        rows.append(run.counted[0].columns)
        seconds.append(run.batches[0].seconds)
        assert truth.seconds(run.counted[0]) == pytest.approx(seconds[-1])
    found = fit(COUNTED, rows, seconds)
    assert found.constants == pytest.approx([0.3, 0.06, 0.04, 2e-6, 1.5, 5e-6])


# Bad input.


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"micro_batches": 1.0}, "micro_batches=1.0 is not a MicroBatches; write MicroBatches"),
        (
            {"micro_batches": FIXED, "network": Network(per_batch=1.0)},
            "say that as their row and costs.byte",
        ),
        ({"micro_batches": FIXED, "network": Network(linger=1.0)}, "say that as their row"),
        ({"micro_batches": FIXED, "network": Network(buffers="alike")}, "say that as their row"),
    ],
)
def test_what_cannot_be_is_refused(fields, words):
    with pytest.raises(InvalidValueError, match=words):
        SimulationEngine(**fields)
    with pytest.raises(InvalidValueError, match="costs=3 is not a StageCosts"):
        MicroBatches(3)
    with pytest.raises(InvalidValueError, match="row=-1 is out of range"):
        MicroBatches(COSTS, -1)


# Against a plainer simulation: loops over tuples, tasks and slots.


@st.composite
def deployed(draw):
    """Return a cluster, a job of three operators in one to three stages, its plan and its work."""
    nodes = [
        Node(f"n{place}", draw(st.sampled_from([0.5, 1.0, 3.0])), cores=draw(st.integers(1, 3)))
        for place in range(draw(st.integers(1, 3)))
    ]
    names = [node.name for node in nodes]
    counts = [draw(st.integers(1, 4)) for _ in range(2)]
    homes = [
        draw(st.lists(st.sampled_from(names), min_size=count, max_size=count)) for count in counts
    ]
    job = Topology.source("in", parallelism=counts[0])
    job = job.then("map", parallelism=counts[0], grouping=LocalOrShuffle())
    job = job.then("count", key="k", parallelism=counts[1], key_groups=8)
    groups = draw(st.lists(st.integers(0, counts[1] - 1), min_size=8, max_size=8))
    where = {"in": Deployment(tuple(homes[0])), "map": Deployment(tuple(homes[0]))}
    where["count"] = Deployment(tuple(homes[1]), tuple(groups))
    return Cluster(tuple(nodes)), job, Plan(placement=where), draw(st.integers(0, 1 << 16))


@settings(max_examples=60)
@given(deployed())
def test_a_batch_is_as_a_plain_simulation_has_it(case):
    cluster, job, plan, seed = case
    chance = np.random.default_rng(seed)
    columns = {name: chance.integers(0, 9, 30) / 64 for name in job.order}
    stream = Stream(np.zeros(30), {"k": chance.integers(0, 6, 30), **columns})
    work = {name: Work(lambda given, name=name: given[name]) for name in job.order}
    constants = MicroBatches(COSTS, row=0.125)
    engine = SimulationEngine(cluster=cluster, micro_batches=constants)
    run = engine.run(job, stream, plan, work=work)
    assert run.layout.attached == {"map"}
    clock = COSTS.base
    for names in (["in", "map"], ["count"]):
        homes = plan.placement[names[-1]].nodes
        clock += COSTS.stage + COSTS.task * max(
            homes.count(node.name) / node.cores for node in cluster.nodes
        )
        free = {node.name: [clock] * int(node.cores) for node in cluster.nodes}
        for instance, home in enumerate(homes):
            slow = cluster.node(home).cores / cluster.node(home).capacity
            now = free[home].pop(free[home].index(min(free[home])))
            for name in names:
                served = run.operators[name]
                for place in np.flatnonzero(served.instances == instance).tolist():
                    taken = columns[name][served.rows[place]] * slow
                    now += 0.125 * slow + COSTS.work * taken
                    assert served.ended[place] == pytest.approx(now)
                    assert served.ended[place] - served.started[place] == pytest.approx(taken)
            free[home].append(now)
        clock = max(max(slots) for slots in free.values())
    assert run.makespan == pytest.approx(clock)


# Strategies and comparisons.


def test_strategies_for_micro_batches_see_where_time_goes_and_shorten_batches():
    job = Topology.source("in", parallelism=4).then("count", key="k", parallelism=4)
    stream = Stream.steady({"k": np.arange(30_000) % 100}, rate=3_000.0, bytes=50.0)
    constants = MicroBatches(StageCosts(base=0.1, stage=0.05, task=0.06), row=1e-6)
    engine = one_node(2, micro_batches=constants, every=2)
    work = {"count": Work(2e-5)}
    run = engine.run(job, stream, Aeolus(), work=work)
    stays = engine.run(job, stream, work=work)
    assert run.decisions[1].applied
    assert run.plan.parallelism["count"] < 4
    assert run.batches[-2].seconds < 0.9 * stays.batches[-2].seconds
    # What a batch was expected to take is told with what it took; the run goes to where it settles.
    told = run.decisions[1]
    assert told.expected["seconds of a batch"] == pytest.approx(run.batches[-2].seconds, rel=0.1)
    assert "; found " in str(told)


def test_micro_batches_are_compared():
    job = Topology.source("posts").then("place", key="place", parallelism=4)
    job = job.then("tag", key="tag", parallelism=4)
    chance = np.random.default_rng(0)
    places = [chance.integers(0, 200, 1_000) for _ in range(4)]
    batches = [pa.table({"place": each, "tag": each * 7}) for each in places]
    engine = SimulationEngine(
        network=Network(bandwidth=1e5),
        cluster=Cluster.uniform(4),
        every=2,
        rate=1e3,
        micro_batches=MicroBatches(StageCosts(0.1, 0.05, 0.02)),
    )
    found = compare(job, batches, {"hash": None, "locality": Locality(worth=0)}, engine=engine)
    by_hash, local = (outcome.batches[-1] for outcome in found.variants)
    assert by_hash.tuples == local.tuples == 1_000
    assert local.seconds < by_hash.seconds


def paced(plan, **fields):
    job = Topology.source("in").then("count", key="k")
    stream = Stream(np.arange(2_000) * 0.005, {"k": np.arange(2_000) % 7})
    return one_node(2, every=1, **fields).run(job, stream, Fixed(plan))


def test_batches_begin_no_more_often_than_a_plan_says():
    """What comes while a batch waits is in it, so that fewer batches have the same tuples."""
    at_once, held = (paced(Plan(period=each), micro_batches=FIXED) for each in (0.0, 1.5))

    assert min(np.diff([batch.start for batch in held.batches])) >= 1.5 - 1e-9
    assert len(held.batches) < len(at_once.batches)
    for run in (at_once, held):
        assert 2_000 == sum(sum(batch.loads("count")) for batch in run.batches)


@pytest.mark.parametrize("fields", [{"micro_batches": FIXED}, {}])
def test_a_period_is_refused_where_batches_do_not_wait(fields):
    run = paced(Plan(period=2.0), batch_tuples=500, **fields)

    assert "period=2: " in run.decisions[0].refused
    assert "leave period out" in run.decisions[0].refused
