"""Aeolus in micro-batches: stages, tasks and admission by what a batch was seen to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any

import numpy as np

from batching.dataflow import Dataflow
from batching.errors import OutsideRangeError
from batching.stages import ALONE, FEATURES, BatchCost, StageCosts, StageJob, Stages, features
from grouping.groupings import Grouping, LocalOrShuffle, Shuffle
from optimizers.batch_time import BatchTime
from optimizers.calibration import ROW, Calibration
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.errors import UnknownNameError
from optimizers.layout import Layout
from optimizers.operators import Edge, EdgeName
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.checks import amount
from sketches.values import FrozenMap, named

ASSUMED = StageCosts(base=0.08, stage=0.02, task=0.06)
"""What a batch takes on a local Spark beside its work, where none was measured."""

_WORK = 4  # the place of the work among `batching.stages.FEATURES`


def stage_job(flow: Dataflow, topology: Topology, hosts: int, source_tasks: int | None) -> StageJob:
    """Return a job as Spark runs it.

    Operators that need no exchange are those without a key that are fed by one other, which deals
    its tuples out in turn.

    Args:
        flow: the dataflow.
        topology: the job.
        hosts: on how many machines it runs.
        source_tasks: how many tasks the only source was seen to have; None for as many as declared.
    """
    if source_tasks is not None and len(topology.sources) == 1:
        given = np.where(flow.sources, source_tasks, flow.given)
        flow = replace(flow, given=given)
    job = StageJob.of_dataflow(flow, hosts=hosts)
    feeders = job.feeders.copy()
    for place, name in enumerate(job.names):
        edges = topology.inputs(name)
        if not all(_is_free(topology, edge) for edge in edges):
            feeders[place] = ALONE
    return replace(job, feeders=feeders)


def _is_free(topology: Topology, edge: Edge) -> bool:
    return isinstance(topology.grouping(*edge.name), Shuffle | LocalOrShuffle)


def present_stages(job: StageJob, layout: Layout, source_tasks: int | None) -> Stages:
    """Return how a job is cut into stages as it is laid out."""
    topology = layout.topology
    places = {name: place for place, name in enumerate(job.names)}
    begins, tasks = np.arange(len(job.names)), np.ones(len(job.names), np.int64)
    for place, name in enumerate(job.names):
        if name in layout.attached:
            begins[place] = begins[places[topology.inputs(name)[0].source]]
            tasks[place] = tasks[begins[place]]
        else:
            tasks[place] = topology.operator(name).parallelism
            if name in topology.sources and source_tasks is not None:
                tasks[place] = source_tasks
    return Stages(begins, tasks)


def source_tasks_of(times: Sequence[BatchTime], topology: Topology) -> int | None:
    """Return how many tasks let rows in, where there is one source; None where none was seen."""
    if len(topology.sources) != 1 or not times or not times[-1].stages:
        return None
    first = times[-1].stages[0]
    return first.size if topology.sources[0] in first.operators else None


def given_costs(costs: Any) -> Mapping[str, float]:
    """Return constants of a batch that are given in place of what is measured, or refuse them.

    Those of a calibration are the ones that it has measured.
    """
    if isinstance(costs, Calibration):
        constants = zip(costs.fit.names, costs.fit.constants.tolist(), strict=True)
        return FrozenMap({name: value for name, value in constants if name != ROW})
    if isinstance(costs, StageCosts):
        return FrozenMap({field.name: getattr(costs, field.name) for field in fields(costs)})
    known = [field.name for field in fields(StageCosts)]
    found = named("costs", {} if costs is None else costs, object)
    for name in found:
        if name not in known:
            raise UnknownNameError.among("constant of a batch", name, known)
    return FrozenMap({name: amount(f"costs[{name!r}]", value) for name, value in found.items()})


@dataclass(frozen=True)
class Measured:
    """What batches were seen to take.

    Attributes:
        costs: the constants of the model.
        assumed: which of them were not measured, by name.
        trigger: seconds of the base that the trigger of a stream takes around a batch.
    """

    costs: StageCosts
    assumed: tuple[str, ...] = ()
    trigger: float = 0.0


def measured_costs(
    times: Sequence[BatchTime], job: StageJob, stages: Stages, cores: int
) -> Measured:
    """Return the constants of the model as the parts of measured batches tell them.

    Of each batch the parts say what it took beside its work, so that batches of one size are
    enough. The median over batches counts. Where tuples cross hosts, what shuffles take is laid to
    their bytes, which need not cross where operators share a stage; else it is part of the work.
    On a stream a trigger follows the other, so what it takes around a batch is part of the base.
    """
    known = [time for time in times if time.stages and time.tuples]
    if not known:
        return Measured(ASSUMED, tuple(field.name for field in fields(StageCosts)))
    base, stage, task, byte, work = [], [], [], [], []
    crossing = float(job.crossing[stages.first].sum())
    for time in known:
        base.append(time.planning + time.commit + max(0.0, time.other))
        stage.append(sum(each.fixed for each in time.stages) / len(time.stages))
        task.append(
            sum(each.tasks for each in time.stages) / sum(each.size / cores for each in time.stages)
        )
        spent = sum(each.reading + each.work + each.state for each in time.stages)
        shuffle = sum(each.shuffle for each in time.stages)
        if crossing:
            byte.append(shuffle / (crossing * time.tuples))
        else:
            spent += shuffle
        counted = float(features(job, stages, cores, time.tuples)[_WORK])
        if counted > 0:
            work.append(spent / counted)
    triggers = [time.trigger for time in known if time.trigger is not None]
    trigger = median(triggers) if triggers else 0.0
    crossed = median(byte) if byte else 0.0
    found = StageCosts(median(base) + trigger, median(stage), median(task), crossed)
    assumed = () if triggers else ("trigger",)
    if not work:
        return Measured(found, (*assumed, "work"), trigger)
    return Measured(replace(found, work=median(work)), assumed, trigger)


def off_by(times: Sequence[BatchTime], fixed: float, each: float) -> float | None:
    """Return how many times longer batches took than was expected of them; None without any."""
    found = [
        time.seconds / (fixed + each * time.tuples)
        for time in times
        if time.tuples and fixed + each * time.tuples > 0
    ]
    return median(found) if found else None


def as_plan(
    job: StageJob, found: Stages, present: Stages, layout: Layout, cluster: Cluster
) -> Plan:
    """Return what changes under a plan: tasks of stages, and which operators share a stage.

    Operators share a stage with the one that feeds them where their tuples stay where they are and
    both have the same homes.
    """
    topology = layout.topology
    parallelism, scheduling = dict[str, int](), dict[EdgeName, Grouping]()
    placement, homes = dict[str, Deployment](), dict[str, Deployment]()
    for place, name in enumerate(job.names):
        operator, begin = topology.operator(name), int(found.begins[place])
        starts = begin == place
        if name in topology.sources:
            instances = operator.parallelism
        elif starts:
            instances = int(found.tasks[place])
            instances = min(instances, operator.key_groups) if operator.keyed else instances
        else:
            instances = len(homes[job.names[begin]].nodes)
        if instances != operator.parallelism:
            parallelism[name] = instances
        homes[name] = layout.homes[name].resized(instances, cluster)
        edges = topology.inputs(name)
        if not starts:
            homes[name] = Deployment(homes[job.names[begin]].nodes)
            placement[job.names[begin]] = homes[job.names[begin]]
            placement[name] = homes[name]
            scheduling[edges[0].name] = LocalOrShuffle()
        elif present.begins[place] != place:
            scheduling[edges[0].name] = Shuffle()
    return Plan(
        parallelism=parallelism,
        scheduling={
            edge: grouping
            for edge, grouping in scheduling.items()
            if topology.grouping(*edge) != grouping
        },
        placement={name: home for name, home in placement.items() if home != layout.homes[name]},
    )


def with_rows(job: StageJob, costs: Any, work: float) -> StageJob:
    """Return a job whose operators also take what it costs to take a row in, where that is known.

    Args:
        job: the operators.
        costs: what was given in place of what is measured.
        work: seconds that a batch takes for a second of work.
    """
    if not isinstance(costs, Calibration) or not work:
        return job
    return replace(job, seconds=job.seconds + costs.row / work)


def beyond_measured(
    calibration: Calibration | None, job: StageJob, stages: Stages, cores: int, rows: float
) -> str:
    """Return where a plan is outside of what a calibration has measured; empty if it is not."""
    if calibration is None:
        return ""
    counted = dict(zip(FEATURES, features(job, stages, cores, rows).tolist(), strict=True))
    taken_in = replace(job, seconds=np.ones(len(job.names)))
    counted[ROW] = float(features(taken_in, stages, cores, rows)[_WORK])
    try:
        calibration.fit.predict([[counted[name] for name in calibration.fit.names]])
    except OutsideRangeError as error:
        reason = str(error).removeprefix("counted[0]: ").partition(";")[0]
        return f"the plan is beyond what was calibrated: {reason}"
    return ""


def most_rows(batch: BatchCost, longest: float, needed: float, period: float = 0.0) -> float:
    """Return how many rows a batch of the longest time can have, which carries the most in it.

    At least as many as take half of a batch, with fewer most of the time would be lost; and as many
    as carry the rate that is needed, or what waits would never be caught up.

    Args:
        batch: what a batch takes.
        longest: seconds that a batch may take.
        needed: rows a second that are to be carried.
        period: seconds between the beginnings of two batches, where those are held back.
    """
    if not batch.each:
        return np.inf
    settled = batch.settled(needed)
    carrying = needed * max(settled, period) if np.isfinite(settled) else 0.0
    return max(max(batch.fixed, longest - batch.fixed) / batch.each, carrying)


def admitted(seen: Statistics, flow: Dataflow, rows: float) -> dict[str, int]:
    """Return how many of these rows each source is to let in, of those that a plan can size."""
    total = float(flow.rates.sum())
    sized = () if seen.execution is None else seen.execution.sized
    return {
        name: max(1, round(rows * rate / total))
        for name, rate in zip(flow.names, flow.rates.tolist(), strict=True)
        if name in sized and rate and np.isfinite(rows)
    }


def pinned(job: StageJob, present: Stages, topology: Topology) -> StageJob:
    """Return a job whose keyed operators stay as they are, so that no state has to move."""
    keyed = np.array([topology.operator(name).keyed for name in job.names])
    return replace(job, tasks=np.where(keyed, present.tasks, job.tasks))
