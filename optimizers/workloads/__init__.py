"""Jobs with data, ready to be run and compared.

A package offers workloads of its own in its ``pyproject.toml``::

    [project.entry-points."penstock.workloads"]
    orders = "shop_streams:orders"

where ``orders`` is a `Workload`, or a function without arguments that returns one. A package is
imported only when its workload is asked for.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from optimizers.entry_points import at_path, imported, offered, offered_as, place_of
from optimizers.errors import PenstockError, PluginError
from optimizers.workloads.edits import EDITS
from optimizers.workloads.flights import AIRLINE
from optimizers.workloads.posts import SHUFFLED, TRENDING
from optimizers.workloads.reach import REACH
from optimizers.workloads.workload import Workload
from sketches.values import FrozenMap

__all__ = ["GROUP", "WORKLOADS", "Workload", "listed", "workload"]

GROUP = "penstock.workloads"

WORKLOADS: Mapping[str, Workload] = FrozenMap(
    {w.name: w for w in (TRENDING, SHUFFLED, REACH, AIRLINE, EDITS)}
)
"""Our own, by name."""


def listed() -> Mapping[str, str]:
    """Return what each workload is like, by name; of other packages', where it comes from.

    Raises:
        PluginError: two packages offer different workloads under one name.
    """
    ours = {name: found.about for name, found in WORKLOADS.items()}
    found = offered(GROUP, "workload", WORKLOADS)
    theirs = {name: place_of(point) for name, point in found.items()}
    return FrozenMap({**ours, **theirs})


def workload(name: str) -> Workload:
    """Return the workload of that name or import path.

    >>> workload("trending").topology.sources
    ('posts',)
    >>> workload("optimizers.workloads.reach:REACH").name
    'reach'

    Args:
        name: the name of one of ours or of an installed package's, or ``"module:function"``.

    Raises:
        UnknownNameError: there is no workload of that name.
        PluginError: it cannot be imported, or made, or is no `Workload`; or two packages offer
            different ones under the name.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    if ":" in name:
        return _made(at_path(name), f"workload {name!r}")
    point = offered_as(GROUP, "workload", name, WORKLOADS)
    return _made(point, f"workload {name!r} {place_of(point)}")


def _made(point: EntryPoint, where: str) -> Workload:
    """Import a workload, or the function that makes it."""
    found = imported(point, where)
    if callable(found):
        try:
            found = found()
        except PenstockError as error:
            error.add_note(f"in {where}")
            raise
        except Exception as error:
            raise PluginError(
                f"{where} cannot be made: {type(error).__name__}: {error}; give a function that "
                "needs no arguments"
            ) from error
    if not isinstance(found, Workload):
        raise PluginError(
            f"{where} is a {type(found).__name__} and no Workload; name a Workload, or a function "
            "that returns one"
        )
    return found
