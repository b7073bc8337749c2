"""Improving a division of keys: fewer pairs apart, no part above its limit.

Keys of one operator are never neighbours in a key graph. So what a key gains by moving depends on
keys of other operators only, and all keys of one operator can move at the same time, each gaining
just what was counted for it. Both functions here go from operator to operator in this way, in numpy
over all keys at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.key_graph import KeyGraph

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Parts = NDArray[np.int32]

_CELLS_AT_A_TIME = 1 << 22  # of the table of keys and parts, 32 MiB
_ROUNDS = 64


def refine(  # noqa: PLR0913
    graph: KeyGraph,
    parts: Parts,
    limits: Numbers,
    *,
    home: Parts | None = None,
    inertia: float = 0.0,
    rounds: int = 8,
) -> Parts:
    """Move keys to the parts they are paired with most, as far as these have room.

    Args:
        graph: the keys and their pairs.
        parts: the part of each key.
        limits: of shape (operators, parts), the most load a part may get; a part that is above
            its limit already may only lose.
        home: where each key is at home, for ``inertia``.
        inertia: how much more of a key's load must be local before it leaves its home, as a share
            of its load.
        rounds: how often to go through all operators at most.

    Returns:
        The new part of each key. No less weight is within parts than before, apart from what
        inertia brings home, and no part got above its limit.
    """
    parts = parts.copy()
    for _ in range(rounds):
        moved = 0
        for operator in range(len(graph.names)):
            span = graph.span(operator)
            best, gains = _best_moves(graph, span, parts, limits.shape[1], home, inertia)
            moved += _apply(parts[span], best, gains, graph.loads[span], limits[operator])
        if not moved:
            break
    return parts


def repair(graph: KeyGraph, parts: Parts, limits: Numbers) -> Parts:
    """Move keys out of parts above their limit, those first that lose least by it.

    Args:
        graph: the keys and their pairs.
        parts: the part of each key.
        limits: of shape (operators, parts), the most load a part may get.

    Returns:
        The new part of each key; parts are above their limit only where no key fits elsewhere.
    """
    parts = parts.copy()
    for operator in range(len(graph.names)):
        span = graph.span(operator)
        for _ in range(_ROUNDS):
            if not _relieve(graph, span, parts, limits[operator]):
                break
    return parts


def part_loads(graph: KeyGraph, parts: Parts, number: int) -> Numbers:
    """Return the load of each part, of shape (operators, parts)."""
    return np.stack(
        [
            np.bincount(parts[span], graph.loads[span], number)
            for span in map(graph.span, range(len(graph.names)))
        ]
    )


def _best_moves(  # noqa: PLR0913, PLR0917
    graph: KeyGraph, span: slice, parts: Parts, number: int, home: Parts | None, inertia: float
) -> tuple[Parts, Numbers]:
    """Return for each key of an operator its best part, and what moving there gains."""
    best = parts[span].copy()
    gains = np.zeros(len(best))
    for rows, bonds in _bonds(graph, span, parts, number):
        keys = np.arange(len(bonds))
        if home is not None and inertia:
            bonds[keys, home[span][rows]] += inertia * graph.loads[span][rows]
        most = bonds.argmax(axis=1)
        gains[rows] = bonds[keys, most] - bonds[keys, best[rows]]
        best[rows] = most
    return best, gains


def _apply(parts: Parts, best: Parts, gains: Numbers, loads: Numbers, limits: Numbers) -> int:
    """Make those of the moves that fit together, in place, and return how many they were.

    All of them are taken at first, then parts that would get above their limit refuse those of
    their newcomers that gain least for their load. That may leave others with more to hold, so it
    is repeated until all fit; what was refused is not tried again.
    """
    wanted = np.flatnonzero(gains > 0)
    wanted = wanted[np.argsort(-gains[wanted] / np.maximum(loads[wanted], 1e-300), kind="stable")]
    before = np.bincount(parts, loads, len(limits))
    ceilings = np.maximum(limits, before)
    while len(wanted):
        moving = loads[wanted]
        leaving = np.bincount(parts[wanted], moving, len(limits))
        coming = np.bincount(best[wanted], moving, len(limits))
        full = np.flatnonzero(before - leaving + coming > ceilings)
        if not len(full):
            break
        refused = np.zeros(len(wanted), dtype=np.bool_)
        for part in full:
            newcomers = np.flatnonzero(best[wanted] == part)
            room = ceilings[part] - before[part] + leaving[part]
            refused[newcomers[np.cumsum(moving[newcomers]) > room]] = True
        wanted = wanted[~refused]
    parts[wanted] = best[wanted]
    return len(wanted)


def _relieve(graph: KeyGraph, span: slice, parts: Parts, limits: Numbers) -> bool:
    """Move some keys of one operator out of parts above their limit; return whether any moved."""
    loads, here = graph.loads[span], parts[span]
    held = np.bincount(here, loads, len(limits))
    room = limits - held
    if not (room < 0).any():
        return False
    there = here.copy()
    losses = np.full(len(here), np.inf)
    for rows, bonds in _bonds(graph, span, parts, len(limits)):
        keys = np.flatnonzero((room < 0)[here[rows]] & (loads[rows] > 0))
        fitting = np.where(room >= loads[rows][keys, np.newaxis], bonds[keys], -1.0)
        to = fitting.argmax(axis=1)
        gone = bonds[keys, here[rows][keys]] - fitting[np.arange(len(keys)), to]
        gone[fitting.max(axis=1, initial=-1.0) < 0] = np.inf
        there[rows.start + keys] = to
        losses[rows.start + keys] = gone
    order = np.flatnonzero(losses < np.inf)
    order = order[np.argsort(losses[order] / loads[order], kind="stable")]
    order = order[_first_until(here[order], loads[order], -room)]
    order = order[within_room(there[order], loads[order], room)]
    here[order] = there[order]
    return len(order) > 0


def _first_until(groups: Parts, amounts: Numbers, needed: Numbers) -> NDArray[np.bool_]:
    """Choose, of each group, the first ones that together reach what is needed."""
    return running_sums(groups, amounts) - amounts < needed[groups]


def within_room(groups: Parts, amounts: Numbers, room: Numbers) -> NDArray[np.bool_]:
    """Choose, of each group, the first ones that together fit its room."""
    return running_sums(groups, amounts) <= room[groups]


def running_sums(groups: Parts, amounts: Numbers) -> Numbers:
    """Return the running sum of the amounts within each group."""
    order = np.argsort(groups, kind="stable")
    sums = np.cumsum(amounts[order])
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    sums -= np.repeat(sums[starts] - amounts[order][starts], np.diff(starts, append=len(sums)))
    running = np.empty(len(amounts))
    running[order] = sums
    return running


def _bonds(
    graph: KeyGraph, span: slice, parts: Parts, number: int
) -> Iterator[tuple[slice, Numbers]]:
    """Yield, some keys at a time, how much each key is paired with keys in each part."""
    size = max(1, _CELLS_AT_A_TIME // number)
    for first in range(span.start, span.stop, size):
        last = min(first + size, span.stop)
        edges = slice(int(graph.starts[first]), int(graph.starts[last]))
        rows = np.repeat(np.arange(last - first), np.diff(graph.starts[first : last + 1]))
        cells = rows * number + parts[graph.neighbours[edges]]
        bonds = np.bincount(cells, graph.weights[edges], (last - first) * number)
        table: Any = bonds.reshape(-1, number)  # numpy types weighted counts as whole numbers
        yield slice(first - span.start, last - span.start), table
