"""What the user says of hosts: what they cannot tell of themselves, as how fast a link is.

Hosts come and go as ever. What is said of one counts whenever it is there, before what was read.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias

from optimizers.cluster import Node
from optimizers.errors import InvalidValueError, PenstockError, UnknownNameError
from sketches.values import FrozenMap

Hosts: TypeAlias = Mapping[str, Mapping[str, Any]] | Callable[[str], Mapping[str, Any] | None]
"""By the name of a host the properties of its node, by name; or a function that returns them."""

PROPERTIES = tuple(each.name for each in fields(Node) if each.name != "name")
"""What can be said of a host."""

_EXAMPLE = 'such as {"bandwidth": 1.25e9}'


def checked_hosts(given: Any) -> Hosts:
    """Return what is said of hosts, frozen if it is a mapping; refuse what means nothing.

    What a function returns is checked as it is asked.
    """
    if callable(given) and not isinstance(given, type):
        found: Hosts = given
        return found
    if not isinstance(given, Mapping):
        raise InvalidValueError(
            f"hosts={given!r} is neither a mapping from names of hosts to properties nor a "
            f"function that returns them; give properties of each, {_EXAMPLE}"
        )
    return FrozenMap({name: _checked(name, said) for name, said in given.items()})


def complemented(node: Node, hosts: Hosts | None) -> Node:
    """Return the node that a host is, with what is said of it in place of what was read.

    Raises:
        InvalidValueError: a function said what means nothing, or raised an error.
    """
    if hosts is None:
        return node
    if isinstance(hosts, Mapping):
        return replace(node, **hosts.get(node.name, {}))
    try:
        said = hosts(node.name)
    except Exception as error:
        raise InvalidValueError(
            f"hosts: the function raised {type(error).__name__} for {node.name!r}: {error}; let "
            "it return properties, or None for a host of which there is nothing to say"
        ) from error
    return node if said is None else replace(node, **_checked(node.name, said))


def _checked(name: Any, said: Any) -> FrozenMap[str, Any]:
    """Return the properties of a host, refused where its node cannot have them."""
    if not isinstance(said, Mapping):
        raise InvalidValueError(
            f"hosts[{name!r}]={said!r} are no properties of a node; give a mapping, {_EXAMPLE}"
        )
    for each in said:
        if each not in PROPERTIES:
            raise UnknownNameError.among(f"property of hosts[{name!r}]", each, PROPERTIES)
    try:
        Node(name, **said)
    except PenstockError as error:
        raise InvalidValueError(f"hosts[{name!r}]: {error}") from error
    return FrozenMap(said)
