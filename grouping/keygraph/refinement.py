"""Improving a division of keys: fewer pairs apart, no part above its limit.

Keys of one operator are never neighbours in a key graph. So the gain of a key's move depends on
keys of other operators only, and all keys of one operator can move at the same time, each with
exactly the gain that was counted for it. Both functions here go from operator to operator in this
way, in numpy over all keys at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph.key_graph import KeyGraph
from sketches.arrays import Floats, Parts

_CELLS_AT_A_TIME = 1 << 22  # of the table of keys and parts, 32 MiB
_MOST_DEALT = 1 << 12  # keys that are each dealt out; where more are too heavy, few matter
_PATIENT_REFUSALS = 16
_HASTE = 0.8  # of the room that there is, afterwards; each time a fifth is refused at least
_ALMOST_ZERO = 1e-300
_ROUNDING = 1e-9  # sums of the same loads in another order differ by less


def refine(  # noqa: PLR0913
    graph: KeyGraph,
    parts: Parts,
    limits: Floats,
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
        home: where each key is at home, for ``inertia``; -1 for those at home nowhere.
        inertia: how much more of a key's load must be local before it leaves its home, as a share
            of its load.
        rounds: how often to go through all operators at most.

    Returns:
        The new part of each key. No less weight is within parts than before, apart from what
        inertia brings home, and no part got above its limit. Where the rounds sufficed, no
        single key gains by a move to a part that has room for it.
    """
    parts = parts.copy()
    pulls = []
    for span in map(graph.span, range(len(graph.names))):
        at_home = home[span] if home is not None and inertia else None
        pulls.append(_KeyPulls(graph, span, at_home, inertia))
    for _ in range(rounds):
        # Full parts can exchange keys. Only when that is done, single keys fill what room is left.
        moved = sum(map(_exchange, pulls, repeat(parts), limits))
        if not moved and not sum(map(_fill, pulls, repeat(parts), limits)):
            break
    return parts


def repair(graph: KeyGraph, parts: Parts, limits: Floats) -> Parts:
    """Move keys out of parts above their limit, those first that lose least by it.

    Args:
        graph: the keys and their pairs.
        parts: the part of each key.
        limits: of shape (operators, parts), the most load a part may get; where it is 0, the part
            cannot take keys of the operator.

    Returns:
        The new part of each key; parts are above their limit only where none of their keys fits
        elsewhere and dealing out the heavy keys again does not help; parts that cannot take keys
        have none.
    """
    parts = parts.copy()
    for operator in range(len(graph.names)):
        span = graph.span(operator)
        loads, most = graph.loads[span], limits[operator]
        _relieve_all(graph, span, parts, most)
        if _excess(loads, parts[span], most) > _ROUNDING * most.sum():
            parts = _with_heavy_reassigned(graph, span, parts, most)
        _clear(loads, parts[span], most)
    return parts


def part_loads(graph: KeyGraph, parts: Parts, number: int) -> Floats:
    """Return the load of each part, of shape (operators, parts)."""
    return np.stack(
        [
            np.bincount(parts[span], graph.loads[span], number)
            for span in map(graph.span, range(len(graph.names)))
        ]
    )


@dataclass(frozen=True, slots=True)
class _KeyPulls:
    """The attraction of each key of one operator to each part: its pairs there, and its home."""

    graph: KeyGraph
    span: slice
    home: Parts | None
    inertia: float

    @property
    def loads(self) -> Floats:
        return self.graph.loads[self.span]

    def moves(self, parts: Parts, room: Floats) -> tuple[Parts, Floats]:
        """Return for each key its best part with room for it, and the gain of moving there."""
        loads = self.loads
        best = parts[self.span].copy()
        gains = np.zeros(len(best))
        for rows, bonds in _bonds(self.graph, self.span, parts, len(room)):
            keys = np.arange(len(bonds))
            if self.home is not None:
                settled = np.flatnonzero(self.home[rows] >= 0)
                bonds[settled, self.home[rows][settled]] += self.inertia * loads[rows][settled]
            here = bonds[keys, best[rows]]
            if not np.isinf(room).all():
                bonds[room < loads[rows][:, np.newaxis]] = -1.0
            most = bonds.argmax(axis=1)
            gains[rows] = bonds[keys, most] - here
            best[rows] = most
        return best, gains


