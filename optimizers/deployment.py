"""Where an operator lives: its key groups on instances, its instances on nodes."""

from dataclasses import dataclass
from typing import Any

from optimizers.documents import Record
from optimizers.errors import InvalidValueError, PlanError
from optimizers.names import check_name
from optimizers.operators import Operator
from sketches.checks import whole
from sketches.values import listed


@dataclass(frozen=True, slots=True)
class Deployment:
    """Which instance holds each key group of one operator, and on which node each instance is.

    >>> Deployment(nodes=("east", "west"), groups=(0, 0, 1, 0)).node_of(2)
    'west'

    Attributes:
        nodes: the node of each instance; as many as the operator has instances.
        groups: the instance of each key group; none for a stateless operator.
    """

    nodes: tuple[str, ...]
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        nodes = tuple(check_name("node", name) for name in listed("nodes", self.nodes))
        if not nodes:
            raise InvalidValueError("a deployment without instances runs nothing; name their nodes")
        groups = tuple(
            whole(f"groups[{group}]", instance, at_least=0, at_most=len(nodes) - 1)
            for group, instance in enumerate(listed("groups", self.groups))
        )
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "groups", groups)

    def node_of(self, group: int) -> str:
        """Return the node that holds a key group."""
        if not self.groups:
            raise InvalidValueError(f"group={group!r}: a stateless operator has no key groups")
        group = whole("group", group, at_least=0, at_most=len(self.groups) - 1)
        return self.nodes[self.groups[group]]

    def check(self, operator: Operator, instances: int) -> None:
        """Refuse a deployment that is not of this operator with so many instances."""
        if len(self.nodes) != instances:
            raise PlanError(
                f"placement[{operator.name!r}] names nodes for {len(self.nodes)} instances and the "
                f"operator has {instances}; name one node for each instance"
            )
        expected = operator.key_groups if operator.keyed else 0
        if len(self.groups) != expected:
            raise PlanError(
                f"placement[{operator.name!r}] places {len(self.groups)} key groups and the "
                f"operator has {expected}; place each of them once"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"nodes": list(self.nodes), "groups": list(self.groups)}

    @classmethod
    def from_value(cls, value: object, where: str) -> "Deployment":
        """Build it from a value of a document."""
        return Record(value, where).into(
            lambda record: cls(record.strings("nodes"), record.integers("groups"))
        )


def default_groups(operator: Operator) -> tuple[int, ...]:
    """Spread an operator's key groups over its instances in even, contiguous ranges."""
    if not operator.keyed:
        return ()
    return tuple(
        group * operator.parallelism // operator.key_groups for group in range(operator.key_groups)
    )
