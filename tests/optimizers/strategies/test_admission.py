"""Rules of admission as strategies: what they say of batches, and what becomes of a load."""

from dataclasses import replace

import numpy as np
import pytest
from staged_engine import StagedEngine

from batching.admission import BatchReport, PidRate
from optimizers import Cluster, Plan, Topology
from optimizers.batch_time import BatchTime
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.plugins import create
from optimizers.statistics import OperatorStatistics, Statistics
from optimizers.strategies.admission import RULES, Admission
from optimizers.strategies.aeolus import Aeolus
from optimizers.testing import OptimizerContract

JOB = Topology.source("s").also("t").then("a", after=("s", "t"))
SEEN = Statistics(
    operators={"s": OperatorStatistics(3_000), "t": OperatorStatistics(1_000)},
    execution=Execution(micro_batches=True, slots=2, sized=("s", "t")),
    sources={
        "s": SourceStatistics(3_000, 3_000, 0, seconds=4),
        "t": SourceStatistics(1_000, 1_000, 0, seconds=4),
    },
    batch_times=[BatchTime(n, 1_000, 0.8, 0.8, (), 0.0) for n in range(4)],
)


class TestPid(OptimizerContract):
    optimizer = Admission("pid")


class TestFixedPoint(OptimizerContract):
    optimizer = Admission("fixed-point")


class TestDybbs(OptimizerContract):
    optimizer = Admission("dybbs")


def ask(rule, seen=SEEN, current=None):
    return Admission(rule).plan(JOB, Cluster.uniform(1), seen, current or Plan())


def test_an_interval_is_what_the_last_batch_took_over_its_share():
    plan = ask("fixed-point")

    assert {"s": 750, "t": 250} == dict(plan.admit)  # 1,000 a second, for .8 s / .8


def test_what_waits_is_let_in_with_an_interval():
    waits = {**SEEN.sources, "s": replace(SEEN.sources["s"], waiting=4_000)}

    plan = ask("fixed-point", replace(SEEN, sources=waits))

    assert 5_000 == sum(plan.admit.values())


def test_pid_goes_on_from_what_is_admitted():
    """One batch is enough for a correction, as the rate goes on from what was admitted."""
    one = replace(SEEN, batch_times=SEEN.batch_times[:1])
    state = PidRate(1.0, rate=800.0, speed=800.0).after(BatchReport(1_000, 0.8, 800, 0.8))

    plan = ask("pid", one, current=Plan(admit={"s": 600, "t": 200}))

    assert round(state.admission.rows) == sum(plan.admit.values())


def test_pid_admits_less_where_batches_came_late():
    """By a fifth of what could have been worked through while the last batch waited."""
    one = replace(SEEN, batch_times=SEEN.batch_times[:1])
    waits = {**SEEN.sources, "s": replace(SEEN.sources["s"], waiting=500)}
    state = PidRate(1.0, rate=800.0, speed=800.0)
    state = state.after(BatchReport(1_000, 0.8, 800, 0.8, waited=0.4))  # 500 at 1,250 a second

    plan = ask("pid", replace(one, sources=waits), current=Plan(admit={"s": 600, "t": 200}))

    assert round(state.admission.rows) == sum(plan.admit.values())
    assert sum(plan.admit.values()) < sum(
        ask("pid", one, current=Plan(admit={"s": 600, "t": 200})).admit.values()
    )


def test_what_is_as_it_was_is_no_decision():
    assert not ask("fixed-point", current=Plan(admit={"s": 750, "t": 250}))


def test_without_a_source_that_can_be_sized_it_does_nothing_and_says_so():
    plan = ask("pid", replace(SEEN, execution=Execution(micro_batches=True, slots=2)))

    assert not plan
    assert [True] == [note.idle for note in plan.notes]


@pytest.mark.parametrize("rule", RULES)
def test_all_are_registered_and_refuse_what_means_nothing(rule):
    assert Admission(rule, usage=0.5) == create(rule, usage=0.5)
    with pytest.raises(InvalidValueError, match="usage"):
        Admission(rule, usage=1.5)
    with pytest.raises(UnknownNameError, match="'pod'"):
        Admission("pod")


WIDE = Topology.source("s", parallelism=8).then("work", parallelism=8)


def backlog(strategy, rate, seconds=240):
    engine = StagedEngine(WIDE, {"s": 0.0, "work": 80e-6}, strategy, rate)
    return engine.run(seconds)


def test_ours_keeps_up_where_pid_takes_small_batches_for_the_limit():
    """100,000/s is what 8 cores carry in batches without end."""
    rates = {name: [] for name in ("pid", "ours")}
    for name, strategy in (("pid", Admission("pid")), ("ours", Aeolus())):
        engine = backlog(strategy, lambda now: 30_000.0 if now < 30 else 70_000.0)
        rates[name] = engine.backlogs[-1][1] / 70_000

    assert rates["ours"] < 5
    assert rates["pid"] > rates["ours"]


@pytest.mark.parametrize("rule", ["fixed-point", "dybbs"])
def test_intervals_settle_where_a_load_is_steady(rule):
    engine = backlog(Admission(rule), lambda _: 30_000.0)

    taken = [seconds for _, _, seconds in engine.spans[-20:]]
    assert max(taken) < 1.5 * min(taken)
    assert np.mean(taken) < 5
    assert engine.backlogs[-1][1] < 5 * 30_000
