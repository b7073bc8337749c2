"""What is refused: each names the value and says what to do."""

import math
import subprocess
import sys

import numpy as np
import pytest

from optimizers import Cluster, Plan, Shuffle, Topology
from optimizers.errors import (
    InvalidKeyError,
    InvalidValueError,
    PlanError,
    TopologyError,
    UnknownNameError,
)
from optimizers.simulation import Network, SimulationEngine, Stream, Work

JOB = Topology.source("in").then("work", parallelism=2)
THREE = Stream([0.0, 1.0, 2.0], {"k": [1, 2, 3]})


def refused(error, words):
    return pytest.raises(error, match=words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stream([]), "a stream without tuples tells nothing; give at least one"),
        (lambda: Stream([0.0, math.nan]), r"times\[1\]=nan cannot be counted"),
        (lambda: Stream([-1.0]), r"times\[0\]=-1.0 cannot be counted"),
        (lambda: Stream([1.0, 3.0, 2.0]), r"times\[2\]=2.0 is before times\[1\]=3.0; sort"),
        (lambda: Stream([[1.0]]), "times of shape"),
        (lambda: Stream([0.0], {"k": [1, 2]}), r"columns\['k'\] has 2 members and there are 1"),
        (lambda: Stream([0.0], {"k": "x"}), r"columns\['k'\]='x' is not a column; give a list"),
        (lambda: Stream([0.0], {7: [1]}), "columns: 7 is not a name"),
        (lambda: Stream([0.0], [1]), r"columns=\[1\] is not a mapping"),
        (lambda: Stream([0.0], bytes=-1), r"bytes\[0\]=-1.0 cannot be counted"),
        (lambda: Stream([0.0], bytes=[1, 2]), r"bytes of shape \(2,\) do not fit 1"),
        (lambda: Stream.steady(rate=1.0), "count=None and no columns: say how many"),
        (lambda: Stream.steady(rate=0.0, count=1), r"rate=0.0 is out of range"),
        (lambda: Stream.poisson(rate=math.inf, count=1, seed=1), "rate=inf is not finite"),
        (lambda: Stream.poisson(rate=1.0, count=0, seed=1), "count=0 is out of range"),
        (lambda: Stream.poisson(rate=1.0, count=1, seed=-1), "seed=-1 is out of range"),
        (lambda: Work(-1.0), "seconds=-1.0 is out of range"),
        (lambda: Work(math.nan), "seconds=nan is not finite"),
        (lambda: Work(1.0, seconds_at=lambda *_: 1), "seconds and seconds_at are both given"),
        (lambda: Work(seconds_at=1.0), "seconds_at=1.0 is not a function of columns and times"),
        (lambda: Work(emits=-1), "emits=-1 is out of range"),
        (lambda: Work(emits=0.5), "emits=0.5 is not a whole number"),
        (lambda: Work(speeds=[1.0, 0.0]), r"speeds\[1\]=0.0 is out of range"),
        (lambda: Work(noise=-0.1), "noise=-0.1 is out of range"),
        (lambda: Work(noise=11), "noise=11 is out of range"),
        (lambda: Work(state_bytes=-1), "state_bytes=-1 is out of range"),
        (lambda: Network(latency=-1.0), "latency=-1.0 is out of range"),
        (lambda: Network(bandwidth=0), "bandwidth=0 is out of range"),
        (lambda: Network(per_batch=math.nan), "per_batch=nan is not finite"),
        (lambda: Network(per_byte=True), "per_byte=True is not a number"),
        (lambda: Network(linger=-1), "linger=-1 is out of range"),
        (lambda: Network(batch_bytes=0), "batch_bytes=0 is out of range"),
        (
            lambda: Network(buffers="one"),
            "say one of 'distinct', 'alike', 'shared'",
        ),
        (lambda: SimulationEngine(batch_tuples=0), "batch_tuples=0 is out of range"),
        (lambda: SimulationEngine(batch_seconds=0.0), "batch_seconds=0.0 is out of range"),
        (lambda: SimulationEngine(batch_tuples=1, batch_seconds=1.0), "are both given; leave one"),
        (lambda: SimulationEngine(cluster="here"), "cluster='here' is not a Cluster"),
        (lambda: SimulationEngine(network=0.1), "network=0.1 is not a Network"),
        (lambda: SimulationEngine(seed=-1), "seed=-1 is out of range"),
    ],
)
def test_what_cannot_be_is_refused_as_it_is_made(make, words):
    with refused(InvalidValueError, words):
        make()


