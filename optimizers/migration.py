"""Migrations: what has to move between two layouts of one job."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grouping.key_slots import ABSENT
from optimizers.key_state import KeyState, per_key
from optimizers.layout import Layout
from sketches.arrays import Floats, Integers, Parts
from sketches.keys import KeyColumn

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
        bytes: how much state moves with it, without that of named keys that do not; None where
            that is not known.
        keys: how many keys that no table names move with it; None where they were not counted.
    """

    operator: str
    group: int
    old: Place
    new: Place
    bytes: float | None = None
    keys: float | None = None

    @property
    def crosses_nodes(self) -> bool:
        """Whether its state has to travel to another machine."""
        return self.old[1] != self.new[1]


@dataclass(frozen=True, slots=True, order=True)
class KeyMoves:
    """Keys that move from one place to another: named in a table, or counted, if a rule sends them.

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
        keys: how many keys, as far as tables name them or they were counted.
        groups: how many key groups, with all keys in them that no table names.
        bytes: how much state, as far as it is known.
        unsized: how many of the moves are of unknown size.
        uncounted: how many of the groups have other keys, of unknown number.
    """

    keys: float = 0
    groups: int = 0
    bytes: float = 0.0
    unsized: int = 0
    uncounted: int = 0

    def __bool__(self) -> bool:
        return bool(self.keys or self.groups)


@dataclass(frozen=True, slots=True)
class Migration:
    """All that moves, operators in the order of the job.

    Attributes:
        groups: the key groups that move, with all their keys.
        keys: the keys that are named in a table and move, whether with their group or alone; of
            operators whose keys move by a rule that is not a table, those that were counted.
        parallelism: operators that get another number of instances, with the old and the new.
        reroutes: operators whose keys move by such a rule and were not all counted: only the state
            itself shows which others move.
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
        return _moved(self._moves, len(self.reroutes))

    @property
    def by_operator(self) -> dict[str, Moved]:
        """How much moves for each operator."""
        names = dict.fromkeys((*(move.operator for move in self._moves), *self.reroutes))
        return {
            name: _moved((m for m in self._moves if m.operator == name), name in self.reroutes)
            for name in names
        }

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
            if not moved:
                continue  # by a rule, and nothing more is known
            far = _moved(m for m in self._moves if m.operator == name and m.crosses_nodes)
            size = "of unknown size" if moved.unsized else f"{moved.bytes:,.0f} bytes"
            key = "named key" if moved.uncounted or not moved.groups else "key"
            what = f"{_count(moved.groups, 'key group')} and {_count(moved.keys, key)}"
            there = f"{far.groups:,} and {far.keys:,.0f} to another node"
            parts.append(f"{name}: {what} to move, {there}, {size}")
        return "\n".join(parts)


def migration_between(old: Layout, new: Layout, statistics: "Statistics | None") -> Migration:
    """Return what moves when one layout of a job follows another.

    Where keys were counted and the state of key groups was observed, all numbers are right, as far
    as keys of one group hold equal state; see `KeyState` for what is taken to hold otherwise.

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
        change = _OperatorChange(name, old, new, statistics)
        groups += change.groups()
        keys += change.keys()
        if change.is_open:
            reroutes.append(name)
    return Migration(tuple(groups), tuple(keys), tuple(parallelism), tuple(reroutes))


