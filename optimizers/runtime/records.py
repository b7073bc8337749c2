"""What the log of a checkpoint records: which job it is of, and what each batch left behind."""

import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from optimizers.documents import Record, read, write
from optimizers.errors import CorruptDataError, InvalidValueError, StateError
from optimizers.operators import Operator
from optimizers.runtime.output_file import OutputFile, from_json_types, to_json_types
from optimizers.runtime.state_file import LARGEST_BATCH, Kind, StateFile
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap, listed, named

T = TypeVar("T")

FORMAT = 1
"""The version of how files of a checkpoint are laid out and named."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SEAL = re.compile(rb',\n  "checksum": (\d{1,10})\n}\n')


def sealed(document: str) -> bytes:
    """Return a document with its own checksum as its last entry."""
    text = document.encode()
    return text.removesuffix(b"\n}\n") + b',\n  "checksum": %d\n}\n' % zlib.crc32(text)


def unsealed(content: bytes) -> bytes:
    """Return the document that was sealed, if not a byte of it has changed.

    Raises:
        CorruptDataError: a byte has changed or is missing.
    """
    start = content.rfind(b',\n  "checksum": ')
    seal = _SEAL.fullmatch(content, start) if start >= 0 else None
    if seal is None:
        raise CorruptDataError("it has no checksum at its end, so it is torn or another file")
    text = content[:start] + b"\n}\n"
    if zlib.crc32(text) != int(seal[1]):
        raise CorruptDataError("its checksum does not hold, so it is damaged or was edited")
    return text


def read_sealed(content: bytes, kind: str, build: Callable[[Record], T]) -> T:
    """Read a sealed document of this kind; see `documents.read`."""
    return read(unsealed(content), kind, build)


@dataclass(frozen=True, slots=True)
class OperatorIdentity:
    """What of an operator may not change while its state is kept.

    Attributes:
        key: the columns of its key; None without one.
        key_groups: how many groups its keys fall into; 0 without a key.
        partial: whether several instances may hold a part of one key's state.
        fold: what it does to its state, as it prints; None where nothing is said.
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
        # Where a function happens to lie in memory is no part of what it does.
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
        """Say what of it is not as in the other."""
        return [
            f"{name} {getattr(self, name)!r} instead of {getattr(other, name)!r}"
            for name in self.__slots__
            if getattr(self, name) != getattr(other, name)
        ]


