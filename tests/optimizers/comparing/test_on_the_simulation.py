"""Comparisons in the simulation: the same table, without Spark and without results."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from batching.stages import StageCosts
from optimizers import Cluster, Fixed, Locality, Plan, Topology, compare
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
