"""The key graph: keys of consecutive operators, and how often one was followed by the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grouping.key_slots import ABSENT, KeySlots
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.metis import Graph
from sketches.arrays import Floats, Integers
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.key_identity import distinct
from sketches.keys import KeyColumn

_HALF = 32
_LOW_HALF = (1 << _HALF) - 1

# Counts become whole numbers for METIS. A scale keeps fractions, as decay leaves them, apart.
_FINEST = 1 << 10
_LARGEST = 1 << 40


@dataclass(frozen=True, eq=False)
class KeyGraph:
    """Keys as vertices and key pairs as edges, of any number of operators.

    Vertices of one operator are consecutive, in the order of their keys' codes (for equal codes, of
    the keys). Edges run between different operators only, so keys of one operator can be moved all
    at once, without changing the gain of each other's moves.

    Attributes:
        names: the operators, in the order of the job.
        columns: for each operator, its distinct keys.
        bounds: where each operator's vertices begin, and where the last one's end.
        starts: where each vertex' edges begin, and where the last one's end.
        neighbours: the vertex at the other end of each edge; each edge is listed at both ends.
        weights: how many tuples had both keys.
        loads: how many tuples had the key, for each vertex.
    """

    names: tuple[str, ...]
    columns: tuple[KeyColumn, ...]
    bounds: Integers
    starts: Integers
    neighbours: Integers
    weights: Floats
    loads: Floats

    @classmethod
    def of(
        cls,
        hops: Mapping[tuple[str, str], KeyPairs],
        order: Sequence[str] | None = None,
        *,
        counts: Mapping[str, KeyCounts] | None = None,
    ) -> "KeyGraph":
        """Build the graph of the pairs of several hops.

        Args:
            hops: the pairs of each two consecutive keyed operators; those counted 0 are left out.
            order: the operators in the order of the job; as the hops name them if left out.
            counts: how often the keys of an operator came, where that is known.

        Raises:
            InvalidValueError: a hop is of one operator only, or of one that is not in the order.
            InvalidKeyError: an operator has keys of different kinds in different hops.
        """
        if not hops:
            raise InvalidValueError("there are no hops to make a graph of; give the pairs of one")
        named = dict.fromkeys(name for hop in hops for name in hop)
        names = tuple(named) if order is None else tuple(name for name in order if name in named)
        for hop in hops:
            if hop[0] == hop[1] or not set(hop) <= set(names):
                raise InvalidValueError(
                    f"hop {hop!r} is not between two of the operators {list(names)}; "
                    "name each operator in the order, and no hop from an operator to itself"
                )
        hops = {hop: _counted(pairs) for hop, pairs in hops.items()}
        sides = {hop: pairs.columns for hop, pairs in hops.items()}
        columns, places = _distinct(names, sides)
        bounds = np.concatenate([[0], np.cumsum([len(column) for column in columns])])
        ends = []
        for (source, target), pairs in hops.items():
            left = places[(source, target), 0] + bounds[names.index(source)]
            right = places[(source, target), 1] + bounds[names.index(target)]
            ends.append((left, right, pairs.counts))
        starts, neighbours, weights = _adjacency(ends, int(bounds[-1]))
        loads = _loads(bounds, ends)
        for operator, name in enumerate(names):
            if counts is not None and name in counts:
                span = slice(int(bounds[operator]), int(bounds[operator + 1]))
                loads[span] = _corrected(name, loads[span], columns[operator], counts[name])
        return cls(names, columns, bounds, starts, neighbours, weights, loads)

    def __len__(self) -> int:
        return len(self.loads)

    @property
    def total(self) -> float:
        """The weight of all edges."""
        return float(self.weights.sum() / 2)

    def span(self, operator: int) -> slice:
        """Return where the vertices of an operator stand."""
        return slice(int(self.bounds[operator]), int(self.bounds[operator + 1]))

    @cached_property
    def whole(self) -> Graph:
        """The graph with whole weights of at least 1, as METIS wants it."""
        return Graph(self.starts, self.neighbours, _whole(self.weights))

    @cached_property
    def whole_loads(self) -> Integers:
        """The loads as whole numbers, of shape (vertices, operators): each in its own column."""
        whole = _whole(self.loads)  # in one unit for all operators, as they are also added up
        loads = np.zeros((len(self), len(self.names)), dtype=np.int64)
        for operator in range(len(self.names)):
            span = self.span(operator)
            loads[span, operator] = whole[span]
        return loads

    def within(self, parts: NDArray[np.int32]) -> float:
        """Return the weight of the edges whose two ends are in one part."""
        same = np.repeat(parts, np.diff(self.starts)) == parts[self.neighbours]
        return float(self.weights[same].sum() / 2)

    def subgraph(self, kept: NDArray[np.bool_]) -> "KeyGraph":
        """Return the graph of some of the vertices and the edges between them."""
        number = np.cumsum(kept) - 1
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts))
        edges = kept[rows] & kept[self.neighbours]
        counts = np.bincount(number[rows[edges]], minlength=int(kept.sum()))
        return KeyGraph(
            self.names,
            tuple(
                column.take(np.flatnonzero(kept[self.span(operator)]))
                for operator, column in enumerate(self.columns)
            ),
            np.concatenate([[0], np.cumsum(kept)])[self.bounds],
            np.concatenate([[0], np.cumsum(counts)]),
            number[self.neighbours[edges]],
            self.weights[edges],
            self.loads[kept],
        )


def _counted(pairs: KeyPairs) -> KeyPairs:
    """Return the pairs without those counted 0."""
    seen = pairs.counts > 0
    if seen.all():
        return pairs
    return pairs.take(np.flatnonzero(seen))


def _distinct(
    names: Sequence[str], sides: Mapping[tuple[str, str], tuple[KeyColumn, KeyColumn]]
) -> tuple[tuple[KeyColumn, ...], dict[tuple[tuple[str, str], int], Integers]]:
    """Return each operator's distinct keys, and the place of every row's key among them."""
    columns = []
    places: dict[tuple[tuple[str, str], int], Integers] = {}
    for name in names:
        uses = [(hop, side) for hop in sides for side in (0, 1) if hop[side] == name]
        used = [sides[hop][side] for hop, side in uses]
        filled = [column for column in used if len(column)]
        for column in filled:
            if column.kind != filled[0].kind:
                raise InvalidKeyError(
                    f"operator {name!r} has {filled[0].kind} keys in one hop and {column.kind} "
                    "keys in another; convert them to one kind"
                )
        joined = filled[0].joined(*filled[1:]) if filled else used[0]
        number, firsts = distinct(joined)
        columns.append(joined.take(firsts))
        start = 0
        for use, column in zip(uses, used, strict=True):
            places[use] = number[start : start + len(column)]
            start += len(column)
    return tuple(columns), places


def _adjacency(
    ends: Sequence[tuple[Integers, Integers, Floats]], vertices: int
) -> tuple[Integers, Integers, Floats]:
    """Return the edges of each vertex, both directions, equal ones added up."""
    left, right, counts = map(np.concatenate, zip(*ends, strict=True))
    # One number for each direction of each edge: sorting these sorts by vertex, then neighbour.
    edges = np.concatenate([left << _HALF | right, right << _HALF | left])
    order = np.argsort(edges)
    edges = edges[order]
    counts = np.concatenate([counts, counts])[order]
    again = edges[1:] == edges[:-1]
    if again.any():
        new = np.flatnonzero(np.concatenate([[True], ~again]))
        edges, counts = edges[new], np.add.reduceat(counts, new)
    starts = np.searchsorted(edges, np.arange(vertices + 1) << _HALF)
    return starts, edges & _LOW_HALF, counts


def _loads(
    bounds: Integers,
    ends: Sequence[tuple[Integers, Integers, Floats]],
) -> Floats:
    """Return how many tuples had each key.

    Tuples that come in over several hops are different and add up; those that go out over several
    hops are the same, and the busiest hop counts most of them.
    """
    vertices = int(bounds[-1])
    incoming = np.zeros(vertices)
    outgoing = np.zeros(vertices)
    for left, right, counts in ends:
        incoming += np.bincount(right, counts, vertices)
        np.maximum(outgoing, np.bincount(left, counts, vertices), out=outgoing)
    return np.maximum(incoming, outgoing)


def _corrected(name: str, loads: Floats, column: KeyColumn, counts: KeyCounts) -> Floats:
    """Return the loads, with counts for counted keys, in the unit of the others."""
    counted = counts.column
    if not len(column) or not len(counted):
        return loads
    if counted.kind != column.kind:
        raise InvalidKeyError(
            f"operator {name!r} has {column.kind} keys in its pairs and {counted.kind} keys in its "
            "counts; convert them to one kind"
        )
    rows = KeySlots(counted).find(column)
    known = (rows != ABSENT) & (counts.counts[rows] > 0)
    reported = counts.counts[rows[known]]
    corrected = loads.copy()
    if len(reported):
        corrected[known] = reported * (loads[known].sum() / reported.sum())
    return corrected


def _whole(amounts: Floats) -> Integers:
    """Return amounts as whole numbers from 1: as they are if they are whole, else in a finer unit.

    The unit is such that a mean amount is a thousand of them at least, unless there are too many.
    """
    if not len(amounts):
        return amounts.astype(np.int64)
    total = float(amounts.sum())
    if np.array_equal(np.rint(amounts), amounts):
        scale = 1.0
    else:
        scale = _FINEST * max(1.0, len(amounts) / total)
    scale = min(scale, _LARGEST / total)
    whole = amounts if scale == 1.0 else np.rint(amounts * scale)
    return np.maximum(whole, 1).astype(np.int64)
