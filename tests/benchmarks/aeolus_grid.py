"""Aeolus' choice beside a whole grid on Spark, and its model on the points it was not fitted to.

The grid: how many tasks operators have, how much a batch admits, and whether operators without a
key share the stage of what feeds them. Every point, and Aeolus, runs the same lines by turns.
"""

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from aeolus_held_out import NAMES, constants, counted, foretold
from aeolus_jobs import JOBS, SOURCE, RealJob, shipped_to_workers
from page import Json

from batching.stages import ALONE, StageJob, Stages
from optimizers import Cluster, Plan, Topology, compare
from optimizers.comparing.outcome import Outcome
from optimizers.control.run_summary import RunSummary
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.spark.command_session import command_session
from optimizers.spark.cores import slots_of
from optimizers.spark.engine import SparkEngine
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.fixed import Fixed
from optimizers.strategies.parts.aeolus_stages import as_plan, present_stages
from sketches.arrays import Floats

ROWS = 60_000  # lines that all have to work through in a round
TASKS = (1, 2, 4)
ADMITTED = (6_000, 20_000, ROWS)
ROUNDS = 12
_WARM_UP = 6  # rounds in which Aeolus observes and settles
AEOLUS = "Aeolus"


@dataclass(frozen=True)
class Point:
    """A point of the grid: tasks of each operator, lines of a batch, shared stages or not."""

    tasks: int
    admitted: int
    fused: bool

    def __str__(self) -> str:
        shared = "shared stages" if self.fused else "own stages"
        return f"{self.tasks} tasks, {self.admitted:,} lines, {shared}"


POINTS = [Point(*each) for each in itertools.product(TASKS, ADMITTED, (True, False))]


def spark_grid(scale: float) -> Json:
    """Run all points and Aeolus by turns, for both jobs."""
    shipped_to_workers()
    return {job.name: _of_job(job, max(_WARM_UP + 2, round(ROUNDS * scale))) for job in JOBS}


def _of_job(job: RealJob, rounds: int) -> Json:
    with command_session("*") as session, TemporaryDirectory() as folder:
        cores = slots_of(session)
        cluster = Cluster.uniform(cores)
        variants: dict[str, Optimizer | None] = {"as declared": None, AEOLUS: Aeolus()}
        variants |= {str(point): Fixed(plan_of(point, job.topology, cluster)) for point in POINTS}
        engine = SparkEngine(checkpoint=folder, spark=session, every=3, cluster=cluster)
        batches = job.batches(ROWS, rounds)
        result = compare(job.topology, batches, variants, engine=engine, warm_up=_WARM_UP)
    sys.stdout.write(f"{result}\n")
    seconds = {each.name: median(_measured(each)) for each in result.variants}
    told = [decision.text for decision in result[AEOLUS].decisions if decision.applied]
    return {
        "seconds": seconds,
        "correct": result.correct,
        "told": told,
        "rounds": rounds - _WARM_UP,
        "model": _model(job.topology, {each.name: each for each in result.variants}, cores),
    }


def _measured(outcome: Outcome) -> list[float]:
    return [batch.seconds for batch in outcome.batches[_WARM_UP:]]


def plan_of(point: Point, topology: Topology, cluster: Cluster) -> Plan:
    """Return the plan that has a job run as a point of the grid says."""
    layout = Layout.of(topology, cluster, Plan())
    job = stage_job(topology)
    present = present_stages(job, layout, source_tasks=None)
    plan = as_plan(job, stages_of(point, job), present, layout, cluster)
    return plan if point.admitted >= ROWS else plan | Plan(admit={SOURCE: point.admitted})


def stage_job(topology: Topology, seconds: Mapping[str, float] | None = None) -> StageJob:
    """Return a job as the model has it: a chain, whose operators without a key may share a stage.

    Args:
        topology: the job.
        seconds: what each operator works for one line of the source.
    """
    names = topology.order
    fed = [
        ALONE if place == 0 or topology.operator(name).keyed else place - 1
        for place, name in enumerate(names)
    ]
    source = topology.operator(SOURCE).parallelism
    return StageJob.of(
        names,
        seconds=[0.0 if seconds is None else seconds[name] for name in names],
        feeders=fed,
        tasks=[source] + [0] * (len(names) - 1),
    )


def stages_of(point: Point, job: StageJob) -> Stages:
    """Return how a point cuts a job into stages."""
    begins = np.arange(len(job.names))
    if point.fused:
        for place in np.flatnonzero(job.feeders != ALONE):
            begins[place] = begins[job.feeders[place]]
    return Stages(begins, np.where(begins == 0, job.tasks[0], point.tasks))


def _model(topology: Topology, outcomes: Mapping[str, Outcome], cores: int) -> Json:
    """Foretell each point by constants fitted to the others."""
    job = stage_job(topology, _work(topology, outcomes["as declared"].batches[_WARM_UP:]))
    table, seconds = [], []
    for point in POINTS:
        pieces = [time for batch in outcomes[str(point)].batches[_WARM_UP:] for time in batch.times]
        whole = [piece.seconds for piece in pieces if piece.tuples == point.admitted]
        table.append(counted(job, stages_of(point, job), cores, point.admitted))
        seconds.append(median(whole))
    known, took = np.array(table), np.array(seconds)
    said = foretold(known, took)
    off = np.abs(said / took - 1)
    worst = POINTS[int(off.argmax())]
    chosen = _chosen_by_other_sizes(known, took)
    return {
        "off": [float(off.mean()), float(np.median(off)), float(off.max())],
        "worst": str(worst),
        "constants": dict(zip(NAMES, constants(known, took).tolist(), strict=True)),
        "batches": {
            str(point): [float(real), float(expected)]
            for point, real, expected in zip(POINTS, took, said, strict=True)
        },
        "chosen": chosen,
    }


def _work(topology: Topology, batches: Sequence[RunSummary]) -> dict[str, float]:
    """Return for how many CPU seconds each operator works and sends, for a line of the source.

    What it takes to receive a line is a constant of the model.
    """
    lines = sum(batch.tuples for batch in batches)
    found = {}
    for name in topology.order:
        told = [batch.operator(name) for batch in batches]
        found[name] = sum(sum(each.busy) - (each.receiving or 0.0) for each in told) / lines
    return found


def _chosen_by_other_sizes(known: Floats, took: Floats) -> list[Json]:
    """Return for each size the point that constants from other sizes take, and the best."""
    found = []
    sizes = np.array([point.admitted for point in POINTS])
    for size in ADMITTED:
        mine, others = np.flatnonzero(sizes == size), sizes != size
        said = known[mine] @ constants(known[others], took[others])
        chosen, best = mine[int(said.argmin())], mine[int(took[mine].argmin())]
        found.append([str(POINTS[chosen]), str(POINTS[best]), float(took[chosen] / took[best])])
    return found
