import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batching.calibration import fit, nonnegative_least_squares
from batching.errors import FitError, OutsideRangeError
from batching.stages import FEATURES, StageCosts, StageJob, Stages, batch_cost, features
from sketches.errors import InvalidValueError

NUMBERS = st.integers(-5, 5).map(float)


@given(st.integers(1, 4), st.integers(1, 7), st.data())
def test_it_is_the_best_of_all_that_are_not_negative(columns, rows, data):
    # What is best is known by its gradient (Karush, Kuhn, Tucker): the problem is convex.
    table = np.array(
        data.draw(
            st.lists(
                st.lists(NUMBERS, min_size=columns, max_size=columns), min_size=rows, max_size=rows
            )
        )
    )
    target = np.array(data.draw(st.lists(NUMBERS, min_size=rows, max_size=rows)))

    found = nonnegative_least_squares(table, target)

    gradient = table.T @ (table @ found - target)
    assert (found >= 0).all()
    assert (gradient >= -1e-6).all()
    assert gradient[found > 1e-9] == pytest.approx(0, abs=1e-6)


def measured(costs, *, noise=0.0, seed=1):
    """Batches of one job with several stages, tasks and sizes, and what each took."""
    job = StageJob.of(
        ["source", "score", "count"],
        seconds=[1e-6, 2e-6, 4e-6],
        hottest=[0, 0, 0.3],
        crossing=[0, 100, 50],
        feeders=[-1, 0, -1],
    )
    drawn = np.random.default_rng(seed)
    counted, seconds = [], []
    for begins in ([0, 0, 2], [0, 1, 2]):
        for tasks in (1, 2, 4, 8):
            for rows in (100.0, 10_000.0, 100_000.0):
                stages = Stages(np.array(begins), np.full(3, tasks))
                counted.append(features(job, stages, 4, rows))
                time = batch_cost(job, costs, stages, 4).seconds(rows)
                seconds.append(time * drawn.uniform(1 - noise, 1 + noise))
    return np.array(counted), np.array(seconds)


@given(
    st.builds(
        StageCosts,
        base=st.sampled_from([0.0, 0.1]),
        stage=st.sampled_from([0.0, 0.05]),
        task=st.sampled_from([0.01, 0.06]),
        byte=st.sampled_from([0.0, 1e-8]),
        work=st.sampled_from([0.5, 1.0, 1.6]),
    )
)
def test_constants_that_made_the_batches_are_found(costs):
    counted, seconds = measured(costs)

    found = fit(FEATURES, counted, seconds)

    expected = [getattr(costs, name) for name in FEATURES]
    assert found.constants.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-10)
    assert found.worst < 1e-6
    assert found.predict(counted) == pytest.approx(seconds)
    fitted = found.stage_costs()
    assert fitted.task == pytest.approx(costs.task)


@given(st.integers(0, 20))
def test_the_error_of_what_was_left_out_is_that_of_the_noise(seed):
    counted, seconds = measured(StageCosts(0.1, 0.05, 0.06, 1e-8, 1.0), noise=0.1, seed=seed)

    found = fit(FEATURES, counted, seconds)

    # Noise of up to 10 % is 5 % on average, and what it does to the constants comes to it.
    assert 0.03 < found.error < 0.1
    assert found.worst < 0.3
    fresh, truth = measured(StageCosts(0.1, 0.05, 0.06, 1e-8, 1.0))
    assert np.abs(found.predict(fresh) / truth - 1).mean() < 0.06


def test_settings_are_left_out_together():
    # Each setting was measured often: its batches would vouch for each other.
    counted = [[1, tasks] for tasks in (1, 2, 4) for _ in range(5)]
    seconds = [taken for taken in (1.0, 3.0, 4.0) for _ in range(5)]

    together = fit(["base", "task"], counted, seconds).error
    alone = fit(["base", "task"], counted, seconds, groups=range(15)).error

    assert together > 1.3 * alone


def test_what_was_not_measured_is_refused():
    found = fit(["base", "rows"], [[1, 10], [1, 20], [1, 40]], [1.1, 1.2, 1.4])

    assert found.predict([[1, 30]]).tolist() == pytest.approx([1.3])
    with pytest.raises(
        OutsideRangeError, match=r"counted\[1\]: 'rows' counts 50, but was measured"
    ):
        found.predict([[1, 30], [1, 50]])
    with pytest.raises(OutsideRangeError, match="from 10 to 40 only"):
        found.predict([[1, 5]])
    assert found.predict([[1, 50]], beyond=0.25).tolist() == pytest.approx([1.5])
    with pytest.raises(FitError, match="'rows' is no constant of a batch"):
        found.stage_costs()


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ([[1, 2, 0], [1, 4, 0], [1, 6, 0], [1, 7, 0]], "byte count 0 in all batches"),
        ([[1, 2, 4], [1, 3, 6], [1, 4, 8], [1, 7, 14]], "do not tell task, byte apart"),
        ([[1, 2, 4], [1, 3, 6]], "2 batches do not tell base, task, byte apart|tell task, byte"),
        ([[1, 2, 4], [1, 3, 7], [2, 4, 5]], "3 settings for 3 constants"),
    ],
)
def test_batches_that_do_not_tell_constants_apart_are_refused(counted, message):
    with pytest.raises(FitError, match=message):
        fit(["base", "task", "byte"], counted, [1.0] * len(counted))


@pytest.mark.parametrize(
    ("counted", "seconds", "message"),
    [
        ([[1, 2]], [1, 2], "seconds of shape"),
        ([[1, 2], [1, 3]], [1, 0], r"seconds\[1\]=0.0: a batch takes time"),
        ([[1, -2], [1, 3]], [1, 1], r"counted\[0\]\[1\]=-2.0"),
        ([[1], [1]], [1, 1], "give a row of 2 numbers"),
    ],
)
def test_measurements_that_are_none_are_refused(counted, seconds, message):
    with pytest.raises(InvalidValueError, match=message):
        fit(["base", "task"], counted, seconds)


def test_too_many_constants_are_refused():
    with pytest.raises(FitError, match="11 constants"):
        fit([str(place) for place in range(11)], [[1] * 11], [1])
