"""Simulated micro-batches against measured ones, cell by cell of a grid."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from batches_study import MEGABITS, Cell, job_of, plan_of, rows_of

from batching.calibration import Fit, fit
from batching.stages import StageCosts
from optimizers import Cluster, Node
from optimizers.simulation import MicroBatches, Network, SimulationEngine, Stream, Work
from optimizers.simulation.stages.micro_batches import COUNTED, Counted
from sketches.arrays import Floats

PARTS = 4  # each cell is predicted by constants from the cells of the other parts
QUICKEST = 3  # batches of a cell, whose mean counts
_SIZE = 16.0  # bytes of a tuple beside its padding
_LOCAL = ("base", "stage", "task", "work", "row")
_HOSTS = ("base", "task", "byte", "work", "row")  # all have three stages, which the base then holds
_PLAIN = MicroBatches(StageCosts(1.0, 1.0, 1.0), 1e-6)


def read(kept: Sequence[dict[str, Any]]) -> tuple[list[Cell], Floats]:
    """Return the cells that were kept, and what a batch of each took."""
    cells = [
        Cell(**{name: part for name, part in one.items() if name != "seconds"}) for one in kept
    ]
    return cells, np.array([np.sort(one["seconds"])[:QUICKEST].mean() for one in kept])


def medians(kept: Sequence[dict[str, Any]]) -> Floats:
    """Return the median of all batches of each cell that was kept."""
    return np.array([np.median(one["seconds"]) for one in kept])


@cache
def counted(cell: Cell, *, hosts: bool) -> Counted:
    """Return by what the constants count in a batch of a cell, simulated."""
    nodes = ("a", "b") if hosts else ("here",)
    each = cell.cores // len(nodes)
    cluster = Cluster(tuple(Node(name, float(each), cores=each) for name in nodes))
    bandwidth = MEGABITS * 1e6 / 8 if hosts else np.inf
    engine = SimulationEngine(
        cluster=cluster, network=Network(bandwidth=bandwidth), micro_batches=_PLAIN
    )
    rows, job = rows_of(cell), job_of(cell)
    columns = {name: rows.column(name).to_numpy() for name in ("key", "micros")}
    stream = Stream(np.zeros(cell.rows), columns, cell.padding + _SIZE)
    work = {"work": Work(lambda given: given["micros"] * 1e-6)}
    return engine.run(job, stream, plan_of(cell, job, nodes), work=work).counted[0]


def predicted(cells: Sequence[Cell], seconds: Floats, *, hosts: bool) -> tuple[Floats, Fit]:
    """Return what batches take by constants from other cells of their session, and from all."""
    found = [counted(cell, hosts=hosts) for cell in cells]
    names = _HOSTS if hosts else _LOCAL
    table = np.array([one.columns for one in found])[:, [COUNTED.index(name) for name in names]]
    links = np.array([one.links for one in found])
    part = np.random.default_rng(1).permutation(len(cells)) % PARTS
    said = np.zeros(len(cells))
    for number in range(PARTS):
        own = part == number
        others = np.arange(int((~own).sum()))
        constants = fit(names, table[~own], (seconds - links)[~own], groups=others).constants
        said[own] = table[own] @ constants + links[own]
    return said, fit(names, table, seconds - links, groups=np.arange(len(cells)))


def errors(said: Floats, seconds: Floats) -> Floats:
    """Return by what share each cell is mistaken."""
    found: Floats = np.abs(said / seconds - 1)
    return found


def pairs(cells: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """Yield pairs of cells that do the same work, by other instances or on other hosts."""
    same: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        same[cell.cores, cell.stages, cell.rows, cell.micros, cell.padding].append(place)
    for places in same.values():
        yield from combinations(places, 2)


def in_order(cells: Sequence[Cell], said: Floats, seconds: Floats, apart: float) -> tuple[int, int]:
    """Return how many pairs are in the right order, of how many that are so far apart."""
    right = total = 0
    for one, two in pairs(cells):
        low, high = sorted((one, two), key=seconds.__getitem__)
        if seconds[high] > (1 + apart) * seconds[low]:
            total += 1
            right += bool(said[high] > said[low])
    return right, total
