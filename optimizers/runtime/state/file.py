"""Files of state: all keys of one instance, or the changes of one batch.

A file is an Arrow IPC file that any Arrow tool can read. The commit that refers to it has its size
and checksum: a file with others is not read.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from optimizers.documents import Record
from optimizers.errors import CheckpointError, InvalidValueError, StateError
from optimizers.runtime.state.keys import check_rows
from optimizers.runtime.state.merge import latest
from optimizers.runtime.state.table import GONE, selected
from optimizers.runtime.storage.location import Location
from sketches.arrays import Codes
from sketches.checks import whole

FOLDER = "state"

MOST_DELTAS = 16
"""The most files of changes that are read in a row."""

LARGEST_BATCH = 10**10 - 1
"""The number of digits of batches in the names of files."""

_ATTEMPT = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(rf"{FOLDER}/[^/]+/\d{{10}}-\d+-[A-Za-z0-9_-]+\.arrow")


class FileKind(StrEnum):
    """The kinds of state files."""

    BASE = "base"
    """All keys of an instance; earlier files do not matter."""

    DELTA = "delta"
    """The keys that changed, came or left since the file before."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of state, and how to check that it is whole.

    Attributes:
        path: its name in the checkpoint.
        batch: the batch in which it was written.
        rows: how many rows it has.
        bytes: how large it is.
        checksum: the CRC-32 of all its bytes.
        kind: whether it holds all keys or those that changed.
    """

    path: str
    batch: int
    rows: int
    bytes: int
    checksum: int
    kind: FileKind

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path) or self.path.split("/")[1] in {".", ".."}:
            raise InvalidValueError(f"path={self.path!r} is not one of a state file; see {FOLDER}/")
        whole("batch", self.batch, at_least=0, at_most=LARGEST_BATCH)
        whole("rows", self.rows, at_least=0)
        whole("bytes", self.bytes, at_least=0)
        whole("checksum", self.checksum, at_least=0, at_most=(1 << 32) - 1)
        object.__setattr__(self, "kind", _kind(self.kind))

    def after(self, files: tuple["StateFile", ...]) -> tuple["StateFile", ...]:
        """Return the files of an instance after this one is written."""
        return (self,) if self.kind is FileKind.BASE else (*files, self)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {
            "path": self.path,
            "batch": self.batch,
            "rows": self.rows,
            "bytes": self.bytes,
            "checksum": self.checksum,
            "kind": self.kind.value,
        }

    @classmethod
    def from_value(cls, value: object, where: str = "state file") -> "StateFile":
        """Build it from a value of a JSON document; ``where`` names it in messages."""
        return Record(value, where).into(cls.from_record)

    @classmethod
    def from_record(cls, record: Record) -> "StateFile":
        """Build it from the record of a document."""
        return cls(
            record.take("path", str),
            record.take("batch", int),
            record.take("rows", int),
            record.take("bytes", int),
            record.take("checksum", int),
            record.take("kind", str),  # type: ignore[arg-type]  # becomes a Kind
        )


def folder_of(operator: str) -> str:
    """Return the folder that the state of an operator is in; its name may be any word."""
    return f"{FOLDER}/{quote(operator, safe='')}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at the work of one instance in one batch.

    Attributes:
        operator: whose instance it is.
        instance: which of its instances.
        batch: in which batch.
        name: a name that no other attempt at it has, lost runs included. So their files differ, and
            all but those committed are garbage.
    """

    operator: str
    instance: int
    batch: int
    name: str

    def __post_init__(self) -> None:
        whole("instance", self.instance, at_least=0)
        whole("batch", self.batch, at_least=0, at_most=LARGEST_BATCH)
        if not _ATTEMPT.fullmatch(self.name):
            raise InvalidValueError(
                f"attempt {self.name!r} cannot name a file; use letters, digits, _ and -"
            )

    @property
    def stem(self) -> str:
        """The beginning of the names of all its files, which says when they may be removed."""
        return f"{self.batch:010}-{self.instance}-{self.name}"

    @property
    def path(self) -> str:
        """The file of state that it writes."""
        return f"{folder_of(self.operator)}/{self.stem}.arrow"


