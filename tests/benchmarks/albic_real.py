"""The paper's two experiments on the flights of 2013, and on made-up edits that drift."""

import numpy as np
from albic_study import MEAN, brought_together, drifting, flown, runs
from page import Json
from streams import cache_folder, fetched, zipped_flights

from grouping.hashing import hash_parts
from optimizers.workloads import workload
from optimizers.workloads.flights import table_of
from sketches.arrays import Floats

GROUPS = 100
WEEKS = 52
MINUTES = 60


def airline(scale: float) -> Json:
    """Return what becomes of the flights of 2013, week by week, as of the made-up ones."""
    table = table_of(zipped_flights(fetched(cache_folder())))
    planes, routes = (_groups(table.column(name)) for name in ("plane", "route"))
    week = np.arange(len(table)) * WEEKS // len(table)
    periods = []
    for number in range(max(5, round(WEEKS * min(scale, 1.0)))):
        rows = week == number
        flights = np.bincount(planes[rows] * GROUPS + routes[rows], minlength=GROUPS**2)
        periods.append(flown(flights.reshape(GROUPS, GROUPS).astype(np.float64)))
    start = np.random.default_rng(5).permutation(np.arange(3 * GROUPS) % 20)
    return brought_together(periods, start)


def edits(scale: float) -> Json:
    """Return load distance and migrations over an hour of edits, minute by minute, by seed."""
    count = max(6, round(MINUTES * min(scale, 1.0)))
    return [
        drifting([_minute(batch["edits"]) for batch in workload("edits").batches(count, seed=seed)])
        for seed in range(runs(scale))
    ]


def _minute(table: object) -> Floats:
    """Return the loads of the key groups of two operators in a minute: how many tuples come."""
    held = [
        np.bincount(_groups(table.column(name)), minlength=GROUPS)  # type: ignore[attr-defined]
        for name in ("cell", "article")
    ]
    loads = np.concatenate(held).astype(np.float64)
    return loads * (MEAN * 20 / loads.sum())


def _groups(column: object) -> np.ndarray:  # type: ignore[type-arg]
    return hash_parts(column, GROUPS).astype(np.int64)
