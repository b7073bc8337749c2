"""The identity of a checkpoint's job: what may not change while its state is kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.documents import Record
from optimizers.operators import Operator
from optimizers.topology import Topology
from sketches.values import FrozenMap

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class OperatorIdentity:
    """The parts of an operator that may not change while its state is kept.

    Attributes:
        key: the columns of its key; None without one.
        key_groups: how many groups its keys fall into; 0 without a key.
        partial: whether several instances may hold a part of one key's state.
        fold: its fold, as text; None if it has none.
    """

    key: tuple[str, ...] | None = None
    key_groups: int = 0
    partial: bool = False
    fold: str | None = None

    @classmethod
    def of(cls, operator: Operator) -> "OperatorIdentity":
        """Return what identifies an operator."""
        if not operator.keyed:
            return cls()
        function = operator.function()
        # The address of a function is no part of its identity.
        fold = None if function is None else _ADDRESS.sub("", repr(function))
        return cls(operator.key_columns, operator.key_groups, operator.partial, fold)

    @classmethod
    def from_record(cls, record: Record) -> "OperatorIdentity":
        """Build it from the record of a document."""
        return cls(
            record.optional_strings("key"),
            record.take("key_groups", int, 0),
            record.take("partial", bool, default=False),
            record.optional("fold", str),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        if self.key is None:
            return {}
        fields: dict[str, Any] = {"key": list(self.key), "key_groups": self.key_groups}
        return {**fields, "partial": self.partial, "fold": self.fold}

    def differences(self, other: "OperatorIdentity") -> list[str]:
        """Return how it differs from another."""
        return [
            f"{name} {getattr(self, name)!r} instead of {getattr(other, name)!r}"
            for name in self.__slots__
            if getattr(self, name) != getattr(other, name)
        ]


@dataclass(frozen=True)
class Identity:
    """The identity of a job: two jobs of one identity can continue each other's work.

    Numbers of instances and groupings are no part of it.

    Attributes:
        operators: the identity of each operator, by name.
        edges: source, target and key of each edge, sorted.
    """

    operators: Mapping[str, OperatorIdentity]
    edges: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", FrozenMap(self.operators))
        object.__setattr__(self, "edges", tuple(sorted(self.edges)))

    @classmethod
    def of(cls, topology: Topology) -> "Identity":
        """Return what identifies a job."""
        return cls(
            {operator.name: OperatorIdentity.of(operator) for operator in topology.operators},
            tuple((*edge.name, topology.key_columns(*edge.name)) for edge in topology.edges),
        )

    def differences(self, other: "Identity") -> list[str]:
        """Return how this job differs from the other; empty if they are one job."""
        found = []
        for name in sorted({*self.operators, *other.operators}):
            if name not in other.operators:
                found.append(f"operator {name!r} is new")
            elif name not in self.operators:
                found.append(f"operator {name!r} is gone")
            else:
                changes = self.operators[name].differences(other.operators[name])
                found += [f"operator {name!r} has {change}" for change in changes]
        for edges, others, what in (
            (self.edges, other.edges, "new"),
            (other.edges, self.edges, "gone"),
        ):
            for source, target, key in edges:
                if (source, target, key) not in others:
                    by = f" by key {', '.join(key)}" if key else ""
                    found.append(f"edge {source} -> {target}{by} is {what}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {
            "operators": {name: value.to_dict() for name, value in self.operators.items()},
            "edges": [
                {"source": source, "target": target, "key": list(key)}
                for source, target, key in self.edges
            ],
        }

    @classmethod
    def from_record(cls, record: Record) -> "Identity":
        """Build it from the record of a document."""
        operators = record.mapping(
            "operators",
            lambda value, where: Record(value, where).into(OperatorIdentity.from_record),
        )
        return cls(operators, tuple(record.each("edges", _edge)))


def _edge(record: Record) -> tuple[str, str, tuple[str, ...]]:
    return record.take("source", str), record.take("target", str), record.strings("key")
