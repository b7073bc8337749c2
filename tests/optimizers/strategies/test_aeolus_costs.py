"""What Aeolus takes for the costs of a micro-batch: measured, given, or of another engine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batching.calibration import fit
from batching.stages import StageCosts, StageJob, Stages, batch_cost
from optimizers import Cluster, Plan, Topology
from optimizers.batch_time import BatchTime, StageTime
from optimizers.calibration import Calibration
from optimizers.execution import Execution
from optimizers.statistics import OperatorStatistics, Statistics
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.parts.aeolus_stages import measured_costs

POSITIVE = st.floats(1e-3, 1.0)
JOB = Topology.source("s").then("count", key="k")
SEEN = Statistics(
    seconds=10.0,
    operators={"s": OperatorStatistics(1_000), "count": OperatorStatistics(1_000, seconds=1.0)},
    execution=Execution(micro_batches=True, slots=2),
)


def calibrated(cores):
    counted = [[1.0, tasks] for tasks in (1, 2, 4, 8)]
    found = fit(["base", "task"], counted, [0.1 + 0.05 * tasks for _, tasks in counted])
    return Calibration("spark", "a machine", cores, found, 0.1, 4)


def notes_of(strategy, seen=SEEN):
    plan = strategy.plan(JOB, Cluster.uniform(2), seen, Plan())
    return " ".join(note.text for note in plan.notes)


CONSTANTS = st.builds(
    StageCosts, POSITIVE, POSITIVE, POSITIVE, st.floats(1e-9, 1e-6), st.floats(0.5, 2.0)
)


@given(CONSTANTS, st.integers(1, 4))
def test_constants_of_a_batch_are_found_in_its_parts(true, tasks):
    """Bytes that cross hosts among them: stages that are shared then are known to save these."""
    job = StageJob.of(["s", "a"], seconds=[0.0, 1e-4], crossing=[0.0, 80.0])
    stages, rows, cores = Stages(np.arange(2), np.array([1, tasks])), 5_000, 4
    parts = [
        StageTime(("s",), 1, 1, fixed=true.stage, tasks=true.task / cores),
        StageTime(
            ("a",),
            tasks,
            1,
            fixed=true.stage,
            tasks=true.task * tasks / cores,
            shuffle=true.byte * 80.0 * rows,
            work=true.work * 1e-4 * rows / tasks,
        ),
    ]
    seconds = true.base + sum(part.seconds for part in parts)
    time = BatchTime(0, rows, seconds, true.base, tuple(parts), 0.0)

    found = measured_costs([time], job, stages, cores)

    assert found.assumed == ()
    for name in ("base", "stage", "task", "byte", "work"):
        assert getattr(found.costs, name) == pytest.approx(getattr(true, name))
    assert batch_cost(job, found.costs, stages, cores).seconds(rows) == pytest.approx(seconds)


def test_what_shuffles_take_on_one_host_is_part_of_the_work():
    job = StageJob.of(["s", "a"], seconds=[0.0, 1e-4])
    part = StageTime(("a",), 1, 1, shuffle=0.2, work=0.1)
    time = BatchTime(0, 1_000, 0.3, 0.0, (part,), 0.0)

    found = measured_costs([time], job, Stages(np.arange(2), np.ones(2, np.int64)), 1)

    assert (0.0, 3.0) == (found.costs.byte, pytest.approx(found.costs.work))


def test_a_calibration_for_another_number_of_tasks_is_noted():
    assert "were measured with 8 tasks at a time, and here are 2" in notes_of(
        Aeolus(costs=calibrated(8))
    )
    assert "tasks at a time, and here" not in notes_of(Aeolus(costs=calibrated(2)))


def test_costs_of_micro_batches_are_noted_where_there_are_none():
    tuples = replace(SEEN, execution=Execution(micro_batches=False))

    assert "costs= are of micro-batches" in notes_of(Aeolus(costs={"base": 0.1}), tuples)
    assert "costs= are of micro-batches" not in notes_of(Aeolus(), tuples)
