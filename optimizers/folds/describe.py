"""The names of functions, columns and values in messages; the same in every process."""

import functools
from typing import Any

import pyarrow as pa

_LONGEST = 80


def name_of(function: Any) -> str:
    """Return the name of a function.

    >>> name_of(functools.reduce), name_of(functools.partial(max, 3))
    ('_functools.reduce', 'partial(builtins.max)')
    """
    if isinstance(function, functools.partial):
        return f"partial({name_of(function.func)})"
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is not None and name is not None:
        return f"{module}.{name}"
    text = repr(function)
    # A representation with an address in it would be another one in every process.
    return name_of(type(function)) if " at 0x" in text else text


def listed(schema: pa.Schema) -> str:
    """Return the columns of a schema with their types."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "no columns"


def in_line(value: Any) -> str:
    r"""Return how a value prints, in one line and cut short.

    >>> in_line("one\ntwo"), in_line(range(3))
    ("'one\\ntwo'", 'range(0, 3)')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001  # a class of others, which may do what it likes
        text = f"a {type(value).__name__}"
    return text[:_LONGEST]


def shown(value: Any) -> str:
    """Return a value, cut short, and its type."""
    return f"{in_line(value)} ({type(value).__name__})"