def write_state(
    location: Location, attempt: Attempt, rows: pa.Table, *, kind: FileKind
) -> StateFile:
    """Write a file of state.

    Args:
        location: the checkpoint.
        attempt: the attempt of the task that writes it.
        rows: the state, or its changes (see `optimizers.runtime.state.table`).
        kind: whether the rows are all there are, or changes.

    Raises:
        StateError: the rows are not a table of state.
        CheckpointError: it cannot be written, or another attempt has this name.
    """
    check_rows(rows)
    if kind is FileKind.BASE and GONE in rows.column_names:
        raise StateError(f"a base has no column {GONE!r}; leave out the keys that are gone")
    content = _packed(rows)
    location.write_once(attempt.path, content)
    return StateFile(
        attempt.path, attempt.batch, rows.num_rows, content.size, zlib.crc32(content), kind
    )


def read_state(
    location: Location,
    file: StateFile,
    *,
    places: Codes | None = None,
    groups: Any = None,
    key_groups: int | None = None,
) -> pa.Table:
    """Read a file of state, or the rows of it that are at these places or in these key groups.

    Raises:
        CheckpointError: the file is missing, torn, damaged or another one.
    """
    everything = places is None and groups is None
    # Only the wanted part of a mapped file is copied; the copy no longer needs the file.
    content = location.read(file.path, mapped=not everything)
    _check(content, file, location)
    try:
        rows = pa.ipc.open_file(content).read_all()
    except pa.ArrowException as error:
        raise _damaged(location, file, f"is no Arrow file ({error})") from error
    if rows.num_rows != file.rows:
        raise _damaged(location, file, f"has {rows.num_rows} rows, not {file.rows}")
    return selected(rows, places=places, groups=groups, key_groups=key_groups)


def read_states(
    location: Location,
    files: Sequence[StateFile],
    *,
    places: Codes | None = None,
    groups: Any = None,
    key_groups: int | None = None,
) -> pa.Table:
    """Return the state in the files of an instance, or the wanted rows of it.

    Args:
        location: the checkpoint.
        files: a base and the changes since, oldest first; at least one.
        places: see `read_state`, as for the others.
        groups: see `read_state`.
        key_groups: see `read_state`.
    """
    wanted: Mapping[str, Any] = {"places": places, "groups": groups, "key_groups": key_groups}
    return latest([read_state(location, file, **wanted) for file in files])


def should_rewrite(files: Sequence[StateFile]) -> bool:
    """Return whether all keys should be written next time, not only those that change.

    That is so when there is no file yet, when the changes together are larger than the base, or
    when there are too many of them. So reading a state never takes much more than twice its size,
    in few files.
    """
    if not files or files[0].kind is not FileKind.BASE:
        return True
    changes = files[1:]
    return len(changes) > MOST_DELTAS or sum(file.bytes for file in changes) > files[0].bytes


def _packed(rows: pa.Table) -> pa.Buffer:
    whole_rows = rows.combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, whole_rows.schema) as writer:
        writer.write_table(whole_rows)
    return sink.getvalue()


def _check(content: pa.Buffer, file: StateFile, location: Location) -> None:
    """Refuse a file that is not, byte for byte, as it was written."""
    if content.size < file.bytes:
        raise _damaged(location, file, f"is torn: {content.size} of {file.bytes} bytes are there")
    if content.size > file.bytes:
        raise _damaged(location, file, f"has {content.size} bytes, not {file.bytes}")
    if zlib.crc32(content) != file.checksum:
        raise _damaged(location, file, "is damaged: its checksum is not the one committed")


def _damaged(location: Location, file: StateFile, what: str) -> CheckpointError:
    return CheckpointError(
        f"{location.path_of(file.path)} {what}; bring the file of batch {file.batch} back from "
        "a copy, or begin with a new checkpoint"
    )


def _kind(kind: object) -> FileKind:
    try:
        return FileKind(kind)  # type: ignore[arg-type]  # refuses what is none
    except ValueError:
        raise InvalidValueError(f"kind={kind!r} is neither 'base' nor 'delta'") from None
