"""Rows as text: JSON for programs to read, and cut short for messages."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_LONGEST = 300


def row_texts(rows: pa.Table) -> list[str]:
    """Return each row as a JSON object of its columns.

    Times are in ISO format, decimals and other things that JSON has no word for as they print,
    bytes in base64, and floats that are no numbers as the texts "NaN", "Infinity", "-Infinity".

    >>> row_texts(pa.table({"word": ["to", None], "at": [1.5, float("nan")]}))
    ['{"word": "to", "at": 1.5}', '{"word": null, "at": "NaN"}']
    """
    columns = [_values(column) for column in rows.columns]
    return [
        json.dumps(dict(zip(rows.column_names, values, strict=True)), ensure_ascii=False)
        for values in zip(*columns, strict=True)
    ]


def shortened(text: str) -> str:
    """Return a text in one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return [_plain(value) for value in column.to_pylist()]
    except UnicodeDecodeError:
        return [_readable(value) for chunk in column.chunks for value in chunk]


def _readable(value: pa.Scalar) -> Any:
    """Return a value of which a part may be no text, with that part replaced."""
    try:
        return _plain(value.as_py())
    except UnicodeDecodeError:
        if hasattr(value, "as_buffer"):
            return value.as_buffer().to_pybytes().decode(errors="replace")
        return f"a {value.type} with text that is not UTF-8"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # a lone surrogate fits no file
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