def _exchange(pulls: _KeyPulls, parts: Parts, limits: Floats) -> int:
    """Make those of all keys' best moves that fit together; return how many they were.

    All of them are taken at first, then parts that would get above their limit refuse those of
    their newcomers that gain least for their load. That may leave others with more load, so it is
    repeated until all fit. Where parts are so full that it could go on key by key, more are refused
    at a time.
    """
    here, loads = parts[pulls.span], pulls.loads
    best, gains = pulls.moves(parts, np.full(len(limits), np.inf))
    wanted = _best_first(gains, loads)
    before = np.bincount(here, loads, len(limits))
    ceilings = np.maximum(limits, before)
    for refusals in count():
        moving = loads[wanted]
        leaving: Any = np.bincount(here[wanted], moving, len(limits))
        room = ceilings - before + leaving
        welcome = within_room(best[wanted], moving, room)
        if welcome.all():
            break
        if refusals >= _PATIENT_REFUSALS:
            welcome = within_room(best[wanted], moving, room * _HASTE)
        wanted = wanted[welcome]
    here[wanted] = best[wanted]
    return len(wanted)


def _fill(pulls: _KeyPulls, parts: Parts, limits: Floats) -> int:
    """Move single keys into room that is left, to the best part that has enough of it."""
    here, loads = parts[pulls.span], pulls.loads
    room = limits - np.bincount(here, loads, len(limits))
    best, gains = pulls.moves(parts, np.maximum(room, 0.0))
    wanted = _best_first(gains, loads)
    wanted = wanted[within_room(best[wanted], loads[wanted], room)]
    here[wanted] = best[wanted]
    return len(wanted)


def _best_first(gains: Floats, loads: Floats) -> NDArray[np.intp]:
    """Return the keys that gain, those first that gain most for their load."""
    wanted = np.flatnonzero(gains > 0)
    order = np.argsort(-gains[wanted] / np.maximum(loads[wanted], _ALMOST_ZERO), kind="stable")
    chosen: NDArray[np.intp] = wanted[order]
    return chosen


def _relieve(graph: KeyGraph, span: slice, parts: Parts, limits: Floats) -> bool:
    """Move some keys of one operator out of parts above their limit; return whether any moved."""
    loads, here = graph.loads[span], parts[span]
    room = limits - np.bincount(here, loads, len(limits))
    over = room < -_ROUNDING * limits
    if not over.any():
        return False
    there = here.copy()
    losses = np.full(len(here), np.inf)
    for rows, bonds in _bonds(graph, span, parts, len(limits)):
        keys = np.flatnonzero(over[here[rows]] & (loads[rows] > 0))
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


def _relieve_all(graph: KeyGraph, span: slice, parts: Parts, limits: Floats) -> None:
    while _relieve(graph, span, parts, limits):
        pass  # each time, parts above their limit got less, and no other got above its


def _excess(loads: Floats, here: Parts, limits: Floats) -> float:
    """Return how much load is above the limits."""
    return float(np.maximum(np.bincount(here, loads, len(limits)) - limits, 0.0).sum())


