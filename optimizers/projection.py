"""Statistics of one layout of a job, projected to another layout: on arrays.

Named keys are followed one by one. Of others only sums are known: they move with their key groups,
and are taken to meet at random.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from grouping.groupings import LocalOrShuffle
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import GroupTable
from optimizers.key_state import KeyState, per_key
from optimizers.layout import Layout
from optimizers.loads import REMOTE, GroupStatistics, InstanceStatistics
from optimizers.operators import Edge, EdgeName
from sketches.arrays import Floats, Integers, Parts
from sketches.keys import as_keys

_ALMOST_ZERO = 1e-300


@dataclass(frozen=True)
class Projection:
    """Two layouts of one job, and the counts of its keys under the first.

    Attributes:
        old: the layout under which the keys were counted.
        new: the layout to come.
        keys: how often the keys of operators came.
        pairs: which key of one operator was followed by which of the next, and how often.
        tuples: how many tuples each operator received.
    """

    old: Layout
    new: Layout
    keys: Mapping[str, KeyCounts]
    pairs: Mapping[EdgeName, KeyPairs]
    tuples: Mapping[str, float]

    def regroups(self, name: str) -> bool:
        """Return whether keys of an operator may get other key groups."""
        return self.old.owners(name).table != self.new.owners(name).table

    def is_as_wide(self, *names: str) -> bool:
        """Return whether these operators have as many instances as before."""
        return all(
            len(self.old.homes[name].nodes) == len(self.new.homes[name].nodes) for name in names
        )

    def known(self, name: str) -> bool:
        """Return whether keys of an operator are named."""
        return name in self.keys and self.keys[name].total > 0

    def groups(self, name: str, seen: GroupStatistics) -> GroupStatistics:
        """Return the loads of an operator's key groups under the new layout.

        Which of their tuples come from other hosts is not known where operators move.
        """
        if self.regroups(name) and self.known(name):
            kept = {"memory", "state_bytes"}
            seen = GroupStatistics(
                **{
                    part: self.group_state(name, loads)
                    if part in kept
                    else self.group_loads(name, loads)
                    for part, loads in seen.columns.items()
                }
            )
        return seen if self._meets_alike(name) else seen.without("network", *REMOTE)

    def instances(
        self, seen: Mapping[str, InstanceStatistics], groups: Mapping[str, GroupStatistics]
    ) -> dict[str, InstanceStatistics]:
        """Return the loads of instances under the new layout, for operators where that is known.

        Loads of key groups move with them; the fixed cost of calls stays with each instance. Where
        neither instances nor keys move, nothing changes.
        """
        found = {}
        for name, known in seen.items():
            if not _stays(self.old, self.new, name):
                moved = self._moved(name, known, groups.get(name))
                if moved is not None:
                    found[name] = moved
            else:
                found[name] = (
                    known if self._meets_alike(name) else known.without("network", *REMOTE)
                )
        return found

    def _moved(
        self, name: str, seen: InstanceStatistics, groups: GroupStatistics | None
    ) -> InstanceStatistics | None:
        """Return the loads of instances if some of them, or of their keys, move."""
        nodes = self.new.homes[name].nodes
        if not self.new.topology.operator(name).keyed:
            if len(nodes) != len(seen):
                return None
            stay = replace(seen, nodes=nodes, hosts=None)
            return stay.without("cpu", "network", *REMOTE)
        owners = self.new.owners(name)
        by_group = owners.rule is None and isinstance(owners.table, GroupTable | None)
        if groups is None or not by_group or not _one_owner(self.new, name):
            return None
        groups = self.groups(name, groups)
        sums: dict[str, Any] = {
            part: np.bincount(self.new.homes[name].groups, loads, len(nodes))
            for part, loads in groups.columns.items()
            if part not in {"network", *REMOTE}
        }
        for part in ("seconds", "cpu"):
            before = getattr(seen, part)
            if part in sums and before is not None:
                # Each instance has the cost that does not grow with the tuples.
                rest = max(0.0, float(before.sum() - groups.columns[part].sum()))
                sums[part] = sums[part] + rest / len(seen)
                if part == "seconds":
                    sums["fixed"] = np.full(len(nodes), rest / len(seen))
        return InstanceStatistics(nodes, **sums)

    def _meets_alike(self, name: str) -> bool:
        """Return whether an operator stays, and all that it gets tuples from or sends them to."""
        job = self.old.topology
        before = {edge.source for edge in job.inputs(name)}
        after = {edge.target for edge in job.outputs(name)}
        met = {
            name,
            *after,
            *(_origin(layout, one) for layout in (self.old, self.new) for one in before),
        }
        return all(_stays(self.old, self.new, one) for one in sorted(met))

    def group_loads(self, name: str, loads: Floats) -> Floats:
        """Return loads that grow with tuples, by key group: each key takes its share along."""
        return _shifted(loads, *self._groups[name], self._shares(name))

    def group_state(self, name: str, state: Floats) -> Floats:
        """Return the state of each key group: each known key takes its own along (`KeyState`)."""
        held, owners = self._held[name], self.new.owners(name)
        return _shifted(state, held.groups, per_key(held.columns, owners.group_of), held.shares)

    def traffic(
        self, hop: EdgeName, sources: Integers, targets: Integers, tuples: Floats
    ) -> tuple[Integers, Integers, Floats]:
        """Return the tuples between key groups: a pair of named keys moves with both keys."""
        pairs = self.pairs.get(hop)
        if pairs is None or not len(pairs):
            return sources, targets, tuples
        sizes = [len(self.old.homes[name].groups) for name in hop]
        cells = np.zeros(sizes)
        np.add.at(cells, (sources, targets), tuples)
        before, after = (
            np.ravel_multi_index(
                (
                    _groups_of(layout, hop[0], pairs.left),
                    _groups_of(layout, hop[1], pairs.right),
                ),
                sizes,
            )
            for layout in (self.old, self.new)
        )
        named = np.bincount(before, pairs.counts, cells.size)
        # Pairs may be from a sample, and stand for more tuples than there were.
        shares = pairs.counts / np.maximum(named, cells.reshape(-1))[before].clip(_ALMOST_ZERO)
        moved = _shifted(cells.reshape(-1), before, after, shares).reshape(sizes)
        rows, columns = np.nonzero(moved)
        return rows, columns, moved[rows, columns]

    def gained(self, edge: Edge, tuples: float) -> float:
        """Return by how much the share of an edge's tuples that stay on their node would grow."""
        same = all(
            _stays(self.old, self.new, name)
            for name in {edge.source, edge.target, _origin(self.old, edge.source)}
        )
        if same:
            return 0.0
        return self._local(self.new, edge, tuples) - self._local(self.old, edge, tuples)

    def heirs(self, name: str, instances: int) -> list[int]:
        """Return the new instance that takes over the measurements of each old one.

        It is one on the same node, if there is one; best of all, the same.
        """
        old, new = self.old.homes[name].nodes, self.new.homes[name].nodes
        chosen = []
        for number in range(instances):
            node = old[number] if number < len(old) else None
            near = [place for place, name_of in enumerate(new) if name_of == node]
            if number < len(new) and (number in near or not near):
                chosen.append(number)
            else:
                chosen.append(near[number % len(near)] if near else number % len(new))
        return chosen

    @cached_property
    def _groups(self) -> dict[str, tuple[Parts, Parts]]:
        """The key group of each named key, before and after."""
        return {
            name: (
                _groups_of(self.old, name, counts.keys),
                _groups_of(self.new, name, counts.keys),
            )
            for name, counts in self.keys.items()
        }

    @cached_property
    def _held(self) -> dict[str, KeyState]:
        """The keys of operators, and the share of its group's state that each has."""
        return {
            name: KeyState.of(
                self.old.owners(name), self.new.owners(name), counts, self.tuples.get(name, 0.0)
            )
            for name, counts in self.keys.items()
        }

    def _unlisted(self, name: str) -> float:
        """Return how many tuples had keys that are not named."""
        return max(0.0, self.tuples.get(name, 0.0) - self.keys[name].total)

    def _shares(self, name: str) -> Floats:
        """Return the share of its group's tuples that each named key had."""
        before, _ = self._groups[name]
        counts, number = self.keys[name].counts, len(self.old.homes[name].groups)
        # Keys that are not named are many and rare, so that hashing spreads them evenly.
        tuples = np.bincount(before, counts, number) + self._unlisted(name) / number
        shares: Floats = counts / np.maximum(tuples[before], _ALMOST_ZERO)
        return shares

    def _local(self, layout: Layout, edge: Edge, tuples: float) -> float:
        """Return the share of an edge's tuples that stay on their node in a layout."""
        origin = _origin(layout, edge.source)
        here, there = self._node_shares(layout, origin), self._node_shares(layout, edge.target)
        if isinstance(layout.topology.grouping(*edge.name), LocalOrShuffle):
            return sum(share for node, share in here.items() if node in there)
        by_chance = sum(share * there.get(node, 0.0) for node, share in here.items())
        pairs = self.pairs.get((origin, edge.target))
        if pairs is None or not pairs.total:
            return by_chance
        numbers = {node: number for number, node in enumerate(sorted({*here, *there}))}
        ends = zip((origin, edge.target), (pairs.left, pairs.right), strict=True)
        left, right = (_nodes_of(layout, name, keys, numbers) for name, keys in ends)
        together = float(pairs.counts[left == right].sum())
        unlisted = max(0.0, tuples - pairs.total)
        return (together + unlisted * by_chance) / (pairs.total + unlisted)

    def _node_shares(self, layout: Layout, name: str) -> dict[str, float]:
        """Return the share of an operator's tuples that each node has."""
        home = layout.homes[name]
        loads = np.full(len(home.nodes), 1.0 / len(home.nodes))
        if layout.topology.operator(name).keyed and _one_owner(layout, name):
            of_groups = np.bincount(home.groups, minlength=len(home.nodes)) / len(home.groups)
            loads = of_groups
            if self.known(name):
                counts = self.keys[name]
                owners = _owners_of(layout, name, counts.keys)
                named: Any = np.bincount(owners, counts.counts, len(home.nodes))
                loads = named + self._unlisted(name) * of_groups
                loads /= loads.sum()
        shares: dict[str, float] = {}
        for node, load in zip(home.nodes, loads.tolist(), strict=True):
            shares[node] = shares.get(node, 0.0) + load
        return shares


