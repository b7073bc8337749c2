"""The tables of docs/results/simulation.md, made of what `batches_study` keeps."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from batches_check import errors, in_order, medians, predicted, read
from batches_study import Cell
from page import Json, table

from sketches.arrays import Floats

_APART = (0.1, 0.3)


def sessions(kept: Json, *, hosts: bool) -> list[tuple[str, list[Cell], Floats, Floats]]:
    """Return for each session its name, its cells, what was measured and what was predicted."""
    found = []
    for cores, mine in _by_cores(kept).items():
        cells, seconds = read(mine)
        name = "two hosts of a core" if hosts else f"local Spark, cores: {cores}"
        found.append((name, cells, seconds, predicted(cells, seconds, hosts=hosts)[0]))
    return found


def _by_cores(kept: Json) -> dict[int, list[Json]]:
    """Return what was kept of each session, by its cores."""
    numbers = sorted({one["cores"] for one in kept})
    return {cores: [one for one in kept if one["cores"] == cores] for cores in numbers}


def _errors(kept: Json, *, hosts: bool) -> str:
    head = ["", "cells", "median error", "mean", "worst", "median error to the median of eight"]
    head += [f"in order, of pairs {100 * apart:.0f} % apart" for apart in _APART]
    rows = []
    for (name, cells, seconds, said), mine in zip(
        sessions(kept, hosts=hosts), _by_cores(kept).values(), strict=True
    ):
        wrong, typical = errors(said, seconds), errors(said, medians(mine))
        ordered = [in_order(cells, said, seconds, apart) for apart in _APART]
        shares = (np.median(wrong), wrong.mean(), wrong.max(), np.median(typical))
        row = [name, str(len(cells)), *(f"{100 * share:.1f} %" for share in shares)]
        rows.append([*row, *(f"{right} of {total}" for right, total in ordered)])
    return table(head, rows)


def _cells(kept: Json, *, hosts: bool) -> str:
    head = ["where", "hosts", "stages", "instances", "tuples", "µs each", "bytes each"]
    rows = []
    for name, cells, seconds, said in sessions(kept, hosts=hosts):
        for cell, took, told in zip(cells, seconds.tolist(), said.tolist(), strict=True):
            numbers = cell.hosts, cell.stages, cell.tasks, cell.rows, cell.micros, cell.padding
            rows.append([name, *map(str, numbers), f"{took:.2f}", f"{told:.2f}"])
    return table([*head, "measured, s", "simulated, s"], rows)


def _sizes(kept: Json) -> str:
    rows = []
    for _, cells, seconds, said in sessions(kept, hosts=True):
        ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
        for cell, ratio in zip(cells, (said / seconds).tolist(), strict=True):
            ratios[cell.rows, cell.padding].append(ratio)
        for size, found in sorted(ratios.items()):
            spread = (np.median(found), min(found), max(found))
            rows.append([*map(str, (*size, len(found))), *(f"{each:.2f}" for each in spread)])
    head = ["tuples", "bytes each", "cells", "simulated, times measured, median", "least", "most"]
    return table(head, rows)


def _constants(kept: Json, *, hosts: bool) -> str:
    rows = []
    for cores, mine in _by_cores(kept).items():
        cells, seconds = read(mine)
        found = predicted(cells, seconds, hosts=hosts)[1]
        values = [
            f"{name} {value:.3g}" for name, value in zip(found.names, found.constants, strict=True)
        ]
        rows.append([str(cores), ", ".join(values)])
    return table(["cores", "constants, s"], rows)


TABLES: dict[str, tuple[str, Callable[[Json], str]]] = {
    "local": ("local", lambda kept: _errors(kept, hosts=False)),
    "hosts": ("hosts", lambda kept: _errors(kept, hosts=True)),
    "hosts sizes": ("hosts", _sizes),
    "local constants": ("local", lambda kept: _constants(kept, hosts=False)),
    "hosts constants": ("hosts", lambda kept: _constants(kept, hosts=True)),
    "local cells": ("local", lambda kept: _cells(kept, hosts=False)),
    "hosts cells": ("hosts", lambda kept: _cells(kept, hosts=True)),
}
