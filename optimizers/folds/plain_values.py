"""Arrow's values as what JSON has words for; also of those that Python cannot hold.

Python's times end with the year 9999, its durations with a thousand million days, and its texts
are valid. Arrow's need not be: milliseconds that are taken for seconds are times, too.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as they stand in JSON.

    Times are in ISO format, decimals and other things that JSON has no word for as they print,
    bytes in base64, and floats that are no numbers as the texts "NaN", "Infinity", "-Infinity".

    >>> plain_values(pa.chunked_array([pa.array([0, 253402300800], pa.timestamp("s"))]))
    ['1970-01-01T00:00:00', '10000-01-01T00:00:00']
    """
    try:
        return [_plain(value) for value in column.to_pylist()]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # Arrow and pandas have many errors for what is no value
        return [plain_value(value) for chunk in column.chunks for value in chunk]


def plain_value(value: pa.Scalar) -> Any:
    """Return a value as it stands in JSON; a part that Python cannot hold as text.

    >>> plain_value(pa.scalar(2**62, pa.duration("s")))
    '4611686018427387904 (duration[s])'
    """
    try:
        return _plain(value.as_py())
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        try:
            return _in_parts(value)
        except Exception:  # noqa: BLE001  # of a type that has no parts, or nested too deep
            return f"a {value.type} that cannot be shown"


def in_python(value: pa.Scalar) -> Any:
    """Return a value for a message: Python's own, or else as it stands in JSON."""
    try:
        return value.as_py()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        return plain_value(value)


def _in_parts(value: pa.Scalar) -> Any:
    if isinstance(value, pa.StructScalar):
        names = [field.name for field in value.type]
        values = [plain_value(value[place]) for place in range(len(names))]
        twice = len(set(names)) < len(names)
        return (
            [list(pair) for pair in zip(names, values, strict=True)]
            if twice
            else dict(zip(names, values, strict=True))
        )
    if isinstance(value, pa.MapScalar):
        return [[plain_value(entry[0]), plain_value(entry[1])] for entry in value.values]
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [plain_value(item) for item in value.values]
    if isinstance(value, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
        return value.as_buffer().to_pybytes().decode(errors="replace")
    if isinstance(value, pa.TimestampScalar | pa.Date32Scalar | pa.Date64Scalar):
        return _date_of(value)
    inner = value.value  # of a dictionary or an extension, a value; of a time, a number
    return plain_value(inner) if isinstance(inner, pa.Scalar) else f"{inner} ({value.type})"


def _date_of(value: pa.TimestampScalar | pa.Date32Scalar | pa.Date64Scalar) -> str:
    """Return a date beyond Python's in ISO format, in UTC; NumPy's years are of 64 bits."""
    kind = value.type
    if pa.types.is_timestamp(kind):
        time = _iso(np.datetime64(value.value, kind.unit))
        return f"{time}{'' if kind.tz is None else 'Z'}"
    if pa.types.is_date32(kind):
        return _iso(np.datetime64(value.value, "D"))
    return _iso(np.datetime64(value.value, "ms").astype("datetime64[D]"))


def _iso(time: np.datetime64) -> str:
    """Return a time in ISO format, in which years have four digits; NumPy writes -1 as -001."""
    text = str(time)
    if not text.startswith("-"):
        return text
    year, _, rest = text[1:].partition("-")
    return f"-{year:0>4}-{rest}"


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