def _shifted(
    amounts: Floats, before: Parts | Integers, after: Parts | Integers, shares: Floats
) -> Floats:
    """Return amounts once each key has taken its share of its place's amount to another place."""
    moving = np.flatnonzero(before != after)
    carried = amounts[before[moving]] * shares[moving]
    left = amounts - np.bincount(before[moving], carried, len(amounts))
    found: Floats = np.maximum(left, 0.0) + np.bincount(after[moving], carried, len(amounts))
    return found


def _groups_of(layout: Layout, name: str, keys: Any) -> Parts:
    owners = layout.owners(name)
    return owners.group_of(as_keys(keys, seed=owners.seed))


def _owners_of(layout: Layout, name: str, keys: Any) -> Parts:
    owners = layout.owners(name)
    return owners.assign(as_keys(keys, seed=owners.seed))


def _nodes_of(layout: Layout, name: str, keys: Any, numbers: dict[str, int]) -> Integers:
    """Return the node of each key, by number."""
    nodes = np.array([numbers[node] for node in layout.homes[name].nodes], dtype=np.int64)
    return nodes[_owners_of(layout, name, keys)]


def _one_owner(layout: Layout, name: str) -> bool:
    """Return whether every key of an operator has one owner, whichever edge it comes by."""
    inputs = layout.topology.inputs(name)
    return bool(inputs) and all(layout.owners_on(edge) is not None for edge in inputs)


def _stays(old: Layout, new: Layout, name: str) -> bool:
    """Return whether an operator's instances, key groups and keys are where they were."""
    if old.homes[name] != new.homes[name]:
        return False
    groupings = (
        [layout.topology.grouping(*edge.name) for edge in layout.topology.inputs(name)]
        for layout in (old, new)
    )
    return next(groupings) == next(groupings)


def _origin(layout: Layout, name: str) -> str:
    """Return the operator whose instances' places the tuples of an operator are still at."""
    while name in layout.attached:
        name = layout.topology.inputs(name)[0].source
    return name
