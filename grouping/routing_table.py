"""Routing tables: the owners of keys, by name for known keys and by hash for others."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from grouping.key_table import KeyTable
from grouping.routers import OwnerRouter, Router
from sketches.arrays import Parts
from sketches.errors import InvalidValueError


@dataclass(frozen=True, init=False, eq=False, repr=False)
class GroupTable(KeyTable):
    """Put each key into the key group that the table names, and unknown keys by their hash.

    A key goes where its group goes. So a table is valid for any number of instances, and a group
    that moves to another instance takes its named keys along. The job's placement says which
    instance has which group. Without one, as in `repartition`, group ``g`` of ``n`` instances
    belongs to instance ``g * n // key_groups``.

    >>> table = GroupTable(["Asia", "#java", "#python"], [0, 0, 3], key_groups=4)
    >>> table.group_of(["#python", "Asia", "#haskell"]).tolist()
    [3, 0, 3]
    >>> table.router(2).route(3, ["#python", "Asia", "#haskell"]).tolist()
    [1, 0, 1]

    Args:
        keys: distinct keys of one kind, in any container that `sketches.keys.as_keys` reads. A
            key may be there twice if it has the same group both times.
        groups: for each key, its key group.
        key_groups: how many key groups there are: those of the operator.

    Attributes:
        parts: the groups, in the order of `keys`.

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 3.3.
    """

    kind: ClassVar[str] = "group_table"
    part: ClassVar[str] = "a key group"
    fields: ClassVar[tuple[str, str]] = ("groups", "key_groups")

    def __init__(self, keys: Any, groups: Any, key_groups: int) -> None:
        super().__init__(keys, groups, key_groups)

    @property
    def groups(self) -> Parts:
        """The group of each key, in the order of `keys`."""
        return self.parts

    @property
    def key_groups(self) -> int:
        """How many key groups there are."""
        return self._count

    def group_of(self, keys: Any, *, seed: int | None = None) -> Parts:
        """Return the key group of each key, as `assign` does."""
        return self.assign(keys, seed=seed)

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, partial(self._instance_of, instances))

    def _instance_of(self, instances: int, keys: Any) -> Parts:
        groups = self.assign(keys).astype(np.int64)
        return (groups * instances // self._count).astype(np.int32)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RoutingTable(KeyTable):
    """Send each key to the instance that the table names, and unknown keys by their hash.

    It is made for one number of instances, and beats the key group of a key; for plans of jobs
    that are rescaled see `GroupTable`. An empty one routes as `Fields` does, keys of any kind.

    >>> table = RoutingTable(["Asia", "#java", "#python"], [0, 0, 1], instances=2)
    >>> table.assign(["#python", "Asia", "#haskell"]).tolist()
    [1, 0, 1]
    >>> table.with_keys(["#haskell"], [0]).assign(["#haskell"]).tolist()
    [0]

    Args:
        keys: distinct keys of one kind, in any container that `sketches.keys.as_keys` reads. A
            key may be there twice if it has the same owner both times.
        parts: for each key, the instance that owns it.
        instances: how many instances there are.

    Attributes:
        parts: the owners, in the order of `keys`.

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 3.3.
    """

    kind: ClassVar[str] = "table"
    part: ClassVar[str] = "an instance"
    fields: ClassVar[tuple[str, str]] = ("parts", "instances")

    def __init__(self, keys: Any, parts: Any, instances: int) -> None:
        super().__init__(keys, parts, instances)

    @property
    def instances(self) -> int:
        """How many instances it was made for."""
        return self._count

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Build it from what `to_dict` returned.

        In earlier versions a table said whether its operator adopts keys; plans that hold such
        documents read that themselves (`Plan.adopt`).
        """
        adopts = fields.get("adopts", False)
        if not isinstance(adopts, bool):
            raise InvalidValueError(f"adopts={adopts!r} is not a bool; give true or false")
        return super().from_dict({n: value for n, value in fields.items() if n != "adopts"})

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, self.assign)