def run(job=JOB, streams=THREE, optimizer=None, **work):
    return SimulationEngine().run(job, streams, optimizer, work=work)


def test_unknown_operators_and_sources_are_named():
    with refused(UnknownNameError, "unknown operator 'wrok'; known: 'in', 'work'"):
        run(wrok=Work(1.0))
    with refused(UnknownNameError, "unknown source 'out'; known: 'in'"):
        run(streams={"in": THREE, "out": THREE})
    with refused(UnknownNameError, "unknown operator 'x'"):
        run(optimizer=Plan(batch={"x": 2}))


def test_a_source_without_a_stream_is_named():
    with refused(TopologyError, "source 'in' has no stream; give it a Stream"):
        run(streams={})
    with refused(TopologyError, r"sources \['in', 'other'\] and one stream is given"):
        run(job=JOB.also("other"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"streams": [0.0]}, r"streams=\[0.0\] is not a Stream"),
        ({"streams": {"in": [0.0]}}, r"streams\['in'\]=\[0.0\] is not a Stream"),
        ({"optimizer": "locality"}, "optimizer='locality' is not an Optimizer"),
        ({"work": 0.5}, r"work\['work'\]=0.5 is not a Work"),
        ({"work": Work(speeds=[1.0])}, "operator 'work' has 2 instances and speeds for 1"),
        ({"work": Work(lambda c: [1.0, math.nan, 1.0])}, r"operator 'work'\[1\]=nan cannot"),
        ({"work": Work(lambda c: [1.0, 1.0, -2.0])}, r"operator 'work'\[2\]=-2.0 cannot"),
        ({"work": Work(lambda c: [1.0])}, r"seconds of operator 'work' of shape \(1,\)"),
        ({"work": Work(lambda c: "long")}, "seconds of operator 'work' of type"),
        ({"work": Work(emits=lambda c: [1, 0.5, 1])}, "0.5 tuples come of tuple 1; give whole"),
        ({"work": Work(emits=lambda c: [1, 1, -1])}, r"what operator 'work' emits\[2\]=-1"),
    ],
)
def test_what_does_not_fit_the_job_is_refused_as_it_is_run(arguments, words):
    with refused(InvalidValueError, words):
        run(**arguments)


def test_work_that_asks_for_a_column_that_is_not_there_hears_which_there_are():
    with refused(UnknownNameError, "seconds of operator 'work': unknown column 'x'; known: 'k'"):
        run(work=Work(lambda columns: columns["x"]))


def test_keys_that_are_not_there_or_no_keys_are_named_with_their_source():
    keyed = Topology.source("in").then("work", key="x")
    with refused(UnknownNameError, "source 'in' feeds .* spread by 'x': unknown column 'x'"):
        run(keyed)
    with refused(InvalidKeyError, "source 'in', key column 'x': .*float"):
        run(keyed, Stream([0.0], {"x": np.array([0.5])}))
    with refused(InvalidKeyError, "of kinds int and str from sources"):
        run(
            Topology.source("a").also("b").then("c", after=["a", "b"]).then("d", key="x"),
            {"a": Stream([0.0], {"x": [1]}), "b": Stream([0.0], {"x": ["one"]})},
        )


def test_a_plan_that_cannot_be_is_an_error_and_a_decision_that_cannot_be_is_told():
    with refused(PlanError, "more than the operator's 128 key groups"):
        run(Topology.source("in").then("work", key="k"), optimizer=Plan(parallelism={"work": 999}))


def test_a_run_that_was_refused_leaves_what_it_was_given_as_it_was():
    times = np.array([0.0, 1.0])
    stream = Stream(times, {"k": np.array([1, 2])})
    times[0] = 0.5

    assert [0.0, 1.0] == stream.times.tolist()
    with pytest.raises(ValueError, match="read-only"):
        stream.times[0] = 1.0
    assert Cluster.uniform(2) == SimulationEngine(cluster=Cluster.uniform(2)).cluster
    assert Shuffle() == JOB.grouping("in", "work")


def test_the_engine_needs_neither_arrow_nor_spark():
    heavy = ("datasketches", "pandas", "py4j", "pyarrow", "pymetis", "pyspark")
    code = f"import optimizers.simulation, sys; print([n for n in {heavy!r} if n in sys.modules])"
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == tried.stdout.strip()
