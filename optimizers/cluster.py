"""The machines that a job runs on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from optimizers.documents import Record, read, write
from optimizers.errors import InvalidValueError, PlanError, UnknownNameError
from optimizers.names import check_name, is_name
from sketches.checks import number, whole
from sketches.values import listed

if TYPE_CHECKING:
    from optimizers.plan import Plan


_SIZES = ("cores", "memory", "bandwidth")


@dataclass(frozen=True, slots=True)
class Node:
    """One machine.

    Attributes:
        name: its name in plans and reports.
        capacity: how much work it does per second, relative to the others.
        rack: the machines that share a switch with it share this name.
        cores: how many instances it can run at the same time; None where that is not known.
        memory: how many bytes of memory it has for the job; None where that is not known.
        bandwidth: how many bytes a second its link carries, each way; None where that is not
            known.
    """

    name: str
    capacity: float = 1.0
    rack: str = "rack-0"
    cores: float | None = None
    memory: float | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        check_name("node", self.name)
        check_name("rack", self.rack)
        object.__setattr__(self, "capacity", number("capacity", self.capacity, above=0))
        for name in _SIZES:
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, number(name, given, above=0))

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types; what is not known is left out."""
        sizes = {name: getattr(self, name) for name in _SIZES}
        known = {name: size for name, size in sizes.items() if size is not None}
        return {"name": self.name, "capacity": self.capacity, "rack": self.rack, **known}

    @classmethod
    def from_record(cls, record: Record) -> "Node":
        """Build it from the record of a document."""
        return cls(
            record.take("name", str),
            record.take("capacity", float, 1.0),
            record.take("rack", str, "rack-0"),
            *(record.optional(name, float) for name in _SIZES),
        )


