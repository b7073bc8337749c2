"""Tuples that came apart, put together as one table."""

from collections.abc import Sequence

import pyarrow as pa

from optimizers.errors import FoldError


def joined(tables: Sequence[pa.Table], where: str) -> pa.Table:
    """Return several tables as one, in this order; a column that some lack is null there.

    Raises:
        FoldError: a column is of two types, or there twice.
    """
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FoldError(f"{where}: {_reason(tables) or error}") from error


def _reason(tables: Sequence[pa.Table]) -> str:
    """Return which column cannot be put together; nothing if that does not show."""
    types: dict[str, pa.DataType] = {}
    for field in (field for table in tables for field in table.schema):
        known = types.setdefault(field.name, field.type)
        if pa.types.is_null(known):
            types[field.name] = known = field.type
        if field.type != known and not pa.types.is_null(field.type):
            return (
                f"column {field.name!r} is of type {known} in some tuples and of type "
                f"{field.type} in others; cast them to one type before they meet"
            )
    return ""
