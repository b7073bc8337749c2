"""The time of a batch, taken apart: by the engine's clock of stages, and by what tasks tell.

All seconds are on one line. The driver's clock cuts it: the batch is begun, its job is submitted,
each stage begins, launches its first task and ends, the batch is written down. Between the first
task and the end of a stage, tasks run one after the other on each core; those on the core that was
done last make up the *longest chain*. Of each of its tasks it is known what its seconds went to;
what of the stage's time no task accounts for is what tasks cost apart from what they do.

Clocks of different machines are never compared: of tasks only lengths of time are taken, and the
order of those that ran on one machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from optimizers.batch_time import BatchTime, StageTime
from optimizers.layout import Layout
from optimizers.runtime.task.reports import Reports
from sketches.arrays import Floats

_RESOLUTION = 2e-3  # seconds; engines tell milliseconds
_LOST = 0.05  # the share of a batch that may be unaccounted for


class StageClock(NamedTuple):
    """When a stage ran, in seconds of the driver's clock.

    Attributes:
        began: when it was submitted.
        first: when its first task was launched.
        ended: when its last task was done.
    """

    began: float
    first: float
    ended: float


@dataclass(frozen=True, slots=True)
class BatchClock:
    """When a batch ran, in seconds of the driver's clock.

    Attributes:
        seconds: how long it took, by a clock that is never set.
        begun: when it was begun.
        submitted: when its job was submitted.
        stages: when each of its stages ran.
        done: when it was written down.
        reads_first: whether the job has stages of its own before ours, for rows to be let in.
        trigger: seconds that the trigger of a stream took around that; None if it is not known.
    """

    seconds: float
    begun: float
    submitted: float
    stages: Sequence[StageClock]
    done: float
    reads_first: bool = False
    trigger: float | None = 0.0


@dataclass(frozen=True, slots=True)
class StageTasks:
    """What the tasks of a stage did; element ``i`` of the arrays is of task ``i``.

    Attributes:
        operators: the operators whose instances they are.
        number: by which the engine knows the stage; -1 if it does not.
        machines: on which machine each ran; those on one share a clock.
        began: when each began, in seconds of that clock.
        ended: when each had done all that it reports.
        reading: how long each waited for rows of a source.
        work: how long each was at the operators' own work.
        state: how long each was at state.
    """

    operators: tuple[str, ...]
    number: int
    machines: Sequence[str]
    began: Floats
    ended: Floats
    reading: Floats
    work: Floats
    state: Floats

    def longest_chain(self) -> list[int]:
        """Return the tasks that ran one after the other on the core that was done last."""
        chains: dict[str, list[list[int]]] = {}
        firsts: dict[str, float] = {}
        for task in np.argsort(self.began, kind="stable").tolist():
            machine = self.machines[task]
            firsts.setdefault(machine, float(self.began[task]))
            # The core that was free first takes the next task.
            before = [
                chain
                for chain in chains.setdefault(machine, [])
                if self.ended[chain[-1]] <= self.began[task]
            ]
            if before:
                min(before, key=lambda chain: float(self.ended[chain[-1]])).append(task)
            else:
                chains[machine].append([task])
        ends = {
            (float(self.ended[chain[-1]]) - firsts[machine], chain[0]): chain
            for machine, each in chains.items()
            for chain in each
        }
        return ends[max(ends)]


Timing: TypeAlias = Callable[[Sequence[int]], BatchClock | None]
"""Returns when a finished batch ran, given the engine's numbers of its stages."""


def time_of(
    batch: int, tuples: float, reports: Reports, layout: Layout, timing: Timing | None
) -> BatchTime | None:
    """Return where the time of a committed batch went; None if it is not known.

    Args:
        batch: its number.
        tuples: how many tuples came in with it.
        reports: the reports of its tasks, merged.
        layout: the job as it was laid out.
        timing: tells when it ran.
    """
    if timing is None:
        return None
    stages = stages_of(reports, layout)
    # A source without rows may have no partitions, and so no tasks that report.
    if not all(stage.machines for stage in stages):
        return None
    clock = timing([stage.number for stage in stages])
    return None if clock is None else taken_apart(batch, tuples, clock, stages)


