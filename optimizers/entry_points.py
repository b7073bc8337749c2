"""Objects that other packages offer by name, in a group of entry points.

Nothing of a package is imported before it is asked for.
"""

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from optimizers.errors import PluginError


def offered(group: str, what: str, ours: Collection[str]) -> dict[str, EntryPoint]:
    """Return the entry points of all installed packages in a group, by name.

    Args:
        group: the group.
        what: what they offer, for messages.
        ours: the names that Penstock uses itself.

    Raises:
        PluginError: two packages offer different things under one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        if point.name in ours:
            raise PluginError(
                f"{package_of(point)} offers a {what} {point.name!r} as {point.value}, and "
                f"Penstock has one of that name; rename it there, or uninstall the package"
            )
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise PluginError(
                f"two packages offer a {what} {point.name!r}: {package_of(other)} as {other.value} "
                f"and {package_of(point)} as {point.value}; uninstall one of them"
            )
    return found


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
        raise PluginError(
            f"{where} cannot be imported: {error!r}; repair or uninstall it"
        ) from error
