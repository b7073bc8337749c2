"""A stream job: a directed acyclic graph of named operators."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from grouping.groupings import (
    Fields,
    Grouping,
    Shuffle,
    grouping_from_dict,
    grouping_to_dict,
)
from optimizers.documents import Record, read, write
from optimizers.errors import InvalidValueError, TopologyError, UnknownNameError
from optimizers.names import check_name, is_name
from optimizers.references import function_at, reference_to
from sketches.checks import whole
from sketches.values import listed

if TYPE_CHECKING:
    from optimizers.plan import Plan

EdgeName: TypeAlias = tuple[str, str]
"""An edge is named by its source and its target."""

KEY_GROUPS = 128
"""How many key groups a keyed operator has unless it says otherwise: what Flink starts with."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a job, done by ``parallelism`` instances.

    Without a key it is stateless: any instance may take any tuple. With a key it is stateful:
    all tuples of one key go to the instance that owns the key and holds its state.

    Attributes:
        name: how it is called in plans and reports; unique in the topology.
        key: the column, or columns, by which its state is kept; None for a stateless operator.
        parallelism: how many instances it starts with.
        apply: the work it does: a function, or the place of one as ``"package.module:name"``.
        key_groups: into how many groups its keys fall; the unit in which state is moved, and
            so the most instances a keyed operator can use.
        partial: whether several instances may each hold a part of one key's state, because
            what they emit is merged downstream.
    """

    name: str
    key: str | tuple[str, ...] | None = None
    parallelism: int = 1
    apply: Callable[..., Any] | str | None = None
    key_groups: int = KEY_GROUPS
    partial: bool = False

    def __post_init__(self) -> None:
        check_name("operator", self.name)
        where = f"operator {self.name!r}: "
        object.__setattr__(
            self, "parallelism", whole(f"{where}parallelism", self.parallelism, at_least=1)
        )
        object.__setattr__(
            self, "key_groups", whole(f"{where}key_groups", self.key_groups, at_least=1)
        )
        object.__setattr__(self, "key", _normal_key(f"operator {self.name!r}", self.key))
        if self.apply is not None and not callable(self.apply):
            if not isinstance(self.apply, str):
                raise TopologyError(f"{where}apply={self.apply!r} is neither a function nor a name")
            reference_to(self.apply)
        if not isinstance(self.partial, bool):
            raise TopologyError(
                f"{where}partial={self.partial!r} is not a bool; give True or False"
            )
        if self.partial and not self.keyed:
            raise TopologyError(f"{where}partial=True means nothing without a key; give it a key")
        if self.keyed and self.parallelism > self.key_groups:
            raise TopologyError(
                f"{where}parallelism={self.parallelism} is more than its {self.key_groups} key "
                f"groups can occupy; set key_groups to {self.parallelism} or more"
            )

    @property
    def keyed(self) -> bool:
        """Whether it holds state by key."""
        return self.key is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of its key; none for a stateless operator."""
        return _columns(self.key)

    def function(self) -> Callable[..., Any] | None:
        """Return the work it does, imported if it was given by its place."""
        return function_at(self.apply) if isinstance(self.apply, str) else self.apply

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON types."""
        fields: dict[str, Any] = {"name": self.name}
        if self.key is not None:
            fields["key"] = list(self.key_columns)
        if self.parallelism != 1:
            fields["parallelism"] = self.parallelism
        if self.apply is not None:
            fields["apply"] = reference_to(self.apply)
        if self.key_groups != KEY_GROUPS:
            fields["key_groups"] = self.key_groups
        if self.partial:
            fields["partial"] = True
        return fields

    @classmethod
    def from_record(cls, record: Record) -> "Operator":
        """Build it from the record of a document."""
        return cls(
            record.take("name", str),
            record.optional_strings("key"),
            record.take("parallelism", int, 1),
            record.optional("apply", str),
            record.take("key_groups", int, KEY_GROUPS),
            record.take("partial", bool, default=False),
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream of tuples from one operator to another.

    Attributes:
        source: the operator that emits.
        target: the operator that receives.
        grouping: how tuples are spread over the target's instances. None is by key where the
            target has one, else in turn.
        key: the column, or columns, of its tuples that hold the key to spread them by, where
            they are not called as in the target's own key.
    """

    source: str
    target: str
    grouping: Grouping | None = None
    key: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name("operator", self.source)
        check_name("operator", self.target)
        object.__setattr__(self, "key", _normal_key(f"edge {self}", self.key))
        if self.grouping is not None and not isinstance(self.grouping, Grouping):
            raise TopologyError(
                f"edge {self}: grouping {self.grouping!r} is not a Grouping, such as Shuffle()"
            )

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"

    @property
    def name(self) -> EdgeName:
        """Its source and target."""
        return self.source, self.target

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        fields: dict[str, Any] = {"source": self.source, "target": self.target}
        if self.grouping is not None:
            fields["grouping"] = grouping_to_dict(self.grouping)
        if self.key is not None:
            fields["key"] = list(_columns(self.key))
        return fields

    @classmethod
    def from_record(cls, record: Record) -> "Edge":
        """Build it from the record of a document."""
        grouping = record.optional("grouping", dict)
        return cls(
            record.take("source", str),
            record.take("target", str),
            None if grouping is None else grouping_from_dict(grouping),
            record.optional_strings("key"),
        )


