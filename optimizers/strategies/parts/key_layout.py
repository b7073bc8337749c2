"""The owners of keys under a layout, their locality, and what another division would move."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from grouping.groupings import Fields
from grouping.hashing import hash_parts
from grouping.key_table import KeyTable
from grouping.keygraph.group_filling import HOMELESS, fill_groups
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import Partition
from grouping.keygraph.spreading import spread
from grouping.owners import KeyOwners
from grouping.routing_table import GroupTable, RoutingTable
from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.migration import migration_between
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Floats, Integers, Parts
from sketches.key_identity import distinct
from sketches.keys import KeyColumn, as_keys

Hops: TypeAlias = Mapping[EdgeName, KeyPairs]
Division: TypeAlias = dict[str, RoutingTable]
"""The instance of each known key of some operators."""

_NOWHERE = -1  # the node of an instance without key groups, and so without keys


def one_owner_a_key(topology: Topology, operator: str) -> bool:
    """Return whether an operator gets keys by hash or table, so that a table can route them.

    Keys of a source are not routed, and keys that are split over instances have several places.
    """
    groupings = [topology.grouping(*edge.name) for edge in topology.inputs(operator)]
    return bool(groupings) and all(isinstance(g, Fields | KeyTable) for g in groupings)


@dataclass(frozen=True)
class KeyLayout:
    """The keyed operators of some hops under a layout: their instances, nodes and keys.

    >>> from optimizers import Cluster, Plan, Topology
    >>> job = Topology.source("s").then("a", key="k", parallelism=3).then("b", key="l")
    >>> cluster = Cluster.uniform(2)
    >>> layout = KeyLayout(Layout.of(job, cluster, Plan()), cluster, (("a", "b"),))
    >>> layout.nodes, layout.node_of["a"].tolist()
    (('node-0', 'node-1'), [0, 1, 0])

    Attributes:
        layout: the job as it is laid out.
        cluster: the machines.
        hops: pairs of consecutive keyed operators.
    """

    layout: Layout
    cluster: Cluster
    hops: tuple[EdgeName, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operators, in the order of the job."""
        named = {name for hop in self.hops for name in hop}
        return tuple(name for name in self.layout.topology.order if name in named)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have an instance of any of the operators."""
        used = {node for name in self.names for node in self.layout.homes[name].nodes}
        return tuple(node.name for node in self.cluster.nodes if node.name in used)

    @cached_property
    def node_of(self) -> dict[str, Parts]:
        """For each operator, the number of each instance's node."""
        numbers = {node: number for number, node in enumerate(self.nodes)}
        return {
            name: np.array(
                [numbers[node] for node in self.layout.homes[name].nodes], dtype=np.int32
            )
            for name in self.names
        }

    @cached_property
    def group_owners(self) -> dict[str, Parts]:
        """For each operator, the instance of each key group."""
        return {
            name: np.array(self.layout.homes[name].groups, dtype=np.int32) for name in self.names
        }

    def table(self, name: str) -> KeyTable | None:
        """Return the table that routes an operator's keys; None where it names no key."""
        table = self.layout.owners(name).table
        return table if table is not None and len(table) else None

    def owners(self, name: str, keys: Any) -> Parts:
        """Return the instance that has each key of an operator now."""
        return self.layout.owners(name).assign(keys)

    @property
    def seed(self) -> int:
        """The seed by which the job hashes keys that no table knows."""
        return self.layout.topology.seed

    @property
    def decided(self) -> bool:
        """Whether any operator is routed by a table already."""
        return any(self.table(name) is not None for name in self.names)

    @property
    def racks(self) -> list[str] | None:
        """The rack of each node; None where all are in one."""
        racks = [self.cluster.node(node).rack for node in self.nodes]
        return racks if len(set(racks)) > 1 else None

    @property
    def chance(self) -> float:
        """The probability that two keys are on one node if both are routed at random."""
        shares = self.capacities(self.names)
        shares /= shares.sum(axis=1, keepdims=True)
        places = {name: place for place, name in enumerate(self.names)}
        return float(np.mean([shares[places[a]] @ shares[places[b]] for a, b in self.hops]))

    def luck(self, hops: Hops) -> float:
        """Return how far keys that are routed at random may be from `chance`.

        That is one standard deviation at most, with independent places of keys: a few heavy keys
        can be lucky, many light ones cannot.
        """
        total = sum(pairs.total for pairs in hops.values())
        concentration = 0.0
        for pairs in hops.values():
            for keys in pairs.columns:
                number, _ = distinct(keys)
                loads: Any = np.bincount(number, pairs.counts)
                concentration += float(np.square(loads / total).sum())
        return math.sqrt(self.chance * (1 - self.chance) * concentration)

    def capacities(self, names: tuple[str, ...]) -> Floats:
        """Return what each node can take of each operator, of shape (operators, nodes).

        That is 0 where the operator has no instance, and 0 where a node drains, unless that leaves
        the operator without any node.
        """
        power = np.array([self.cluster.node(node).capacity for node in self.nodes])
        counts = np.stack([self._counts(name) for name in names])
        staying = counts * ~np.isin(self.nodes, self.cluster.draining)
        capacities: Floats = power * np.where(staying.any(axis=1, keepdims=True), staying, counts)
        return capacities

    def on_nodes(self, graph: KeyGraph) -> list[RoutingTable]:
        """Return, for each operator of the graph, the node that has each key now."""
        return [
            RoutingTable(column, self.node_of[name][self.owners(name, column)], len(self.nodes))
            for name, column in zip(graph.names, graph.columns, strict=True)
        ]

    def divided(self, graph: KeyGraph, partition: Partition) -> Division:
        """Return the instance of each key, given its node in a partition."""
        found = {}
        for place, (name, column) in enumerate(zip(graph.names, graph.columns, strict=True)):
            usable, node_of = self._usable(name), self._usable_nodes(name)
            nodes = partition.tables[place].assign(column)
            # The published division knows no machines; where one lacks an instance, another helps.
            lacking = ~np.isin(nodes, node_of)
            nodes[lacking] = node_of[usable][nodes[lacking] % len(usable)]
            chosen = spread(
                nodes, graph.loads[graph.span(place)], node_of, self.owners(name, column)
            )
            found[name] = RoutingTable(column, chosen, len(node_of))
        return found

    def kept(self, division: Division) -> Division:
        """Return the division, with the present owners of all keys that are not in it.

        Otherwise keys that were not seen lately would go back to the instance of their hash, and
        their state would move for nothing. They leave only nodes that drain.
        """
        whole = {}
        for name, table in division.items():
            old = self.table(name)
            whole[name] = table if old is None else table.with_keys(*self._unseen(name, old, table))
        return whole

    def in_groups(self, division: Division, graph: KeyGraph | None = None) -> dict[str, GroupTable]:
        """Return key groups for all keys of a division, each a group of its instance.

        Keys of the graph are put beside those that they belong to. Others stay in their group if
        that is on their instance, and otherwise get one by hash.
        """
        found = {}
        filled = {} if graph is None else self._filled(division, graph)
        for name, table in division.items():
            column = as_keys(table.keys)
            groups = self._stayed(name, column, table.parts)
            if name in filled:
                groups_of = filled[name]
                known, better = groups_of.find(column)
                groups[known] = better[known]
            found[name] = GroupTable(column, groups, len(self.group_owners[name]))
        return found

    def locality(self, hops: Hops, division: Division | None = None) -> float:
        """Return the share of the tuples of these pairs that stay on their node.

        Args:
            hops: the pairs.
            division: the owners to be; by default the present ones.
        """
        local = total = 0.0
        for hop, pairs in hops.items():
            here, there = (
                self.node_of[name][self._under(name, division).assign(keys)]
                for name, keys in zip(hop, pairs.columns, strict=True)
            )
            local += float(pairs.counts[here == there].sum())
            total += pairs.total
        return local / total if total else 0.0

    def moving(self, division: Division, statistics: Statistics) -> tuple[float, float | None]:
        """Return how many keys get another owner, and how many bytes of state, if that is known.

        It is what `Plan.diff` says of the plan that follows, by the counts of keys and the sum of
        the state of all: that of key groups is observed only if another strategy wants it. It is
        not known after a restart; nor is what keys weigh of operators that are said to hold none.
        """
        later = Layout(self.layout.topology.under(Plan(routing=division)), self.layout.homes)
        known = Statistics(operators=statistics.operators, keys=statistics.keys)
        moved = migration_between(self.layout, later, known).total
        seen = [statistics.operators.get(name) for name in division]
        sized = all(operator is not None and operator.state_bytes for operator in seen)
        return float(moved.keys), moved.bytes if sized else None

    def tuple_bytes(self, statistics: Statistics) -> float | None:
        """Return the mean size of a tuple on the edges into the operators, if that is known."""
        edges = [
            statistics.edges[edge.name]
            for name in dict.fromkeys(target for _, target in self.hops)
            for edge in self.layout.topology.inputs(name)
            if edge.name in statistics.edges
        ]
        tuples = sum(edge.tuples for edge in edges)
        size = sum(edge.bytes for edge in edges)
        return size / tuples if tuples and size else None

    def _under(self, name: str, division: Division | None) -> KeyOwners:
        """Return the owners of an operator's keys; keys that are not divided stay where they are.

        They stay with their key group: a division has all keys that tables name.
        """
        owners = self.layout.owners(name)
        return owners if division is None else replace(owners, table=division[name])

    def _usable(self, name: str) -> Parts:
        """Return the instances of an operator that have key groups."""
        return np.unique(self.group_owners[name])

    def _usable_nodes(self, name: str) -> Parts:
        """Return the node of each instance, `_NOWHERE` for those without a key group."""
        nodes = np.full_like(self.node_of[name], _NOWHERE)
        usable = self._usable(name)
        nodes[usable] = self.node_of[name][usable]
        return nodes

    def _counts(self, name: str) -> Integers:
        """Return how many instances with key groups each node has."""
        return np.bincount(self.node_of[name][self._usable(name)], minlength=len(self.nodes))

    def _unseen(self, name: str, old: KeyTable, new: RoutingTable) -> tuple[KeyColumn, Parts]:
        """Return the keys of a table that are not in another, and their owners."""
        known, _ = new.find(old.column)
        column = old.column.take(np.flatnonzero(~known))
        owners = self.owners(name, column)
        node_of = self._usable_nodes(name)
        usable = self._usable(name)
        usable = usable[self.capacities((name,))[0, node_of[usable]] > 0]
        leaving = np.flatnonzero(~np.isin(owners, usable))
        owners[leaving] = usable[hash_parts(column.take(leaving), len(usable), seed=self.seed)]
        return column, owners

    def _stayed(self, name: str, keys: KeyColumn, instances: Parts) -> Parts:
        """Return the group of each key: the present one if its instance has it, or by hash."""
        owners = self.group_owners[name]
        groups = self.layout.owners(name).group_of(keys)
        moving = np.flatnonzero(owners[groups] != instances)
        order = np.argsort(owners, kind="stable").astype(np.int32)
        counts = np.bincount(owners, minlength=len(self.node_of[name]))
        firsts = np.cumsum(counts) - counts
        # A large number by hash; each instance takes it modulo the number of its groups.
        chance = hash_parts(keys.take(moving), len(owners), choice=1, seed=self.seed)
        there = instances[moving]
        groups[moving] = order[firsts[there] + chance * counts[there] // len(owners)]
        return groups

    def _filled(self, division: Division, graph: KeyGraph) -> dict[str, GroupTable]:
        """Return the groups of the keys of a graph, with keys that belong together in one group."""
        instances, nodes, home = [], [], []
        for name, column in zip(graph.names, graph.columns, strict=True):
            instances.append(division[name].assign(column))
            nodes.append(self.node_of[name][instances[-1]])
            home.append(np.full(len(column), HOMELESS, dtype=np.int32))
            table = self.table(name)
            if isinstance(table, GroupTable):
                known, groups = table.find(column)
                home[-1][known] = groups[known]
        groups = fill_groups(
            graph,
            np.concatenate(nodes),
            np.concatenate(instances),
            [self.group_owners[name] for name in graph.names],
            np.concatenate(home),
        )
        return {
            name: GroupTable(column, groups[graph.span(place)], len(self.group_owners[name]))
            for place, (name, column) in enumerate(zip(graph.names, graph.columns, strict=True))
        }
