"""Balanced keys: which instance owns which key, so that all instances get equal work."""

from dataclasses import dataclass

from grouping.groupings import DistributionAware
from grouping.keygraph.key_counts import KeyCounts
from grouping.skew.distribution_aware import distribution_aware
from optimizers.cluster import Cluster
from optimizers.operators import Operator
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology
from sketches import checks
from sketches.space_saving import SpaceSaving


@dataclass(frozen=True)
class BalancedKeys(Optimizer):
    """Decides which instance owns which key, so that the instances get equal shares of the tuples.

    Heavy keys are dealt out by name and all others by the cell that they hash to. As in its paper
    it learns once, from the first keys that are seen, and again only where an operator gets
    another number of instances.

    >>> job = Topology.source("posts").then("by_place", key="place", parallelism=2)
    >>> seen = Statistics(keys={"by_place": KeyCounts(["Asia", "Europe", "Oceania"], [5, 3, 2])})
    >>> plan = BalancedKeys().plan(job, Cluster.uniform(2), seen, Plan())
    >>> plan.routing["by_place"].assign(["Asia", "Europe", "Oceania"]).tolist()
    [0, 1, 1]

    Attributes:
        threshold: the least share of the tuples of a heavy key; None for a tenth of what one
            instance should get.
        cells: how many cells there are for each instance.

    References:
        N. Rivetti, L. Querzoni, E. Anceaume, Y. Busnel, B. Sericola, "Efficient key grouping for
        near-optimal load balancing in stream processing systems", DEBS 2015.
    """

    threshold: float | None = None
    cells: int = 10

    observes = frozenset({Probe.PAIRS})  # counts of keys come with them

    def __post_init__(self) -> None:
        if self.threshold is not None:
            checks.number("threshold", self.threshold, above=0, up_to=1)
        checks.whole("cells", self.cells, at_least=1)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose owners for the keys of operators that have none of this strategy yet."""
        open_ones = [op for op in topology.operators if _has_countable_keys(topology, op)]
        if not open_ones:
            return self.idle("no operator with a key of one column is fed by another")
        routing, notes = {}, []
        for operator in open_ones:
            counts = statistics.keys.get(operator.name)
            decided = isinstance(current.routing.get(operator.name), DistributionAware)
            if counts is None or not counts.total or decided:
                continue
            owners = self._balanced(counts, operator.parallelism, topology.seed)
            routing[operator.name] = owners
            figures = {"heavy keys": len(owners.table), "cells": len(owners.cells)}
            notes.append(self.note(operator.name, "equal shares for all instances", figures))
        return Plan(routing=routing, notes=tuple(notes))

    def _balanced(self, counts: KeyCounts, instances: int, seed: int) -> DistributionAware:
        known = SpaceSaving(len(counts))
        known.update(counts.column, counts.counts)
        return distribution_aware(
            known, instances, threshold=self.threshold, cells_per_instance=self.cells, seed=seed
        )


def _has_countable_keys(topology: Topology, operator: Operator) -> bool:
    return len(operator.key_columns) == 1 and bool(topology.inputs(operator.name))
