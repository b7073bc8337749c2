"""Plans: what optimizers decide, as frozen values that merge, check, travel and can be read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from grouping.groupings import Grouping, grouping_to_dict
from grouping.key_table import KeyTable
from optimizers.cluster import Cluster, Node
from optimizers.deployment import Deployment
from optimizers.documents import Record, read, write
from optimizers.errors import (
    InvalidValueError,
    PlanConflictError,
    PlanError,
    TopologyError,
    UnknownNameError,
)
from optimizers.layout import Layout
from optimizers.migration import Migration, migration_between
from optimizers.names import check_name
from optimizers.notes import Note, note_from_record
from optimizers.operators import EdgeName, Operator
from optimizers.plan_reading import routing_of, scheduling_of
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.checks import amount, whole
from sketches.values import FrozenMap, listed, named, named_by_pair

__all__ = ["Note", "Plan"]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Plan:
    """A set of decisions about a job. What it does not mention stays as it is.

    ``Plan()`` decides nothing. ``a | b`` holds the decisions of both, and refuses two different
    decisions on one thing:

    >>> wide = Plan(parallelism={"count": 8})
    >>> wide | Plan(batch={"count": 500})
    Plan(parallelism={'count': 8}, batch={'count': 500})
    >>> wide | Plan(parallelism={"count": 4})
    Traceback (most recent call last):
    optimizers.errors.PlanConflictError: two plans decide the parallelism of 'count': 8 and 4; ...

    Attributes:
        parallelism: how many instances an operator has.
        admit: how many tuples a source lets in with a batch.
        period: how many seconds pass at least from the beginning of a batch to that of the next; 0
            for none, None for as before.
        batch: the most tuples that an operator sends to an instance at once.
        routing: which instance owns which key of a keyed operator, on all edges into it.
        placement: where an operator's key groups and instances live.
        adopt: operators whose unknown keys get an owner beside the keys that they come with, after
            the batch that brought them. It goes with the table: each decision that routes an
            operator says whether it adopts.
        scheduling: how the tuples of one edge into an operator without a key are spread, instead of
            by the edge's own grouping.
        add: nodes to be added to the cluster.
        drain: names of nodes to be emptied and then given back.
        nodes: how many working nodes are wanted, including those still to be acquired, whose names
            are not known yet; None for the present number.
        notes: why; they decide nothing.
    """

    parallelism: Mapping[str, int] = FrozenMap()
    admit: Mapping[str, int] = FrozenMap()
    period: float | None = None
    batch: Mapping[str, int] = FrozenMap()
    routing: Mapping[str, Grouping] = FrozenMap()
    placement: Mapping[str, Deployment] = FrozenMap()
    adopt: tuple[str, ...] = ()
    scheduling: Mapping[EdgeName, Grouping] = FrozenMap()
    add: tuple[Node, ...] = ()
    drain: tuple[str, ...] = ()
    nodes: int | None = None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        for part in ("parallelism", "admit", "batch"):
            numbers = named(part, getattr(self, part), object)
            counted = {
                name: whole(f"{part}[{name!r}]", value, at_least=1)
                for name, value in numbers.items()
            }
            object.__setattr__(self, part, FrozenMap(counted))
        object.__setattr__(self, "routing", named("routing", self.routing, Grouping))
        object.__setattr__(self, "placement", named("placement", self.placement, Deployment))
        object.__setattr__(
            self, "scheduling", named_by_pair("scheduling", self.scheduling, Grouping)
        )
        for name, grouping in self.routing.items():
            if not grouping.needs_key:
                raise PlanError(
                    f"routing[{name!r}] is {grouping!r}, which does not choose by key; "
                    "route by Fields() or a table, or schedule the edge instead"
                )
        adopting = {check_name("operator", name) for name in listed("adopt", self.adopt)}
        for name in sorted(adopting):
            if not isinstance(self.routing.get(name), KeyTable):
                raise PlanError(
                    f"adopt names {name!r}, which the plan does not route by a table; "
                    f"give routing[{name!r}] a GroupTable, or leave it out of adopt"
                )
        drained = {check_name("drained node", name) for name in listed("drain", self.drain)}
        notes = listed("notes", self.notes)
        for note in notes:
            if not isinstance(note, Note):
                raise InvalidValueError(f"notes holds {note!r}, which is not a Note")
        object.__setattr__(self, "add", _sorted_nodes(listed("add", self.add)))
        object.__setattr__(self, "adopt", tuple(sorted(adopting)))
        object.__setattr__(self, "drain", tuple(sorted(drained)))
        if self.nodes is not None:
            object.__setattr__(self, "nodes", whole("nodes", self.nodes, at_least=1))
        if self.period is not None:
            object.__setattr__(self, "period", amount("period", self.period))
        object.__setattr__(self, "notes", tuple(sorted(set(notes))))
        for node in self.add:
            if node.name in self.drain:
                raise PlanError(
                    f"node {node.name!r} is both added and drained; decide for one of them"
                )

    def __bool__(self) -> bool:
        """Whether anything is decided; notes alone decide nothing."""
        return any(_decides(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value or _decides(self, field.name):
                shown = dict(value) if isinstance(value, FrozenMap) else value
                parts.append(f"{field.name}={shown!r}")
        return f"Plan({', '.join(parts)})"

    def __or__(self, other: "Plan") -> "Plan":
        """Return the decisions of both plans.

        Neutral element `Plan()`, associative; plans that agree commute, and a plan merged with
        itself is itself.

        Raises:
            PlanConflictError: both decide one thing, differently.
        """
        if not isinstance(other, Plan):
            return NotImplemented
        merged: dict[str, Any] = {
            part: _merge(part, getattr(self, part), getattr(other, part)) for part in _MAPS
        }
        _merge("adoption", *({n: n in plan.adopt for n in plan.routing} for plan in (self, other)))
        nodes = [{node.name: node for node in plan.add} for plan in (self, other)]
        for first, second in ((self, other), (other, self)):
            for node in first.add:
                if node.name in second.drain:
                    values = ("add", "drain") if first is self else ("drain", "add")
                    raise PlanConflictError("presence", node.name, *values)
        numbers: dict[str, Any] = {}
        for name, what in _NUMBERS.items():
            both = [getattr(plan, name) for plan in (self, other)]
            given = [{} if number is None else {name: number} for number in both]
            numbers.update(_merge(what, *given))
        return Plan(
            **merged,
            adopt=(*self.adopt, *other.adopt),
            add=tuple(_merge("node", *nodes).values()),
            drain=(*self.drain, *other.drain),
            **numbers,
            notes=(*self.notes, *other.notes),
        )

    def amended(self, decision: "Plan", cluster: Cluster) -> "Plan":
        """Return the plan that is in force once a decision is applied to this one.

        The decision wins wherever both speak. Notes are those of the decision. Where it changes an
        operator's parallelism and does not place the operator, the placement in force is resized:
        the fewest key groups move (`Deployment.resized`). Routing and scheduling that were made
        for another number of instances lapse, unless the decision brings its own; tables of key
        groups serve any number and stay.

        A node that is added gets only what plans place there. The instances of a node that begins
        to drain move, and no others, unless the decision places them (`Deployment.without`); a node
        that is there only because this plan adds it is then gone.

        Args:
            decision: what is to change.
            cluster: the machines, with or without what this plan adds and drains.
        """
        kept = self._fitting(decision.parallelism)
        maps: dict[str, Any] = {
            part: {**getattr(kept, part), **getattr(decision, part)} for part in _MAPS
        }
        added = {node.name: node for node in self.add if node.name not in decision.drain}
        added.update({node.name: node for node in decision.add})
        there = {node.name for node in cluster.nodes}
        given_back = {node.name for node in self.add if node.name not in there}
        drained = [name for name in self.drain if name not in added]
        drained += [name for name in decision.drain if name not in given_back]
        adopting = (name for name in kept.adopt if name not in decision.routing)
        after = Plan(
            **maps,
            adopt=(*adopting, *decision.adopt),
            add=tuple(added.values()),
            drain=tuple(drained),
            nodes=self.nodes if decision.nodes is None else decision.nodes,
            period=self.period if decision.period is None else decision.period,
            notes=decision.notes,
        )
        leaving = {*decision.drain} - {*self.drain, *cluster.draining}
        moved = {
            name: home
            for name, home in self.placement.items()
            if name not in decision.placement
            and (len(home.nodes) != _instances(decision, name, home) or leaving & {*home.nodes})
        }
        if not moved:
            return after
        later = cluster.under(after)
        for name, home in moved.items():
            resized = home.resized(_instances(decision, name, home), later)
            moved[name] = resized.without(leaving, later)
        return replace(after, placement={**after.placement, **moved})

    def check(self, topology: Topology, cluster: Cluster | None = None) -> None:
        """Refuse a plan that this topology, or this cluster, cannot carry out.

        Raises:
            UnknownNameError: it names an operator, edge or node that does not exist.
            PlanError: its decisions do not fit the operator, or each other.
        """
        for part in ("parallelism", "admit", "batch", "routing", "placement"):
            for name in getattr(self, part):
                _known(part, topology.operator, name)
        for name, rows in self.admit.items():
            if name not in topology.sources:
                raise PlanError(
                    f"admit[{name!r}]={rows}: operator {name!r} is not a source, and takes what "
                    "others send; plan batch for what they send at once"
                )
        for source, target in self.scheduling:
            _known("scheduling", topology.edge, source, target)
        for operator in topology.operators:
            self._check_operator(operator)
        for edge in self.scheduling:
            if topology.operator(edge[1]).keyed:
                raise PlanError(
                    f"scheduling[{edge!r}]: operator {edge[1]!r} keeps state by its key; "
                    "route its keys instead, on all edges into it at once"
                )
        try:
            topology.under(self)
        except TopologyError as error:
            raise PlanError(f"the plan does not fit: {error}") from error
        if cluster is not None:
            self._check_nodes(cluster)

    def diff(
        self,
        new: "Plan",
        topology: Topology,
        cluster: Cluster,
        statistics: Statistics | None = None,
    ) -> Migration:
        """Return what has to move when a job goes from this plan to the new one.

        Both are whole, as engines have them: instances that a plan does not place are dealt out
        to nodes under each. So complete the present (`optimizers.layout.completed`) and amend that.

        Args:
            new: the plan to come, whole (see `amended`), not only what changes.
            topology: the job as declared.
            cluster: the machines as they are now.
            statistics: the keys and the sizes of state, as observed under this plan.
        """
        for plan in (self, new):
            plan.check(topology, cluster)
        if statistics is not None:
            statistics.check(topology)
        old, later = (Layout.of(topology, cluster, plan) for plan in (self, new))
        return migration_between(old, later, statistics)

    def to_json(self) -> str:
        """Write the plan as a JSON document."""
        body: dict[str, Any] = {
            "parallelism": dict(self.parallelism),
            "admit": dict(self.admit),
            "batch": dict(self.batch),
            "routing": {name: grouping_to_dict(value) for name, value in self.routing.items()},
            "placement": {name: value.to_dict() for name, value in self.placement.items()},
            "adopt": list(self.adopt),
            "scheduling": [
                {"source": source, "target": target, "grouping": grouping_to_dict(value)}
                for (source, target), value in self.scheduling.items()
            ],
            "add": [node.to_dict() for node in self.add],
            "drain": list(self.drain),
            "nodes": self.nodes,
            "period": self.period,
            "notes": [note.to_dict() for note in self.notes],
        }
        kept = {name: value for name, value in body.items() if value or value == 0}
        return write("plan", kept)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Plan":
        """Read what `to_json` wrote."""
        return read(text, "plan", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Plan":
        routing, adopt = routing_of(record)
        return cls(
            parallelism=record.take("parallelism", dict, {}),
            admit=record.take("admit", dict, {}),
            batch=record.take("batch", dict, {}),
            routing=routing,
            placement=record.mapping("placement", Deployment.from_value),
            scheduling=scheduling_of(record),
            adopt=adopt,
            add=tuple(record.each("add", Node.from_record)),
            drain=record.strings("drain"),
            nodes=record.take("nodes", int, None),
            period=record.optional("period", float),
            notes=tuple(record.each("notes", note_from_record)),
        )

    def _fitting(self, parallelism: Mapping[str, int]) -> "Plan":
        """Return this plan without routing and scheduling made for other numbers of instances."""

        def fits(name: str, instances: int | None) -> bool:
            return instances is None or parallelism.get(name, instances) == instances

        routing = {n: g for n, g in self.routing.items() if fits(n, g.instances)}
        return Plan(
            parallelism=self.parallelism,
            admit=self.admit,
            batch=self.batch,
            routing=routing,
            adopt=tuple(name for name in self.adopt if name in routing),
            placement=self.placement,
            scheduling={e: g for e, g in self.scheduling.items() if fits(e[1], g.instances)},
        )

    def _check_operator(self, operator: Operator) -> None:
        name = operator.name
        instances = self.parallelism.get(name, operator.parallelism)
        if operator.keyed and instances > operator.key_groups:
            raise PlanError(
                f"parallelism[{name!r}]={instances} is more than the operator's "
                f"{operator.key_groups} key groups can occupy; plan {operator.key_groups} at most"
            )
        if name in self.routing and not operator.keyed:
            raise PlanError(
                f"routing[{name!r}]: the operator has no key; schedule the edges into it instead"
            )
        if name in self.placement:
            self.placement[name].check(operator, instances)

    def _check_nodes(self, cluster: Cluster) -> None:
        for name in self.drain:
            _known("drain", cluster.node, name)
        later = cluster.under(self)
        for operator, deployment in self.placement.items():
            for node in deployment.nodes:
                _known(f"placement[{operator!r}]", later.node, node)


def _instances(decision: Plan, name: str, home: Deployment) -> int:
    """Return how many instances an operator that lives there has after a decision."""
    return decision.parallelism.get(name, len(home.nodes))


def _decides(plan: Plan, part: str) -> bool:
    """Return whether a part of a plan decides anything; a period of 0 does."""
    value = getattr(plan, part)
    return part != "notes" and (value is not None if part in _NUMBERS else bool(value))


_NUMBERS = {"nodes": "number", "period": "seconds"}
_MAPS = ("parallelism", "admit", "batch", "routing", "placement", "scheduling")


def _merge(part: str, first: Mapping[K, V], second: Mapping[K, V]) -> dict[K, V]:
    for subject in first:
        if subject in second and first[subject] != second[subject]:
            raise PlanConflictError(part, subject, first[subject], second[subject])
    return {**first, **second}


def _sorted_nodes(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    by_name: dict[str, Node] = {}
    for node in nodes:
        if not isinstance(node, Node):
            raise InvalidValueError(f"add holds {node!r}, which is not a Node")
        if by_name.setdefault(node.name, node) != node:
            raise InvalidValueError(f"two nodes to add are called {node.name!r}; rename one")
    return tuple(by_name[name] for name in sorted(by_name))


def _known(part: str, lookup: Callable[..., object], *name: str) -> None:
    try:
        lookup(*name)
    except UnknownNameError as error:
        raise UnknownNameError(f"{part}: {error}") from error
