"""Putting the keys of each instance into its key groups, so that groups can move.

A group that moves takes its keys along. So keys that belong together should be in one group, and
groups of several operators on one node should *correspond*: each has one partner that most of its
tuples come from or go to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from grouping.keygraph.division import Task, divide
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.matching import best_matching
from grouping.keygraph.partition import reachable_limits
from grouping.keygraph.spreading import hottest
from sketches.arrays import Floats, Integers, Parts

_IMBALANCE = 1.5  # between the groups of one instance: less would tear communities apart
_ENOUGH_KEYS = 1.25  # for each group; with fewer, METIS cannot fill all parts
_LEAST_SHARE = 0.3  # of that of parts that the instance has
_NOTHING = 1e-9  # of a load: the rounding error
_INERTIA = 0.2  # a key that changes its group within an instance moves no state

HOMELESS = -1
"""The group of a key that is in none yet."""


def fill_groups(  # noqa: PLR0913
    graph: KeyGraph,
    nodes: Parts,
    instances: Parts,
    owners: Sequence[Parts],
    home: Parts,
    *,
    seed: int = 0,
) -> Parts:
    """Choose a key group for each key, among those of the key's instance.

    A key stays in its group if that is on its instance, unless another group has clearly more of
    its pairs. The groups of one instance get about equal loads, except for keys that are heavier
    than a group.

    Args:
        graph: the keys and their pairs.
        nodes: the node of each key.
        instances: the instance of each key.
        owners: for each operator, the instance of each key group; each instance of a key has one
            at least.
        home: the key group of each key now, `HOMELESS` for those in none.
        seed: equal seeds give equal answers.

    Returns:
        The key group of each key.
    """
    found = np.empty(len(graph), dtype=np.int32)
    operators = np.repeat(np.arange(len(graph.names)), np.diff(graph.bounds))
    for node in np.unique(nodes).tolist():
        rows = np.flatnonzero(nodes == node)
        # Instance by instance, as each has groups of its own.
        rows = rows[np.lexsort((instances[rows], operators[rows]))]
        cells = _Cells.of(operators[rows], instances[rows], owners)
        found[rows] = _on_node(cells, _inside(graph, rows, cells), home[rows], seed)
    return found


@dataclass(frozen=True, eq=False)
class _Cells:
    """The instances of one node that have keys, of any operator, and their key groups.

    Attributes:
        operators: the operator of each instance.
        starts: where the keys of each instance begin, and where the last one's end.
        groups: the key groups of each instance.
    """

    operators: tuple[int, ...]
    starts: Integers
    groups: tuple[Parts, ...]

    @classmethod
    def of(cls, operators: Integers, instances: Parts, owners: Sequence[Parts]) -> "_Cells":
        new = np.flatnonzero(
            (np.diff(operators, prepend=-1) != 0) | (np.diff(instances, prepend=-1) != 0)
        )
        return cls(
            tuple(operators[new].tolist()),
            np.append(new, len(operators)),
            tuple(
                np.flatnonzero(owners[operator] == instance).astype(np.int32)
                for operator, instance in zip(
                    operators[new].tolist(), instances[new].tolist(), strict=True
                )
            ),
        )

    @cached_property
    def columns(self) -> list["slice[int, int, None]"]:
        """The places of each instance's groups among all those of its operator here."""
        taken: dict[int, int] = {}
        found = []
        for operator, groups in zip(self.operators, self.groups, strict=True):
            start = taken.get(operator, 0)
            taken[operator] = start + len(groups)
            found.append(slice(start, taken[operator]))
        return found

    @property
    def parts(self) -> int:
        """How many groups the operator has that has most of them here."""
        return max(column.stop for column in self.columns)


