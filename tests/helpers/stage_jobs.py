"""Small jobs for Spark, and what a batch of them takes, added up stage by stage."""

import itertools
from functools import cache

from hypothesis import strategies as st

from batching.stages import ALONE, StageCosts, StageJob

COSTS = st.builds(
    StageCosts,
    base=st.sampled_from([0.01, 0.1]),
    stage=st.sampled_from([0.0, 0.02, 0.05]),
    task=st.sampled_from([0.0, 0.01, 0.06]),
    byte=st.sampled_from([0.0, 1e-7]),
    work=st.sampled_from([0.5, 1.0, 2.0]),
)


@st.composite
def stage_jobs(draw, *, most=4, plain=False):
    """Jobs of some operators; a plain one has neither a hot key nor given tasks."""
    count = draw(st.integers(1, most))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    feeders = [draw(st.integers(ALONE, place - 1)) for place in range(count)]
    tasks = column(st.sampled_from([0, 0, 0, 2, 3]))
    hottest = column(st.sampled_from([0.0, 0.0, 0.4, 0.9]))
    return StageJob.of(
        [f"operator {place}" for place in range(count)],
        seconds=column(st.integers(0, 30).map(lambda micros: micros * 1e-6)),
        visits=column(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        hottest=0.0 if plain else hottest,
        crossing=column(st.sampled_from([0.0, 20.0, 100.0])),
        feeders=feeders,
        tasks=0 if plain else tasks,
    )


@st.composite
def hot_chains(draw):
    """Three operators that may be one stage, below a hot key: it may pay to cut them."""
    numbers = st.integers(0, 30)
    return StageJob.of(
        ["count", "score", "write"],
        seconds=[draw(numbers) * 1e-6 for _ in range(3)],
        hottest=[draw(st.sampled_from([0.3, 0.6, 0.9])), 0, 0],
        crossing=[0, draw(numbers) * 5, draw(numbers) * 5],
        feeders=[ALONE, 0, draw(st.sampled_from([0, 1]))],
    )


@st.composite
def pairs_of_stages(draw):
    """Two stages with work that differs, for which the numbers of tasks matter."""
    numbers = st.integers(0, 40)
    return StageJob.of(
        ["parse", "count"],
        seconds=[draw(numbers) * 1e-6, draw(numbers) * 1e-5],
        hottest=[0, draw(st.sampled_from([0.0, 0.2]))],
    )


def all_begins(job):
    """All ways to cut a job into stages."""
    feeders = job.feeders.tolist()
    for cut in itertools.product([False, True], repeat=len(feeders)):
        begins = []
        for place, (feeder, apart) in enumerate(zip(feeders, cut, strict=True)):
            begins.append(place if apart or feeder == ALONE else begins[feeder])
        if all(apart or feeder != ALONE for apart, feeder in zip(cut, feeders, strict=True)):
            yield begins


def all_stages(job, cores, *, more=0):
    """All stages, each with all numbers of tasks that it may have."""
    for begins in all_begins(job):
        first = sorted(set(begins))
        choices = []
        for begin in first:
            given = {int(job.tasks[p]) for p, at in enumerate(begins) if at == begin} - {0}
            choices.append(given or range(1, cores + more + 1))
            if len(given) > 1:
                choices[-1] = []
        for chosen in itertools.product(*choices):
            yield begins, dict(zip(first, chosen, strict=True))


@cache
def _last_core(count, cores):
    """The share of the core that is done last, each task begun on the core that is free first."""
    taken = [0] * cores
    for _ in range(count):
        taken[taken.index(min(taken))] += 1
    return max(taken) / count


def taken(job, costs, cut, cores, rows):
    """What a batch takes, and its core-seconds."""
    begins, tasks = cut
    seconds, used = costs.base, costs.base
    for begin, count in tasks.items():
        seconds += costs.stage + costs.task * count / cores
        used += costs.stage + costs.task * count
        seconds += costs.byte * rows * job.crossing[begin]
        share = max(job.hottest[begin], _last_core(count, cores))
        for place, at in enumerate(begins):
            if at == begin:
                work = costs.work * rows * job.visits[place] * job.seconds[place]
                seconds += work * share
                used += work
    return seconds, used
