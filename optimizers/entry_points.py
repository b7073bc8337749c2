"""Objects that other packages offer by name, in a group of entry points.

Nothing of a package is imported before it is asked for.
"""

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from optimizers.errors import PluginError, UnknownNameError


def offered(group: str, what: str, ours: Collection[str]) -> dict[str, EntryPoint]:
    """Return the entry points of all installed packages in a group, by name.

    Args:
        group: the group.
        what: what they offer, for messages.
        ours: the names that Penstock uses itself.

    Raises:
        PluginError: two packages offer different things under one name.
    """
    points = _in_group(group)
    for point in points:
        if point.name in ours:
            raise PluginError(
                f"{package_of(point)} offers a {what} {point.name!r} as {point.value}, and "
                f"Penstock has one of that name; rename it there, or uninstall the package"
            )
    return {point.name: _only(points, what, point.name) for point in points}


def offered_as(group: str, what: str, name: str, ours: Collection[str]) -> EntryPoint:
    """Return what installed packages offer under one name; clashes of other names do not matter.

    Raises:
        UnknownNameError: nothing.
        PluginError: two packages offer different things.
    """
    points = _in_group(group)
    known = [*ours, *dict.fromkeys(point.name for point in points)]
    if name not in known:
        raise UnknownNameError.among(what, name, known)
    return _only(points, what, name)


def at_path(path: str) -> EntryPoint:
    """Return an entry point of no package, for an import path ``"module:name"``."""
    return EntryPoint(path, path, "")


def _in_group(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _only(points: Collection[EntryPoint], what: str, name: str) -> EntryPoint:
    """Return the entry point of a name; refuse two that differ."""
    first, *others = (point for point in points if point.name == name)
    for other in others:
        if other.value != first.value:
            raise PluginError(
                f"two packages offer a {what} {name!r}: {package_of(first)} as {first.value} "
                f"and {package_of(other)} as {other.value}; uninstall one of them"
            )
    return first


def place_of(point: EntryPoint) -> str:
    """Say where an entry point comes from."""
    return f"of {package_of(point)} ({point.value})"


def package_of(point: EntryPoint) -> str:
    """Name the package that an entry point is of."""
    return f"package {point.dist.name!r}" if point.dist is not None else "an unknown package"


def imported(point: EntryPoint, where: str) -> Any:
    """Import what an entry point names.

    Args:
        point: the entry point.
        where: what it is and where it comes from, for messages.

    Raises:
        PluginError: that is not possible.
    """
    try:
        return point.load()
    except Exception as error:
        remedy = "repair or uninstall it"
        if not point.group:
            remedy = "write module:name, and start where that module can be imported"
        raise PluginError(f"{where} cannot be imported: {error!r}; {remedy}") from error