def _on_node(cells: _Cells, graph: KeyGraph, home: Parts, seed: int) -> Parts:
    """Choose a group for each key of one node.

    Groups that correspond are one part of the division.
    """
    # 1. Number the groups of each operator here, and find where each key is at home.
    here = np.full(len(graph), HOMELESS, dtype=np.int32)
    for cell, (groups, column) in enumerate(zip(cells.groups, cells.columns, strict=True)):
        span = graph.span(cell)
        place = np.full(1 + max(int(groups.max()), int(home[span].max(initial=0))), HOMELESS)
        place[groups] = np.arange(column.start, column.stop)
        here[span] = np.where(home[span] >= 0, place[home[span]], HOMELESS)
    # 2. Let groups correspond that have traffic between them now.
    part_of = _corresponding(cells, graph, here)
    # 3. Divide the keys among the parts, each instance's among those parts that it has.
    capped, shares = (
        _capped(graph, [len(groups) for groups in cells.groups]),
        _shares(cells, part_of),
    )
    settled = np.full(len(graph), HOMELESS, dtype=np.int32)
    for cell, operator in enumerate(cells.operators):
        span = graph.span(cell)
        at_home = here[span] >= 0
        settled[span][at_home] = part_of[operator][here[span][at_home]]
    limits = reachable_limits(capped, shares, _IMBALANCE)
    homes = settled if (settled >= 0).any() else None
    # METIS complains of parts without a share. What it puts there is moved out again: see limits.
    padded = np.maximum(shares, _LEAST_SHARE * shares.max(axis=1, keepdims=True))
    keys = np.diff(cells.starts)
    tries = int(all(_ENOUGH_KEYS * len(g) <= n for g, n in zip(cells.groups, keys, strict=True)))
    divided = divide(Task(capped, padded, limits, homes, _INERTIA, tries, seed))
    # 4. Name the groups.
    chosen = np.empty(len(graph), dtype=np.int32)
    for cell, (operator, groups) in enumerate(zip(cells.operators, cells.groups, strict=True)):
        span, column = graph.span(cell), cells.columns[cell]
        group_of = np.full(shares.shape[1], HOMELESS, dtype=np.int32)
        group_of[part_of[operator][column]] = groups
        found = group_of[divided[span]]
        # A key of hardly any load may be left where its instance has no group.
        stranded = np.flatnonzero(found == HOMELESS)
        found[stranded] = groups[stranded % len(groups)]
        chosen[span] = found
    return chosen


def _inside(graph: KeyGraph, rows: Integers, cells: _Cells) -> KeyGraph:
    """Return the graph of some keys, in this order, each instance for an operator of its own."""
    number = np.full(len(graph), -1)
    number[rows] = np.arange(len(rows))
    counts = np.diff(graph.starts)[rows]
    ends = np.cumsum(counts)
    edges = np.repeat(graph.starts[rows] - ends + counts, counts) + np.arange(counts.sum())
    kept = number[graph.neighbours[edges]] >= 0
    degrees = np.bincount(np.repeat(np.arange(len(rows)), counts)[kept], minlength=len(rows))
    operators = np.searchsorted(graph.bounds, rows, side="right") - 1
    firsts = cells.starts[:-1]
    return KeyGraph(
        tuple(f"{graph.names[operators[first]]}.{place}" for place, first in enumerate(firsts)),
        tuple(
            graph.columns[operators[first]].take(rows[first:last] - graph.bounds[operators[first]])
            for first, last in zip(firsts, cells.starts[1:], strict=True)
        ),
        cells.starts,
        np.concatenate([[0], np.cumsum(degrees)]),
        number[graph.neighbours[edges[kept]]],
        graph.weights[edges[kept]],
        graph.loads[rows],
    )


def _corresponding(cells: _Cells, graph: KeyGraph, here: Parts) -> dict[int, Parts]:
    """Return the part of each group of each operator, shared by groups with mutual traffic."""
    number = cells.parts
    found: dict[int, Parts] = {}
    parts = np.full(len(graph), HOMELESS)  # of keys whose group has a part already
    for operator in dict.fromkeys(cells.operators):
        part_of = np.arange(number, dtype=np.int32)
        spans = [graph.span(cell) for cell, one in enumerate(cells.operators) if one == operator]
        span = slice(spans[0].start, spans[-1].stop)
        edges = slice(int(graph.starts[span.start]), int(graph.starts[span.stop]))
        rows = np.repeat(here[span], np.diff(graph.starts[span.start : span.stop + 1]))
        columns = parts[graph.neighbours[edges]]
        both = (rows >= 0) & (columns >= 0)
        if both.any():
            talk: Any = np.bincount(
                rows[both].astype(np.int64) * number + columns[both],
                graph.weights[edges][both],
                number * number,
            )
            part_of = best_matching(talk.reshape(number, number)).astype(np.int32)
        found[operator] = part_of
        known = here[span] >= 0
        parts[span][known] = part_of[here[span][known]]
    return found


def _capped(graph: KeyGraph, groups: Sequence[int]) -> KeyGraph:
    """Return the graph with no key heavier than a group that has no such key.

    A group that one key fills cannot be helped; it should not make others uneven.
    """
    loads = graph.loads.copy()
    for cell, number in enumerate(groups):
        span = graph.span(cell)
        _, share = hottest(np.sort(loads[span])[::-1], number)
        if share > _NOTHING * loads[span].sum():  # otherwise each key may have a group of its own
            loads[span] = np.minimum(loads[span], share)
    return replace(graph, loads=loads)


def _shares(cells: _Cells, part_of: dict[int, Parts]) -> Floats:
    """Return the share of each part in each instance's load, of shape (instances, parts)."""
    shares = np.zeros((len(cells.groups), cells.parts))
    for cell, (operator, column) in enumerate(zip(cells.operators, cells.columns, strict=True)):
        shares[cell, part_of[operator][column]] = 1.0 / (column.stop - column.start)
    return shares
