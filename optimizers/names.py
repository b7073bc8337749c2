"""Names of operators, nodes and racks."""

import re
from collections.abc import Container

from optimizers.errors import InvalidValueError

_NAME = re.compile(r"\w[\w.:@-]*")


def check_name(kind: str, name: object) -> str:
    """Return the name of an operator or node: a word that can also name a file or a column."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"{kind} name {name!r} is not a word; use letters, digits and _ . : @ -"
        )
    return name


def is_name(name: object, names: Container[str]) -> bool:
    """Return whether it is one of the names; False for anything but text, hashable or not."""
    return isinstance(name, str) and name in names
