"""Where a job runs under a plan: which instance is a task of which stage, and on which node."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from grouping.groupings import Fields, LocalOrShuffle
from grouping.key_table import KeyTable
from grouping.owners import KeyOwners
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment, default_groups
from optimizers.operators import Edge, EdgeName
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.plan import Plan


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """One instance of an operator."""

    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.operator}[{self.number}]"


@dataclass(frozen=True)
class Layout:
    """A job as one plan lays it out.

    Stage 0 are the sources; each further stage waits for the one before and has one task for each
    instance of its operators. Tuples travel between stages. An operator that just continues where
    its tuples are, instance by instance, has no stage of its own: it is *attached* to the one that
    feeds it.

    >>> from optimizers import Cluster, Plan, Topology
    >>> job = Topology.source("s").then("a", key="k", parallelism=2).then("b", key="l")
    >>> layout = Layout.of(job, Cluster.uniform(2), Plan())
    >>> [[str(instance) for instance in stage] for stage in layout.stages]
    [['s[0]'], ['a[0]', 'a[1]'], ['b[0]']]

    Attributes:
        topology: the job, with parallelism and groupings as they are in force.
        homes: the deployment of each operator.
    """

    topology: Topology
    homes: Mapping[str, Deployment]

    @classmethod
    def of(cls, topology: Topology, cluster: Cluster, plan: "Plan") -> "Layout":
        """Lay a job out as a plan says; the rest is spread evenly."""
        job, machines = topology.under(plan), cluster.under(plan)
        homes = {
            operator.name: plan.placement.get(operator.name)
            or Deployment(machines.deal(operator.parallelism), default_groups(operator))
            for operator in job.operators
        }
        return cls(job, homes)

    @cached_property
    def attached(self) -> frozenset[str]:
        """The operators without a stage of their own."""
        return frozenset(
            operator.name
            for operator in self.topology.operators
            if not operator.keyed and self._continues(self.topology.inputs(operator.name))
        )

    @cached_property
    def stage_of(self) -> dict[str, int]:
        """The stage of each operator."""
        stages: dict[str, int] = {}
        for name in self.topology.order:
            before = [stages[edge.source] for edge in self.topology.inputs(name)]
            stages[name] = max(before, default=-1) + (name not in self.attached)
        return stages

    @cached_property
    def stages(self) -> tuple[tuple[Instance, ...], ...]:
        """The tasks of each stage."""
        found: list[list[Instance]] = [[] for _ in range(1 + max(self.stage_of.values()))]
        for name in self.topology.order:
            if name not in self.attached:
                count = self.topology.operator(name).parallelism
                found[self.stage_of[name]] += [Instance(name, number) for number in range(count)]
        return tuple(map(tuple, found))

    def node_of(self, instance: Instance) -> str:
        """Return the node that an instance is on."""
        return self.homes[instance.operator].nodes[instance.number]

    def task_of(self, instance: Instance) -> int:
        """Return which task of its stage an instance is."""
        return self._tasks[instance]

    def next_task(self, stage: int, target: Instance) -> int:
        """Return the task of the stage after ``stage`` that tuples for an instance go through.

        It is the instance itself; if that is in a later stage, a task on the same node.
        """
        known = self._next_tasks.get((stage, target))
        if known is None:
            known = self._next_tasks[stage, target] = self._find_next_task(stage, target)
        return known

    def _find_next_task(self, stage: int, target: Instance) -> int:
        following = stage + 1
        if self.stage_of[target.operator] == following:
            return self.task_of(target)
        tasks = self.stages[following]
        node = self.node_of(target)
        near = [place for place, instance in enumerate(tasks) if self.node_of(instance) == node]
        # Instances are mostly dealt to nodes in turn, so that their own numbers would crowd.
        turn = self.local(target.operator, node).index(target.number)
        return near[turn % len(near)] if near else target.number % len(tasks)

    def owners(self, operator: str) -> KeyOwners:
        """Return the owners of a keyed operator's keys; for a partial one, by one of its edges."""
        for edge in self.topology.inputs(operator):
            owners = self._owners[edge.name]
            if owners is not None:
                return owners
        return KeyOwners(self.homes[operator].groups, seed=self.topology.seed)

    def owners_on(self, edge: Edge) -> KeyOwners | None:
        """Return the owners of keys on an edge; None where its tuples are not spread by owner."""
        return self._owners[edge.name]

    def alike(self, operator: str) -> tuple[tuple[Edge, ...], ...]:
        """Return the edges out of an operator, those together that spread its tuples alike.

        By those each tuple goes to instances of one number, from any sender. They may have
        different nodes, as what goes to each is a parcel of its own.
        """
        return self._alike[operator]

    def local(self, operator: str, node: str) -> tuple[int, ...]:
        """Return the instances of an operator that are on a node."""
        nodes = self.homes[operator].nodes
        return tuple(number for number, name in enumerate(nodes) if name == node)

    @cached_property
    def _alike(self) -> dict[str, tuple[tuple[Edge, ...], ...]]:
        found: dict[str, tuple[tuple[Edge, ...], ...]] = {}
        for name in self.topology.order:
            groups: list[list[Edge]] = []
            for edge in self.topology.outputs(name):
                same = (group for group in groups if self._are_alike(group[0], edge))
                group = next(same, None)
                if group is None:
                    groups.append([edge])
                else:
                    group.append(edge)
            found[name] = tuple(map(tuple, groups))
        return found

    def _are_alike(self, one: Edge, other: Edge) -> bool:
        """Return whether two edges out of an operator send each tuple to the same number."""
        job = self.topology
        if job.key_columns(*one.name) != job.key_columns(*other.name):
            return False
        owners = self._owners[one.name], self._owners[other.name]
        if owners != (None, None):
            return owners[0] == owners[1]
        # What is spread otherwise may go by where instances are, or by what they report.
        groupings = job.grouping(*one.name), job.grouping(*other.name)
        homes = [self.homes[edge.target].nodes for edge in (one, other)]
        return groupings[0] == groupings[1] and homes[0] == homes[1] and not groupings[0].listens

    @cached_property
    def _next_tasks(self) -> dict[tuple[int, Instance], int]:
        return {}

    @cached_property
    def _tasks(self) -> dict[Instance, int]:
        return {instance: place for stage in self.stages for place, instance in enumerate(stage)}

    @cached_property
    def _owners(self) -> dict[EdgeName, KeyOwners | None]:
        return {edge.name: self._owners_by(edge) for edge in self.topology.edges}

    def _owners_by(self, edge: Edge) -> KeyOwners | None:
        target = self.topology.operator(edge.target)
        grouping = self.topology.grouping(*edge.name)
        if not target.keyed or not grouping.one_owner:
            return None
        table = grouping if isinstance(grouping, KeyTable) else None
        rule = None if isinstance(grouping, Fields | KeyTable) else grouping
        groups, seed = self.homes[target.name].groups, self.topology.seed
        return KeyOwners(groups, table, rule, target.parallelism, seed)

    def _continues(self, inputs: tuple[Edge, ...]) -> bool:
        if len(inputs) != 1:
            return False
        edge = inputs[0]
        return (
            isinstance(self.topology.grouping(*edge.name), LocalOrShuffle)
            and self.homes[edge.source].nodes == self.homes[edge.target].nodes
        )


def completed(plan: "Plan", topology: Topology, cluster: Cluster) -> "Plan":
    """Return a plan with its defaults written out, so that it places everything.

    The job may be started again with other numbers of instances declared, other
    groupings, or on other machines. It then finds keys by the plan, where they really are. A plan
    of an earlier version, without placements, gets those that were dealt under it: the same key
    groups on the same instances, and their nodes if the machines are as they were.
    """
    layout = Layout.of(topology, cluster, plan)
    job = layout.topology
    parallelism = {operator.name: operator.parallelism for operator in job.operators}
    routing = {
        operator.name: job.grouping(*job.inputs(operator.name)[0].name)
        for operator in job.operators
        if operator.keyed and not operator.partial and job.inputs(operator.name)
    }
    return replace(
        plan,
        parallelism=parallelism,
        routing={**routing, **plan.routing},
        placement=layout.homes,
    )
