"""What came of a run is told in one table and one document, on every engine."""

from dataclasses import replace

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import CLUSTER, Driver
from hypothesis import given
from hypothesis import strategies as st

from optimizers import BatchTime, Fixed, Note, Plan, SourceStatistics, StageTime, Topology
from optimizers.control.decision import DecisionFacts
from optimizers.control.part_summaries import EdgeSummary, OperatorSummary
from optimizers.control.run_summary import RunSummary
from optimizers.control.summary import Messages, Spread
from optimizers.errors import CorruptDataError
from optimizers.simulation import SimulationEngine, Stream, Work
from sketches.values import FrozenMap

JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=3, key_groups=16)
    .then("b", key="l", parallelism=2, key_groups=16)
)
COLUMNS = {"k": np.arange(120) % 7, "l": np.arange(120) % 5}
WIDER = Fixed(Plan(parallelism={"a": 4}, nodes=3))


@pytest.fixture(scope="module")
def on_the_runner():
    with any_job.temporary() as folder:
        driver = Driver(folder, JOB, WIDER)
        for start in range(0, 120, 40):
            driver.batch({"s": pa.table(COLUMNS).slice(start, 40)})
        return RunSummary.of(driver.coordinator)


@pytest.fixture(scope="module")
def in_the_simulation():
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=40)
    return engine.run(JOB, Stream.steady(COLUMNS, rate=10.0), WIDER).summary


def test_what_operators_emit_and_edges_carry_is_told(on_the_runner, in_the_simulation):
    here, there = on_the_runner, in_the_simulation

    assert [120, 120, 120] == [each.emitted for each in there.operators]
    assert [120, 120] == [each.emitted for each in here.operators][:2]
    assert all(each.wall is not None for each in (*here.operators, *there.operators))
    assert all(0 < each.shipping < sum(each.busy) for each in here.operators[1:2])
    assert all(each.parcels is None for each in there.edges)
    # Three batches of one partition, each packed for those instances that get any of its keys.
    assert 3 <= here.edges[0].parcels <= 12


def test_what_came_to_sources_is_told_of_all_epochs(on_the_runner, in_the_simulation):
    assert {} == on_the_runner.sources  # what is bounded does not come
    # Ten come a second, and the last batch is in no epoch that is over.
    assert {"s": SourceStatistics(80, 80, 0, 8)} == in_the_simulation.sources
    assert ["s", "80", "10", "80", "0"] in [
        line.split() for line in str(in_the_simulation).splitlines()
    ]


def test_both_count_the_same(on_the_runner, in_the_simulation):
    here, there = on_the_runner, in_the_simulation

    assert (3, 120) == (here.batches, here.tuples) == (there.batches, there.tuples)
    assert [each.operator for each in here.operators] == ["s", "a", "b"]
    assert [each.tuples for each in here.operators] == [each.tuples for each in there.operators]
    between = [each for each in here.edges if each.source == "a"]
    assert [("a", "b", 120.0)] == [(each.source, each.target, each.tuples) for each in between]
    assert [each.tuples for each in here.edges] == [each.tuples for each in there.edges]
    assert 0 < between[0].local == there.edges[1].local < 120
    assert here.decisions[0].text == there.decisions[0].text
    names = tuple(node.name for node in CLUSTER.nodes)
    assert (names, 3) == (here.nodes, here.wanted) == (there.nodes, there.wanted)


def test_where_instances_were_and_what_crossed_is_told(on_the_runner, in_the_simulation):
    for told in (on_the_runner, in_the_simulation):
        for operator in told.operators:
            assert operator.nodes == CLUSTER.deal(len(operator.tuples))
            assert operator.hosts == ()  # nodes are imaginary
        source, a, b = told.operators
        left = sum(edge.bytes - edge.local_bytes for edge in told.edges)
        went = sum(source.remote_out) + sum(a.remote_out)
        assert went == pytest.approx(left)
        assert sum(a.remote_in) + sum(b.remote_in) == pytest.approx(left)
        assert sum(source.remote_in) == sum(b.remote_out) == 0
    assert all(size > 0 for size in on_the_runner.operators[1].state_bytes)
    assert in_the_simulation.operators[1].state_bytes == (0.0,) * 4  # as its work says


def test_the_state_of_a_simulated_instance_is_that_of_the_keys_that_it_has_met():
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=40, work={"a": Work(state_bytes=8.0)})
    run = engine.run(JOB, Stream.steady(COLUMNS, rate=10.0), WIDER)

    source, a, b = run.summary.operators
    owners = run.layout.owners("a").assign(np.arange(7))
    assert tuple(8.0 * np.bincount(owners, minlength=4)) == a.state_bytes
    assert {0.0} == {*source.state_bytes, *b.state_bytes}


def test_machines_are_told_of_each_batch():
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=40)
    simulated = engine.run(JOB, Stream.steady(COLUMNS, rate=10.0), WIDER).batches
    with any_job.temporary() as folder:
        driver = Driver(folder, JOB, WIDER)
        driver.batch({"s": pa.table(COLUMNS)})
        executed = driver.coordinator.batches

    names = tuple(node.name for node in CLUSTER.nodes)
    for batch in (*simulated, *executed):
        assert (names, 3) == (batch.nodes, batch.wanted)
        told = RunSummary.of_batches(JOB, [batch])
        assert (names, 3) == (told.nodes, told.wanted)


