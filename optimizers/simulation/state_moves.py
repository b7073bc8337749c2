"""Moves of state: the keys that change their place with a plan, and how long their state takes."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grouping.key_slots import ABSENT, KeySlots
from optimizers.layout import Layout
from optimizers.operators import Edge
from optimizers.simulation.rows import Served
from optimizers.simulation.tuples import Tuples
from optimizers.simulation.wires import Wires
from sketches.arrays import Floats, Integers
from sketches.key_identity import distinct
from sketches.keys import KeyColumn

_STATE = ("", "")  # instead of an edge: state shares a connection with nothing else


@dataclass(frozen=True, eq=False)
class Move:
    """What moves of one operator.

    Attributes:
        keys: how many of the keys seen so far get another instance or node.
        taken_over: how many keys each instance gets from others.
        bytes: how much state travels between nodes for them.
        pauses: for how many seconds each instance waits for state.
    """

    keys: int
    taken_over: Integers
    bytes: float
    pauses: Floats


class KeysMet:
    """The keys that a keyed operator has met so far.

    Args:
        tuples: all tuples of the run.
        edges: the edges into it, with the columns of the keys on each.
    """

    def __init__(self, tuples: Tuples, edges: Sequence[tuple[Edge, tuple[str, ...]]]) -> None:
        self._tuples = tuples
        self._edges = edges
        self._new: list[Served] = []
        self._known: dict[str, KeyColumn] = {}  # by the kind of key
        self._columns: list[KeyColumn] = []

    def add(self, served: Served) -> None:
        """Take in what the operator has executed."""
        self._new.append(served)

    def columns(self) -> list[KeyColumn]:
        """Return the keys, each once."""
        for served in self._new:
            for number, (edge, columns) in enumerate(self._edges):
                rows = served.rows[served.edges == number]
                keys = self._tuples.keys(edge.source, columns)
                column = keys.take(rows)
                column = column.take(distinct(column)[1])
                known = self._known.get(column.kind)
                if known is not None:
                    column = column.take(np.flatnonzero(KeySlots(known).find(column) == ABSENT))
                self._columns.append(column)
                self._known[column.kind] = column if known is None else known.joined(column)
        self._new = []
        return self._columns


def move_between(  # noqa: PLR0913
    keys: list[KeyColumn],
    name: str,
    old: Layout,
    new: Layout,
    *,
    numbers: Mapping[str, int],
    state_bytes: float,
    wires: Wires,
) -> Move:
    """Return what moves of an operator as one layout follows another.

    All state travels at once, and each instance waits for all that it gets: on each link of its
    way, for all that passes it.

    Args:
        keys: the keys seen so far.
        name: of the operator.
        old: how it was laid out.
        new: how it is to be.
        numbers: the number of each node.
        state_bytes: how much state each key has.
        wires: what travelling takes.
    """
    homes = [
        np.array([numbers[home] for home in layout.homes[name].nodes]) for layout in (old, new)
    ]
    owners = [
        np.concatenate([np.empty(0, np.int64), *(layout.owners(name).assign(k) for k in keys)])
        for layout in (old, new)
    ]
    before, after = (owner.astype(np.int64) for owner in owners)
    starts, ends = homes[0][before], homes[1][after]
    travels = starts != ends
    moved = (before != after) | travels
    pauses = np.zeros(len(homes[1]))
    if state_bytes:
        seconds = _seconds(starts[travels], ends[travels], state_bytes, wires)
        np.maximum.at(pauses, after[travels], seconds)
    taken_over = np.bincount(after[before != after], minlength=len(homes[1]))
    return Move(int(moved.sum()), taken_over, float(travels.sum()) * state_bytes, pauses)


def _seconds(starts: Integers, ends: Integers, state_bytes: float, wires: Wires) -> Floats:
    """Return for each key that travels how long it takes until all that shares its way is there."""
    pairs, which, counts = np.unique((starts << 32) + ends, return_inverse=True, return_counts=True)
    nodes = [(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()]
    paths = [wires.path(_STATE, *both) for both in nodes]
    passing: Counter[Hashable] = Counter()
    for path, count in zip(paths, counts.tolist(), strict=True):
        passing.update({link: count for link, _ in path})
    taken = [
        wires.latency(*both)
        + max((passing[link] * state_bytes / bandwidth for link, bandwidth in path), default=0.0)
        for both, path in zip(nodes, paths, strict=True)
    ]
    seconds: Floats = np.array(taken)[which]
    return seconds
