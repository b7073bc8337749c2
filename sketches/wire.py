"""Sketches as bytes: one versioned, checksummed frame, readable without pickle.

A frame is: 4 bytes magic, 1 byte format version, 4 bytes length of the header, the header
(JSON, UTF-8: the sketch's type, its version, its parameters and the type and length of each
array), the arrays (little endian, one after the other), 4 bytes CRC-32 of all before.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import CorruptDataError

_MAGIC = b"PNSK"
_FORMAT = 1
_PREFIX = struct.Struct("<4sBI")
_CHECKSUM = struct.Struct("<I")
_DTYPES = frozenset({"<f8", "<i8", "<u8", "|u1"})


def pack(
    type_name: str,
    version: int,
    fields: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> bytes:
    """Write one frame. Array types are float64, int64, uint64 and uint8; shapes are flattened."""
    little = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1)
        for name, array in arrays.items()
    }
    header = json.dumps(
        {
            "type": type_name,
            "version": version,
            "fields": dict(fields),
            "arrays": [[name, array.dtype.str, len(array)] for name, array in little.items()],
        },
        separators=(",", ":"),
    ).encode()
    parts = [_PREFIX.pack(_MAGIC, _FORMAT, len(header)), header]
    parts += [array.tobytes() for array in little.values()]
    body = b"".join(parts)
    return body + _CHECKSUM.pack(zlib.crc32(body))


def unpack(
    data: bytes, type_name: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read one frame written by `pack` for the same type and version.

    Returns:
        The fields, and the arrays (flat, writable, in native byte order).

    Raises:
        CorruptDataError: the bytes are not a whole, undamaged frame of that type and version.
    """
    try:
        data = bytes(memoryview(data))  # bytes(5) would be five zeros
    except TypeError:
        raise CorruptDataError(
            f"a {type(data).__name__} is not bytes; pass what {type_name}.to_bytes() returned"
        ) from None
    if len(data) < _PREFIX.size + _CHECKSUM.size:
        raise CorruptDataError(
            f"{len(data)} bytes are too few for a {type_name}; they were truncated"
        )
    magic, frame_format, header_length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptDataError(
            f"bytes that begin with {magic!r} were not written by Penstock; "
            f"pass what {type_name}.to_bytes() returned"
        )
    if frame_format != _FORMAT:
        raise CorruptDataError(
            f"frame format {frame_format} is not {_FORMAT}; read it with the version that wrote it"
        )
    body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
        raise CorruptDataError(
            f"the checksum of {len(data)} bytes does not hold; they are damaged or truncated"
        )
    end = _PREFIX.size + header_length
    if end > len(body):
        raise CorruptDataError(f"a header of {header_length} bytes is longer than what there is")
    header = _header(body[_PREFIX.size : end], type_name, version)
    return header["fields"], _arrays(header["arrays"], body[end:])


def _header(raw: bytes, type_name: str, version: int) -> dict[str, Any]:
    """Read the header; a checksum tells damage, not that Penstock wrote it."""
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorruptDataError(f"the header of {len(raw)} bytes is not JSON") from None
    wanted = {"type": str, "version": int, "fields": dict, "arrays": list}
    if not isinstance(header, dict) or any(
        not isinstance(header.get(name), kind) for name, kind in wanted.items()
    ):
        raise CorruptDataError(f"the header has not the fields {', '.join(wanted)}")
    if header["type"] != type_name:
        raise CorruptDataError(
            f"the bytes hold a {header['type']}, not a {type_name}; "
            f"use {header['type']}.from_bytes()"
        )
    if header["version"] != version:
        raise CorruptDataError(
            f"{type_name} version {header['version']} is not {version}; "
            "read it with the version of Penstock that wrote it"
        )
    return header


def _arrays(entries: list[Any], raw: bytes) -> dict[str, NDArray[Any]]:
    """Cut the bytes into the arrays that the header lists; nothing may be missing or left over."""
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for entry in entries:
        match entry:
            case [str(name), str(dtype), int(length)] if dtype in _DTYPES and length >= 0:
                start, end = end, end + length * np.dtype(dtype).itemsize
            case _:
                raise CorruptDataError(f"{entry!r} does not describe an array")
        if end > len(raw):
            raise CorruptDataError(
                f"array {name!r} would end at byte {end} of {len(raw)}; the lengths do not fit"
            )
        array = np.frombuffer(raw[start:end], dtype=dtype)
        arrays[name] = array.astype(array.dtype.newbyteorder("="))
    if end != len(raw) or len(arrays) != len(entries):
        raise CorruptDataError(
            f"{len(entries)} arrays of {end} bytes do not fit the {len(raw)} bytes that follow "
            "the header"
        )
    return arrays
