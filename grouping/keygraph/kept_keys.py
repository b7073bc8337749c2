"""Keys in values: kept as they were read, and made arrays of when they are asked for.

A Python object for each key takes many times what the key takes in a column of bytes, and nearly
all code needs the column only.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketches.key_columns import INTEGER, KeyColumn
from sketches.keys import as_keys

Value = TypeVar("Value")


def keeping_keys(*names: str) -> Callable[[type[Value]], type[Value]]:
    """Return a decorator of frozen dataclasses for attributes that are keys.

    They may be given in any container, also as a column, and are arrays to those who read them.

    >>> from dataclasses import dataclass
    >>> @keeping_keys("keys")
    ... @dataclass(frozen=True)
    ... class Named:
    ...     keys: NDArray[Any]
    >>> named = Named(["b", "a"])
    >>> named.keys, column_of(named, "keys").kind
    (array(['b', 'a'], dtype=object), 'str')

    Args:
        names: those attributes.
    """

    def decorated(owner: type[Value]) -> type[Value]:
        for name in names:
            setattr(owner, name, _Keys(name))
        return owner

    return decorated


class _Keys:
    """An attribute that holds a column of keys, and an array of them once it was asked for."""

    def __init__(self, name: str) -> None:
        self._kept, self._made = f"_{name}_kept", f"_{name}_made"

    def __get__(self, value: object | None, owner: type) -> Any:
        if value is None:
            return self
        made = value.__dict__.get(self._made)
        if made is None:
            made = value.__dict__[self._made] = _as_array(value.__dict__[self._kept])
        return made

    def __set__(self, value: object, given: Any) -> None:
        value.__dict__[self._kept] = as_keys(given)


def column_of(value: object, name: str) -> KeyColumn:
    """Return the column of keys of an attribute."""
    column: KeyColumn = value.__dict__[f"_{name}_kept"]
    return column


def joined(first: KeyColumn, second: KeyColumn) -> KeyColumn:
    """Return the keys of both columns.

    Raises:
        InvalidKeyError: they are of two kinds.
    """
    if first.kind == second.kind:
        return first.joined(second)
    return as_keys([*first.objects(), *second.objects()])  # which says what is wrong


def _as_array(column: KeyColumn) -> NDArray[Any]:
    """Return keys as a write-protected array: integers as int64, others as objects."""
    is_integer = column.kind == INTEGER
    array: NDArray[Any] = column.codes.view(np.int64) if is_integer else column.objects()
    array.setflags(write=False)
    return array
