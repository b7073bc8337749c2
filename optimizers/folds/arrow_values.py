"""Plain Python values as Arrow columns: values are never changed, and other types are refused.

Arrow itself turns 1.5 into the integer 1, and drops values that a struct has no field for. And some
values end the whole process: a map with an item that is not a pair, an Arrow scalar for a
dictionary, lists nested thousands deep. So values are checked here before Arrow gets them.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from optimizers.errors import FoldError
from optimizers.folds.describe import listed, shown

_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError, LookupError)
_NOTHING = type(None)
_NO_NUMBERS = (bool, np.timedelta64)  # Python and numpy count them among the integers
_SIMPLE = {bool, int, float, str, bytes, _NOTHING}
_DEEPEST = 64
"""The deepest nesting for which a type is inferred: Arrow's search has no limit of its own."""


def column_of(
    values: Sequence[Any], kind: pa.DataType | None, where: Callable[[int], str]
) -> pa.Array:
    """Return Python values as a column.

    Args:
        values: None, or what Arrow can hold in the type without a change.
        kind: the type; None for a type that fits all values.
        where: says of the number of a value where it is, as a beginning of the message.

    Raises:
        FoldError: a value does not fit the type, or the values have no type in common.

    >>> column_of([1, None], pa.int64(), str).to_pylist()
    [1, None]
    """
    if kind is None:
        kind = _common_type(values, where)
    if not set(map(type, values)) <= _exact_types(kind):
        for place, value in enumerate(values):
            if not _fits(value, kind):
                raise _misfit(where(place), value, kind)
    try:
        return pa.array(values, kind)
    except _UNFIT:
        for place, value in enumerate(values):
            if not _converts(value, kind):
                raise _misfit(where(place), value, kind) from None
        raise


def batch_of(
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema | None,
    where: Callable[[int], str],
    *,
    fixed: bool = True,
) -> pa.RecordBatch:
    """Return rows as a record batch.

    Args:
        rows: at least one.
        schema: the columns; a row may lack one, and then has a null there. None for those of the
            first row, which all others must have as well.
        where: as in `column_of`.
        fixed: whether a column of the schema that is of type null may hold nothing else; if not,
            it gets the type that its values have in common.

    Raises:
        FoldError: a row has another column, or a value that does not fit.
    """
    names = list(rows[0]) if schema is None else schema.names
    known = set(names)
    for place, row in enumerate(rows):
        if row.keys() != known and (schema is None or not row.keys() <= known):
            raise _stranger(where(place), row, names)
    if schema is None:
        columns = [
            column_of([row[name] for row in rows], None, _in_column(where, name)) for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)
    columns = []
    for field in schema:
        kind = field.type if fixed or field.type != pa.null() else None
        column = column_of(
            [row.get(field.name) for row in rows], kind, _in_column(where, field.name)
        )
        if column.null_count and not field.nullable:
            place = column.is_null().index(pa.scalar(value=True)).as_py()
            raise FoldError(
                f"{_in_column(where, field.name)(place)}: there is no value, but the column is "
                "declared not null; give it one, or declare it nullable"
            )
        columns.append(column)
    if not fixed:
        types = [column.type for column in columns]
        found = [field.with_type(kind) for field, kind in zip(schema, types, strict=True)]
        schema = pa.schema(found, metadata=schema.metadata)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _in_column(where: Callable[[int], str], name: str) -> Callable[[int], str]:
    return lambda place: f"{where(place)}, column {name!r}"


def _stranger(where: str, row: Mapping[str, Any], names: Sequence[str]) -> FoldError:
    extra = [name for name in row if name not in names]
    problem = f"has a column {extra[0]!r}" if extra else f"has only columns {list(row)}"
    return FoldError(
        f"{where} {problem}, but the columns are {', '.join(map(repr, names)) or 'none'}; "
        "give every row the same columns, or list all of them: output=pa.schema(...)"
    )


def _misfit(where: str, value: Any, kind: pa.DataType) -> FoldError:
    if kind == pa.null():
        remedy = "so far there were only nulls; say the type beforehand: output=pa.schema(...)"
    elif isinstance(value, pa.Scalar):
        remedy = "take the Python value out of it: .as_py()"
    else:
        remedy = "convert it, or declare another type"
    return FoldError(f"{where}: {shown(value)} is not a value of type {kind}; {remedy}")


