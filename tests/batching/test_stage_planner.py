import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from stage_jobs import COSTS, all_stages, pairs_of_stages, stage_jobs, taken

from batching.errors import OverloadError
from batching.stage_cuts import fused
from batching.stage_planner import MOST_CORES, cheapest, cores_for, fastest, highest_rate
from batching.stages import StageCosts, StageJob, batch_cost
from sketches.errors import InvalidValueError

RATES = st.sampled_from([0.0, 10.0, 1000.0, 20_000.0, 100_000.0])
CORES = st.integers(1, 3)


def line(job, costs, stages, cores):
    """A batch's time without rows, what a row adds, and both in core-seconds."""
    fixed, used = taken(job, costs, stages, cores, 0.0)
    seconds, more = taken(job, costs, stages, cores, 1000.0)
    return fixed, (seconds - fixed) / 1000, used, (more - used) / 1000


@given(stage_jobs(most=3), COSTS, CORES, RATES)
def test_no_plan_settles_earlier_than_the_fastest(job, costs, cores, rate):
    lines = [line(job, costs, stages, cores) for stages in all_stages(job, cores, more=1)]
    assume(all(abs(rate * each - 1) > 1e-6 for _, each, _, _ in lines))  # but for rounding
    settled = [fixed / (1 - rate * each) for fixed, each, _, _ in lines if rate * each < 1]
    if not settled:
        with pytest.raises(OverloadError, match="rows a second at most"):
            fastest(job, costs, rate=rate, cores=cores)
        return

    plan = fastest(job, costs, rate=rate, cores=cores)

    assert plan.period == pytest.approx(min(settled))
    assert plan.rows == rate * plan.period
    time = batch_cost(job, costs, plan.stages, cores)
    assert time.seconds(plan.rows) == pytest.approx(plan.period)  # b = R * T
    assert plan.seconds == pytest.approx(plan.period)
    assert plan.latency == pytest.approx(2 * plan.mean_latency / 1.5)
    assert rate < highest_rate(job, costs, cores=cores) * (1 + 1e-9)


def cheapest_of(lines, rate, bound):
    """The fewest cores of these plans that keep to a bound, each with its longest period."""
    best = None
    for fixed, each, used, used_each in lines:
        period = (bound - fixed) / (1 + rate * each)
        if period > 0 and fixed + rate * period * each <= period * (1 + 1e-12):
            cores = used / period + rate * used_each
            best = cores if best is None else min(best, cores)
    return best


@given(stage_jobs(most=3), COSTS, CORES, RATES, st.sampled_from([1.01, 1.5, 3.0, 10.0]))
def test_no_plan_of_the_same_stages_is_cheaper(job, costs, cores, rate, times):
    try:
        quickest = fastest(job, costs, rate=rate, cores=cores)
    except OverloadError:
        assume(False)  # noqa: FBT003
    bound = quickest.latency * times

    plan = cheapest(job, costs, rate=rate, cores=cores, latency=bound)

    assert plan.latency <= bound * (1 + 1e-9)
    assert plan.seconds <= plan.period
    tried = {tuple(fused(job).tolist()), tuple(quickest.stages.begins.tolist())}
    lines = [
        line(job, costs, stages, cores)
        for stages in all_stages(job, cores, more=1)
        if tuple(stages[0]) in tried
    ]
    assert plan.cores == pytest.approx(min(cheapest_of(lines, rate, bound), quickest.cores))


@given(stage_jobs(most=3, plain=True), COSTS, CORES, RATES, st.sampled_from([1.01, 1.5, 4.0]))
def test_without_a_hot_key_no_plan_at_all_is_cheaper(job, costs, cores, rate, times):
    try:
        bound = fastest(job, costs, rate=rate, cores=cores).latency * times
    except OverloadError:
        assume(False)  # noqa: FBT003

    plan = cheapest(job, costs, rate=rate, cores=cores, latency=bound)

    lines = [line(job, costs, stages, cores) for stages in all_stages(job, cores, more=1)]
    assert plan.cores == pytest.approx(cheapest_of(lines, rate, bound))


@given(stage_jobs(most=3), COSTS, RATES, st.sampled_from([None, 0.3, 1.0, 5.0]))
def test_one_core_less_is_too_few(job, costs, rate, latency):
    def enough(cores):
        try:
            plan = fastest(job, costs, rate=rate, cores=cores)
        except OverloadError:
            return False
        return latency is None or plan.latency <= latency

    try:
        cores = cores_for(job, costs, rate=rate, latency=latency)
    except OverloadError:
        assert not any(enough(cores) for cores in (1, 2, 3, 50, MOST_CORES))
        return

    assert enough(cores)
    assert cores == 1 or not enough(cores - 1)
    assert all(not enough(fewer) for fewer in range(1, min(cores, 4)))


