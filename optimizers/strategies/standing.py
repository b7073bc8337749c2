"""Who owns which key now, and on which machine: what a new routing starts from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grouping.groupings import Fields
from grouping.hashing import hash_parts
from grouping.key_table import KeyTable
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import Partition
from grouping.keygraph.spreading import spread
from grouping.routing_table import RoutingTable
from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Floats, Parts
from sketches.key_identity import distinct
from sketches.keys import as_keys

Hops: TypeAlias = Mapping[EdgeName, KeyPairs]
Tables: TypeAlias = dict[str, RoutingTable]


def one_owner_a_key(topology: Topology, operator: str) -> bool:
    """Return whether keys reach an operator by hash or table, so that a table may say where.

    Nothing routes the keys of a source, and keys that are split over instances have no one place.
    """
    groupings = [topology.grouping(*edge.name) for edge in topology.inputs(operator)]
    return bool(groupings) and all(isinstance(g, Fields | KeyTable) for g in groupings)


@dataclass(frozen=True)
class Standing:
    """The keyed operators of some hops as they stand: their instances, machines and owners.

    >>> from optimizers import Cluster, Plan, Topology
    >>> job = Topology.source("s").then("a", key="k", parallelism=3).then("b", key="l")
    >>> Standing(job, Cluster.uniform(2), Plan(), (("a", "b"),)).deployed["a"]
    ('node-0', 'node-1', 'node-0')

    Attributes:
        topology: the job, with the groupings in force.
        cluster: the machines.
        current: the plan in force.
        hops: pairs of consecutive keyed operators.
    """

    topology: Topology
    cluster: Cluster
    current: Plan
    hops: tuple[EdgeName, ...]

    @cached_property
    def layout(self) -> Layout:
        """The job as it is laid out now."""
        return Layout.of(self.topology, self.cluster, self.current)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operators, in the order of the job."""
        named = {name for hop in self.hops for name in hop}
        return tuple(name for name in self.topology.order if name in named)

    @cached_property
    def deployed(self) -> dict[str, tuple[str, ...]]:
        """The node of each instance, by operator."""
        return {name: self.layout.homes[name].nodes for name in self.names}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have an instance of any of the operators."""
        used = {node for nodes in self.deployed.values() for node in nodes}
        return tuple(node.name for node in self.cluster.nodes if node.name in used)

    @cached_property
    def node_of(self) -> dict[str, NDArray[np.int32]]:
        """For each operator, the number of each instance's node."""
        numbers = {node: number for number, node in enumerate(self.nodes)}
        return {
            name: np.array([numbers[node] for node in nodes], dtype=np.int32)
            for name, nodes in self.deployed.items()
        }

    @cached_property
    def tables(self) -> dict[str, KeyTable]:
        """The table that names keys of each operator; an empty one where keys go by hash."""
        found: dict[str, KeyTable] = {}
        for name in self.names:
            table = self.layout.owners(name).table
            empty = RoutingTable([], [], self.topology.operator(name).parallelism)
            found[name] = empty if table is None else table
        return found

    @property
    def seed(self) -> int:
        """The seed by which the job hashes keys that no table knows."""
        return self.topology.seed

    def owners(self, name: str, keys: Any) -> Parts:
        """Return the instance that has each key of an operator now."""
        return self.layout.owners(name).assign(keys)

    def owners_under(self, name: str, table: KeyTable, keys: Any) -> Parts:
        """Return the instance that each key of an operator would have under another table."""
        return replace(self.layout.owners(name), table=table).assign(keys)

    @property
    def decided(self) -> bool:
        """Whether any operator is routed by a table already."""
        return any(len(table) for table in self.tables.values())

    @property
    def racks(self) -> list[str] | None:
        """The rack of each node; None where all are in one."""
        racks = [self.cluster.node(node).rack for node in self.nodes]
        return racks if len(set(racks)) > 1 else None

    @property
    def chance(self) -> float:
        """How likely two keys are on one node if neither is routed on purpose."""
        shares = self.capacities(self.names)
        shares /= shares.sum(axis=1, keepdims=True)
        places = {name: place for place, name in enumerate(self.names)}
        return float(np.mean([shares[places[a]] @ shares[places[b]] for a, b in self.hops]))

    def luck(self, hops: Hops) -> float:
        """Return how far from `chance` keys that are routed at random may come.

        That is one standard deviation at most, with each key's place chosen by itself: few heavy
        keys can be lucky, many light ones cannot.
        """
        total = sum(pairs.total for pairs in hops.values())
        concentration = 0.0
        for pairs in hops.values():
            for keys in (pairs.left, pairs.right):
                number, _ = distinct(as_keys(keys))
                loads: Any = np.bincount(number, pairs.counts)
                concentration += float(np.square(loads / total).sum())
        return math.sqrt(self.chance * (1 - self.chance) * concentration)

    def capacities(self, names: tuple[str, ...]) -> Floats:
        """Return what each node can take of each operator, of shape (operators, nodes).

        That is nothing where the operator has no instance, and nothing where a node drains, but
        where that would leave the operator without any node.
        """
        power = np.array([self.cluster.node(node).capacity for node in self.nodes])
        counts = np.stack(
            [np.bincount(self.node_of[name], minlength=len(self.nodes)) for name in names]
        )
        staying = counts * ~np.isin(self.nodes, self.cluster.draining)
        capacities: Floats = power * np.where(staying.any(axis=1, keepdims=True), staying, counts)
        return capacities

    def on_nodes(self, graph: KeyGraph) -> list[RoutingTable]:
        """Return, for each operator of the graph, the node that has each key now."""
        return [
            RoutingTable(column, self.node_of[name][self.owners(name, column)], len(self.nodes))
            for name, column in zip(graph.names, graph.columns, strict=True)
        ]

    def instances(self, graph: KeyGraph, partition: Partition) -> Tables:
        """Return the instance of each key, where a partition says its node."""
        tables = {}
        for place, (name, column) in enumerate(zip(graph.names, graph.columns, strict=True)):
            node_of = self.node_of[name]
            nodes = partition.tables[place].assign(column)
            # The published division knows no machines; where one lacks an instance, another helps.
            lacking = ~np.isin(nodes, node_of)
            nodes[lacking] = node_of[nodes[lacking] % len(node_of)]
            chosen = spread(
                nodes, graph.loads[graph.span(place)], node_of, self.owners(name, column)
            )
            tables[name] = RoutingTable(column, chosen, len(node_of))
        return tables

    def kept(self, tables: Tables) -> Tables:
        """Return the tables with all owners of now that they say nothing about.

        Without that, keys that were not seen lately would go back to where their hash sends
        them, and their state would have to move for nothing. Only from nodes that drain they go.
        """
        whole = {}
        for name, table in tables.items():
            old = self.tables[name]
            if len(old):
                column = as_keys(old.keys)
                known, _ = table.find(column)
                others = np.flatnonzero(~known)
                column = column.take(others)
                owners = self.owners(name, column)
                node_of = self.node_of[name]
                usable = np.flatnonzero(self.capacities((name,))[0, node_of]).astype(np.int32)
                leaving = np.flatnonzero(~np.isin(owners, usable))
                owners[leaving] = usable[
                    hash_parts(column.take(leaving), len(usable), seed=self.seed)
                ]
                table = table.with_keys(column, owners)  # noqa: PLW2901
            whole[name] = table
        return whole

    def locality(self, tables: Mapping[str, KeyTable], hops: Hops) -> float:
        """Return the share of the tuples of these pairs that stay on their node."""
        local = total = 0.0
        for (source, target), pairs in hops.items():
            ends = (source, pairs.left), (target, pairs.right)
            here, there = (
                self.node_of[name][self.owners_under(name, tables[name], keys)]
                for name, keys in ends
            )
            local += float(pairs.counts[here == there].sum())
            total += pairs.total
        return local / total if total else 0.0

    def moving(self, proposal: Tables, statistics: Statistics) -> tuple[float, float | None]:
        """Return how many keys get another owner, and how many bytes of state, if that is known."""
        later = self.current.amended(Plan(routing=proposal), self.cluster)
        moved = self.current.diff(later, self.topology, self.cluster, statistics).total
        seen = [statistics.operators.get(name) for name in proposal]
        sized = all(operator is not None and operator.state_bytes for operator in seen)
        return float(moved.keys), moved.bytes if sized else None

    def tuple_bytes(self, statistics: Statistics) -> float | None:
        """Return the mean size of a tuple on the edges into the operators, if that is known."""
        edges = [
            statistics.edges[edge.name]
            for name in dict.fromkeys(target for _, target in self.hops)
            for edge in self.topology.inputs(name)
            if edge.name in statistics.edges
        ]
        tuples = sum(edge.tuples for edge in edges)
        size = sum(edge.bytes for edge in edges)
        return size / tuples if tuples and size else None