def _with_heavy_reassigned(graph: KeyGraph, span: slice, parts: Parts, limits: Floats) -> Parts:
    """Reassign the keys of one operator that are too heavy to be moved one by one.

    First each to the part it is paired with most that still has room, then, if that does not fit
    either, to the part that is the least full with it. The better of both is taken.
    """
    loads, here = graph.loads[span], parts[span]
    room = limits - np.bincount(here, loads, len(limits))
    heavy = np.flatnonzero(loads > max(0.0, room.max()))
    heavy = heavy[np.argsort(-loads[heavy], kind="stable")]
    if len(heavy) > _MOST_DEALT:
        return parts
    bonds = np.zeros((len(heavy), len(limits)))
    for rows, table in _bonds(graph, span, parts, len(limits)):
        some = np.flatnonzero((heavy >= rows.start) & (heavy < rows.stop))
        bonds[some] = table[heavy[some] - rows.start]
    best, least = parts, _excess(loads, here, limits)
    for pull in (bonds, np.zeros_like(bonds)):
        trial = parts.copy()
        trial[span][heavy] = _dealt(loads[heavy], pull, limits)
        _relieve_all(graph, span, trial, limits)
        excess = _excess(loads, trial[span], limits)
        if excess < least:
            best, least = trial, excess
    return best


def _dealt(loads: Floats, bonds: Floats, limits: Floats) -> list[int]:
    """Deal out keys, the heaviest first: where it has most bonds and room, else the least full."""
    held = np.zeros(len(limits))
    chosen = []
    for load, pull in zip(loads.tolist(), bonds, strict=True):
        filled = (held + load) / np.maximum(limits, _ALMOST_ZERO)
        wanted = np.where(filled <= 1, pull, 0.0)
        chosen.append(int(wanted.argmax() if wanted.any() else filled.argmin()))
        held[chosen[-1]] += load
    return chosen


def _clear(loads: Floats, here: Parts, limits: Floats) -> None:
    """Move keys, in place, out of parts that can take none, to where most room is left."""
    stranded = np.flatnonzero((limits[here] <= 0) & (loads > 0))
    room = np.where(limits > 0, limits - np.bincount(here, loads, len(limits)), -np.inf)
    for key in stranded[np.argsort(-loads[stranded], kind="stable")].tolist():
        part = int(room.argmax())
        here[key] = part
        room[part] -= loads[key]


def _first_until(groups: Parts, amounts: Floats, needed: Floats) -> NDArray[np.bool_]:
    """Choose, of each group, the first ones that together reach what is needed."""
    return running_sums(groups, amounts) - amounts < needed[groups]


def within_room(groups: Parts, amounts: Floats, room: Floats) -> NDArray[np.bool_]:
    """Choose, one after the other, those that fit the room that their group has left."""
    chosen = np.zeros(len(groups), dtype=np.bool_)
    left = room.copy()
    waiting = np.flatnonzero(amounts <= left[groups])
    while len(waiting):
        fits = running_sums(groups[waiting], amounts[waiting]) <= left[groups[waiting]]
        # The first of each group fits alone, even if a rounded sum says otherwise.
        fits[np.unique(groups[waiting], return_index=True)[1]] = True
        taken = waiting[fits]
        chosen[taken] = True
        left -= np.bincount(groups[taken], amounts[taken], len(left))
        waiting = waiting[~fits]
        waiting = waiting[amounts[waiting] <= left[groups[waiting]]]
    return chosen


def running_sums(groups: Parts, amounts: Floats) -> Floats:
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
) -> Iterator[tuple[slice, Floats]]:
    """Yield, some keys at a time, how much each key is paired with keys in each part."""
    size = max(1, _CELLS_AT_A_TIME // number)
    for first in range(span.start, span.stop, size):
        last = min(first + size, span.stop)
        edges = slice(int(graph.starts[first]), int(graph.starts[last]))
        rows = np.repeat(np.arange(last - first), np.diff(graph.starts[first : last + 1]))
        cells = rows * number + parts[graph.neighbours[edges]]
        bonds = np.bincount(cells, graph.weights[edges], (last - first) * number)
        # Without edges, numpy counts in whole numbers.
        table: Any = bonds.astype(np.float64, copy=False).reshape(-1, number)
        yield slice(first - span.start, last - span.start), table
