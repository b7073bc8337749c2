import math

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import given
from hypothesis import strategies as st
from stage_jobs import COSTS, all_stages, hot_chains, stage_jobs, taken

from batching.dataflow import Dataflow
from batching.errors import DataflowError
from batching.stage_cuts import fastest_stages, fused
from batching.stages import ALONE, FEATURES, StageCosts, StageJob, Stages, batch_cost, features
from sketches.errors import InvalidValueError

ROWS = st.sampled_from([0.0, 1.0, 100.0, 5000.0, 1e6])
CORES = st.integers(1, 4)
FREE = StageCosts(0, 0, 0)


@given(stage_jobs(most=3), COSTS, CORES, ROWS)
def test_the_time_of_a_batch_is_that_of_its_stages_added_up(job, costs, cores, rows):
    constants = np.array([getattr(costs, name) for name in FEATURES])
    for begins, tasks in all_stages(job, cores, more=1):
        stages = Stages(np.array(begins), np.array([tasks[begin] for begin in begins]))

        time = batch_cost(job, costs, stages, cores)

        expected, used = taken(job, costs, (begins, tasks), cores, rows)
        assert time.seconds(rows) == pytest.approx(expected)
        assert time.cores + rows * time.cores_each == pytest.approx(used)
        assert features(job, stages, cores, rows) @ constants == pytest.approx(expected)


@given(stage_jobs(most=3), COSTS, CORES, ROWS)
def test_no_stages_and_no_tasks_take_less(job, costs, cores, rows):
    stages = fastest_stages(job, costs, cores, rows)

    best = min(taken(job, costs, each, cores, rows)[0] for each in all_stages(job, cores, more=1))
    assert batch_cost(job, costs, stages, cores).seconds(rows) == pytest.approx(best)
    given = job.tasks > 0
    assert (stages.tasks[given] == job.tasks[given]).all()


@given(stage_jobs(most=2), COSTS, CORES, ROWS)
def test_not_even_with_several_turns_of_tasks_a_core(job, costs, cores, rows):
    stages = fastest_stages(job, costs, cores, rows)

    tried = all_stages(job, cores, more=2 * cores + 1)
    best = min(taken(job, costs, each, cores, rows)[0] for each in tried)
    assert batch_cost(job, costs, stages, cores).seconds(rows) == pytest.approx(best)


def test_three_tasks_on_two_cores_take_two_turns_as_four_do():
    def seconds(tasks):
        job = StageJob.of(["parse"], seconds=[1e-4], tasks=tasks)
        return batch_cost(job, FREE, fastest_stages(job, FREE, 2, 1.0), 2).each

    assert [seconds(tasks) for tasks in (1, 2, 3, 4, 5, 6)] == pytest.approx(
        [1e-4, 1e-4 / 2, 2e-4 / 3, 1e-4 / 2, 3e-4 / 5, 1e-4 / 2]
    )


@given(hot_chains(), COSTS, CORES, st.sampled_from([1e3, 1e4, 1e5, 1e6]))
def test_below_a_hot_key_no_cut_takes_less(job, costs, cores, rows):
    stages = fastest_stages(job, costs, cores, rows)

    best = min(taken(job, costs, each, cores, rows)[0] for each in all_stages(job, cores))
    assert batch_cost(job, costs, stages, cores).seconds(rows) == pytest.approx(best)


def test_what_a_cut_sends_across_hosts_counts():
    job = StageJob.of(
        ["count", "score"], seconds=[0, 9e-6], hottest=[0.9, 0], crossing=[0, 80], feeders=[-1, 0]
    )
    costs = StageCosts(0.1, 0.05, 0.01, byte=1e-7)

    # 0.9 - 1 / 8 of 9 us are 7 us; 80 bytes are 8 us, and 40 would be 4.
    assert fastest_stages(job, costs, 8, 1e6).begins.tolist() == [0, 0]
    less = StageJob.of(
        job.names, seconds=[0, 9e-6], hottest=[0.9, 0], crossing=[0, 40], feeders=[-1, 0]
    )
    assert fastest_stages(less, costs, 8, 1e6).begins.tolist() == [0, 1]


def test_the_tasks_of_a_stage_are_for_what_is_left_in_it():
    # "score" is better off alone. Fused, it would have asked for more tasks in its stage.
    job = StageJob.of(["count", "score"], seconds=[1e-8, 1e-5], hottest=[0.3, 0], feeders=[-1, 0])

    stages = fastest_stages(job, StageCosts(0.1, 0.01, 0.06), 8, 1e6)

    assert stages.begins.tolist() == [0, 1]
    assert stages.tasks.tolist() == [1, 8]


