"""The loads of key groups by the resource that is used most, smoothed over epochs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.past import RESOURCES
from optimizers.statistics import Statistics
from optimizers.strategies.parts.group_layout import GroupLayout, movable, sizes
from sketches.arrays import Floats
from sketches.values import FrozenMap

TUPLES = "tuples"
"""What counts as load where CPU time is not known: how many tuples came."""

_NEARLY = 0.8
"""Of what a node has: where that is in use, a resource may run out."""


@dataclass(frozen=True)
class GroupLoads:
    """What the key groups of some operators need of one resource.

    Attributes:
        resource: which one; `TUPLES` where none is known.
        loads: by operator, the load of each group, as `rooms` counts it (or tuples): in sum as in
            this epoch, and divided among the groups as on average.
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
        cls,
        layout: Layout,
        cluster: Cluster,
        statistics: Statistics,
        resource: str | None,
        lasting: float,
    ) -> "GroupLoads | None":
        """Return the loads that were observed; None if there are none.

        Args:
            layout: the job as it is laid out.
            cluster: the machines.
            statistics: what was seen.
            resource: of which resource; None for the `bottleneck`.
            lasting: what earlier epochs count.
        """
        topology = layout.topology
        operators = [topology.operator(name) for name in topology.order]
        wanted = [operator.name for operator in operators if movable(topology, operator)]
        seen = {name: statistics.groups[name] for name in wanted if name in statistics.groups}
        if not seen:
            return None
        chosen = resource or bottleneck(seen, *_used(layout, cluster, seen))
        laid_out = GroupLayout(layout, cluster, tuple(seen), chosen)
        # What was a share of another node is no measure of what it is here.
        alike = len(set(laid_out.units.values())) == 1
        loads, state, variances = {}, {}, {}
        for name, groups in seen.items():
            now = _anywhere(laid_out, name, groups)
            if now is None or groups.state_bytes is None:
                continue
            earlier = getattr(statistics.past.groups.get(name), chosen, None) if alike else None
            loads[name] = now if earlier is None else _smoothed(now, earlier, lasting)
            state[name] = groups.state_bytes
            # State is there, however many tuples came.
            tuples = None if chosen == "memory" else groups.tuples
            variances[name] = _by_chance(now, tuples)
        lacking = tuple(name for name in wanted if name not in loads)
        return cls(chosen, loads, state, variances, lacking)


def bottleneck(
    seen: Mapping[str, GroupStatistics],
    fullest: Mapping[str, float] = FrozenMap(),
    in_all: Mapping[str, float] = FrozenMap(),
) -> str:
    """Return the resource whose load is to be even: the one of which most is used in all.

    Where CPU time is not known of all operators, nothing can be compared with it. Then it is
    tuples, which stand for it, unless a node has nearly no more of what is known.

    Args:
        seen: the key groups of each operator.
        fullest: by resource, what share is in use of what the fullest node has.
        in_all: by resource, the sum of all loads; by default of those that are given.
    """
    totals = {}
    for resource in (*RESOURCES, TUPLES):
        loads = [getattr(groups, resource) for groups in seen.values()]
        if all(each is not None for each in loads):
            given = sum(float(each.sum()) for each in loads)
            totals[resource] = in_all.get(resource, given)
    tuples = totals.pop(TUPLES, None)
    if "cpu" not in totals:
        short = [each for each in totals if fullest.get(each, 0.0) >= _NEARLY]
        if short or tuples is not None:
            return max(short, key=lambda each: fullest[each], default=TUPLES)
    return max(totals, key=lambda resource: totals[resource], default=TUPLES)


def _used(
    layout: Layout, cluster: Cluster, seen: Mapping[str, GroupStatistics]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return by resource what share is in use on the fullest node, and all loads together."""
    fullest, in_all = {}, {}
    for resource in RESOURCES:
        groups = GroupLayout(layout, cluster, tuple(seen), resource)
        loads = {name: _anywhere(groups, name, each) for name, each in seen.items()}
        known = {name: each for name, each in loads.items() if each is not None}
        if len(known) == len(loads):
            row = groups.row(known)
            held = np.bincount(groups.current, row, len(groups.nodes))
            fullest[resource] = float((held / groups.capacities).max(initial=0.0))
            in_all[resource] = float(row.sum())
    return fullest, in_all


def _anywhere(groups: GroupLayout, name: str, seen: GroupStatistics) -> Floats | None:
    """Return the load of each key group of an operator as it is on any node, see `rooms`."""
    share: Floats | None = getattr(seen, groups.resource)
    has = sizes(groups.cluster, groups.resource)
    if share is None or has is None:
        return share
    if groups.resource == "memory" and seen.state_bytes is not None:
        found: Floats = seen.state_bytes * (groups.capacities.sum() / has.sum())
        return found
    home = groups.layout.homes[name]
    return share * [groups.units[home.nodes[instance]] for instance in home.groups]


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
