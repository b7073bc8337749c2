"""Groupings: how the tuples of an edge are spread over the instances of its target.

A grouping here is a specification, a small frozen value that a topology or a plan carries. Its
`router` carries it out, for one sender and a batch at a time. The edge, not the grouping, knows
which columns hold the key.
"""

import importlib
import reprlib
from dataclasses import dataclass
from functools import partial
from typing import Any

from grouping.grouping import Grouping
from grouping.hashing import hash_parts
from grouping.routers import OwnerRouter, PartialKeyRouter, RoundRobinRouter, Router
from grouping.routing_table import GroupTable, RoutingTable
from grouping.scheduling.baselines import FullKnowledge, ShortestQueue, TwoChoices
from grouping.scheduling.least_work.grouping import LeastWork
from grouping.scheduling.online_shuffle.grouping import OnlineShuffle
from grouping.skew.distribution_aware import DistributionAware
from grouping.skew.heavy_keys import DChoicesRouter, WChoicesRouter
from sketches.arrays import Parts
from sketches.checks import number, whole
from sketches.errors import CorruptDataError, InvalidValueError, PenstockError

__all__ = [
    "GROUPINGS",
    "DChoices",
    "DistributionAware",
    "Fields",
    "FullKnowledge",
    "GroupTable",
    "Grouping",
    "LeastWork",
    "LocalOrShuffle",
    "OnlineShuffle",
    "PartialKey",
    "RoutingTable",
    "ShortestQueue",
    "Shuffle",
    "TwoChoices",
    "WChoices",
    "WorstCase",
    "grouping_from_dict",
    "grouping_to_dict",
]


@dataclass(frozen=True, slots=True)
class Shuffle(Grouping):
    """Deal tuples out in turn: even counts, regardless of their keys.

    >>> Shuffle().router(3, sender=1).route(4).tolist()
    [1, 2, 0, 1]
    """

    kind = "shuffle"

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return RoundRobinRouter(instances, among=range(instances), start=sender)


@dataclass(frozen=True, slots=True)
class LocalOrShuffle(Grouping):
    """Stay on the sender's node where the target has an instance there, else shuffle.

    >>> LocalOrShuffle().router(6, local=[2, 5]).route(3).tolist()
    [2, 5, 2]
    """

    kind = "local_or_shuffle"

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return RoundRobinRouter(instances, among=local or range(instances), start=sender)


@dataclass(frozen=True, slots=True)
class Fields(Grouping):
    """Send all tuples of one key to one instance, chosen by the key's hash.

    >>> Fields().router(4).route(3, ["Asia", "Oceania", "Asia"]).tolist()
    [2, 0, 2]
    """

    kind = "fields"
    one_owner = True
    needs_key = True

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, partial(hash_parts, parts=instances))


@dataclass(frozen=True, slots=True)
class PartialKey(Grouping):
    """Send each tuple to the less loaded of a few instances, chosen by its key's hashes.

    Splits the state of every key over ``choices`` instances, to be merged downstream.

    >>> PartialKey().router(4).route(4, ["Asia"] * 4).tolist()
    [2, 1, 2, 1]

    References:
        Nasir et al., "The power of both choices: Practical load balancing for distributed
        stream processing engines", ICDE 2015.
    """

    choices: int = 2
    kind = "partial_key"
    needs_key = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", whole("choices", self.choices, at_least=2))

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"choices": self.choices}

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return PartialKeyRouter(instances, choices=self.choices)


@dataclass(frozen=True, slots=True)
class DChoices(Grouping):
    """Send a tuple of a heavy key to the least loaded of d instances, others to one of two.

    Each sender finds the heavy keys itself, and the number of choices that balance needs.

    >>> DChoices().router(4).route(4, ["Asia"] * 4).tolist()
    [2, 1, 2, 1]

    Attributes:
        threshold: the least share of the stream of a heavy key; None for a fifth of what one
            instance should get, as published.
        tolerance: the imbalance to aim at, as a share of the stream.

    References:
        Nasir et al., "When two choices are not enough: Balancing at scale in distributed stream
        processing", ICDE 2016.
    """

    threshold: float | None = None
    tolerance: float = 1e-4
    kind = "d_choices"
    needs_key = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", _checked_threshold(self.threshold))
        tolerance = number("tolerance", self.tolerance, above=0, up_to=1)
        object.__setattr__(self, "tolerance", tolerance)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"threshold": self.threshold, "tolerance": self.tolerance}

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        threshold = _threshold(self.threshold, instances)
        return DChoicesRouter(
            instances, threshold=threshold, tolerance=self.tolerance, sender=sender
        )


