"""Jobs with data to go with them, ready to be run and compared."""

from collections.abc import Mapping

from optimizers.errors import UnknownNameError
from optimizers.workloads.posts import SHUFFLED, TRENDING
from optimizers.workloads.reach import REACH
from optimizers.workloads.workload import Workload
from sketches.values import FrozenMap

__all__ = ["WORKLOADS", "Workload", "workload"]

WORKLOADS: Mapping[str, Workload] = FrozenMap({w.name: w for w in (TRENDING, SHUFFLED, REACH)})
"""All of them, by name."""


def workload(name: str) -> Workload:
    """Return the workload of that name.

    >>> workload("trending").topology.sources
    ('posts',)
    """
    if name not in WORKLOADS:
        raise UnknownNameError.among("workload", name, WORKLOADS)
    return WORKLOADS[name]
