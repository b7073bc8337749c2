"""Optimizers in a simulated run: what they are told, and what becomes of what they say."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from cut_hash import cut_hash

from grouping.groupings import Fields, RoutingTable, Shuffle
from grouping.hashing import hash_parts
from optimizers import (
    Cluster,
    Edge,
    Locality,
    Note,
    Operator,
    Optimizer,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.control.settings import Asking
from optimizers.errors import InvalidValueError
from optimizers.layout import completed
from optimizers.simulation import Network, SimulationEngine, Stream, Work

JOB = (
    Topology.source("in", parallelism=2)
    .then("place", key="place", parallelism=3, key_groups=8)
    .then("tag", key="tag", parallelism=3, key_groups=4)
)
TUPLES = 400


@dataclass(frozen=True)
class Told(Optimizer):
    """Keeps what it is told, and decides what was written."""

    probes: frozenset = frozenset(Probe)
    decisions: tuple = ()
    fading: float = 0.0
    heard: list = field(default_factory=list, compare=False)

    @property
    def observes(self):
        return self.probes

    @property
    def memory(self):
        return self.fading

    def plan(self, topology, cluster, statistics, current):
        statistics.check(topology)
        self.heard.append((topology, statistics, current))
        number = len(self.heard) - 1
        return self.decisions[number] if number < len(self.decisions) else Plan()


def stream(seed=1):
    rng = np.random.default_rng(seed)
    places = rng.zipf(1.6, TUPLES) % 12
    tags = np.array(
        [
            f"tag-{place // 2 * 3 + extra}"
            for place, extra in zip(places, rng.integers(0, 3, TUPLES), strict=True)
        ]
    )
    return Stream.steady({"place": places, "tag": tags}, rate=100.0, bytes=50.0)


WORK = {
    "in": Work(0.001),
    "place": Work(lambda c: 0.002 + 0.001 * (c["place"] % 4)),
    "tag": Work(0.004),
}


def tell(told, **options):
    run = SimulationEngine(batch_tuples=100, cluster=Cluster.uniform(2), **options).run(
        JOB, stream(), told, work=WORK
    )
    return run, [statistics for _, statistics, _ in told.heard]


def executed(run, operator, start, until):
    """Return the rows that an operator executed in a stretch of time, and their seconds."""
    result = run.operators[operator]
    now = (start <= result.ended) & (result.ended < until)
    return result.rows[now], (result.ended - result.started)[now], result.instances[now]


def counts_of(pairs):
    rows = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    return Counter(dict(zip(rows, pairs.counts.tolist(), strict=True)))


def test_it_is_asked_before_the_first_tuple_and_at_the_end_of_each_epoch_but_the_last():
    run, told = tell(Told())

    assert Statistics() == told[0]
    assert [0, 1, 2] == [statistics.epoch for statistics in told[1:]]
    assert [0.0, 1.0, 2.0, 3.0] == [batch.start for batch in run.batches]
    assert [1.0] * 3 == [statistics.seconds for statistics in told[1:]]


def test_operators_are_told_of_what_was_executed_by_then():
    run, told = tell(Told())
    columns = stream().columns

    for epoch, statistics in enumerate(told[1:]):
        for name in JOB.order:
            rows, seconds, _ = executed(run, name, epoch, epoch + 1)
            seen = statistics.operators[name]
            assert len(rows) == seen.tuples
            assert seen.seconds == pytest.approx(seconds.sum())
            if name in columns:
                most = Counter(columns[name][rows].tolist()).most_common(1)[0][1]
                assert most / len(rows) == seen.hottest_key
            else:
                assert seen.hottest_key is None


@pytest.mark.parametrize("kind", ["text", "pair"])
def test_the_hottest_key_is_a_key_where_keys_share_a_code(kind):
    numbers = np.random.default_rng(7).zipf(1.5, 300) % 40
    columns = {"left": [f"left {number}" for number in numbers], "right": numbers % 3}
    key = {"text": "left", "pair": ("left", "right")}[kind]
    with cut_hash(2):
        told = Told()
        SimulationEngine(batch_tuples=200).run(
            Topology.source("in").then("count", key=key), Stream.steady(columns, rate=1.0), told
        )
    seen = told.heard[1][1].operators["count"]
    first = columns["left"][: int(seen.tuples)]
    assert seen.hottest_key == Counter(first).most_common(1)[0][1] / seen.tuples


def test_edges_are_told_of_what_was_sent():
    run, told = tell(Told(probes=frozenset()))

    for name, edge in run.edges.items():
        seen = [statistics.edges[name] for statistics in told[1:]]
        assert 0 < sum(each.tuples for each in seen) < edge.tuples == TUPLES
        assert all(each.bytes == 50 * each.tuples for each in seen)
        assert all(0 < each.local < each.tuples for each in seen)
    for part in ("pairs", "held_out", "keys", "costs", "groups", "traffic", "history"):
        assert not getattr(told[1], part)


def test_pairs_are_those_of_the_tuples_that_were_sent_half_of_them_held_out():
    run, told = tell(Told(probes=frozenset({Probe.PAIRS})))
    columns, hop = stream().columns, ("place", "tag")

    for epoch, statistics in enumerate(told[1:]):
        rows, _, _ = executed(run, "place", epoch, epoch + 1)
        pairs = zip(columns["place"][rows].tolist(), columns["tag"][rows].tolist(), strict=True)
        learned, tried = counts_of(statistics.pairs[hop]), counts_of(statistics.held_out[hop])
        assert Counter(pairs) == learned + tried
        assert abs(learned.total() - tried.total()) <= 1
        for name in hop:
            seen = executed(run, name, epoch, epoch + 1)[0]
            known = statistics.keys[name]
            counted = dict(zip(known.keys.tolist(), known.counts.tolist(), strict=True))
            assert Counter(columns[name][seen].tolist()) == counted
    assert not told[1].costs
    assert not told[1].groups


def test_costs_are_those_of_each_key_at_each_instance():
    run, told = tell(Told(probes=frozenset({Probe.COSTS})))

    assert {"place", "tag"} == set(told[1].costs)
    for epoch, statistics in enumerate(told[1:]):
        rows, seconds, instances = executed(run, "place", epoch, epoch + 1)
        keys = stream().columns["place"][rows]
        for instance, sketch in enumerate(statistics.costs["place"]):
            own = instances == instance
            assert own.sum() == sketch.total
            for key in np.unique(keys[own]):
                mean = seconds[own & (keys == key)].mean()
                assert sketch.estimate([key])[0] == pytest.approx(mean)


def test_groups_have_the_load_of_their_keys():
    run, told = tell(Told(probes=frozenset({Probe.GROUPS})))
    columns = stream().columns

    for epoch, statistics in enumerate(told[1:]):
        rows, seconds, _ = executed(run, "place", epoch, epoch + 1)
        groups = hash_parts(columns["place"][rows], 8)
        load = np.bincount(groups, seconds, minlength=8)
        assert statistics.groups["place"].cpu == pytest.approx(load)
        traffic = statistics.traffic["place", "tag"]
        pairs = zip(groups.tolist(), hash_parts(columns["tag"][rows], 4).tolist(), strict=True)
        found = zip(traffic.sources.tolist(), traffic.targets.tolist(), strict=True)
        assert Counter(pairs) == dict(zip(found, traffic.tuples.tolist(), strict=True))


def test_the_past_fades_by_the_memory_of_the_optimizer():
    _, told = tell(Told(probes=frozenset({Probe.PAIRS}), fading=0.5))
    hop = ("place", "tag")

    assert not told[1].history
    first = counts_of(told[1].pairs[hop]) + counts_of(told[1].held_out[hop])
    assert {pair: count / 2 for pair, count in first.items()} == counts_of(told[2].history[hop])


def test_an_operator_that_did_nothing_in_an_epoch_is_told_of_as_such():
    told = Told()
    idle = Topology.source("in").then("a", key="k", parallelism=2).then("b", key="k")
    slow = Stream([0.0, 1.0, 2.0, 3.0], {"k": [1, 2, 3, 4]})

    SimulationEngine(batch_tuples=1).run(idle, slow, told, work={"a": Work(10.0)})

    assert [0, 0, 0] == [each.operators["b"].tuples for _, each, _ in told.heard[1:]]
    assert [0, 0, 0] == [each.operators["a"].tuples for _, each, _ in told.heard[1:]]


def test_a_decision_is_in_force_from_then_on_and_stays():
    table = RoutingTable(np.arange(12), [1] * 12, 3)
    note = Note("told", "place", "because")
    told = Told(decisions=(Plan(), Plan(routing={"place": table}, notes=(note,))))

    run, _ = tell(told)

    by_hash = {"place": Fields(), "tag": Fields()}
    assert [by_hash, *[{**by_hash, "place": table}] * 3] == [
        dict(plan.routing) for plan in run.plans
    ]
    assert (note,) == run.decisions[1].notes
    assert "" == run.decisions[1].refused
    result = run.operators["place"]
    assert 3 == len(np.unique(result.instances[result.arrived < 1.0]))
    assert {1} == set(result.instances[result.arrived >= 1.0].tolist())
    assert table == told.heard[2][0].grouping("in", "place")
    assert run.plan == told.heard[2][2]


def test_a_decision_that_cannot_be_carried_out_is_refused_and_changes_nothing():
    told = Told(decisions=(Plan(), Plan(parallelism={"place": 9}), Plan(batch={"other": 2})))

    run, _ = tell(told)

    assert ["", "9 is more than", "unknown operator 'other'", ""] == [
        next(
            (words for words in ("9 is more than", "unknown operator 'other'") if words in text),
            text,
        )
        for text in (decision.refused for decision in run.decisions)
    ]
    assert {completed(Plan(), JOB, Cluster.uniform(2))} == set(run.plans)


def test_a_run_that_remembers_little_keeps_the_last_batches_and_all_sums():
    def run(**settings):
        engine = SimulationEngine(batch_tuples=100, **settings)
        return engine.run(JOB, stream(), Told(), work=WORK)

    whole, short = run(), run(remember=2)

    assert 4 == len(whole.batches)
    assert whole.batches[2:] == short.batches
    assert whole.plans[2:] == short.plans
    assert [1, 2] == [said.after for said in short.decisions]
    assert whole.totals == short.totals


def test_decisions_while_batches_go_on_are_not_simulated():
    with pytest.raises(InvalidValueError, match="meanwhile=True means nothing to a simulation"):
        SimulationEngine(meanwhile=True)


def test_an_engine_is_asked_by_the_same_settings_as_on_spark_with_other_defaults():
    engine = SimulationEngine(every=5, drift=0.2, remember=7)

    assert Asking(every=5, drift=0.2, remember=7) == Asking.of(engine)
    assert (1, None) == (SimulationEngine().every, SimulationEngine().drift)


def test_epochs_can_be_told_by_seconds():
    told = Told()

    run = SimulationEngine(batch_seconds=1.5).run(JOB, stream(), told, work=WORK)

    assert [0.0, 1.5, 3.0] == [batch.start for batch in run.batches]


def test_an_epoch_has_some_time_even_if_many_tuples_come_at_once():
    run = SimulationEngine(batch_tuples=1).run(
        Topology.source("in"), Stream([0.0, 0.0, 1.0, 1.0, 1.0, 2.0]), Told()
    )

    assert [0.0, 1.0, 2.0] == [batch.start for batch in run.batches]


def test_keys_are_read_from_the_columns_of_the_edge_by_which_they_came():
    told = Told()
    job = Topology(
        [Operator("left"), Operator("right"), Operator("both", "k", 2, key_groups=4)],
        [Edge("left", "both", key="a"), Edge("right", "both", key="b")],
    )
    left, right = (
        Stream.steady({"a": keys, "b": keys[::-1]}, rate=1.0)
        for keys in (np.array([1, 1, 1, 2, 9]), np.array([3, 4, 1, 1, 9]))
    )

    SimulationEngine(batch_tuples=8).run(job, {"left": left, "right": right}, told)

    statistics = told.heard[1][1]
    known = statistics.keys["both"]
    expected = Counter([1, 1, 1, 2, 9, 1, 1, 4])  # of the right the column b, which is reversed
    assert expected == dict(zip(known.keys.tolist(), known.counts.tolist(), strict=True))
    assert 5 / 8 == statistics.operators["both"].hottest_key
    seen = Counter(hash_parts([*expected.elements()], 4).tolist())
    loads = statistics.groups["both"].tuples
    assert [seen[group] for group in range(4)] == loads.tolist()


def test_locality_keeps_more_tuples_on_their_node():
    job = (
        Topology.source("in")
        .then("place", key="place", parallelism=4)
        .then("tag", key="tag", parallelism=4)
    )
    rng = np.random.default_rng(4)
    places = rng.integers(0, 40, 20_000)
    data = Stream.steady(
        {"place": places, "tag": places * 7 + rng.integers(0, 5, 20_000)}, rate=1e3
    )
    network = Network(latency=0.001)

    still, moved = (
        SimulationEngine(batch_tuples=5_000, network=network).run(job, data, optimizer)
        for optimizer in (None, Locality())
    )

    hop = "place", "tag"
    assert still.edges[hop].locality < 0.35
    assert moved.edges[hop].locality > 0.7  # a quarter of the stream came before the decision
    assert moved.latency.mean < still.latency.mean
    assert "place" in moved.plan.routing


def test_the_table_of_a_run_names_operators_and_edges():
    run, _ = tell(Told(probes=frozenset()))

    text = str(run)

    lines = text.splitlines()
    assert lines[0].startswith("400 tuples in ")
    assert "latency: mean " in lines[1]
    assert ["operator", "in", "place", "tag", "edge"] == [line.split()[0] for line in lines[2:7]]
    assert any(line.startswith("in -> place") for line in lines)
    assert any(line.startswith("source") for line in lines)
    assert 3 == len({len(line) for line in lines[2:]})


def test_figures_of_a_run_follow_from_its_times():
    job = Topology([Operator("in"), Operator("a", parallelism=2)], [Edge("in", "a", Shuffle())])
    taken = [2.0, 1.0, 1.0, 1.0]

    run = SimulationEngine().run(
        job, Stream([0.0, 0.0, 0.0, 5.0], {"t": taken}), work={"a": Work(lambda c: c["t"])}
    )

    assert [2.0, 1.0, 3.0, 1.0] == run.latencies.tolist()
    assert (1.75, 1.5, 2.97, 3.0) == pytest.approx(tuple(run.latency))
    assert (6.0, 4 / 6) == (run.makespan, run.throughput)
    assert [2, 2] == run.operators["a"].tuples.tolist()
    assert [3.0, 2.0] == run.operators["a"].busy.tolist()
    assert 1.2 == run.operators["a"].imbalance
    assert [0.5, 2 / 6] == run.utilisation("a").tolist()
    assert 1.0 == run.operators["in"].imbalance


def test_what_came_of_a_run_cannot_be_written_to():
    run, _ = tell(Told(probes=frozenset()))

    for array in (run.came, run.completed, run.operators["tag"].ended):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_a_batch_lasts_until_all_that_came_in_with_it_is_done():
    run = SimulationEngine(batch_tuples=2).run(
        Topology.source("in"), Stream([0.0, 1.0, 2.0, 5.0]), work={"in": Work(1.5)}
    )

    # The queue: 0 to 1.5, 1.5 to 3, 3 to 4.5 and 5 to 6.5.
    assert [3.0, 4.5] == [batch.seconds for batch in run.batches]
    assert [(1.75, 2.0), (2.0, 2.5)] == [(b.latency.mean, b.latency.max) for b in run.batches]
    assert 7.5 == run.totals.seconds
    assert (4, 2) == (run.totals.tuples, run.totals.batches)