@dataclass(frozen=True, slots=True)
class WChoices(Grouping):
    """Send a tuple of a heavy key to the least loaded of all instances, others to one of two.

    >>> WChoices().router(4).route(4, ["Asia"] * 4).tolist()
    [2, 1, 2, 1]

    Attributes:
        threshold: the least share of the stream of a heavy key; None for a fifth of what one
            instance should get, as published.

    References:
        Nasir et al., "When two choices are not enough: Balancing at scale in distributed stream
        processing", ICDE 2016.
    """

    threshold: float | None = None
    kind = "w_choices"
    needs_key = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", _checked_threshold(self.threshold))

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"threshold": self.threshold}

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return WChoicesRouter(
            instances, threshold=_threshold(self.threshold, instances), sender=sender
        )


@dataclass(frozen=True, slots=True)
class WorstCase(Grouping):
    """Send each key to the instance after the one that a table names, which loses all locality.

    The opposite of a table for locality, and a lower bound of what routing can do.

    >>> table = RoutingTable([7, 8], [0, 2], instances=3)
    >>> WorstCase(table).router(3).route(2, [7, 8]).tolist()
    [1, 0]

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 4.2.
    """

    table: RoutingTable
    kind = "worst_case"
    one_owner = True
    needs_key = True

    def __post_init__(self) -> None:
        if not isinstance(self.table, RoutingTable):
            raise InvalidValueError(f"table={self.table!r} is not a RoutingTable to be thwarted")

    @property
    def instances(self) -> int:
        """How many instances the table was made for."""
        return self.table.instances

    def assign(self, keys: Any) -> Parts:
        """Return the instance of each key."""
        parts = self.table.assign(keys) + 1
        parts[parts == self.instances] = 0
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"table": self.table.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "WorstCase":
        """Build it from what `to_dict` returned."""
        table = fields.get("table")
        if not isinstance(table, dict):
            raise CorruptDataError(f"table={table!r} of a {cls.kind} grouping is not an object")
        return cls(**{**fields, "table": RoutingTable.from_dict(table)})

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, self.assign)


GROUPINGS: tuple[type[Grouping], ...] = (
    Shuffle,
    LocalOrShuffle,
    Fields,
    PartialKey,
    DChoices,
    WChoices,
    GroupTable,
    RoutingTable,
    DistributionAware,
    WorstCase,
    OnlineShuffle,
    LeastWork,
    ShortestQueue,
    TwoChoices,
    FullKnowledge,
)
"""The groupings that a document may name by their kind; others go by their import path."""


def grouping_to_dict(grouping: Grouping) -> dict[str, Any]:
    """Return the grouping as JSON types, its kind first."""
    return {"kind": grouping.kind, **grouping.to_dict()}


def grouping_from_dict(data: object) -> Grouping:
    """Build the grouping that `grouping_to_dict` wrote.

    Raises:
        CorruptDataError: its kind is unknown or its fields are not those of its kind.
    """
    if not isinstance(data, dict):
        raise CorruptDataError(f"a grouping is an object with a kind, not {data!r}")
    fields = dict(data)
    chosen = _of_kind(fields.pop("kind", None))
    try:
        return chosen.from_dict(fields)
    except CorruptDataError:
        raise
    except TypeError as error:
        raise CorruptDataError(
            f"grouping {reprlib.repr(data)}: {error}; give the fields of a {chosen.kind} grouping"
        ) from error
    except PenstockError as error:
        raise CorruptDataError(f"grouping {reprlib.repr(data)}: {error}") from error


def _of_kind(kind: object) -> type[Grouping]:
    """Return the grouping of this kind; outside Penstock, the kind is its import path."""
    for known in GROUPINGS:
        if known.kind == kind:
            return known
    kinds = ", ".join(known.kind for known in GROUPINGS)
    if not isinstance(kind, str) or ":" not in kind:
        raise CorruptDataError(f"unknown grouping {kind!r}; known: {kinds}")
    module, _, name = kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise CorruptDataError(
            f"grouping {kind!r} cannot be imported: {error}; install the package that has it"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Grouping) and found.kind == kind):
        raise CorruptDataError(
            f"{kind!r} is not a grouping of that kind; let its class say kind = {kind!r}"
        )
    return found


def _checked_threshold(threshold: object) -> float | None:
    return None if threshold is None else number("threshold", threshold, above=0, up_to=1)


def _threshold(threshold: float | None, instances: int) -> float:
    """Return the least share of a heavy key: a fifth of an instance's, unless it is given."""
    return 1 / (5 * instances) if threshold is None else threshold
