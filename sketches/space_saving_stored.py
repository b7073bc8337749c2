"""Summaries as fields and arrays that can be stored, and back, with nothing taken on trust."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.errors import CorruptDataError
from sketches.key_columns import IntegerKeys, KeyColumn, PairKeys, packed
from sketches.key_decimals import LARGEST_SCALE, WIDTH, read, written
from sketches.key_strings import StringKeys
from sketches.key_times import check_numbers
from sketches.space_saving_rows import LARGEST_TOTAL, Rows, sorted_by_id

_KEYS = "keys."


def stored(rows: Rows) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what `restored` needs. It is the same for rows that answer the same."""
    order = rows.heaviest_first()
    keys = rows.keys.take(order)
    arrays: dict[str, NDArray[Any]] = {
        "counts": rows.counts[order],
        "errors": rows.errors[order],
    }
    arrays |= {f"{_KEYS}{name}": array for name, array in keys.arrays().items()}
    return {"kind": keys.kind, "floor": rows.floor, "total": rows.total}, arrays


def restored(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], capacity: int) -> Rows:
    """Return rows that came as bytes, if they can be those of a sketch.

    What is true of every sketch is checked, as wrong rows would give wrong answers in silence.

    Raises:
        CorruptDataError: these are not the rows of a sketch.
        InvalidValueError: a number among them is none that a sketch has.
    """
    floor = checks.number("floor", fields.get("floor"))
    total = checks.number("total", fields.get("total"), above=0, up_to=LARGEST_TOTAL)
    keys = packed(_column(fields.get("kind"), arrays))
    counts, errors = (
        checks.weights(name, arrays.get(name, np.empty(0)), len(keys))
        for name in ("counts", "errors")
    )
    if not 0 < len(keys) <= capacity or (floor and len(keys) < capacity):
        raise CorruptDataError(f"{len(keys)} keys are not what capacity {capacity} allows")
    rows = sorted_by_id(keys, counts, errors, floor, total)
    ids = rows.keys.ids
    if not np.array_equal(keys.ids, ids[rows.heaviest_first()]) or (ids[1:] == ids[:-1]).any():
        raise CorruptDataError("the stored keys are not in order, or not all different")
    if not ((errors <= floor) & (floor <= counts) & (counts > 0)).all():
        raise CorruptDataError("the stored counts, errors and floor contradict each other")
    return rows


def _column(kind: object, arrays: Mapping[str, NDArray[Any]]) -> KeyColumn:
    """Return the column of this kind whose arrays are among these."""
    if isinstance(kind, str) and kind.startswith("("):
        first, _, second = kind[1:-1].partition(", ")
        left, right = (
            _plain_column(part, f"{_KEYS}{side}.", arrays)
            for part, side in ((first, "left"), (second, "right"))
        )
        column: KeyColumn = PairKeys(left, right)
        if len(left) != len(right) or column.kind != kind:
            raise CorruptDataError(f"the stored columns are not pairs of the kind {kind}")
        return column
    return _plain_column(kind, _KEYS, arrays)


def _plain_column(kind: object, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> KeyColumn:
    """Return the integers, text or bytes that are stored under these names."""
    match kind:
        case "int" | "bool" | "date" | "timestamp" | "timestamp_ntz":
            numbers = _array(arrays, f"{prefix}values", np.int64)
            if kind != "int":
                check_numbers(kind, numbers)
            return IntegerKeys(numbers.view(np.uint64), kind=str(kind))
        case "str" | "bytes" | "decimal":
            data = _array(arrays, f"{prefix}data", np.uint8)
            lengths = _array(arrays, f"{prefix}lengths", np.int64)
            # Each is bounded first, so that no sum of them can wrap round to the right number.
            if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= len(data):
                raise CorruptDataError("the stored lengths of keys are out of range")
            if lengths.sum() != len(data):
                raise CorruptDataError(
                    f"the stored keys need {lengths.sum()} bytes, but there are {len(data)}"
                )
            column = StringKeys(str(kind), data, np.cumsum(lengths) - lengths, lengths)
            if kind == "decimal":
                _check_decimals(column)
            try:
                column.objects()
            except UnicodeDecodeError as error:
                raise CorruptDataError(f"a stored key is not UTF-8 ({error.reason})") from None
            return column
        case _:
            raise CorruptDataError(f"the stored kind of key {kind!r} is none that there is")


def _check_decimals(column: StringKeys) -> None:
    """Refuse bytes that are not the one form of a number."""
    if not (column.lengths == WIDTH).all():
        raise CorruptDataError(f"a stored decimal has not {WIDTH} bytes")
    data = column.content().tobytes()
    for start in range(0, len(data), WIDTH):
        form = data[start : start + WIDTH]
        if form[-1] > LARGEST_SCALE or form != written(read(form), start // WIDTH):
            raise CorruptDataError(f"the stored decimal {read(form)} is not in its shortest form")


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type) -> NDArray[Any]:
    if name not in arrays or arrays[name].dtype != dtype:
        raise CorruptDataError(f"there is no stored array {name!r} of type {dtype.__name__}")
    return arrays[name]