PRICES = st.builds(
    StageCosts,
    base=st.sampled_from([0.01, 0.1, 0.5]),
    stage=st.just(0.02),
    task=st.sampled_from([0.01, 0.06, 0.2]),
)


@given(pairs_of_stages(), PRICES, st.sampled_from([100.0, 2000.0, 5000.0, 15_000.0]))
@example(  # the cheapest has batches that follow each other at once, but for rounding
    StageJob.of(["parse", "count"], seconds=[8e-6, 3.2e-4]), StageCosts(0.01, 0.02, 0.2), 5000.0
)
def test_of_all_numbers_of_tasks_the_best_is_found(job, costs, rate):
    lines = [line(job, costs, stages, 8) for stages in all_stages(job, 8)]
    assume(all(abs(rate * each - 1) > 1e-6 for _, each, _, _ in lines))  # but for rounding
    settled = [fixed / (1 - rate * each) for fixed, each, _, _ in lines if rate * each < 1]
    assume(settled)

    plan = fastest(job, costs, rate=rate, cores=8)

    assert plan.period == pytest.approx(min(settled))
    for times in (1.05, 1.3, 2.5):
        bound = plan.latency * times
        found = cheapest(job, costs, rate=rate, cores=8, latency=bound)
        assert found.cores == pytest.approx(cheapest_of(lines, rate, bound))


def test_a_low_rate_under_a_bound_takes_a_fraction_of_the_cores():
    # Two stages of the measured kind: one task each and a batch every two seconds, in place of
    # batches without a pause.
    job = StageJob.of(["parse", "count"], seconds=[4e-6, 4e-6])
    costs = StageCosts(0.08, 0.05, 0.06)

    quick = fastest(job, costs, rate=5000, cores=8)
    cheap = cheapest(job, costs, rate=5000, cores=8, latency=2.0)

    assert cheap.latency == pytest.approx(2.0)
    assert cheap.cores < quick.cores / 2
    assert cheap.stages.tasks.tolist() == [1, 1]


def test_stateless_operators_in_one_stage_are_some_times_faster():
    chain = StageJob.of(
        ["source", *"abcdefgh", "count"],
        seconds=1e-8,
        feeders=[-1, 0, 1, 2, 3, 4, 5, 6, 7, -1],
    )
    apart = StageJob.of(chain.names, seconds=1e-8)
    costs = StageCosts(0.1, 0.06, 0.06)

    plan, before = (fastest(job, costs, rate=1000, cores=2) for job in (chain, apart))

    assert (len(plan.stages.first), len(before.stages.first)) == (2, 10)
    assert before.seconds > 3 * plan.seconds


@pytest.mark.parametrize(
    ("hottest", "rate", "message"),
    [
        (0.0, 5e5, r"2 cores carry 2e\+05 rows a second at most, and not 500000; allow more cores"),
        (0.5, 5e5, r"more cores do not help: 50.0% of the rows of 'count' are in one task"),
    ],
)
def test_a_rate_that_is_not_carried_names_what_limits_it(hottest, rate, message):
    job = StageJob.of(["count"], seconds=[1e-5], hottest=hottest)

    with pytest.raises(OverloadError, match=message):
        fastest(job, StageCosts(0.1, 0.1, 0.1), rate=rate, cores=2)


def test_a_rate_that_takes_all_of_the_time_is_not_carried():
    job = StageJob.of(["count"], seconds=[0.1], visits=[0.1])  # 0.1 * 0.1 is above 0.01

    for rate in (100.0, np.nextafter(100.0, 0), 100 * (1 - 1e-12)):
        with pytest.raises(OverloadError, match="1 cores carry 100 rows a second at most"):
            fastest(job, StageCosts(0.1, 0, 0), rate=rate, cores=1)


def test_a_bound_that_is_not_kept_is_refused():
    job = StageJob.of(["count"], seconds=[1e-5])
    costs = StageCosts(0.1, 0.1, 0.1)

    with pytest.raises(OverloadError, match=r"latency=0.2: the fastest plan of 2 cores needs 0.5"):
        cheapest(job, costs, rate=0, cores=2, latency=0.2)
    with pytest.raises(OverloadError, match=r"latency=0.2: with 4096 cores a row still waits"):
        cores_for(job, costs, rate=0, latency=0.2)
    with pytest.raises(InvalidValueError, match="cores=0"):
        fastest(job, costs, rate=0, cores=0)
    with pytest.raises(InvalidValueError, match="rate=nan"):
        fastest(job, costs, rate=np.nan, cores=1)