class _OperatorChange:
    """One operator when one layout follows another."""

    def __init__(
        self, name: str, old: Layout, new: Layout, statistics: "Statistics | None"
    ) -> None:
        self._name = name
        self._owners = old.owners(name), new.owners(name)
        self._nodes = old.homes[name].nodes, new.homes[name].nodes
        rules = [owners.rule for owners in self._owners]
        self._by_rule = rules != [None, None]
        is_any = self._nodes[0] != self._nodes[1] or rules[0] != rules[1]
        whole = None if statistics is None else statistics.operators.get(name)
        counts = None if statistics is None else statistics.keys.get(name)
        held = KeyState.of(*self._owners, counts, 0.0 if whole is None else whole.tuples)
        self.is_open = self._by_rule and is_any and not held.complete
        self._held = held
        # The state of groups and of keys; None where it is not known.
        self._group_state: Floats | None = None
        self._key_state: Floats | None = None
        seen = None if statistics is None else statistics.groups.get(name)
        if seen is not None and seen.state_bytes is not None:
            self._group_state = seen.state_bytes
            self._key_state = seen.state_bytes[held.groups] * held.shares
        elif whole is not None and whole.state_bytes is not None:
            self._group_state = held.by_group(whole.state_bytes)
            self._key_state = held.by_key(whole.state_bytes)

    def groups(self) -> Iterator[GroupMove]:
        """Yield the key groups that move; none where a rule sends their keys."""
        if self._by_rule:
            return
        homes = [
            [(instance, nodes[instance]) for instance in owners.groups]
            for owners, nodes in zip(self._owners, self._nodes, strict=True)
        ]
        state, others = self._staying_together, self._held.others
        for group, (here, there) in enumerate(zip(*homes, strict=True)):
            if here != there:
                size = None if state is None else float(state[group])
                keys = None if others is None else float(others[group])
                yield GroupMove(self._name, group, here, there, size, keys)

    def keys(self) -> Iterator[KeyMoves]:
        """Yield how many keys that are known one by one move from where to where."""
        if self._by_rule and not self._held.listed.any():
            return
        # 1. The instance of each before and after, and which of them move.
        before, after = (
            self._of(owners.assign if owners.rule is not None else owners.of_column)
            for owners in self._owners
        )
        numbers = {node: number for number, node in enumerate(dict.fromkeys(sum(self._nodes, ())))}
        homes = [np.array([numbers[node] for node in nodes]) for nodes in self._nodes]
        moves = (before != after) | (homes[0][before] != homes[1][after])
        if self._by_rule:
            moves &= self._held.listed
        # 2. Those that stay in their group go along with it.
        alone = self._alone[moves]
        state = None if self._key_state is None else self._key_state[: len(moves)][moves] * alone
        # 3. Both are counted for each two ends.
        cells = (before[moves] << 32) + after[moves]
        ends, which, counts = np.unique(cells, return_inverse=True, return_counts=True)
        lonely = np.bincount(which, alone, len(ends)).astype(np.int64)
        sizes = None if state is None else np.bincount(which, state, len(ends)).tolist()
        for place, (end, count) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True)):
            here, there = divmod(end, 1 << 32)
            yield KeyMoves(
                self._name,
                (here, self._nodes[0][here]),
                (there, self._nodes[1][there]),
                count,
                int(lonely[place]),
                None if sizes is None else sizes[place],
            )

    @cached_property
    def _alone(self) -> NDArray[np.bool_]:
        """Which of the known keys do not go with their key group."""
        if self._by_rule:
            return np.ones(len(self._held.groups), dtype=np.bool_)
        before, after = (self._of(owners.groups_followed) for owners in self._owners)
        alone: NDArray[np.bool_] = (before != after) | (before == ABSENT)
        return alone

    @property
    def _staying_together(self) -> Floats | None:
        """The state of each key group without that of keys that do not go with it."""
        if self._group_state is None or self._key_state is None:
            return None
        held, alone = self._held, np.flatnonzero(self._alone)
        gone = np.bincount(held.groups[alone], self._key_state[alone], len(held.number))
        return np.maximum(self._group_state - gone, 0.0)

    def _of(self, found: Callable[[KeyColumn], Parts]) -> Integers:
        """Return a number for each key that is known one by one: of a table, or under a rule."""
        columns = self._held.columns
        others = self._held.others is not None and not self._by_rule
        return per_key(columns[:-1] if others else columns, found)


def _moved(moves: Iterable[GroupMove | KeyMoves], open_: int = 0) -> Moved:
    """Add moves up; of `open_` operators no more is known than that something moves."""
    listed = list(moves)
    groups = [move for move in listed if isinstance(move, GroupMove)]
    keys = [move for move in listed if isinstance(move, KeyMoves)]
    sizes = [move.bytes for move in groups] + [move.bytes for move in keys if move.alone]
    return Moved(
        sum(move.keys for move in keys) + sum(move.keys or 0 for move in groups),
        len(groups),
        sum((size for size in sizes if size is not None), 0.0),
        sum(size is None for size in sizes) + open_,
        sum(move.keys is None for move in groups),
    )


def _count(number: float, what: str) -> str:
    return f"{number:,.0f} {what}{'s' if number != 1 else ''}"
