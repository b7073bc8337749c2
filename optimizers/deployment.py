"""Where an operator lives: its key groups on instances, its instances on nodes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from optimizers.cluster import Cluster
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

    def resized(self, instances: int, cluster: Cluster) -> "Deployment":
        """Return it for another number of instances, with the fewest key groups moved.

        Instances that remain stay on their nodes; new ones go to the emptiest working nodes. All
        groups of instances that are gone move, and of others only as many as must, so that each
        instance has as many groups as any other, or one more. A deployment that already has that
        number of instances is returned unchanged.

        >>> from optimizers.cluster import Node
        >>> two = Deployment(("a", "b"), (0, 0, 0, 1, 1, 1))
        >>> two.resized(3, Cluster((Node("a"), Node("b"), Node("c"))))
        Deployment(nodes=('a', 'b', 'c'), groups=(0, 0, 2, 1, 1, 2))

        Args:
            instances: how many instances there are to be.
            cluster: the machines.
        """
        count = whole("instances", instances, at_least=1)
        if count == len(self.nodes):
            return self
        nodes = list(self.nodes[:count])
        used = Counter(nodes)
        while len(nodes) < count:
            nodes.append(cluster.emptiest(used))
            used[nodes[-1]] += 1
        return Deployment(tuple(nodes), _spread_again(self.groups, count))

    def without(self, nodes: Iterable[str], cluster: Cluster) -> "Deployment":
        """Return it with the instances of some nodes moved to the emptiest working ones.

        >>> from optimizers.cluster import Node
        >>> three = Deployment(("a", "b", "a"))
        >>> three.without(["b"], Cluster((Node("a"), Node("b"), Node("c")), draining=("b",))).nodes
        ('a', 'c', 'a')

        Args:
            nodes: the names of the nodes to be left.
            cluster: the machines, these draining or gone.
        """
        left = set(nodes)
        homes = list(self.nodes)
        used = Counter(name for name in homes if name not in left)
        for place, name in enumerate(homes):
            if name in left:
                homes[place] = cluster.emptiest(used)
                used[homes[place]] += 1
        return Deployment(tuple(homes), self.groups)

    def check(self, operator: Operator, instances: int) -> None:
        """Refuse a deployment that does not fit this operator and its number of instances."""
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


def _spread_again(groups: tuple[int, ...], instances: int) -> tuple[int, ...]:
    """Spread key groups evenly over another number of instances, moving as few as possible."""
    # 1. Each instance may have an equal share; what is left over goes to those with most groups.
    counts = Counter(groups)
    share, more = divmod(len(groups), instances)
    by_size = sorted(range(instances), key=lambda instance: (-counts[instance], instance))
    room = dict.fromkeys(range(instances), share) | dict.fromkeys(by_size[:more], share + 1)
    # 2. Groups stay while their instance has room for them; those of instances that go have none.
    chosen = list(groups)
    homeless = []
    for group, instance in enumerate(groups):
        if room.get(instance, 0):
            room[instance] -= 1
        else:
            homeless.append(group)
    # 3. The others fill the remaining room.
    places = (instance for instance in range(instances) for _ in range(room[instance]))
    for group, instance in zip(homeless, places, strict=True):
        chosen[group] = instance
    return tuple(chosen)


def default_groups(operator: Operator) -> tuple[int, ...]:
    """Spread an operator's key groups over its instances in even, contiguous ranges."""
    if not operator.keyed:
        return ()
    return tuple(
        group * operator.parallelism // operator.key_groups for group in range(operator.key_groups)
    )