@dataclass(frozen=True)
class Cluster:
    """The machines of a job, in the order in which instances are dealt out to them.

    >>> cluster = Cluster.uniform(4, racks=2)
    >>> [f"{node.name} in {node.rack}" for node in cluster.nodes]
    ['node-0 in rack-0', 'node-1 in rack-1', 'node-2 in rack-0', 'node-3 in rack-1']

    Attributes:
        nodes: the machines.
        draining: names of nodes that are to be emptied and then given back.
        order: names in the order in which instances are dealt out, where it is not that of the
            nodes. It may name nodes that are gone: their instances are dealt to the others, which
            keep what they have; see `became`.
    """

    nodes: tuple[Node, ...]
    draining: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes = listed("nodes", self.nodes)
        if not nodes:
            raise InvalidValueError("a cluster without nodes cannot run a job; give at least one")
        seen = set()
        for node in nodes:
            if not isinstance(node, Node):
                raise InvalidValueError(f"{node!r} is not a Node; write Node({node!r})")
            if node.name in seen:
                raise InvalidValueError(f"two nodes are called {node.name!r}; rename one")
            seen.add(node.name)
        object.__setattr__(self, "nodes", nodes)
        draining = {self.node(name).name for name in listed("draining", self.draining)}
        object.__setattr__(self, "draining", tuple(sorted(draining)))
        if len(self.draining) == len(nodes):
            raise InvalidValueError(
                f"all {len(nodes)} nodes are draining; keep at least one to work on"
            )
        object.__setattr__(self, "order", _checked_order(self.order, nodes))

    def __reduce__(self) -> tuple[type["Cluster"], tuple[Any, ...]]:
        return Cluster, (self.nodes, self.draining, self.order)

    @classmethod
    def uniform(cls, count: int, *, racks: int = 1) -> "Cluster":
        """Return ``count`` equal nodes, dealt out over ``racks`` racks."""
        racks = whole("racks", racks, at_least=1)
        return cls(
            tuple(
                Node(f"node-{place}", rack=f"rack-{place % racks}")
                for place in range(whole("count", count, at_least=1))
            )
        )

    @property
    def typical(self) -> Node:
        """A node of capacity 1, with what the nodes have of all else for their capacity.

        >>> Cluster((Node("a", 2.0, cores=8), Node("b", 1.0, cores=4))).typical.cores
        4.0

        If a fact is unknown for any node, it is unknown here.
        """
        capacity = sum(node.capacity for node in self.nodes)
        sizes = {name: [getattr(node, name) for node in self.nodes] for name in _SIZES}
        known = {name: sum(found) / capacity for name, found in sizes.items() if None not in found}
        return Node("typical", **known)

    @property
    def working(self) -> tuple[Node, ...]:
        """The nodes that stay: all but those that drain."""
        return tuple(node for node in self.nodes if node.name not in self.draining)

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        if not is_name(name, self._by_name):
            raise UnknownNameError.among("node", name, self._by_name)
        return self._by_name[name]

    def deal(self, instances: int) -> tuple[str, ...]:
        """Deal instances out to the working nodes in turn: the default deployment."""
        names = [node.name for node in self.working]
        count = whole("instances", instances, at_least=1)
        order = [name for name in self.order if name not in self.draining] or names
        dealt = [order[instance % len(order)] for instance in range(count)]
        loads = Counter(dealt)
        for place, name in enumerate(dealt):
            if name not in self._by_name:
                dealt[place] = min(names, key=loads.__getitem__)  # the first of those with fewest
                loads[dealt[place]] += 1
        return tuple(dealt)

    def emptiest(self, counts: Mapping[str, int]) -> str:
        """Return the working node with fewest instances for its capacity; the first of several.

        >>> Cluster((Node("a"), Node("b", capacity=3.0))).emptiest({"a": 1, "b": 2})
        'b'

        Args:
            counts: how many instances each node has; those not named have none.
        """
        return min(
            self.working, key=lambda node: (counts.get(node.name, 0) + 1) / node.capacity
        ).name

    def became(self, nodes: Iterable[Node]) -> "Cluster":
        """Return the cluster with exactly these nodes.

        New nodes take the places of nodes that left, so that as few instances as possible move:

        >>> before = Cluster((Node("a"), Node("b"), Node("c")))
        >>> before.deal(4), before.became([Node("a"), Node("c")]).deal(4)
        (('a', 'b', 'c', 'a'), ('a', 'c', 'c', 'a'))
        >>> before.became([Node("a"), Node("c"), Node("d")]).deal(4)
        ('a', 'd', 'c', 'a')
        """
        there = listed("nodes", nodes)
        now = Cluster(there)
        old = self.order or tuple(self._by_name)
        newcomers = [node.name for node in there if node.name not in old]
        order = [
            name if name in now._by_name or not newcomers else newcomers.pop(0) for name in old
        ]
        draining = tuple(name for name in self.draining if name in now._by_name)
        kept = draining if len(draining) < len(there) else ()
        return Cluster(there, kept, (*order, *newcomers))

    def under(self, plan: "Plan") -> "Cluster":
        """Return the cluster as it is once the plan's nodes are added and draining."""
        if not plan.add and not plan.drain:
            return self
        nodes = list(self.nodes)
        for node in plan.add:
            if self._by_name.get(node.name, node) != node:
                raise PlanError(
                    f"the plan adds node {node.name!r} with other properties than the one there: "
                    f"{node!r} and {self.node(node.name)!r}; give the new one a name of its own"
                )
            if node.name not in self._by_name:
                nodes.append(node)
        draining = {*self.draining, *plan.drain}
        if all(node.name in draining for node in nodes):
            raise PlanError(
                f"draining {list(plan.drain)} would leave no node to work on; keep or add one"
            )
        more = (node.name for node in nodes if node.name not in self.order)
        order = (*self.order, *more) if self.order else ()
        return replace(self, nodes=tuple(nodes), draining=tuple(sorted(draining)), order=order)

    def to_json(self) -> str:
        """Write the cluster as a JSON document."""
        body: dict[str, Any] = {"nodes": [node.to_dict() for node in self.nodes]}
        if self.draining:
            body["draining"] = list(self.draining)
        if self.order:
            body["order"] = list(self.order)
        return write("cluster", body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Cluster":
        """Read what `to_json` wrote."""
        return read(text, "cluster", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Cluster":
        nodes = record.each("nodes", Node.from_record)
        return cls(tuple(nodes), record.strings("draining"), record.strings("order"))

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}


def _checked_order(order: Any, nodes: tuple[Node, ...]) -> tuple[str, ...]:
    """Return an order of dealing, empty if it is that of the nodes; refuse gaps and repetitions."""
    names = tuple(check_name("node", name) for name in listed("order", order))
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InvalidValueError(f"order names {twice!r} twice; name each node once")
    lacking = [node.name for node in nodes if node.name not in names]
    if names and lacking:
        raise InvalidValueError(f"order={list(names)} lacks node {lacking[0]!r}; name all nodes")
    return () if names == tuple(node.name for node in nodes) else names