@given(stage_jobs(plain=True), COSTS, CORES, ROWS)
def test_without_a_hot_key_nothing_is_faster_than_what_is_fused(job, costs, cores, rows):
    begins = fused(job)
    stages = fastest_stages(job, costs, cores, rows)

    tried = [each for each in all_stages(job, cores) if each[0] == begins.tolist()]
    best = min(taken(job, costs, each, cores, rows)[0] for each in tried)
    assert batch_cost(job, costs, stages, cores).seconds(rows) == pytest.approx(best)


def test_work_after_a_hot_key_is_better_off_in_a_stage_of_its_own():
    job = StageJob.of(["count", "score"], seconds=[1e-6, 9e-6], hottest=[0.9, 0], feeders=[-1, 0])
    costs = StageCosts(0.1, 0.05, 0.01)

    assert fastest_stages(job, costs, 8, 1000).begins.tolist() == [0, 0]
    assert fastest_stages(job, costs, 8, 100_000).begins.tolist() == [0, 1]


@given(st.floats(1e-4, 10), st.floats(1e-3, 1), st.integers(1, 64))
def test_of_one_stage_the_tasks_are_next_to_the_square_root(work, task, cores):
    job = StageJob.of(["only"], seconds=[work])

    tasks = fastest_stages(job, StageCosts(0, 0, task), cores, 1.0).tasks[0]

    root = min(cores, math.sqrt(work * cores / task))
    assert tasks in {max(1, math.floor(root)), max(1, math.ceil(root))}


def test_small_batches_take_a_task_or_two():
    # Measured on two cores: T = .079 + .059 * tasks / C + 1.63e-6 * rows / tasks.
    job = StageJob.of(["work"], seconds=[1.63e-6])
    costs = StageCosts(0.079, 0, 0.059)

    found = [fastest_stages(job, costs, 2, rows).tasks[0] for rows in (1e5, 2e4, 1e3)]

    assert found == [2, 1, 1]


@given(dataflows())
def test_a_dataflow_becomes_a_job_that_does_the_same_work(described):
    flow = described.flow()
    total = flow.rates.sum()
    if not total:
        with pytest.raises(DataflowError, match=r"add up to 0\.0"):
            StageJob.of_dataflow(flow)
        return

    job = StageJob.of_dataflow(flow, hosts=4)

    place = {name: at for at, name in enumerate(job.names)}
    rates = flow.arrivals(flow.rates)
    begin = np.arange(len(job.names))
    for operator, name in enumerate(flow.names):
        at = place[name]
        edges = [e for e, (_, consumer) in enumerate(described.edges) if consumer == operator]
        assert job.work[at] == pytest.approx(flow.seconds[operator] * rates[operator] / total)
        crossed = sum(
            rates[described.edges[e][0]] * flow.selectivity[e] * flow.sizes[e] for e in edges
        )
        assert job.crossing[at] == pytest.approx(crossed / total * 3 / 4)
        free = len(edges) == 1 and not flow.keyed[edges[0]]
        feeder = job.feeders[at]
        assert (feeder != ALONE) == free
        if free:
            assert job.names[feeder] == flow.names[described.edges[edges[0]][0]]
        assert job.tasks[at] == (0 if edges else flow.given[operator])
        hot = not edges or any(flow.keyed[edge] for edge in edges)
        assert job.hottest[at] == (flow.hottest[operator] if hot else 0)
    assert (fused(job) <= begin).all()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"names": []}, DataflowError, "without an operator"),
        ({"feeders": [0, -1]}, DataflowError, r"feeders\[0\]=0: what feeds 'a' has to come before"),
        ({"feeders": [-2, 0]}, InvalidValueError, r"feeders\[0\]=-2"),
        ({"hottest": [0, 2]}, InvalidValueError, r"hottest\[1\]=2"),
        ({"seconds": [1, -1]}, InvalidValueError, r"seconds\[1\]=-1"),
    ],
)
def test_what_is_no_job_is_refused(changed, error, message):
    with pytest.raises(error, match=message):
        StageJob.of(**{"names": ["a", "b"], "seconds": 1, **changed})


def test_constants_are_checked():
    with pytest.raises(InvalidValueError, match="task=-1"):
        StageCosts(0, 0, -1)
    with pytest.raises(DataflowError, match="add up to inf"):
        StageJob.of_dataflow(Dataflow.of(["a"], [], seconds=0, rates=np.inf))
