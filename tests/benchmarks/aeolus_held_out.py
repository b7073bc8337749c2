"""The model of a micro-batch against batches of Spark that it was not fitted to, and its choices.

The batches are those that `batches_study` measures and docs/results/simulation keeps: two jobs, of
a source and an operator that works, and of these and a keyed count, with the numbers of tasks, of
rows and of what a row costs that there are in the grid.
"""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from batches_check import read
from batches_study import PARTITIONS, Cell
from page import RESULTS, Json

from batching.calibration import fit
from batching.stages import StageJob, Stages, features
from sketches.arrays import Floats

NAMES = ("base", "stage", "task", "work", "row")
_JOBS = {2: "work", 3: "work and a keyed count"}


def held_out(_scale: float) -> Json:
    """Foretell each batch by constants from the others, and choose tasks by other sizes."""
    kept = json.loads((RESULTS / "simulation" / "local.json").read_text("utf-8"))
    cells, seconds = read(kept)
    found: dict[str, Any] = {}
    for cores in (1, 2):
        own = np.array([cell.cores == cores for cell in cells])
        those = [cell for cell in cells if cell.cores == cores]
        found[f"local[{cores}]"] = _of_cores(those, seconds[own])
    return found


def _of_cores(cells: list[Cell], seconds: Floats) -> Json:
    table = np.array([_counted(cell) for cell in cells])
    off, stages = (
        np.abs(foretold(table, seconds) / seconds - 1),
        np.array([cell.stages for cell in cells]),
    )
    errors = {
        name: [int((stages == count).sum()), *_spread(off[stages == count])]
        for count, name in _JOBS.items()
    }
    return {"errors": errors, "chosen": _choices(cells, table, seconds)}


def _spread(off: Floats) -> list[float]:
    return [float(off.mean()), float(np.median(off)), float(off.max())]


def _choices(cells: list[Cell], table: Floats, seconds: Floats) -> list[Any]:
    """Return for each job, size and work the seconds of the chosen tasks, and of the best."""
    same: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, cell in enumerate(cells):
        same[cell.stages, cell.rows, cell.micros].append(number)
    sizes = np.array([cell.rows for cell in cells])
    found = []
    for (count, rows, micros), numbers in same.items():
        known = constants(table[sizes != rows], seconds[sizes != rows])
        mine = numbers[int((table[numbers] @ known).argmin())]
        best = numbers[int(seconds[numbers].argmin())]
        taken = float(seconds[mine]), float(seconds[best])
        found.append([_JOBS[count], rows, micros, cells[mine].tasks, cells[best].tasks, *taken])
    return found


def _job(cell: Cell) -> StageJob:
    behind = cell.stages - 1
    return StageJob.of(
        ["in", "work", "count"][: cell.stages],
        seconds=[0.0, cell.micros * 1e-6, 0.0][: cell.stages],
        tasks=[PARTITIONS] + [0] * behind,
    )


def _counted(cell: Cell) -> list[float]:
    begins = np.arange(cell.stages)
    stages = Stages(begins, np.where(begins == 0, PARTITIONS, cell.tasks))
    return counted(_job(cell), stages, cell.cores, cell.rows)


def counted(job: StageJob, stages: Stages, cores: int, rows: float) -> list[float]:
    """Return what each of `NAMES` counts in a batch."""
    base, count, tasks, _, work = features(job, stages, cores, rows).tolist()
    taken_in = replace(job, seconds=np.ones(len(job.names)))
    return [base, count, tasks, work, float(features(taken_in, stages, cores, rows)[4])]


def constants(table: Floats, seconds: Floats) -> Floats:
    """Return the constants that fit measured batches best."""
    return fit(NAMES, table, seconds, groups=np.arange(len(seconds))).constants


def foretold(table: Floats, seconds: Floats) -> Floats:
    """Return how long each batch takes by constants from all others."""
    said = np.empty(len(seconds))
    for number in range(len(seconds)):
        others = np.arange(len(seconds)) != number
        said[number] = table[number] @ constants(table[others], seconds[others])
    return said
