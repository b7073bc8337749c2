"""A job whose keys are divided gets other numbers of instances: what stays local, what moves."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from epochs import counted
from numpy.typing import NDArray
from streams import Week

from optimizers import Cluster, GroupStatistics, GroupTraffic, Locality, Plan, Statistics, Topology
from optimizers.control.resizing import placed_by_traffic
from optimizers.layout import Layout, completed

BEFORE = "before"
BY_TRAFFIC = "key groups by their traffic"
BY_NUMBER = "key groups by their number"
ANEW = "a new division"
REHASHED = "by hash"

_HOP = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Rescaled:
    """What came of one way to rescale.

    Attributes:
        locality: the share of the next week's tuples whose two keys are on one machine.
        imbalance: for both operators, how many times the average load the fullest instance has.
        moved: the share of the last week's load whose instance changed.
    """

    locality: float
    imbalance: tuple[float, float]
    moved: float = 0.0


def rescaled(
    taught: Week, tried: Week, before: int, after: int, *, edges: int, seed: int = 0
) -> dict[str, Rescaled]:
    """Divide the keys of a week among some instances, and then change their number.

    Args:
        taught: the week that is divided; its groups and their traffic are observed as well.
        tried: the week after.
        before: how many instances both operators have.
        after: how many they get.
        edges: how many pairs of keys are reported.
        seed: of METIS.
    """
    cluster = Cluster.uniform(max(before, after))
    seen = Statistics(pairs={_HOP: counted(taught, edges)})
    divide = Locality(worth=0, seed=seed)
    settled = completed(divide.plan(_job(before), cluster, seen, Plan()), _job(before), cluster)
    layout = Layout.of(_job(before), cluster, settled)
    numbers = Plan(parallelism=dict.fromkeys(_HOP, after))
    job = _job(before).under(settled)
    placed = placed_by_traffic(numbers, job, cluster, _observed(layout, taught), settled)
    ways: dict[str, Callable[[], Layout]] = {
        BEFORE: lambda: layout,
        BY_TRAFFIC: lambda: Layout.of(_job(before), cluster, settled.amended(placed, cluster)),
        BY_NUMBER: lambda: Layout.of(_job(before), cluster, settled.amended(numbers, cluster)),
        ANEW: lambda: Layout.of(
            _job(after), cluster, divide.plan(_job(after), cluster, seen, Plan())
        ),
        REHASHED: lambda: Layout.of(_job(after), cluster, Plan()),
    }
    return {name: _judged(layout, way(), taught, tried) for name, way in ways.items()}


def _job(instances: int) -> Topology:
    return (
        Topology.source("source")
        .then(_HOP[0], key="left", parallelism=instances)
        .then(_HOP[1], key="right", parallelism=instances)
    )


def _observed(layout: Layout, week: Week) -> Statistics:
    """Return what is seen of key groups in a week: the tuples of each, and between any two."""
    sizes = [layout.topology.operator(name).key_groups for name in _HOP]
    groups = [layout.owners(name).group_of(column) for name, column in zip(_HOP, week, strict=True)]
    cells = np.zeros(sizes)
    np.add.at(cells, tuple(groups), 1.0)
    rows, columns = np.nonzero(cells)
    loads = [cells.sum(axis=1), cells.sum(axis=0)]
    return Statistics(
        groups={
            name: GroupStatistics(load, load, load, load)
            for name, load in zip(_HOP, loads, strict=True)
        },
        traffic={_HOP: GroupTraffic(rows, columns, cells[rows, columns])},
    )


def _judged(old: Layout, new: Layout, taught: Week, tried: Week) -> Rescaled:
    owners = _owners(new, tried)
    machines = [_machines(new, name)[part] for name, part in zip(_HOP, owners, strict=True)]
    loads = [
        np.bincount(part, minlength=len(new.homes[name].nodes))
        for name, part in zip(_HOP, owners, strict=True)
    ]
    first, second = (float(load.max() / load.mean()) for load in loads)
    changed = [
        there != here
        for there, here in zip(_owners(old, taught), _owners(new, taught), strict=True)
    ]
    return Rescaled(
        locality=float((machines[0] == machines[1]).mean()),
        imbalance=(first, second),
        moved=float(np.mean(changed)),
    )


def _owners(layout: Layout, week: Week) -> list[NDArray[np.int32]]:
    return [layout.owners(name).assign(column) for name, column in zip(_HOP, week, strict=True)]


def _machines(layout: Layout, name: str) -> NDArray[np.int64]:
    """Return the number of each instance's machine."""
    names = sorted({node for home in layout.homes.values() for node in home.nodes})
    return np.array([names.index(node) for node in layout.homes[name].nodes])
