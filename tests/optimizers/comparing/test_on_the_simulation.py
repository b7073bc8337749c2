"""Comparisons in the simulation: the same table, without Spark and without results."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from batching.stages import StageCosts
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
from optimizers.comparing import Comparison
from optimizers.errors import InvalidValueError
from optimizers.simulation import MicroBatches, Network, SimulationEngine, Stream, Work

JOB = (
    Topology.source("in", parallelism=2)
    .then("a", key="k", parallelism=4)
    .then("b", key="l", parallelism=4)
)
ENGINE = SimulationEngine(
    network=Network(latency=0.01), cluster=Cluster.uniform(4), every=2, rate=1000.0
)


def tables(count, rows=2000):
    """Keys of a and of b that always come together."""
    rng = np.random.default_rng(3)
    return [
        pa.table({"k": keys, "l": keys * 7})
        for keys in (rng.integers(0, 200, rows) for _ in range(count))
    ]


def streams(count):
    """The same, 1,024 a second, with the times at which they come."""
    columns = [
        {name: table.column(name).to_numpy() for name in "kl"} for table in tables(count, 2048)
    ]
    return [
        Stream.steady(one, rate=1024.0, start=2.0 * number) for number, one in enumerate(columns)
    ]


@pytest.fixture(scope="module")
def compared():
    variants = {"hash": None, "ours": Locality(worth=0), "wide": Fixed(Plan(parallelism={"b": 5}))}
    return compare(JOB, tables(5), variants, engine=ENGINE, warm_up=1, title="pairs")


def test_what_a_strategy_does_is_seen(compared):
    hashed, ours, wide = compared.variants

    assert [0, 1, 2, 3, 4] == [facts.first for facts in ours.batches]
    assert {2000} == {facts.tuples for outcome in compared.variants for facts in outcome.batches}
    assert [None, 2, None] == [outcome.first_change for outcome in compared.variants]
    settled = ours.batches[3:]
    assert all(facts.local > 0.9 * facts.hops > 0 for facts in settled)
    assert all(facts.local < 0.4 * facts.hops for facts in hashed.batches)
    assert 0 < ours.batches[2].taken_over
    assert all(5 == len(facts.operator("b").tuples) for facts in wide.batches)
    for here, there in zip(settled, hashed.batches[3:], strict=True):
        assert here.latency.mean < there.latency.mean
    assert any("routing changes" in decision.text for decision in ours.decisions)


class Turning(Optimizer):
    """Gives the key groups of an operator to other instances after the first epoch, and says so."""

    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    def plan(self, topology, cluster, statistics, current):
        if statistics.epoch or not statistics:
            return Plan(notes=(self.note("a", "calm", {"groups": len(statistics.groups)}),))
        home = current.placement["a"]
        turned = Deployment(home.nodes, (np.array(home.groups) + 1) % len(home.nodes))
        return Plan(placement={"a": turned}, notes=(self.note("a", "turned", {"by": 1.0}),))


def test_all_that_strategies_are_told_is_in_the_document():
    nodes = [Node(f"n{n}", cores=2, memory=1e6, bandwidth=1e5, rack=f"r{n % 2}") for n in range(3)]
    engine = replace(ENGINE, cluster=Cluster(nodes), work={"a": Work(1e-4, state_bytes=8.0)})

    found = compare(JOB, tables(7), {"ours": Turning()}, engine=engine, warm_up=1)

    (ours,) = Comparison.from_json(found.to_json()).variants
    assert found["ours"] == ours
    assert [1, 3, 5] == [epoch.after for epoch in ours.epochs]
    for epoch in ours.epochs:
        seen = epoch.statistics
        assert tuple(nodes) == epoch.nodes
        for part in (seen.groups["a"], seen.instances["a"]):
            assert {"cpu", "memory", "network", "state_bytes"} <= part.columns.keys()
            assert {"bytes_in", "bytes_out", "remote_in", "remote_out"} <= part.columns.keys()
        assert seen.edges["a", "b"].tuples == seen.traffic["a", "b"].tuples.sum() > 3900
        assert 4000 == seen.sources["in"].admitted
        assert seen.operators["a"].hottest_key > 0
        assert 1.0 == seen.operators["a"].selectivity
    told = json.loads(found.to_json())["variants"][0]["epochs"][0]
    assert 1.0 == told["operators"]["a"]["selectivity"]
    assert 128 == len(told["groups"]["a"]["cpu"])
    assert {"name": "n1", "cores": 2.0, "rack": "r1"}.items() <= told["nodes"][1].items()
    # What was decided is told with what was expected, and what was found an epoch later.
    decided = [epoch.past.decision for epoch in ours.epochs]
    assert all(said is not None and said.notes for said in decided)
    assert [True, False, False] == [said.applied for said in decided]
    expected, loads = decided[0].loads, ours.epochs[1].past.loads
    assert max(expected.values()) == pytest.approx(decided[0].expected["busiest node"])
    assert decided[0].found.keys() == decided[0].expected.keys()
    assert expected.keys() == loads.keys() == {node.name for node in nodes}
    for name, load in loads.items():
        assert expected[name] == pytest.approx(load, rel=0.25)
    assert expected != ours.epochs[0].past.loads
    assert (("by", 1.0),) == ours.decisions[1].notes[0].figures


def test_a_document_without_epochs_is_read(compared):
    told = json.loads(compared.to_json())
    for variant in told["variants"]:
        assert variant.pop("epochs") is not None
        for decision in variant["decisions"]:
            decision.pop("notes")

    found = Comparison.from_json(json.dumps(told))

    assert {()} == {outcome.epochs for outcome in found.variants}
    assert compared["ours"].batches == found["ours"].batches


def test_batches_are_those_that_were_given(compared):
    """Nothing takes time here but the network: a batch lasts two seconds and a hop or two."""
    for facts in compared["hash"].batches:
        assert 1.999 <= facts.seconds <= 1.999 + 0.03
        assert 0.0 < facts.latency.mean <= 0.02 + 1e-9


def test_batches_are_cut_by_what_is_admitted():
    variants = {"all": None, "less": Fixed(Plan(admit={"in": 600}))}

    found = compare(JOB, tables(3), variants, engine=ENGINE, warm_up=0)

    assert [0, 1, 2] == [facts.first for facts in found["less"].batches]
    assert [4, 4, 4] == [facts.batches for facts in found["less"].batches]
    assert [2000] * 3 == [facts.tuples for facts in found["less"].batches]
    assert [1, 1, 1] == [facts.batches for facts in found["all"].batches]


def test_micro_batches_are_cut_by_what_is_admitted():
    engine = replace(ENGINE, micro_batches=MicroBatches(StageCosts(0.1, 0.01, 0.01)))
    variants = {"all": None, "less": Fixed(Plan(admit={"in": 600}))}

    found = compare(JOB, tables(3), variants, engine=engine, warm_up=0)

    assert [4, 4, 4] == [facts.batches for facts in found["less"].batches]
    assert [2000] * 3 == [facts.tuples for facts in found["less"].batches]
    assert [1, 1, 1] == [facts.batches for facts in found["all"].batches]


def test_what_waits_is_let_in_piece_by_piece():
    engine = SimulationEngine(
        cluster=Cluster.uniform(4), micro_batches=MicroBatches(StageCosts(0.5, 0, 0))
    )
    stream = Stream.steady({"k": np.arange(1000), "l": np.arange(1000)}, rate=1000.0)

    run = engine.run(JOB, stream, Plan(admit={"in": 100}))

    loads = [sum(batch.loads("in")) for batch in run.batches]
    assert 1000 == sum(loads)
    assert 100 == max(loads)


def test_tuples_that_come_at_one_time_are_let_in_together():
    stream = Stream(np.repeat([0.0, 1.0, 2.0], 5), {"k": np.arange(15), "l": np.arange(15)})

    run = SimulationEngine(cluster=Cluster.uniform(4)).run(JOB, stream, Plan(admit={"in": 3}))

    assert [5, 5, 5] == [sum(batch.loads("in")) for batch in run.batches]


def test_it_says_that_nothing_was_computed_and_is_the_same_after_json(compared):
    text = str(compared)

    assert compared.correct
    assert "no results were computed" in text
    assert "latency of a tuple" in text
    assert "beside sequential" not in text
    assert "one machine" not in text
    assert compared.where.startswith("a simulation with Network(")
    assert 4 == compared.nodes
    assert compared == Comparison.from_json(compared.to_json())


def test_streams_say_themselves_when_tuples_come():
    by_table, by_stream = (
        compare(JOB, source, {"hash": None}, engine=engine, warm_up=1)["hash"].batches
        for source, engine in (
            (tables(5, 2048), replace(ENGINE, rate=1024.0)),
            (streams(5), replace(ENGINE, rate=None)),
        )
    )

    assert [facts.hops for facts in by_table] == [facts.hops for facts in by_stream]
    assert [facts.seconds for facts in by_table] == [facts.seconds for facts in by_stream]


def test_work_of_the_engine_takes_time():
    slow = SimulationEngine(rate=100.0, work={"b": Work(0.02)})
    found = compare(JOB, tables(2, 100), {"hash": None}, engine=slow, warm_up=0)

    assert all(facts.latency.mean >= 0.02 for facts in found["hash"].batches)
    assert all(facts.makespan > 0.5 for facts in found["hash"].batches)


@pytest.mark.parametrize(
    ("engine", "source", "words"),
    [
        (SimulationEngine(), tables(1), r"does not say when they come; say SimulationEngine\(rate"),
        (ENGINE, [tables(1)[0][:0]], "a batch without rows"),
        (ENGINE, [streams(1)[0]] * 2, "let batches come one after the other"),
        (ENGINE, [5], "are a int; give a Stream, or an Arrow table"),
        (
            ENGINE,
            [tables(1)[0], tables(1)[0].select(["k"])],
            r"a batch has columns \['k'\], and the first has \['k', 'l'\]",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(engine, source, words):
    with pytest.raises(InvalidValueError, match=words):
        compare(JOB, source, {"hash": None}, engine=engine, warm_up=0)


def test_neither_spark_nor_a_session_is_needed():
    code = (
        "import sys, pyarrow as pa\n"
        "from optimizers import Topology, compare\n"
        "from optimizers.simulation import SimulationEngine\n"
        "job = Topology.source('in').then('a', key='k', parallelism=2)\n"
        "rows = pa.table({'k': [1, 2, 3]})\n"
        "compare(job, [rows], {'hash': None}, engine=SimulationEngine(rate=1.0), warm_up=0)\n"
        "print('pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()
