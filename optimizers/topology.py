"""A stream job: a directed acyclic graph of named operators."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from grouping.groupings import Fields, Grouping, Shuffle
from optimizers.documents import Record, read, write
from optimizers.errors import TopologyError, UnknownNameError
from optimizers.names import is_name
from optimizers.operators import (
    Edge,
    EdgeName,
    Operator,
    as_operator,
    check_grouping,
    columns_of,
)
from sketches.mixing import checked_seed
from sketches.values import listed

if TYPE_CHECKING:
    from optimizers.plan import Plan


@dataclass(frozen=True)
class Topology:
    """A job as a directed acyclic graph of operators, with forks, joins and several sources.

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
        seed: of the hash for keys that no table names. 0 is the same everywhere; a checkpoint draws
            its own, so that keys cannot be crafted to collide. It is no part of the job, so it is
            not printed.
    """

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...] = ()
    seed: int = field(default=0, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", listed("operators", self.operators))
        object.__setattr__(self, "edges", listed("edges", self.edges))
        object.__setattr__(self, "seed", checked_seed(self.seed))
        _check_operators(self.operators)
        _check_edges(self.edges, self._by_name)
        self.order  # noqa: B018  # refuses cycles
        for edge in self.edges:
            check_grouping(edge, self.operator(edge.target), self.grouping(*edge.name))
        for operator in self.operators:
            self._check_owners(operator)

    @classmethod
    def source(cls, operator: Operator | str, **fields: Any) -> "Topology":
        """Begin a job at a source; the fields are those of `Operator`."""
        return cls((as_operator(operator, fields),))

    def then(
        self,
        operator: Operator | str,
        *,
        after: str | Iterable[str] | None = None,
        grouping: Grouping | None = None,
        edge_key: str | tuple[str, ...] | None = None,
        **fields: Any,
    ) -> "Topology":
        """Return the job with one more operator, fed by the last one or by those named.

        Args:
            operator: the new operator, or its name.
            after: where its tuples come from: one operator, or several for a join.
            grouping: how tuples reach it, on each of its edges.
            edge_key: the columns that hold the key on each of its edges, see `Edge`.
            fields: the other fields of `Operator`, where only its name is given.
        """
        added = as_operator(operator, fields)
        if after is None:
            after = self.operators[-1].name
        sources = (after,) if isinstance(after, str) else listed("after", after)
        if not sources:
            raise TopologyError(
                f"operator {added.name!r} is after nothing; name one, or begin with also()"
            )
        edges = tuple(Edge(source, added.name, grouping, edge_key) for source in sources)
        return replace(self, operators=(*self.operators, added), edges=(*self.edges, *edges))

    def also(self, operator: Operator | str, **fields: Any) -> "Topology":
        """Return the job with one more source."""
        return replace(self, operators=(*self.operators, as_operator(operator, fields)))

    def seeded(self, seed: int) -> "Topology":
        """Return the same job whose keys are hashed by another seed."""
        return self if seed == self.seed else replace(self, seed=seed)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        made = partial(Topology, seed=self.seed) if self.seed else Topology
        return made, (self.operators, self.edges)

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
        """The pairs of keyed operators where one feeds the other.

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
        return columns_of(self.edge(source, target).key) or self.operator(target).key_columns

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
        return replace(self, operators=operators, edges=edges)

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
        if self.seed:
            body["seed"] = self.seed
        return write("topology", body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Topology":
        """Read what `to_json` wrote."""
        return read(text, "topology", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Topology":
        operators = record.each("operators", Operator.from_record)
        edges = tuple(record.each("edges", Edge.from_record))
        return cls(tuple(operators), edges, seed=record.take("seed", int, 0))

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
                    f"{other!r}; give all edges into operator {operator.name!r} one grouping"
                )


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
                    f"edge {edge} is incomplete: there is no operator {end!r}; known: {known}"
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
