"""Migrations: what has to move between two layouts of one job."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grouping.key_slots import ABSENT
from grouping.owners import named_in_either
from optimizers.layout import Layout
from sketches.arrays import Floats

if TYPE_CHECKING:
    from optimizers.statistics import Statistics

Place = tuple[int, str]
"""An instance, and the node that it is on."""


@dataclass(frozen=True, slots=True, order=True)
class GroupMove:
    """One key group that gets another instance, or whose instance gets another node.

    Attributes:
        operator: the operator it belongs to.
        group: which of the operator's key groups it is.
        old: the instance that holds it, and the node that one is on.
        new: the instance that is to hold it, and the node that one is to be on.
        bytes: how much state moves with it; None where that is not known.
    """

    operator: str
    group: int
    old: Place
    new: Place
    bytes: float | None = None

    @property
    def crosses_nodes(self) -> bool:
        """Whether its state has to travel to another machine."""
        return self.old[1] != self.new[1]


@dataclass(frozen=True, slots=True, order=True)
class KeyMoves:
    """Keys named in a table that move from one place to another.

    Attributes:
        operator: the operator they belong to.
        old: the instance that has them, and the node that one is on.
        new: the instance that is to have them, and the node that one is to be on.
        keys: how many they are.
        alone: how many of them move without their key group.
        bytes: how much state moves with keys that move alone; None where that is not known.
    """

    operator: str
    old: Place
    new: Place
    keys: int
    alone: int
    bytes: float | None = None

    @property
    def crosses_nodes(self) -> bool:
        """Whether their state has to travel to another machine."""
        return self.old[1] != self.new[1]


@dataclass(frozen=True, slots=True)
class Moved:
    """How much moves, for an operator or from one node to another.

    Attributes:
        keys: how many keys that a table names.
        groups: how many key groups, with all keys in them that no table names.
        bytes: how much state, as far as it is known.
        unsized: how many of the moves are of unknown size.
    """

    keys: int = 0
    groups: int = 0
    bytes: float = 0.0
    unsized: int = 0

    def __bool__(self) -> bool:
        return bool(self.keys or self.groups)


@dataclass(frozen=True, slots=True)
class Migration:
    """All that moves, operators in the order of the job.

    Attributes:
        groups: the key groups that move, with all their keys.
        keys: the keys that are named in a table and move, whether with their group or alone.
        parallelism: operators that get another number of instances, with the old and the new.
        reroutes: operators whose keys move by a rule that is not a table: only the state itself
            shows which keys move.
    """

    groups: tuple[GroupMove, ...] = ()
    keys: tuple[KeyMoves, ...] = ()
    parallelism: tuple[tuple[str, int, int], ...] = ()
    reroutes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.keys or self.parallelism or self.reroutes)

    @property
    def bytes(self) -> float:
        """How much state moves, as far as it is known; see `unsized`."""
        return self.total.bytes

    @property
    def unsized(self) -> int:
        """How many of the moves are of unknown size."""
        return self.total.unsized

    @property
    def total(self) -> Moved:
        """How much moves in all."""
        return _moved(self._moves)

    @property
    def by_operator(self) -> dict[str, Moved]:
        """How much moves for each operator."""
        names = dict.fromkeys(move.operator for move in self._moves)
        return {name: _moved(m for m in self._moves if m.operator == name) for name in names}

    @property
    def by_nodes(self) -> dict[tuple[str, str], Moved]:
        """How much moves from one node to another, or between instances on one node."""
        found: dict[tuple[str, str], list[GroupMove | KeyMoves]] = {}
        for move in self._moves:
            found.setdefault((move.old[1], move.new[1]), []).append(move)
        return {nodes: _moved(found[nodes]) for nodes in sorted(found)}

    @property
    def _moves(self) -> tuple[GroupMove | KeyMoves, ...]:
        return *self.groups, *self.keys

    def __str__(self) -> str:
        if not self:
            return "nothing moves"
        parts = [f"{name}: {old} -> {new} instances" for name, old, new in self.parallelism]
        parts += [f"{name}: keys are sent by another rule" for name in self.reroutes]
        for name, moved in self.by_operator.items():
            far = _moved(m for m in self._moves if m.operator == name and m.crosses_nodes)
            size = "of unknown size" if moved.unsized else f"{moved.bytes:,.0f} bytes"
            what = f"{_count(moved.groups, 'key group')} and {_count(moved.keys, 'named key')}"
            parts.append(
                f"{name}: {what} to move, {far.groups} and {far.keys} to another node, {size}"
            )
        return "\n".join(parts)


def migration_between(old: Layout, new: Layout, statistics: "Statistics | None") -> Migration:
    """Return what moves when one layout of a job follows another.

    A key group that moves has the state that was observed for it, or else its share of the
    operator's. A key that moves without its group has an equal share of the operator's state, as if
    tables named all keys.

    Args:
        old: the job as it is laid out.
        new: the job as it is to be laid out.
        statistics: how much state there is, as far as it was observed.
    """
    groups: list[GroupMove] = []
    keys: list[KeyMoves] = []
    parallelism, reroutes = [], []
    for name in old.topology.order:
        counts = [layout.topology.operator(name).parallelism for layout in (old, new)]
        if counts[0] != counts[1]:
            parallelism.append((name, counts[0], counts[1]))
        operator = old.topology.operator(name)
        if not operator.keyed or operator.partial or not old.topology.inputs(name):
            continue
        change = _Change(name, old, new, statistics)
        if not change.by_rule:
            groups += change.groups()
            keys += change.keys()
        elif change.is_any:
            reroutes.append(name)
    return Migration(tuple(groups), tuple(keys), tuple(parallelism), tuple(reroutes))


class _Change:
    """One operator when one layout follows another."""

    def __init__(
        self, name: str, old: Layout, new: Layout, statistics: "Statistics | None"
    ) -> None:
        self._name = name
        self._owners = old.owners(name), new.owners(name)
        self._nodes = old.homes[name].nodes, new.homes[name].nodes
        self.by_rule = any(owners.rule is not None for owners in self._owners)
        rules = [owners.rule for owners in self._owners]
        self.is_any = self._nodes[0] != self._nodes[1] or rules[0] != rules[1]
        count = len(self._owners[0].groups)
        self._state, self._group_state = _state_of(name, count, statistics)

    def groups(self) -> Iterator[GroupMove]:
        """Yield the key groups that move."""
        homes = [
            [(instance, nodes[instance]) for instance in owners.groups]
            for owners, nodes in zip(self._owners, self._nodes, strict=True)
        ]
        for group, (here, there) in enumerate(zip(*homes, strict=True)):
            if here != there:
                size = None if self._group_state is None else float(self._group_state[group])
                yield GroupMove(self._name, group, here, there, size)

    def keys(self) -> Iterator[KeyMoves]:
        """Yield how many keys that a table names move from where to where."""
        old, new = self._owners
        columns = named_in_either(old, new)
        total = sum(map(len, columns))
        if not total:
            return
        # 1. The instance of each before and after, and which of them move.
        before, after = (
            np.concatenate([owners.of_column(column) for column in columns]).astype(np.int64)
            for owners in self._owners
        )
        numbers = {node: number for number, node in enumerate(dict.fromkeys(sum(self._nodes, ())))}
        homes = [np.array([numbers[node] for node in nodes]) for nodes in self._nodes]
        moves = (before != after) | (homes[0][before] != homes[1][after])
        # 2. Those that stay in their group go along with it.
        groups = [
            np.concatenate([each.groups_followed(c) for c in columns]) for each in self._owners
        ]
        alone = (groups[0] != groups[1]) | (groups[0] == ABSENT)
        # 3. Both are counted for each two ends.
        cells = (before[moves] << 32) + after[moves]
        ends, which, counts = np.unique(cells, return_inverse=True, return_counts=True)
        lonely = np.bincount(which, alone[moves], len(ends)).astype(np.int64)
        for end, count, single in zip(ends.tolist(), counts.tolist(), lonely.tolist(), strict=True):
            here, there = divmod(end, 1 << 32)
            yield KeyMoves(
                self._name,
                (here, self._nodes[0][here]),
                (there, self._nodes[1][there]),
                count,
                single,
                None if self._state is None else self._state * single / total,
            )


def _state_of(
    name: str, groups: int, statistics: "Statistics | None"
) -> tuple[float | None, Floats | None]:
    """Return how much state an operator has, and each of its key groups; None where unknown."""
    if statistics is None:
        return None, None
    seen, whole = statistics.groups.get(name), statistics.operators.get(name)
    total = whole.state_bytes if whole is not None and whole.state_bytes else None
    if seen is not None and seen.state_bytes is not None:
        return total or float(seen.state_bytes.sum()), seen.state_bytes
    return total, None if total is None else np.full(groups, total / groups)


def _moved(moves: Iterable[GroupMove | KeyMoves]) -> Moved:
    """Add moves up."""
    listed = list(moves)
    groups = [move for move in listed if isinstance(move, GroupMove)]
    keys = [move for move in listed if isinstance(move, KeyMoves)]
    sizes = [move.bytes for move in groups] + [move.bytes for move in keys if move.alone]
    return Moved(
        sum(move.keys for move in keys),
        len(groups),
        sum((size for size in sizes if size is not None), 0.0),
        sum(size is None for size in sizes),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
