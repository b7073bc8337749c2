"""The records of batches in a checkpoint's log: their inputs and results."""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from optimizers.documents import Record, read, write
from optimizers.errors import CorruptDataError, InvalidValueError, StateError
from optimizers.runtime.log.origins import Bounded, Origin, Progress, origin_from, origin_to_dict
from optimizers.runtime.state.file import LARGEST_BATCH, FileKind, StateFile
from optimizers.runtime.task.output_file import OutputFile, from_json_types, to_json_types
from sketches.checks import whole
from sketches.values import FrozenMap, listed, named

T = TypeVar("T")

_SEAL = re.compile(rb',\n  "checksum": (\d{1,10})\n}\n')


def sealed(document: str) -> bytes:
    """Return a document with its own checksum as its last entry."""
    text = document.encode()
    return text.removesuffix(b"\n}\n") + b',\n  "checksum": %d\n}\n' % zlib.crc32(text)


def unsealed(content: bytes) -> bytes:
    """Return the sealed document, if no byte of it has changed.

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


@dataclass(frozen=True)
class Commit:
    """The commit of a batch: all that the next one begins with.

    Attributes:
        batch: which batch; one after the other.
        plan: the batch with which the plan in force came; None where none was ever saved.
        state: for each operator and each of its instances the files of its state, oldest first;
            empty where it has no keys.
        outputs: the files of output that belong to it, with their operators and columns.
        tuples: how many tuples came into the job.
        revision: how often the same state was rewritten.
        plan_revision: the number of the plan among those saved for that batch: the first, or one by
            which a driver with other declared numbers of instances replaced it.
        origin: the input of the batch.
        progress: how far each input has come with it; by default the first batch of all.
    """

    batch: int
    plan: int | None = None
    state: Mapping[str, tuple[tuple[StateFile, ...], ...]] = field(default_factory=FrozenMap)
    outputs: tuple[OutputFile, ...] = ()
    tuples: int = 0
    revision: int = 0
    plan_revision: int = 0
    origin: Origin = field(default_factory=Bounded)
    progress: Progress = field(default_factory=lambda: Progress(1))

    def __post_init__(self) -> None:
        whole("batch", self.batch, at_least=0, at_most=LARGEST_BATCH)
        if self.plan is not None:
            whole("plan", self.plan, at_least=0, at_most=self.batch)
        whole("tuples", self.tuples, at_least=0)
        whole("revision", self.revision, at_least=0)
        whole("plan_revision", self.plan_revision, at_least=0)
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

    @property
    def number(self) -> tuple[int, int]:
        """Its identity: its batch and its revision."""
        return self.batch, self.revision

    @property
    def saved_plan(self) -> tuple[int, int] | None:
        """The batch and revision of the plan in force; None without a plan."""
        return None if self.plan is None else (self.plan, self.plan_revision)

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
            "plan_revision": self.plan_revision,
            "revision": self.revision,
            "origin": origin_to_dict(self.origin),
            "progress": self.progress.to_dict(),
            "tuples": self.tuples,
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
        progress = Progress.from_value(record.take("progress", dict), "progress")
        record.take("facts", dict, {})  # of older commits, and empty in all of them
        return cls(
            record.take("batch", int),
            record.optional("plan", int),
            record.mapping("state", _instances),
            from_json_types(record.take("outputs", dict)),
            record.take("tuples", int),
            record.take("revision", int),
            record.take("plan_revision", int),
            origin_from(record.take("origin", dict), "origin", progress),
            progress,
        )

    def _chain(self, where: str, files: object) -> tuple[StateFile, ...]:
        """Return files that form a state: a base, then changes, none of a later batch."""
        chain = listed(where, files)
        for place, file in enumerate(chain):
            if not isinstance(file, StateFile):
                raise InvalidValueError(f"{where} holds {file!r}; give a StateFile")
            if (file.kind is FileKind.BASE) is not (place == 0):
                raise StateError(f"{where}: a {file.kind} at {place}; give a base, then deltas")
            before = chain[place - 1].batch if place else 0
            if not before <= file.batch <= self.batch:
                raise StateError(
                    f"{where}: a file of batch {file.batch} between batches {before} and "
                    f"{self.batch}; give the oldest first"
                )
        return chain


def _instances(value: object, where: str) -> tuple[tuple[StateFile, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(files, list) for files in value):
        raise CorruptDataError(f"{where}: expected a list of files for each instance")
    return tuple(
        tuple(StateFile.from_value(file, f"{where}[{instance}]") for file in files)
        for instance, files in enumerate(value)
    )