def _common_type(values: Sequence[Any], where: Callable[[int], str]) -> pa.DataType:
    simple = set(map(type, values)) <= _SIMPLE
    for place, value in enumerate(() if simple else values):
        if _is_deep(value, _DEEPEST):
            raise FoldError(
                f"{where(place)}: a value is nested more than {_DEEPEST} levels deep, or holds "
                "itself; flatten it, or keep it as text"
            )
    try:
        return pa.array(values).type
    except _UNFIT:
        place = bisect_left(range(1, len(values)), 1, key=lambda end: _fails(values[:end]))
        raise FoldError(
            f"{where(place)}: {shown(values[place])} has no type in common with the values before "
            "it; convert it, or declare the type: output=pa.schema(...)"
        ) from None


def _is_deep(value: Any, levels: int) -> bool:
    """Return whether a value has more levels of lists and mappings than these."""
    if isinstance(value, Mapping):
        inner: Iterable[Any] = value.values()
    elif isinstance(value, np.ndarray):
        inner = value.flat if value.dtype == object else ()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deep(item, levels - 1) for item in inner)


def _fails(values: Sequence[Any]) -> int:
    try:
        pa.array(values)
    except _UNFIT:
        return 1
    return 0


def _converts(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except _UNFIT:
        return False
    return True


def _exact_types(kind: pa.DataType) -> set[type]:
    """Return the Python types all of whose values Arrow converts without a change, or refuses."""
    types = pa.types
    if types.is_integer(kind):
        return {int, _NOTHING}
    if types.is_float64(kind):
        return {float, int, _NOTHING}
    if types.is_boolean(kind):
        return {bool, _NOTHING}
    if _is_text(kind):
        return {str, _NOTHING}
    return {bytes, _NOTHING} if _is_bytes(kind) else {_NOTHING}


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value is one of this type, so that it comes back as it was."""
    types = pa.types
    if value is None:
        return True
    if types.is_boolean(kind):
        return isinstance(value, bool | np.bool_)
    if types.is_integer(kind):
        return isinstance(value, int | np.integer) and not isinstance(value, _NO_NUMBERS)
    if types.is_floating(kind):
        return _is_float(value, kind)
    if _is_text(kind):
        return isinstance(value, str)
    if _is_bytes(kind):
        return isinstance(value, bytes)
    return _fits_nested(value, kind)


def _fits_nested(value: Any, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _fits(value, kind.value_type)
    if types.is_struct(kind):
        named = {field.name: field.type for field in kind}
        return (
            isinstance(value, dict)  # of other mappings Arrow makes an error or pairs
            and value.keys() == named.keys()
            and len(named) == kind.num_fields
            and all(_fits(value[name], inner) for name, inner in named.items())
        )
    if types.is_map(kind):
        return _is_list(value) and all(_fits_entry(entry, kind) for entry in value)
    if _is_list_type(kind):
        return _is_list(value) and all(_fits(item, kind.value_type) for item in value)
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if types.is_nested(inner) or types.is_dictionary(inner):
        return False  # a union, say, or a tensor: none that Spark knows, and Arrow is unsafe there
    try:
        return not isinstance(value, pa.Scalar) and bool(pa.scalar(value, kind).as_py() == value)
    except _UNFIT:
        return False


def _fits_entry(entry: Any, kind: pa.DataType) -> bool:
    """Return whether it is a key and a value of a map."""
    if not isinstance(entry, tuple) or len(entry) != 2 or entry[0] is None:
        return False
    return _fits(entry[0], kind.key_type) and _fits(entry[1], kind.item_type)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _is_list_type(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _is_float(value: Any, kind: pa.DataType) -> bool:
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    if isinstance(value, _NO_NUMBERS):
        return False
    if kind == pa.float64() or not math.isfinite(value):
        return True
    largest = float(np.finfo(kind.to_pandas_dtype()).max)
    return bool(-largest <= value <= largest)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view())


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


def check_columns(given: pa.Schema, wanted: pa.Schema, who: str) -> None:
    """Refuse a table of other columns than were declared."""
    if not given.equals(wanted):
        raise FoldError(
            f"{who} returned columns ({listed(given)}), but they must be ({listed(wanted)}); "
            "cast what it returns, so that all of it has one schema"
        )
