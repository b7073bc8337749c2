"""Strategies by name: those of other packages, found through their entry points.

A package offers strategies in its ``pyproject.toml``::

    [project.entry-points."penstock.optimizers"]
    calmer = "calmer_streams:Calmer"

Nothing of it is imported before it is asked for.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from optimizers.errors import PluginError, UnknownNameError
from optimizers.optimizer import Optimizer
from sketches.values import FrozenMap

GROUP = "penstock.optimizers"


def registered() -> Mapping[str, EntryPoint]:
    """Return the entry points of all strategies that installed packages offer, by name.

    Raises:
        PluginError: two packages offer different strategies under one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise PluginError(
                f"two packages offer a strategy {point.name!r}: {_package(other)} as {other.value} "
                f"and {_package(point)} as {point.value}; uninstall one of them"
            )
    return FrozenMap(found)


def create(name: str, **settings: Any) -> Optimizer:
    """Make the strategy of that name, with these settings.

    Raises:
        UnknownNameError: no installed package offers it.
        PluginError: it cannot be imported, or made, or is not an `Optimizer`.
    """
    points = registered()
    if name not in points:
        raise UnknownNameError.among("strategy", name, points)
    point = points[name]
    where = f"strategy {name!r} of {_package(point)} ({point.value})"
    try:
        factory = point.load()
    except Exception as error:
        raise PluginError(
            f"{where} cannot be imported: {error!r}; repair or uninstall it"
        ) from error
    try:
        strategy = factory(**settings)
    except TypeError as error:
        raise PluginError(f"{where} cannot be made from {settings!r}: {error}") from error
    if not isinstance(strategy, Optimizer):
        raise PluginError(
            f"{where} made a {type(strategy).__name__}, not an Optimizer; subclass Optimizer"
        )
    return strategy


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name!r}" if point.dist is not None else "an unknown package"
