"""The time of a batch taken apart, and what flows into a job: values that check themselves."""

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import BatchTime, EdgeStatistics, OperatorStatistics, SourceStatistics, StageTime
from optimizers.batch_time import KEPT
from optimizers.deployment import Deployment
from optimizers.documents import Record
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.layout import Layout
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.testing import example_statistics
from optimizers.testing.worlds import example_worlds

SECONDS = st.floats(0, 1e6, allow_nan=False)
STAGES = st.builds(
    StageTime,
    operators=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    size=st.integers(3, 9),
    turns=st.integers(1, 3),
    **dict.fromkeys(StageTime.PARTS, SECONDS),
)
TIMES = st.builds(
    BatchTime,
    batch=st.integers(0, 1 << 40),
    tuples=SECONDS,
    seconds=SECONDS,
    planning=SECONDS,
    stages=st.lists(STAGES, max_size=3),
    commit=SECONDS,
    trigger=st.none() | SECONDS,
)
NOT_AMOUNTS = [-1, -0.001, math.nan, math.inf, "3", True, [1.0]]


@given(TIMES)
def test_all_parts_and_the_rest_are_the_whole(time):
    parts = time.planning + sum(stage.seconds for stage in time.stages) + time.commit
    parts += time.trigger or 0.0

    assert math.isclose(parts, sum(time.parts.values()), abs_tol=1e-6)
    assert math.isclose(time.seconds, sum(time.parts.values()) + time.other, abs_tol=1e-6)
    assert ("trigger", "planning", *StageTime.PARTS, "commit") == tuple(time.parts)


@given(TIMES)
def test_a_time_passes_through_json_and_pickle(time):
    text = json.dumps(time.to_dict())

    assert time == Record(json.loads(text), "time").into(BatchTime.from_record)
    assert time == pickle.loads(pickle.dumps(time))  # noqa: S301


def test_what_a_trigger_took_is_not_known_of_earlier_documents():
    text = BatchTime(3, 10, 1.0, 0.5, (), 0.25).to_dict()
    assert 0.0 == text.pop("trigger")

    assert Record(text, "time").into(BatchTime.from_record).trigger is None


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, None], ids=repr)
@pytest.mark.parametrize("name", StageTime.PARTS)
def test_a_part_is_an_amount(name, value):
    with pytest.raises(InvalidValueError, match=f"^{name}="):
        StageTime(("a",), 1, 1, **{name: value})


BAD = {
    "no tasks": (lambda: StageTime(("a",), 0, 1), "size=0"),
    "a longer chain than there are tasks": (lambda: StageTime(("a",), 2, 3), "turns=3"),
    "an operator": (lambda: StageTime("a", 1, 1), "operators='a' is not a list"),
    "operators by number": (lambda: StageTime([1], 1, 1), "operators holds 1"),
    "a negative batch": (lambda: BatchTime(-1, 0, 0, 0, (), 0), "batch=-1"),
    "a negative trigger": (lambda: BatchTime(0, 0, 0, 0, (), 0, -1.0), "trigger=-1"),
    "no seconds": (lambda: BatchTime(0, 0, None, 0, (), 0), "seconds=None"),
    "a stage": (lambda: BatchTime(0, 0, 0, 0, StageTime((), 1, 1), 0), "is not a list"),
    "other stages": (lambda: BatchTime(0, 0, 0, 0, [1], 0), "stages holds 1; give a StageTime"),
    "other times": (lambda: Statistics(batch_times=[1]), "batch_times holds 1; give a BatchTime"),
    "one time": (lambda: Statistics(batch_times=BatchTime(0, 0, 0, 0, (), 0)), "is not a list"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_time_is_refused_by_name(case):
    build, words = BAD[case]

    with pytest.raises(InvalidValueError, match=words):
        build()


def test_times_are_kept_of_the_last_batches_only():
    times = [BatchTime(batch, 0, 1, 0, (), 0) for batch in range(KEPT + 7)]

    assert tuple(times[7:]) == Statistics(batch_times=times).batch_times
    assert Statistics(batch_times=times[:2])
    assert not Statistics()


OPTIONAL = [
    *((SourceStatistics, name) for name in ("arrived", "admitted", "waiting", "seconds")),
    *((OperatorStatistics, name) for name in ("emitted", "shipping", "wall")),
    (EdgeStatistics, "parcels"),
]


@pytest.mark.parametrize(("kind", "name"), OPTIONAL)
def test_what_is_not_known_is_none_and_what_is_known_is_an_amount(kind, name):
    assert getattr(kind(), name) is None
    assert type(getattr(kind(**{name: 3}), name)) is float
    assert 0 == getattr(kind(**{name: 0}), name)
    for value in NOT_AMOUNTS:
        with pytest.raises(InvalidValueError, match=f"^{name}="):
            kind(**{name: value})


def test_what_arrives_a_second_is_by_the_clock_and_known_only_with_it():
    assert 333.0 == SourceStatistics(arrived=3330, seconds=10).rate
    assert 0.0 == SourceStatistics(arrived=0, seconds=10).rate
    for unknown in (SourceStatistics(arrived=3), SourceStatistics(seconds=3), SourceStatistics()):
        assert unknown.rate is None
    assert SourceStatistics(arrived=3, seconds=0).rate is None


def test_selectivity_is_known_where_both_its_ends_are():
    assert 0.25 == OperatorStatistics(tuples=8, emitted=2).selectivity
    assert 0.0 == OperatorStatistics(tuples=8, emitted=0).selectivity
    assert OperatorStatistics(tuples=8).selectivity is None
    assert OperatorStatistics(emitted=8).selectivity is None


def test_only_sources_have_what_arrives():
    job = example_worlds()[0].topology
    seen = SourceStatistics(3)

    Statistics(sources={job.sources[0]: seen}).check(job)
    with pytest.raises(UnknownNameError, match="unknown source 'parse'"):
        Statistics(sources={"parse": seen}).check(job)
    with pytest.raises(InvalidValueError, match="give a SourceStatistics"):
        Statistics(sources={job.sources[0]: 3})


def test_another_layout_lets_in_the_same_and_takes_another_time():
    world = example_worlds()[0]
    job, seen = world.topology, example_statistics(world.topology)
    old = Layout.of(job, world.cluster, Plan())
    wider = Plan(parallelism={"by_tag": 5})
    new = Layout.of(job, world.cluster, wider)

    same, other = seen.under(old, old), seen.under(old, new)

    assert seen.batch_times == same.batch_times
    assert seen.edges == same.edges
    assert () == other.batch_times
    assert seen.sources == same.sources == other.sources
    assert seen.operators == other.operators
    parcels = {name: edge.parcels for name, edge in other.edges.items()}
    assert parcels["by_place", "by_tag"] is None
    assert seen.edges["tweets", "parse"].parcels == parcels["tweets", "parse"]


def test_a_moved_instance_leaves_the_parcels_as_they_were():
    world = example_worlds()[0]
    job, seen = world.topology, example_statistics(world.topology)
    old = Layout.of(job, world.cluster, Plan())
    home = old.homes["by_tag"]
    moved = Deployment(home.nodes[::-1], home.groups)
    new = Layout.of(job, world.cluster, Plan(placement={"by_tag": moved}))

    other = seen.under(old, new)

    assert () == other.batch_times
    hop = "by_place", "by_tag"
    assert seen.edges[hop].parcels == other.edges[hop].parcels