@dataclass(frozen=True)
class Topology:
    """A job as a directed acyclic graph of operators, forks, joins and several sources included.

    A chain is written in a few lines:

    >>> trending = (
    ...     Topology.source("tweets", parallelism=2)
    ...     .then("by_place", key="place", parallelism=6)
    ...     .then("by_tag", key="tag", parallelism=6)
    ... )
    >>> print(trending)
    tweets x2
    by_place x6 keyed by place <- tweets (fields)
    by_tag x6 keyed by tag <- by_place (fields)

    ``then`` continues at the last operator, or after those that ``after`` names. Any graph can
    be written out plainly as well:

    >>> Topology(
    ...     operators=[Operator("left"), Operator("right"), Operator("join", key="id")],
    ...     edges=[Edge("left", "join"), Edge("right", "join")],
    ... ).sources
    ('left', 'right')

    Attributes:
        operators: the operators, in the order they were written.
        edges: the streams between them; at most one from one operator to another.
    """

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", listed("operators", self.operators))
        object.__setattr__(self, "edges", listed("edges", self.edges))
        _check_operators(self.operators)
        _check_edges(self.edges, self._by_name)
        self.order  # noqa: B018  # refuses cycles
        for edge in self.edges:
            _check_grouping(edge, self.operator(edge.target), self.grouping(*edge.name))
        for operator in self.operators:
            self._check_owners(operator)

    @classmethod
    def source(cls, operator: Operator | str, **fields: Any) -> "Topology":
        """Begin a job at a source; the fields are those of `Operator`."""
        return cls((_as_operator(operator, fields),))

    def then(
        self,
        operator: Operator | str,
        *,
        after: str | Iterable[str] | None = None,
        grouping: Grouping | None = None,
        edge_key: str | tuple[str, ...] | None = None,
        **fields: Any,
    ) -> "Topology":
        """Return the job with one operator more, fed by the last one or by those named.

        Args:
            operator: the new operator, or its name.
            after: where its tuples come from: one operator, or several for a join.
            grouping: how tuples reach it, on each of its edges.
            edge_key: the columns that hold the key on each of its edges, see `Edge`.
            fields: the other fields of `Operator`, where only its name is given.
        """
        added = _as_operator(operator, fields)
        if after is None:
            after = self.operators[-1].name
        sources = (after,) if isinstance(after, str) else listed("after", after)
        if not sources:
            raise TopologyError(
                f"operator {added.name!r} is after nothing; name one, or begin with also()"
            )
        edges = tuple(Edge(source, added.name, grouping, edge_key) for source in sources)
        return Topology((*self.operators, added), (*self.edges, *edges))

    def also(self, operator: Operator | str, **fields: Any) -> "Topology":
        """Return the job with one source more."""
        return Topology((*self.operators, _as_operator(operator, fields)), self.edges)

    def __reduce__(self) -> tuple[type["Topology"], tuple[Any, ...]]:
        return Topology, (self.operators, self.edges)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the operators, each after all that feed it, otherwise as written."""
        places = {operator.name: place for place, operator in enumerate(self.operators)}
        waiting = {name: len(self.inputs(name)) for name in places}
        ready = [place for name, place in places.items() if not waiting[name]]
        order: list[str] = []
        while ready:
            name = self.operators[heappop(ready)].name
            order.append(name)
            del waiting[name]
            for edge in self.outputs(name):
                waiting[edge.target] -= 1
                if not waiting[edge.target]:
                    heappush(ready, places[edge.target])
        if waiting:
            cycle = " -> ".join(_find_cycle(self, waiting))
            raise TopologyError(f"the operators form a cycle: {cycle}; remove one of its edges")
        return tuple(order)

    @property
    def sources(self) -> tuple[str, ...]:
        """The operators that nothing feeds."""
        return tuple(name for name in self._by_name if not self.inputs(name))

    @property
    def sinks(self) -> tuple[str, ...]:
        """The operators that feed nothing."""
        return tuple(name for name in self._by_name if not self.outputs(name))

    @cached_property
    def keyed_hops(self) -> tuple[EdgeName, ...]:
        """The pairs of keyed operators of which one feeds the other.

        Directly, or through operators without a key: those are passed through, for a tuple
        may keep both keys all the way.
        """
        places = {name: place for place, name in enumerate(self.order)}
        ahead: dict[str, set[str]] = {}
        for name in reversed(self.order):
            found: set[str] = set()
            for edge in self.outputs(name):
                keyed = self.operator(edge.target).keyed
                found |= {edge.target} if keyed else ahead[edge.target]
            ahead[name] = found
        return tuple(
            (first, second)
            for first in self.order
            if self.operator(first).keyed
            for second in sorted(ahead[first], key=places.__getitem__)
        )

    def operator(self, name: str) -> Operator:
        """Return the operator of that name."""
        if not is_name(name, self._by_name):
            raise UnknownNameError.among("operator", name, self._by_name)
        return self._by_name[name]

    def edge(self, source: str, target: str) -> Edge:
        """Return the edge between the two operators."""
        for end in (source, target):
            self.operator(end)
        if (source, target) not in self._edges_by_name:
            raise UnknownNameError.among("edge", f"{source} -> {target}", map(str, self.edges))
        return self._edges_by_name[source, target]

    def inputs(self, name: str) -> tuple[Edge, ...]:
        """Return the edges into an operator."""
        self.operator(name)
        return self._inputs.get(name, ())

    def outputs(self, name: str) -> tuple[Edge, ...]:
        """Return the edges out of an operator."""
        self.operator(name)
        return self._outputs.get(name, ())

    def grouping(self, source: str, target: str) -> Grouping:
        """Return how tuples of an edge are spread, the default where the edge says nothing."""
        chosen = self.edge(source, target).grouping
        if chosen is not None:
            return chosen
        return Fields() if self.operator(target).keyed else Shuffle()

    def key_columns(self, source: str, target: str) -> tuple[str, ...]:
        """Return the columns of an edge's tuples that hold the key they are spread by."""
        return _columns(self.edge(source, target).key) or self.operator(target).key_columns

    def under(self, plan: "Plan") -> "Topology":
        """Return the job as it is once the plan's parallelism and groupings are in force.

        Where the plan changes an operator's parallelism, a grouping that was made for another
        number of instances lapses, as in `Plan.amended`: the edge returns to its default.
        """
        if not (plan.parallelism or plan.routing or plan.scheduling):
            return self
        operators = tuple(
            replace(operator, parallelism=plan.parallelism[operator.name])
            if operator.name in plan.parallelism
            else operator
            for operator in self.operators
        )
        edges = tuple(self._edge_under(plan, edge) for edge in self.edges)
        return Topology(operators, edges)

    def _edge_under(self, plan: "Plan", edge: Edge) -> Edge:
        chosen = plan.scheduling.get(edge.name, plan.routing.get(edge.target))
        if chosen is not None:
            return replace(edge, grouping=chosen)
        made_for = edge.grouping.instances if edge.grouping is not None else None
        if made_for in (None, plan.parallelism.get(edge.target, made_for)):
            return edge
        return replace(edge, grouping=None)

    def to_json(self) -> str:
        """Write the topology as a JSON document; functions are written by their place."""
        body: dict[str, Any] = {"operators": [operator.to_dict() for operator in self.operators]}
        if self.edges:
            body["edges"] = [edge.to_dict() for edge in self.edges]
        return write("topology", body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Topology":
        """Read what `to_json` wrote."""
        return read(text, "topology", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Topology":
        operators = record.each("operators", Operator.from_record)
        return cls(tuple(operators), tuple(record.each("edges", Edge.from_record)))

    def __str__(self) -> str:
        return "\n".join(self._describe(name) for name in self.order)

    def _describe(self, name: str) -> str:
        operator = self.operator(name)
        text = f"{name} x{operator.parallelism}"
        if operator.keyed:
            text += f" keyed by {', '.join(operator.key_columns)}"
        feeds = [f"{edge.source} ({self.grouping(*edge.name).kind})" for edge in self.inputs(name)]
        return f"{text} <- {', '.join(feeds)}" if feeds else text

    @cached_property
    def _by_name(self) -> dict[str, Operator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def _edges_by_name(self) -> dict[EdgeName, Edge]:
        return {edge.name: edge for edge in self.edges}

    @cached_property
    def _inputs(self) -> dict[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.target, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    @cached_property
    def _outputs(self) -> dict[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.source, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def _check_owners(self, operator: Operator) -> None:
        """Refuse two edges that would send one key to two owners."""
        if not operator.keyed or operator.partial:
            return
        inputs = self.inputs(operator.name)
        for edge in inputs[1:]:
            first, other = self.grouping(*inputs[0].name), self.grouping(*edge.name)
            if first != other:
                raise TopologyError(
                    f"edges {inputs[0]} and {edge} give one key two owners, by {first!r} and by "
                    f"{other!r}; spread all edges into operator {operator.name!r} alike"
                )


def _check_grouping(edge: Edge, target: Operator, grouping: Grouping) -> None:
    """Refuse a grouping that cannot feed this operator."""
    if grouping.needs_key and edge.key is None and not target.keyed:
        raise TopologyError(
            f"edge {edge}: {grouping.kind} needs a key and operator {target.name!r} has none; "
            "give the operator a key, or the edge one of its own"
        )
    if target.keyed and len(_columns(edge.key)) not in (0, len(target.key_columns)):
        raise TopologyError(
            f"edge {edge}: its key {edge.key!r} does not match the key {target.key!r} of operator "
            f"{target.name!r}; name as many columns, in the same order"
        )
    if target.keyed and not grouping.one_owner and not (target.partial and grouping.needs_key):
        remedy = (
            "use Fields(), or set partial=True if its results are merged downstream"
            if grouping.needs_key
            else "use Fields()"
        )
        raise TopologyError(
            f"edge {edge}: {grouping.kind} spreads one key over several instances, but operator "
            f"{target.name!r} keeps state by {', '.join(target.key_columns)}; {remedy}"
        )
    if grouping.instances not in (None, target.parallelism):
        raise TopologyError(
            f"edge {edge}: the grouping was made for {grouping.instances} instances and operator "
            f"{target.name!r} has {target.parallelism}; make it anew for {target.parallelism}"
        )


def _columns(key: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else key


def _normal_key(where: str, key: Any) -> str | tuple[str, ...] | None:
    """Return the key as one column, or as several; refuse what names no column."""
    if key is None:
        return None
    columns = (key,) if isinstance(key, str) else key
    if not (
        isinstance(columns, tuple | list)
        and columns
        and all(isinstance(column, str) and column for column in columns)
    ):
        raise TopologyError(
            f"{where}: key={key!r} names no column; "
            "give a column, a tuple of columns, or None for no key"
        )
    if len(set(columns)) < len(columns):
        raise TopologyError(f"{where}: key={key!r} names a column twice; name it once")
    return columns[0] if len(columns) == 1 else tuple(columns)


def _as_operator(operator: Operator | str, settings: dict[str, Any]) -> Operator:
    if isinstance(operator, str):
        known = {field.name for field in fields(Operator)} - {"name"}
        for name in settings:
            if name not in known:
                raise InvalidValueError(
                    f"operator {operator!r} has no field {name!r}; "
                    f"it has {', '.join(sorted(known))}"
                )
        return Operator(operator, **settings)
    if not isinstance(operator, Operator):
        raise TopologyError(f"{operator!r} is not an operator; give its name, or an Operator")
    if settings:
        raise InvalidValueError(
            f"fields {sorted(settings)} do not go with a whole Operator; "
            f"set them on {operator.name!r} itself"
        )
    return operator


def _check_operators(operators: tuple[Operator, ...]) -> None:
    if not operators:
        raise TopologyError("a topology without operators is not a job; give at least one")
    seen = set()
    for operator in operators:
        if not isinstance(operator, Operator):
            raise TopologyError(f"{operator!r} is not an Operator; write Operator({operator!r})")
        if operator.name in seen:
            raise TopologyError(f"two operators are called {operator.name!r}; rename one")
        seen.add(operator.name)


def _check_edges(edges: tuple[Edge, ...], operators: dict[str, Operator]) -> None:
    seen = set()
    for edge in edges:
        if not isinstance(edge, Edge):
            raise TopologyError(f"{edge!r} is not an Edge; write Edge(source, target)")
        for end in edge.name:
            if end not in operators:
                known = ", ".join(map(repr, operators))
                raise TopologyError(
                    f"edge {edge} hangs in the air: there is no operator {end!r}; known: {known}"
                )
        if edge.name in seen:
            raise TopologyError(f"there are two edges {edge}; keep one")
        seen.add(edge.name)


def _find_cycle(topology: Topology, stuck: dict[str, int]) -> list[str]:
    """Walk upstream among operators that wait for each other until one comes up again."""
    path = [next(iter(stuck))]
    while True:
        upstream = next(e.source for e in topology.inputs(path[-1]) if e.source in stuck)
        if upstream in path:
            return [upstream, *reversed(path[path.index(upstream) :])]
        path.append(upstream)
