"""Files of tuples that left the job, as reports and commits list them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from optimizers.documents import Record
from optimizers.errors import CorruptDataError, InvalidValueError
from sketches.checks import whole


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of tuples that left the job.

    Attributes:
        path: its name in the checkpoint.
        operator: which operator they are of.
        schema: their columns, known so without opening the file.
        rows: how many they are.
        bytes: how large it is.
        aside: whether they are bad rows that the operator hands aside.
    """

    path: str
    operator: str
    schema: pa.Schema
    rows: int = 0
    bytes: int = 0
    aside: bool = False

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidValueError(f"path={self.path!r} is not the name of a file of output")
        if not isinstance(self.schema, pa.Schema):
            raise InvalidValueError(f"schema={self.schema!r} is not a schema of Arrow")
        whole("rows", self.rows, at_least=0)
        whole("bytes", self.bytes, at_least=0)
        object.__setattr__(self, "schema", self.schema.remove_metadata())


def to_json_types(files: Sequence[OutputFile]) -> dict[str, Any]:
    """Return files as JSON types; each schema is there once, for all files that have it."""
    numbers: dict[pa.Schema, int] = {}
    listed = []
    for file in files:
        number = numbers.setdefault(file.schema, len(numbers))
        fields: dict[str, Any] = {"path": file.path, "operator": file.operator, "schema": number}
        fields |= {"rows": file.rows, "bytes": file.bytes}
        listed.append({**fields, "aside": True} if file.aside else fields)
    return {"schemas": [_written(schema) for schema in numbers], "files": listed}


def from_json_types(value: object, where: str = "outputs") -> tuple[OutputFile, ...]:
    """Read what `to_json_types` returned.

    Raises:
        CorruptDataError: it is no such thing.
    """
    return Record(value, where).into(_files)


def _files(record: Record) -> tuple[OutputFile, ...]:
    schemas = [_read(text) for text in record.strings("schemas")]

    def file(each: Record) -> OutputFile:
        number = each.take("schema", int)
        if not 0 <= number < len(schemas):
            raise CorruptDataError(f"a file of output has schema {number} of {len(schemas)}")
        return OutputFile(
            each.take("path", str),
            each.take("operator", str),
            schemas[number],
            each.take("rows", int),
            each.take("bytes", int),
            each.take("aside", bool, default=False),
        )

    return tuple(record.each("files", file))


def _written(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _read(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise CorruptDataError(f"schema {text!r:.40} is none of Arrow: {error}") from error