@dataclass(frozen=True)
class Identity:
    """Which job a checkpoint is of: two jobs of one identity can continue each other's work.

    How many instances an operator has and how tuples are spread over them is no part of it.

    Attributes:
        operators: what may not change of each operator, by its name.
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
        """Say what of this job is not as in the other; nothing if they are one job."""
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

    def to_json(self) -> str:
        """Write it as a JSON document."""
        body: dict[str, Any] = {
            "format": FORMAT,
            "operators": {name: value.to_dict() for name, value in self.operators.items()},
            "edges": [
                {"source": source, "target": target, "key": list(key)}
                for source, target, key in self.edges
            ],
        }
        return write("checkpoint", body)

    @classmethod
    def from_sealed(cls, content: bytes) -> "Identity":
        """Read the sealed document of `to_json`."""
        return read_sealed(content, "checkpoint", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Identity":
        found = record.take("format", int)
        if found != FORMAT:
            raise CorruptDataError(
                f"it is laid out by format {found}, and this Penstock knows format {FORMAT}; "
                "use the version of Penstock that made it"
            )
        operators = record.mapping(
            "operators",
            lambda value, where: Record(value, where).into(OperatorIdentity.from_record),
        )
        return cls(operators, tuple(record.each("edges", _edge)))


@dataclass(frozen=True)
class Commit:
    """What is true once a batch is done: everything that the next one begins with.

    Attributes:
        batch: which batch; one after the other.
        plan: the batch with which the plan in force came; None where none was ever saved.
        state: for each operator and each of its instances the files that its state adds up
            from, oldest first; none where it has no keys.
        outputs: the files of output that belong to it, with their operators and columns.
        tuples: how many tuples came into the job.
        facts: other numbers worth keeping, each with its name.
        revision: how often the same state was written anew.
    """

    batch: int
    plan: int | None = None
    state: Mapping[str, tuple[tuple[StateFile, ...], ...]] = field(default_factory=FrozenMap)
    outputs: tuple[OutputFile, ...] = ()
    tuples: int = 0
    facts: Mapping[str, float] = field(default_factory=FrozenMap)
    revision: int = 0

    def __post_init__(self) -> None:
        whole("batch", self.batch, at_least=0, at_most=LARGEST_BATCH)
        if self.plan is not None:
            whole("plan", self.plan, at_least=0, at_most=self.batch)
        whole("tuples", self.tuples, at_least=0)
        whole("revision", self.revision, at_least=0)
        state = {
            name: tuple(
                self._chain(f"state[{name!r}][{instance}]", files)
                for instance, files in enumerate(listed(f"state[{name!r}]", instances))
            )
            for name, instances in named("state", self.state, object).items()
        }
        object.__setattr__(self, "state", FrozenMap(state))
        outputs = listed("outputs", self.outputs)
        for file in outputs:
            if not isinstance(file, OutputFile):
                raise InvalidValueError(f"outputs holds {file!r}; give an OutputFile")
        object.__setattr__(self, "outputs", outputs)
        facts = named("facts", self.facts, object)
        numbers = {name: _fact(name, value) for name, value in facts.items()}
        object.__setattr__(self, "facts", FrozenMap(numbers))

    @property
    def files(self) -> frozenset[str]:
        """All files that it refers to."""
        state = (file.path for _, _, files in self.instances() for file in files)
        return frozenset([*state, *(file.path for file in self.outputs)])

    def instances(self) -> list[tuple[str, int, tuple[StateFile, ...]]]:
        """Return operator, instance and files of state, one after the other."""
        return [
            (name, instance, files)
            for name, chains in self.state.items()
            for instance, files in enumerate(chains)
        ]

    def to_json(self) -> str:
        """Write it as a JSON document."""
        body: dict[str, Any] = {
            "batch": self.batch,
            "plan": self.plan,
            "revision": self.revision,
            "tuples": self.tuples,
            "facts": dict(self.facts),
            "outputs": to_json_types(self.outputs),
            "state": {
                name: [[file.to_dict() for file in files] for files in instances]
                for name, instances in self.state.items()
            },
        }
        return write("commit", body)

    @classmethod
    def from_sealed(cls, content: bytes) -> "Commit":
        """Read the sealed document of `to_json`."""
        return read_sealed(content, "commit", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Commit":
        return cls(
            record.take("batch", int),
            record.optional("plan", int),
            record.mapping("state", _instances),
            from_json_types(record.take("outputs", dict)),
            record.take("tuples", int),
            record.take("facts", dict, {}),
            record.take("revision", int),
        )

    def _chain(self, where: str, files: object) -> tuple[StateFile, ...]:
        """Return files that add up: a base, then what changed, none of it from the future."""
        chain = listed(where, files)
        for place, file in enumerate(chain):
            if not isinstance(file, StateFile):
                raise InvalidValueError(f"{where} holds {file!r}; give a StateFile")
            if (file.kind is Kind.BASE) is not (place == 0):
                raise StateError(f"{where}: a {file.kind} at {place}; give a base, then deltas")
            before = chain[place - 1].batch if place else 0
            if not before <= file.batch <= self.batch:
                raise StateError(
                    f"{where}: a file of batch {file.batch} between batches {before} and "
                    f"{self.batch}; give the oldest first"
                )
        return chain


def _fact(name: str, value: object) -> float:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return float(value)
    raise InvalidValueError(f"facts[{name!r}]={value!r} is not a finite number; leave it out")


def _edge(record: Record) -> tuple[str, str, tuple[str, ...]]:
    return record.take("source", str), record.take("target", str), record.strings("key")


def _instances(value: object, where: str) -> tuple[tuple[StateFile, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(files, list) for files in value):
        raise CorruptDataError(f"{where}: expected a list of files for each instance")
    return tuple(
        tuple(StateFile.from_value(file, f"{where}[{instance}]") for file in files)
        for instance, files in enumerate(value)
    )