def test_what_an_engine_does_not_know_is_absent(on_the_runner, in_the_simulation):
    assert on_the_runner.latency is None
    assert all(operator.latency is None for operator in on_the_runner.operators)
    assert all(edge.messages is None for edge in on_the_runner.edges)
    assert in_the_simulation.latency == Spread(0.0, 0.0, 0.0, 0.0)
    assert all(edge.messages == Messages(0, 0) for edge in in_the_simulation.edges)
    here, there = (str(each).splitlines() for each in (on_the_runner, in_the_simulation))
    assert here[1].split() == there[2].split()  # one table; a line more tells of latencies
    assert ["a", "4", "120", "-", "-"] == here[3].split()[:5]
    assert ["-", "-"] == here[-1].split()[-2:]


def test_a_batch_of_each_has_the_same_fields(on_the_runner):
    engine = SimulationEngine(cluster=CLUSTER, batch_tuples=40)
    simulated = engine.run(JOB, Stream.steady(COLUMNS, rate=10.0), WIDER).batches
    with any_job.temporary() as folder:
        driver = Driver(folder, JOB, WIDER)
        for start in range(0, 120, 40):
            driver.batch({"s": pa.table(COLUMNS).slice(start, 40)})
        executed = driver.coordinator.batches

    for here, there in zip(executed, simulated, strict=True):
        assert (here.batch, here.planned) == (there.batch, there.planned)
        assert (here.taken_over, here.loads("b")) == (there.taken_over, there.loads("b"))
        assert here.locality([("a", "b")]) == there.locality([("a", "b")])
        assert [
            (one.operator, one.number, one.node, one.tuples)
            for one in here.instances
            if one.operator != "s"
        ] == [
            (one.operator, one.number, one.node, one.tuples)
            for one in there.instances
            if one.operator != "s"
        ]


TIMES = st.floats(0, 1e9)
COUNTS = st.integers(0, 1 << 50)
SPREADS = st.none() | st.builds(Spread, TIMES, TIMES, TIMES, TIMES)
SUMMARIES = st.builds(
    RunSummary,
    COUNTS,
    COUNTS,
    TIMES,
    st.lists(
        st.builds(
            OperatorSummary,
            st.text(),
            st.lists(COUNTS, max_size=3).map(tuple),
            st.lists(TIMES, max_size=3).map(tuple),
            SPREADS,
            st.sampled_from(["key", "cost", ""]),
            COUNTS,
            TIMES,
            st.none() | TIMES,
        ),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(
            EdgeSummary,
            st.text(),
            st.text(),
            TIMES,
            TIMES,
            TIMES,
            st.none() | st.builds(Messages, COUNTS, COUNTS),
            st.none() | TIMES,
            st.booleans(),
            st.none() | TIMES,
        ),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(
            DecisionFacts,
            st.integers(-1, 99),
            st.booleans(),
            st.text(),
            TIMES,
            st.text(),
            st.lists(st.text(), max_size=2).map(tuple),
            st.lists(
                st.builds(Note, *[st.text()] * 3, st.just({"load": 0.5}), st.booleans()),
                max_size=2,
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    COUNTS,
    SPREADS,
    st.lists(
        st.builds(
            BatchTime,
            COUNTS,
            TIMES,
            TIMES,
            TIMES,
            st.lists(st.builds(StageTime, st.just(("a", "b")), st.just(3), st.just(2), TIMES)),
            TIMES,
            st.none() | TIMES,
        ),
        max_size=3,
    ).map(tuple),
    COUNTS,
    COUNTS,
    st.none() | TIMES,
    st.dictionaries(
        st.text(), st.builds(SourceStatistics, *[st.none() | TIMES] * 4), max_size=2
    ).map(FrozenMap),
)


@given(SUMMARIES)
def test_it_is_the_same_after_json(summary):
    assert summary == RunSummary.from_json(summary.to_json())


def test_another_document_is_refused(on_the_runner):
    with pytest.raises(CorruptDataError, match="busy"):
        RunSummary.from_json(on_the_runner.to_json().replace('"busy": [', '"busy": ["x", '))
    with pytest.raises(CorruptDataError, match="not a 'run'"):
        RunSummary.from_json(Plan().to_json())


def test_the_table_shows_the_mean_batch_of_those_that_ran_as_the_last(on_the_runner):
    def time(batch, work, *more):
        stages = [StageTime(("s",), 2, 1, work=work), *more]
        return BatchTime(batch, 10, 1.5, 0.25, stages, 0.125)

    wider = StageTime(("a", "b"), 4, 2, tasks=0.25)
    times = (time(0, 7.0), time(1, 0.5, wider), time(2, 0.75, wider))
    rows = [line.split() for line in str(replace(on_the_runner, times=times)).splitlines()[-6:]]

    assert ["s", "2", "0.000", "0.000", "0.000", "0.625", "0.000", "0.000", "0.625"] == rows[0]
    assert ["a", "+", "b", "4", "0.000", "0.250"] == rows[1][:6]
    assert [["planning", "0.250"], ["commit", "0.125"], ["other", "0.250"]] == rows[2:5]
    assert ["all", "0.000", "0.250", "0.000", "0.625", "0.000", "0.000", "1.500"] == rows[5]
    assert "mean of a batch" not in str(on_the_runner)


def test_the_table_shows_what_triggers_took_where_that_is_known(on_the_runner):
    def time(batch, trigger):
        return BatchTime(batch, 10, 1.5, 0.25, [StageTime(("s",), 2, 1)], 0.125, trigger)

    times = (time(0, None), time(1, 0.5), time(2, 0.75))
    rows = [line.split() for line in str(replace(on_the_runner, times=times)).splitlines()[-5:]]

    assert [["trigger", "0.625"], ["planning", "0.250"]] == rows[:2]
