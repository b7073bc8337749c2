"""Key groups of all operators in one row, where they are, and where else they may go."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from grouping.groupings import Fields
from grouping.placement.instances import even_instances
from grouping.placement.problem import PlacementProblem
from grouping.placement.traffic import Traffic
from grouping.routing_table import GroupTable
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment
from optimizers.layout import Layout
from optimizers.operators import Operator
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Floats, Integers, Marks, Parts


def movable(topology: Topology, operator: Operator) -> bool:
    """Return whether the keys of an operator go where their key group is."""
    groupings = [topology.grouping(*edge.name) for edge in topology.inputs(operator.name)]
    by_group = all(isinstance(grouping, Fields | GroupTable) for grouping in groupings)
    return operator.keyed and not operator.partial and bool(groupings) and by_group


def hindrance(topology: Topology) -> str:
    """Return why no key group can ever be moved to another node; empty if some can."""
    if any(movable(topology, operator) for operator in topology.operators):
        return ""
    return "no operator has keys that go where their key group is"


_HAS = {"memory": "memory", "network": "bandwidth"}


def sizes(cluster: Cluster, resource: str) -> Floats | None:
    """Return how much each node has of a resource; None where only capacities compare nodes."""
    found = [getattr(node, _HAS[resource]) for node in cluster.nodes] if resource in _HAS else []
    return None if not found or None in found else np.array(found)


def rooms(cluster: Cluster, resource: str) -> Floats:
    """Return what each node has room for, together as much as all capacities.

    >>> from optimizers import Node
    >>> cluster = Cluster((Node("a", memory=1e9), Node("b", memory=3e9)))
    >>> rooms(cluster, "cpu").tolist(), rooms(cluster, "memory").tolist()
    ([1.0, 1.0], [0.5, 1.5])
    """
    powers = np.array([node.capacity for node in cluster.nodes])
    has = sizes(cluster, resource)
    return powers if has is None else has * (powers.sum() / has.sum())


@dataclass(frozen=True)
class GroupLayout:
    """The key groups of some operators, one operator after the other, and their nodes.

    >>> from optimizers import Plan
    >>> job = Topology.source("s").then("a", key="k", parallelism=2, key_groups=4)
    >>> cluster = Cluster.uniform(3)
    >>> groups = GroupLayout(Layout.of(job, cluster, Plan()), cluster, ("a",))
    >>> groups.current.tolist(), groups.able[0].tolist()
    ([0, 0, 1, 1], [True, True, False])

    Attributes:
        layout: the job as it is laid out.
        cluster: the machines.
        names: the operators, in the order of the job.
        resource: of which resource the loads are that nodes have room for.
    """

    layout: Layout
    cluster: Cluster
    names: tuple[str, ...]
    resource: str = "cpu"

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The number of each node."""
        return {node.name: number for number, node in enumerate(self.cluster.nodes)}

    @cached_property
    def capacities(self) -> Floats:
        """What each node has room for."""
        return rooms(self.cluster, self.resource)

    @cached_property
    def units(self) -> dict[str, float]:
        """By node, what a load that is a share of it is anywhere: see `optimizers.loads`."""
        powers = [node.capacity for node in self.cluster.nodes]
        return dict(zip(self.nodes, (self.capacities / powers).tolist(), strict=True))

    @cached_property
    def draining(self) -> list[int]:
        """The numbers of the nodes that drain."""
        return [self.nodes[name] for name in self.cluster.draining]

    @cached_property
    def spans(self) -> dict[str, slice]:
        """Where the groups of each operator are in the row."""
        found, start = {}, 0
        for name in self.names:
            count = len(self.layout.homes[name].groups)
            found[name] = slice(start, start + count)
            start += count
        return found

    @property
    def count(self) -> int:
        """How many groups there are."""
        return sum(len(self.layout.homes[name].groups) for name in self.names)

    @cached_property
    def current(self) -> Parts:
        """The number of the node of each group."""
        return self._row({name: self._nodes_of(name)[self._instances(name)] for name in self.names})

    @cached_property
    def able(self) -> Marks:
        """Whether the operator of each group has an instance on each node."""
        found = np.zeros((self.count, len(self.nodes)), dtype=np.bool_)
        for name, span in self.spans.items():
            found[span, self._nodes_of(name)] = True
        return found

    @cached_property
    def stages(self) -> Integers:
        """The stage of each group's operator, counted without gaps."""
        numbers = [self.layout.stage_of[name] for name in self.names]
        dense = {stage: place for place, stage in enumerate(sorted(set(numbers)))}
        sizes = [len(self.layout.homes[name].groups) for name in self.names]
        return np.repeat([dense[number] for number in numbers], sizes)

    def row(self, values: Mapping[str, Floats]) -> Floats:
        """Return the values of the groups of all operators in one row."""
        return self._row(values).astype(np.float64)

    def dimensions(self, loads: Floats, *, by_stage: bool) -> Floats:
        """Return loads as rows: one of each stage, or one of all."""
        if not by_stage:
            return loads[None, :]
        rows = np.arange(int(self.stages.max(initial=0)) + 1)[:, None]
        found: Floats = np.where(self.stages == rows, loads, 0.0)
        return found

    def problem(self, load: Floats, *, budget: float, costs: Floats) -> PlacementProblem:
        """Return the problem of evening out one load, in shares of what working nodes have of it.

        Args:
            load: of each group, in one row; not all zero.
            budget: what may move, by its cost.
            costs: what it costs to move each group.
        """
        power = np.delete(self.capacities, self.draining).sum()
        return PlacementProblem.of(
            load / (load.sum() / power),
            self.current,
            len(self.nodes),
            budget=budget,
            migration_cost=costs,
            capacities=self.capacities,
            draining=self.draining,
            able=self.able,
        )

    @property
    def downstream(self) -> Integers:
        """For each group, how many groups are downstream of it."""
        job = self.layout.topology
        counts = [np.empty(0, dtype=np.int64)]
        for name in self.names:
            targets = [hop[1] for hop in job.keyed_hops if hop[0] == name]
            number = sum(job.operator(target).key_groups for target in targets)
            counts.append(np.full(job.operator(name).key_groups, number, dtype=np.int64))
        return np.concatenate(counts)

    def traffic(self, statistics: Statistics) -> Traffic:
        """Return what the groups send each other, as far as it was observed."""
        hops = [hop for hop in statistics.traffic if set(hop) <= set(self.names)]
        seen = [statistics.traffic[hop] for hop in hops]
        ends = [
            np.concatenate(
                [
                    np.empty(0, dtype=np.int64),
                    *(
                        getattr(flow, side) + self.spans[hop[place]].start
                        for hop, flow in zip(hops, seen, strict=True)
                    ),
                ]
            )
            for place, side in enumerate(("sources", "targets"))
        ]
        tuples = np.concatenate([np.empty(0), *(flow.tuples for flow in seen)])
        return Traffic(ends[0], ends[1], tuples, groups=self.count)

    def placed(self, assignment: Parts, loads: Floats) -> dict[str, Deployment]:
        """Return the deployments that change as key groups go to these nodes.

        What has no key groups left on a node that drains leaves it, with the groups that go where
        it goes. On its node, a group that comes goes to the instance with least load of its
        operator.
        """
        found = {}
        for name, home in self.layout.homes.items():
            if name not in self.spans:
                new = Deployment(self._left(home, frozenset()), home.groups)
            else:
                targets, owners = assignment[self.spans[name]], self._instances(name)
                stays = targets == self.current[self.spans[name]]
                nodes = self._left(home, frozenset(owners[stays].tolist()))
                places = np.array([self.nodes[node] for node in nodes], dtype=np.int32)
                dealt = even_instances(targets, owners, places, loads[self.spans[name]])
                new = Deployment(nodes, tuple(dealt.tolist()))
            if new != home:
                found[name] = new
        return found

    def _left(self, home: Deployment, stays: frozenset[int]) -> tuple[str, ...]:
        """Return the nodes of instances once those on nodes that drain, but for some, have left."""
        leaving, nodes = set(self.cluster.draining), list(home.nodes)
        used = Counter(node for node in nodes if node not in leaving)
        for number, node in enumerate(nodes):
            if node in leaving and number not in stays:
                nodes[number] = self.cluster.emptiest(used)
                used[nodes[number]] += 1
        return tuple(nodes)

    def _instances(self, name: str) -> Parts:
        return np.array(self.layout.homes[name].groups, dtype=np.int32)

    def _nodes_of(self, name: str) -> Parts:
        """Return the number of the node of each instance."""
        nodes = self.layout.homes[name].nodes
        return np.array([self.nodes[node] for node in nodes], dtype=np.int32)

    def _row(self, values: Mapping[str, Floats | Parts]) -> Parts:
        return np.concatenate([np.empty(0, np.int32), *(values[name] for name in self.names)])