def stages_of(reports: Reports, layout: Layout) -> list[StageTasks]:
    """Return what the tasks of each stage did, from their reports.

    Args:
        reports: the reports of a batch, merged.
        layout: the job as it was laid out.
    """
    # 1. An attached operator works in the tasks of the one that it is attached to, in the end.
    roots = {name: _root(layout, name) for name in layout.topology.order}
    names = reports.names
    places = {name: place for place, name in enumerate(names) if roots[name[0]] == name[0]}
    main = np.array([places[roots[name], sender] for name, sender in names], dtype=np.int64)
    # 2. Add up the work of all operators of a task.
    work, state = (
        np.bincount(main, reports.numbers(fact), len(names)).astype(np.float64)
        for fact in ("wall", "keeping")
    )
    stages = np.array([layout.stage_of[roots[name]] for name, _ in names], dtype=np.int64)
    machines, is_main = reports.texts("clock"), main == np.arange(len(names))
    found = []
    for stage in range(len(layout.stages)):
        tasks = np.flatnonzero(is_main & (stages == stage))
        began, ended, reading = (
            reports.numbers(fact)[tasks] for fact in ("began", "ended", "reading")
        )
        found.append(
            StageTasks(
                tuple(name for name in roots if layout.stage_of[roots[name]] == stage),
                int(reports.numbers("stage")[tasks].max(initial=-1)),
                [machines[task] for task in tasks.tolist()],
                began,
                ended,
                reading,
                work[tasks],
                state[tasks],
            )
        )
    return found


def _root(layout: Layout, name: str) -> str:
    while name in layout.attached:
        name = layout.topology.inputs(name)[0].source
    return name


def taken_apart(
    batch: int, tuples: float, clock: BatchClock, stages: Sequence[StageTasks]
) -> BatchTime | None:
    """Return where the time of a batch went; None where clocks and tasks do not agree on it.

    That is so where a stage was run again: then stages do not follow one another.

    Args:
        batch: its number.
        tuples: how many tuples came in with it.
        clock: when it ran.
        stages: what the tasks of each stage did.
    """
    # 1. Each stage goes from the end of the one before.
    ends = [clock.stages[0].began, *(stage.ended for stage in clock.stages)]
    times = [
        _stage_time(tasks, stage, before)
        for tasks, stage, before in zip(stages, clock.stages, ends, strict=False)
    ]
    # 2. Between the begin of the job and of its first stage, Spark prepares our rows.
    planned = clock.submitted if clock.reads_first else clock.stages[0].began
    reads = max(0.0, clock.stages[0].began - planned)
    times[0] = replace(times[0], reading=times[0].reading + reads)
    found = BatchTime(
        batch,
        tuples,
        clock.seconds + (clock.trigger or 0.0),
        max(0.0, planned - clock.begun),
        tuple(times),
        max(0.0, clock.done - ends[-1]),
        clock.trigger,
    )
    # 3. Leave out times that do not add up.
    lost = abs(found.other)
    return found if lost <= max(_LOST * clock.seconds, _RESOLUTION) else None


def _stage_time(tasks: StageTasks, clock: StageClock, before: float) -> StageTime:
    chain = tasks.longest_chain()
    reading, work, state = (
        float(column[chain].sum()) for column in (tasks.reading, tasks.work, tasks.state)
    )
    inside = float((tasks.ended[chain] - tasks.began[chain]).sum())
    return StageTime(
        tasks.operators,
        size=len(tasks.machines),
        turns=len(chain),
        fixed=max(0.0, clock.first - before),
        tasks=max(0.0, clock.ended - clock.first - inside),
        reading=reading,
        work=work,
        shuffle=max(0.0, inside - reading - work - state),
        state=state,
    )
