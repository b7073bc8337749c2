"""The time of a batch, taken apart: schedules made up, whose every second is known."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.driver.time_parts import BatchClock, StageClock, StageTasks, taken_apart

APART = {"reading": 0.25, "work": 0.5, "state": 0.125}  # shares of a task's time
FIXED = 0.03


class Scheduled(NamedTuple):
    """A stage as it was scheduled on cores, and what its longest chain is known to be."""

    clock: StageClock
    tasks: StageTasks
    chain: list[int]
    inside: float


def scheduled(lengths, cores, overhead, began, offsets):
    """Return a stage: each core takes the next task as soon as it is free.

    Args:
        lengths: how long each task works.
        cores: by machine, how many cores it has.
        overhead: how long a task takes before it begins to work, and as long after.
        began: when the stage begins, by the driver's clock.
        offsets: by machine, how far its clock is off.
    """
    first = began + FIXED
    free = [(first, machine, core) for machine, count in cores.items() for core in range(count)]
    chains = {(machine, core): [] for _, machine, core in free}
    machines, starts, ends = [], [], []
    for task, length in enumerate(lengths):
        free.sort()
        now, machine, core = free[0]
        machines.append(machine)
        starts.append(now + overhead + offsets[machine])
        ends.append(starts[-1] + length)
        chains[machine, core].append(task)
        free[0] = now + length + 2 * overhead, machine, core
    ended, machine, core = max(free)
    chain = chains[machine, core]
    inside = np.array(ends) - np.array(starts)
    tasks = StageTasks(
        ("a",),
        7,
        machines,
        np.array(starts),
        np.array(ends),
        *(inside * APART[name] for name in ("reading", "work", "state")),
    )
    return Scheduled(StageClock(began, first, ended), tasks, chain, float(inside[chain].sum()))


LENGTHS = st.lists(st.integers(1, 10_000), min_size=1, max_size=12, unique=True)


@given(
    st.lists(LENGTHS, min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.floats(0.001, 0.1),
    st.floats(-1e6, 1e6),
)
def test_all_seconds_of_any_schedule_are_found_on_the_chain_that_ended_last(
    each, here, there, overhead, offset
):
    cores = {"one": here, **({"two": there} if there else {})}
    now, stages = 10.5, []
    for lengths in each:
        seconds = [length / 1000 + place * 1e-6 for place, length in enumerate(lengths)]
        stage = scheduled(seconds, cores, overhead, now, {"one": 0.0, "two": offset})
        stages.append(stage)
        now = stage.clock.ended + 0.001
    clock = BatchClock(now + 0.2 - 10.0, 10.0, 10.4, [stage.clock for stage in stages], now + 0.2)

    found = taken_apart(3, 70, clock, [stage.tasks for stage in stages])

    assert (3, 70, pytest.approx(0.5)) == (found.batch, found.tuples, found.planning)
    assert 0.201 == pytest.approx(found.commit)
    assert abs(found.other) < 1e-6
    for stage, time in zip(stages, found.stages, strict=True):
        assert stage.chain == stage.tasks.longest_chain()
        assert len(stage.chain) == time.turns
        assert 2 * overhead * len(stage.chain) == pytest.approx(time.tasks, abs=1e-6)
        inside = time.reading + time.work + time.state + time.shuffle
        assert stage.inside == pytest.approx(inside, abs=1e-6)
        for name, share in APART.items():
            assert share * inside == pytest.approx(getattr(time, name), abs=1e-6)
        assert time.size == len(stage.tasks.machines)


def one_stage(**fields):
    stage = scheduled([0.4, 0.1, 0.2], {"one": 2}, 0.01, 1.0, {"one": 50.0})
    clock = BatchClock(2.0, 0.0, 0.9, [stage.clock], 2.0)
    return replace(clock, **fields), [stage.tasks]


def test_a_slow_task_and_two_short_ones_take_the_time_of_the_slow_one():
    found = taken_apart(0, 1, *one_stage())

    (stage,) = found.stages
    assert (3, 1) == (stage.size, stage.turns)
    assert pytest.approx((0.03, 0.02, 0.1, 0.2, 0.05, 0.05)) == (
        stage.fixed,
        stage.tasks,
        stage.reading,
        stage.work,
        stage.shuffle,
        stage.state,
    )
    assert pytest.approx(1.0) == found.planning
    assert pytest.approx(0.55) == found.commit


def test_tasks_that_take_turns_are_added_up():
    stage = scheduled([0.2] * 6, {"one": 2}, 0.01, 1.0, {"one": 0.0})

    assert [0, 2, 4] == stage.tasks.longest_chain() or [1, 3, 5] == stage.tasks.longest_chain()


def test_stages_of_spark_itself_before_ours_are_reading():
    clock, tasks = one_stage(submitted=0.4, reads_first=True)
    found = taken_apart(0, 1, clock, tasks)

    assert pytest.approx(0.4) == found.planning
    assert pytest.approx(0.1 + 0.6) == found.stages[0].reading
    assert abs(found.other) < 1e-6


@pytest.mark.parametrize(
    ("seconds", "known"), [(2.0, True), (2.09, True), (2.2, False), (1.8, False)]
)
def test_a_time_that_does_not_add_up_is_not_told(seconds, known):
    found = taken_apart(0, 1, *one_stage(seconds=seconds))

    assert known == (found is not None)
    if known:
        assert pytest.approx(seconds - 2.0) == found.other


def test_a_stage_that_ran_again_is_not_told():
    clock, tasks = one_stage()
    first, again = clock.stages[0], StageClock(1.9, 1.95, 3.9)
    # The second stage ran, lost its input, and the first one was run again: its clock is later.
    clock = replace(clock, seconds=5.0, done=5.0, stages=[again, first])

    assert taken_apart(0, 1, clock, [*tasks, *tasks]) is None
