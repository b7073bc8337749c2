"""The loads of key groups by the resource that is used most, smoothed over epochs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optimizers.loads import GroupStatistics
from optimizers.past import RESOURCES
from optimizers.statistics import Statistics
from optimizers.strategies.parts.group_layout import movable
from optimizers.topology import Topology
from sketches.arrays import Floats

TUPLES = "tuples"
"""What counts as load where no resource is known: how many tuples came."""


@dataclass(frozen=True)
class GroupLoads:
    """What the key groups of some operators need of one resource.

    Attributes:
        resource: which one; `TUPLES` where none is known.
        loads: by operator, the load of each group, as a share of a node of capacity 1 (or tuples):
            in sum as in this epoch, and divided among the groups as on average.
        state: by operator, how many bytes of state each group holds.
        variances: by operator, by how much the load of each group would vary by chance.
        lacking: the operators of which loads were not observed, though their groups could move.
    """

    resource: str
    loads: Mapping[str, Floats]
    state: Mapping[str, Floats]
    variances: Mapping[str, Floats]
    lacking: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The operators, in the order of the job."""
        return tuple(self.loads)

    @classmethod
    def of(
        cls, topology: Topology, statistics: Statistics, resource: str | None, lasting: float
    ) -> "GroupLoads | None":
        """Return the loads that were observed; None if there are none.

        Args:
            topology: the job as it runs.
            statistics: what was seen.
            resource: of which resource; None for the one of which the largest share is in use.
            lasting: what earlier epochs count.
        """
        operators = [topology.operator(name) for name in topology.order]
        wanted = [operator.name for operator in operators if movable(topology, operator)]
        seen = {name: statistics.groups[name] for name in wanted if name in statistics.groups}
        if not seen:
            return None
        chosen = resource or bottleneck(seen)
        loads, state, variances = {}, {}, {}
        for name, groups in seen.items():
            now = getattr(groups, chosen)
            if now is None or groups.state_bytes is None:
                continue
            earlier = getattr(statistics.past.groups.get(name), chosen, None)
            loads[name] = now if earlier is None else _smoothed(now, earlier, lasting)
            state[name] = groups.state_bytes
            # State is there, however many tuples came.
            tuples = None if chosen == "memory" else groups.tuples
            variances[name] = _by_chance(now, tuples)
        lacking = tuple(name for name in wanted if name not in loads)
        return cls(chosen, loads, state, variances, lacking)


def bottleneck(seen: Mapping[str, GroupStatistics]) -> str:
    """Return the resource of which most is used in all, of those known of all operators.

    Where none is, as of work too light to be measured on nodes of unknown size, it is tuples.
    """
    totals = {}
    for resource in RESOURCES:
        loads = [getattr(groups, resource) for groups in seen.values()]
        if all(each is not None for each in loads):
            totals[resource] = sum(float(each.sum()) for each in loads)
    return max(totals, key=lambda resource: totals[resource], default=TUPLES)


def _smoothed(now: Floats, earlier: Floats, lasting: float) -> Floats:
    """Return loads that add up to those of now, and are divided as they were on average."""
    total = float(now.sum())
    past = earlier * (total / float(earlier.sum())) if earlier.any() else now
    found: Floats = lasting * past + (1 - lasting) * now
    return found


def _by_chance(loads: Floats, tuples: Floats | None) -> Floats:
    """Return the variance of loads, were tuples to come independently of each other.

    The number of tuples varies by its root, and the load with it.
    """
    if tuples is None:
        return np.zeros(len(loads))
    found: Floats = loads**2 / np.maximum(tuples, 1.0)
    return found
