"""A guard against other folders with the names of our packages.

Penstock is four packages: batching, grouping, optimizers, sketches. Those are common words. A
folder of that name in the working directory, or in a zip that a job ships, comes before ours on
the import path, and half of Penstock would then silently be something else.
"""

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("batching", "grouping", "optimizers", "sketches")


def check_packages() -> Path:
    """Return the folder, or archive, that all four packages stand in.

    Raises:
        ImportError: they do not stand in one; another package shadows one of ours.
    """
    homes = {name: _home(name) for name in PACKAGES}
    ours = homes["optimizers"]
    for name, home in homes.items():
        if home != ours:
            raise ImportError(
                f"Penstock is in {ours}, but its package {name!r} would be imported from {home}; "
                f"rename that {name!r}, or take its folder off the import path"
            )
    return ours


def _home(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        places = list(spec.submodule_search_locations or []) if spec is not None else []
        return Path(places[0]).parent if places else Path("nowhere")
    return Path(spec.origin).parent.parent


check_packages()
