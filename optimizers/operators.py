"""The parts of a topology: operators, and the edges between them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeAlias

from grouping.groupings import Grouping, GroupTable, grouping_from_dict, grouping_to_dict
from optimizers.documents import Record
from optimizers.errors import InvalidValueError, TopologyError
from optimizers.import_paths import function_at, reference_to
from optimizers.names import check_name
from sketches.checks import whole

EdgeName: TypeAlias = tuple[str, str]
"""An edge is named by its source and its target."""

KEY_GROUPS = 128
"""How many key groups a keyed operator has unless it says otherwise: what Flink starts with."""


class OnError(StrEnum):
    """What happens to rows that an operator cannot take.

    These are rows without a key on their way to it, and rows on which the user's function raises.
    """

    FAIL = "fail"
    """The job ends, with the row and the reason in its message."""
    SKIP = "skip"
    """They are left out and counted."""
    ASIDE = "aside"
    """They leave the job as an output of their own, each with the reason."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a job, done by ``parallelism`` instances.

    Without a key it is stateless: any instance may take any tuple. With a key it is stateful:
    all tuples of one key go to the instance that owns the key and holds its state.

    Attributes:
        name: its name in plans and reports; unique in the topology.
        key: the column, or columns, by which its state is kept; None for a stateless operator.
        parallelism: how many instances it starts with.
        apply: the work it does: a function, or the import path of one as ``"package.module:name"``.
        key_groups: how many groups its keys fall into; state moves by groups, so a keyed operator
            cannot use more instances.
        partial: whether several instances may each hold a part of one key's state, because
            what they emit is merged downstream.
        on_error: what happens to rows without a key on their way to it, and to those on which its
            function raises: ``"fail"``, ``"skip"`` or ``"aside"``.
    """

    name: str
    key: str | tuple[str, ...] | None = None
    parallelism: int = 1
    apply: Callable[..., Any] | str | None = None
    key_groups: int = KEY_GROUPS
    partial: bool = False
    on_error: OnError = OnError.FAIL

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
        chosen: object = self.on_error
        if not isinstance(chosen, str) or chosen not in tuple(OnError):
            raise TopologyError(
                f"{where}on_error={self.on_error!r} is none of "
                f"{', '.join(repr(str(choice)) for choice in OnError)}"
            )
        object.__setattr__(self, "on_error", OnError(self.on_error))
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
        return columns_of(self.key)

    def function(self) -> Callable[..., Any] | None:
        """Return the work it does, imported if an import path was given."""
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
        if self.on_error is not OnError.FAIL:
            fields["on_error"] = self.on_error.value
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
            record.take("on_error", str, OnError.FAIL),  # type: ignore[arg-type]  # made one itself
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream of tuples from one operator to another.

    Attributes:
        source: the operator that emits.
        target: the operator that receives.
        grouping: how tuples are spread over the target's instances. None means by key if the target
            has one, else in turn.
        key: the column, or columns, of its tuples that hold the key to spread them by, if their
            names differ from the target's own key.
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
            fields["key"] = list(columns_of(self.key))
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


def check_grouping(edge: Edge, target: Operator, grouping: Grouping) -> None:
    """Refuse a grouping that cannot feed this operator."""
    if grouping.needs_key and edge.key is None and not target.keyed:
        raise TopologyError(
            f"edge {edge}: {grouping.kind} needs a key and operator {target.name!r} has none; "
            "give the operator a key, or the edge one of its own"
        )
    if target.keyed and len(columns_of(edge.key)) not in (0, len(target.key_columns)):
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
    if isinstance(grouping, GroupTable) and grouping.key_groups != target.key_groups:
        raise TopologyError(
            f"edge {edge}: the table was made for {grouping.key_groups} key groups and operator "
            f"{target.name!r} has {target.key_groups}; make one for {target.key_groups}"
        )
    if grouping.instances not in (None, target.parallelism):
        raise TopologyError(
            f"edge {edge}: the grouping was made for {grouping.instances} instances and operator "
            f"{target.name!r} has {target.parallelism}; make one for {target.parallelism}"
        )


def columns_of(key: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the columns that a key names."""
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else key


def _normal_key(where: str, key: Any) -> str | tuple[str, ...] | None:
    """Return the key as one column, or as several; refuse a key that names no column."""
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


def as_operator(operator: Operator | str, settings: dict[str, Any]) -> Operator:
    """Return the operator, or make one of this name with these settings."""
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
