"""How many bytes rows take in memory, column by column, without looking at what is in them.

Whether cells are null is told by a bit each, which is not counted.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches.arrays import Floats

Places = NDArray[np.int64]


def row_sizes(table: pa.Table) -> Floats:
    """Return how many bytes each row takes.

    >>> row_sizes(pa.table({"user": [1, 2], "text": ["", "four"]})).tolist()
    [12.0, 16.0]
    """
    same, sizes = 0.0, np.zeros(len(table))
    for column in table.columns:
        width = _width(column.type)
        if width is not None:
            same += width
            continue
        start = 0
        for chunk in column.chunks:
            sizes[start : start + len(chunk)] += _each(chunk)
            start += len(chunk)
    return sizes + same


def row_size(table: pa.Table) -> float | None:
    """Return how many bytes each row takes if that is the same for all by their types, else None.

    >>> row_size(pa.table({"user": [1, 2], "likes": [0.5, 1.5]}))
    16.0
    """
    widths = [_width(column.type) for column in table.columns]
    return None if None in widths else float(sum(width for width in widths if width))


def sizes_before(table: pa.Table, places: Places) -> Floats:
    """Return how many bytes all rows before each of these places take together.

    Args:
        table: the rows.
        places: from 0 to as many as there are rows, rising.
    """
    total = np.zeros(len(places))
    for column in table.columns:
        width = _width(column.type)
        if width is not None:
            total += places * width
            continue
        start = 0
        for chunk in column.chunks:
            total += _before(chunk, np.clip(places - start, 0, len(chunk)))
            start += len(chunk)
    return total


def _width(kind: pa.DataType) -> float | None:
    """Return how many bytes each element of a kind takes; None where they differ."""
    if pa.types.is_null(kind):
        return 0.0
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return float(kind.bit_width / 8)
    return None


def _each(array: Any) -> Any:
    """Return how many bytes each element takes, of a kind of which they differ."""
    for is_kind, width in _WITH_OFFSETS:
        if is_kind(array.type) and not _is_list(array.type):
            return np.diff(_offsets(array, width)) + width
    return np.diff(_before(array, np.arange(len(array) + 1)))


def _before(array: Any, places: Places) -> Any:  # one for each kind
    """Return how many bytes the elements before each place take."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _before(array.storage, places)
    if pa.types.is_dictionary(kind):  # each word is there once, for whichever rows use it
        words = array.dictionary.nbytes / max(len(array), 1)
        return _before(array.indices, places) + places * words
    if pa.types.is_struct(kind):
        return sum((_before(field, places) for field in array.flatten()), np.zeros(len(places)))
    if pa.types.is_fixed_size_list(kind):
        return _before(array.flatten(), places * kind.list_size)
    same = _width(kind)
    if same is not None:
        return places * same
    for is_kind, width in _WITH_OFFSETS:
        if is_kind(kind):
            offsets = _offsets(array, width)
            reached = offsets[places].astype(np.int64) - int(offsets[0])
            if _is_list(kind):
                inner = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
                return _before(inner, reached) + places * width
            return (reached + places * width).astype(np.float64)
    # Of a kind whose elements are of different sizes, and that is not known here, by the average.
    return places * (array.nbytes / max(len(array), 1))


_WITH_OFFSETS = (
    (pa.types.is_string, 4),
    (pa.types.is_binary, 4),
    (pa.types.is_large_string, 8),
    (pa.types.is_large_binary, 8),
    (pa.types.is_list, 4),
    (pa.types.is_map, 4),
    (pa.types.is_large_list, 8),
)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def _offsets(array: pa.Array, width: int) -> NDArray[Any]:
    """Return where each element begins in the data of all, and where the last one ends."""
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, dtype=np.int64)
    kind = np.dtype(f"i{width}")
    return np.frombuffer(buffer, kind, len(array) + 1, array.offset * width)
