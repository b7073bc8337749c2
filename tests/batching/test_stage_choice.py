"""Choosing between what is in force, what moves no state, and the best: against all there is."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stage_jobs import COSTS, all_stages, stage_jobs

from batching.errors import OverloadError
from batching.stage_choice import Chooser, Worth, needed_rate
from batching.stage_planner import cheapest, highest_rate
from batching.stages import StageCosts, StageJob, Stages, batch_cost
from sketches.errors import InvalidValueError

RATES = st.sampled_from([0.0, 100.0, 2000.0, 8000.0, 20_000.0])
CORES = st.integers(1, 3)
FREE = StageCosts(0.1, 0.05, 0.01)


def chooser_of(job, costs, cores, rate, **worth):
    worth = Worth(**worth)
    assume(rate < 0.9 * highest_rate(job, costs, cores=cores))
    needed = needed_rate(job, costs, rate, cores, worth.headroom)
    return Chooser(costs, cores, rate, needed, worth)


def periods(job, costs, cores, rate, needed):
    """How long batches are under all stages that carry what is needed."""
    for begins, tasks in all_stages(job, cores):
        stages = Stages(np.array(begins), np.array([tasks[begin] for begin in begins]))
        batch = batch_cost(job, costs, stages, cores)
        if math.isfinite(batch.settled(needed)):
            yield batch.settled(rate)


@given(stage_jobs(most=3), COSTS, CORES, RATES, st.sampled_from([0.0, 0.05, 0.3]))
def test_the_best_carries_what_is_needed_and_is_as_fast_as_any(job, costs, cores, rate, change):
    chooser = chooser_of(job, costs, cores, rate, change=change)

    found = chooser.best(job)

    time = batch_cost(job, costs, found.stages, cores)
    assert math.isfinite(time.settled(chooser.needed))
    assert found.period == time.settled(rate)
    least = min(periods(job, costs, cores, rate, chooser.needed))
    assert least <= found.score * (1 + 1e-9)
    assert found.period <= found.score * (1 + change) * (1 + 1e-9)
    fastest = Chooser(costs, cores, rate, rate, chooser.worth).best(job)
    if math.isfinite(fastest.batch.settled(chooser.needed)):  # headroom costs nothing
        assert found.score == pytest.approx(least)


def test_what_does_not_carry_what_is_needed_is_not_taken_though_it_is_faster():
    # In the one task of the source "parse" takes 81 % of the time, and 49 % in a stage of its own,
    # whose two tasks cost twice as much as the source's.
    job = StageJob.of(
        ["in", "parse"], seconds=[0, 1e-5], hottest=[0, 0.6], feeders=[-1, 0], tasks=[1, 0]
    )
    costs = StageCosts(base=0.01, stage=0.0, task=2.0)

    def begins(needed):
        return Chooser(costs, 2, 81_000.0, needed, Worth()).best(job).stages.begins.tolist()

    assert begins(81_000.0) == [0, 0]
    assert begins(101_250.0) == [0, 1]


def test_of_two_that_are_as_fast_the_one_that_carries_more_is_taken():
    job = StageJob.of(["parse"], seconds=[1e-5])
    costs = StageCosts(0.5, 0.0, 0.01)

    def tasks(change):
        worth = Worth(headroom=3.0, change=change)
        return Chooser(costs, 8, 5_000.0, 20_000.0, worth).best(job).stages.tasks.tolist()

    assert tasks(0.0) == [5]
    assert tasks(0.1) == [8]


@given(stage_jobs(most=3), COSTS, CORES, RATES, st.data())
def test_what_is_in_force_stays_if_it_is_nearly_as_good(job, costs, cores, rate, data):
    change = data.draw(st.sampled_from([0.0, 0.05, 0.5]))
    chooser = chooser_of(job, costs, cores, rate, change=change, moving=0.0)
    begins, tasks = data.draw(st.sampled_from(list(all_stages(job, cores, more=1))))
    present = Stages(np.array(begins), np.array([tasks[begin] for begin in begins]))

    found = chooser.choose(job, job, present)

    now = chooser.as_it_is(job, present)
    stays = now.score <= chooser.best(job).score * (1 + change)
    assert (found.stages == present) or not stays
    assert found.period <= now.period


def test_state_moves_only_for_a_gain_that_is_worth_it():
    job = StageJob.of(["count"], seconds=[1e-5])
    kept = StageJob.of(["count"], seconds=[1e-5], tasks=1)
    present = Stages(np.array([0]), np.array([1]))

    def tasks(moving, rate):
        worth = Worth(moving=moving)
        return Chooser(FREE, 8, rate, rate, worth).choose(job, kept, present).stages.tasks[0]

    assert tasks(moving=0.3, rate=60_000.0) > 1
    assert tasks(moving=9.0, rate=60_000.0) == 1
    assert tasks(moving=9.0, rate=200_000.0) > 1  # one task does not carry it


@given(stage_jobs(most=3), COSTS, CORES, RATES, st.sampled_from([1.5, 4.0]))
def test_under_a_bound_the_cheapest_for_what_is_needed_is_taken(job, costs, cores, rate, times):
    needed = chooser_of(job, costs, cores, rate).needed
    bound = times * 2 * Chooser(costs, cores, needed, needed, Worth()).best(job).period
    worth = Worth(latency=bound)

    found = Chooser(costs, cores, rate, needed, worth).best(job)

    expected = cheapest(job, costs, rate=needed, cores=cores, latency=bound)
    assert found.score == pytest.approx(expected.cores)
    assert found.period + found.batch.seconds(needed * found.period) <= bound * (1 + 1e-9)


def test_what_does_not_keep_to_the_bound_is_worth_nothing():
    job = StageJob.of(["count"], seconds=[1e-5])
    chooser = Chooser(FREE, 8, 50_000.0, 50_000.0, Worth(latency=0.5))

    one, four = (
        chooser.as_it_is(job, Stages(np.array([0]), np.array([tasks]))) for tasks in (1, 4)
    )

    assert one.score == math.inf
    assert four.score < 2.0
    with pytest.raises(OverloadError, match=r"latency=0.1"):
        Chooser(FREE, 8, 50_000.0, 50_000.0, Worth(latency=0.1)).best(job)


def test_headroom_is_as_much_as_there_is():
    job = StageJob.of(["count"], seconds=[1e-5])

    assert needed_rate(job, FREE, 10_000.0, 1, 0.25) == pytest.approx(12_500.0)
    assert needed_rate(job, FREE, 90_000.0, 1, 0.25) == pytest.approx(95_000.0)
    assert needed_rate(job, FREE, 99_000.0, 1, 0.25) == 99_000.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"latency": 0}, "latency=0"), ({"headroom": -1}, "headroom=-1"), ({"change": -1}, "change")],
)
def test_settings_that_mean_nothing(settings, words):
    with pytest.raises(InvalidValueError, match=words):
        Worth(**settings)
