"""Groupings: how the tuples of an edge are spread over the instances of its target.

A grouping here is a specification, a small frozen value that a topology or a plan carries. It
says what is wanted; whoever executes the job turns it into a router. Which columns hold the key
is not its affair: the edge knows.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sketches.checks import whole
from sketches.errors import CorruptDataError, InvalidValueError, PenstockError


@dataclass(frozen=True, slots=True)
class Grouping(ABC):
    """How to choose an instance for a tuple.

    Attributes:
        kind: the name of this grouping in documents and reports.
        one_owner: whether all tuples of one key reach one instance, so that the instance may
            hold the key's state.
        needs_key: whether it chooses by a key.
    """

    kind: ClassVar[str]
    one_owner: ClassVar[bool] = False
    needs_key: ClassVar[bool] = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a grouping without a kind, such as this base class."""
        if not isinstance(getattr(cls, "kind", None), str):
            raise InvalidValueError(
                f"{cls.__name__} has no kind and spreads nothing; "
                "use one that has, such as Shuffle() or Fields()"
            )
        return object.__new__(cls)

    @property
    def instances(self) -> int | None:
        """How many instances it was made for; None where it serves any number."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Grouping":
        """Build it from what `to_dict` returned."""
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Shuffle(Grouping):
    """Deal tuples out in turn: even counts, whatever they contain."""

    kind = "shuffle"


@dataclass(frozen=True, slots=True)
class LocalOrShuffle(Grouping):
    """Stay on the sender's node where the target has an instance there, else shuffle."""

    kind = "local_or_shuffle"


@dataclass(frozen=True, slots=True)
class Fields(Grouping):
    """Send all tuples of one key to one instance, chosen by the key's hash."""

    kind = "fields"
    one_owner = True
    needs_key = True


@dataclass(frozen=True, slots=True)
class PartialKey(Grouping):
    """Send each tuple to the less loaded of a few instances, chosen by its key's hashes.

    Splits the state of every key over ``choices`` instances, to be merged downstream.

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


GROUPINGS: tuple[type[Grouping], ...] = (Shuffle, LocalOrShuffle, Fields, PartialKey)
"""The groupings that a document may name."""


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
    kind = fields.pop("kind", None)
    for known in GROUPINGS:
        if known.kind == kind:
            try:
                return known.from_dict(fields)
            except CorruptDataError:
                raise
            except (TypeError, PenstockError) as error:
                raise CorruptDataError(f"grouping {data!r}: {error}") from error
    kinds = ", ".join(known.kind for known in GROUPINGS)
    raise CorruptDataError(f"unknown grouping {kind!r}; known: {kinds}")
