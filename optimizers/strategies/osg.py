"""Osg: which instance gets each tuple of a stream whose tuples do not all cost the same."""

import math
from dataclasses import dataclass

import numpy as np

from grouping.grouping import Grouping
from grouping.scheduling.cost_evidence import CostEvidence
from grouping.scheduling.least_work.grouping import LeastWork
from optimizers.cluster import Cluster
from optimizers.operators import Edge
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.osg_published import PublishedOsg
from optimizers.strategies.parts.free_edges import free_edges, hindrance
from optimizers.topology import Topology
from sketches import checks
from sketches.cost_sketch import CostSketch


@dataclass(frozen=True)
class Osg(Optimizer):
    """Decides which instance gets each tuple, so that costly ones do not queue behind each other.

    >>> job = Topology.source("tweets", parallelism=2)
    >>> job = job.then("reach", parallelism=2, edge_key="author")
    >>> measured = [CostSketch(width=55, depth=4, exact=100) for _ in range(2)]
    >>> for sketch in measured:
    ...     sketch.update(["famous", "unknown"] * 50, [0.065, 0.001] * 50)
    >>> seen = Statistics(costs={"reach": measured})
    >>> Osg().plan(job, Cluster.uniform(2), seen, Plan()).scheduling
    FrozenMap({('tweets', 'reach'): LeastWork(200 tuples known, messages=0.05)})

    It works on operators without state, whose tuples any instance can take, and which are fed by an
    edge that names a key: the column that the cost of a tuple depends on. Senders get the measured
    costs, and send each tuple to the instance that will finish it first. Slower instances get less.
    If the costs measured by one half of the instances do not predict those of the other half, keys
    say nothing about costs, and all stays as it is.

    Attributes:
        messages: the most reports per tuple, where instances can report at all.
        tolerance: how many average tuples' cost an instance may be off what its sender expects,
            before it reports.
        keys: for how many keys each sender keeps separate costs.
        lasting: the weight of an epoch's costs one epoch later.
        change: by how much costs or paces must have changed for senders to get new ones.
        least_explained: how much of the differences between the costs of keys must be predicted.

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for
        shuffle grouping in distributed stream processing systems", Middleware 2016.
    """

    messages: float = 0.05
    tolerance: float = 1.0
    keys: int = 4096
    lasting: float = 0.5
    change: float = 0.05
    least_explained: float = 0.05

    observes = frozenset({Probe.COSTS})

    def __post_init__(self) -> None:
        spec = LeastWork(messages=self.messages, tolerance=self.tolerance, keys=self.keys)
        for name in ("messages", "tolerance", "keys"):
            object.__setattr__(self, name, getattr(spec, name))
        object.__setattr__(self, "lasting", checks.amount("lasting", self.lasting, up_to=1.0))
        object.__setattr__(self, "change", checks.amount("change", self.change))
        least = checks.amount("least_explained", self.least_explained, up_to=1.0)
        object.__setattr__(self, "least_explained", least)

    @staticmethod
    def published(*, window: int = 1024, tolerance: float = 0.05, seed: int = 0) -> PublishedOsg:
        """Return the paper's method, as a baseline."""
        return PublishedOsg(window=window, tolerance=tolerance, seed=seed)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose schedules for the edges into operators without state whose costs were seen."""
        edges = free_edges(topology)
        if not edges:
            return self.idle(hindrance(topology))
        plan = Plan()
        for edge in edges:
            measured = statistics.costs.get(edge.target, ())
            if len(measured) == topology.operator(edge.target).parallelism:
                present = current.scheduling.get(edge.name)
                plan |= self._schedule(edge, CostEvidence.of(measured), present)
        return plan

    def _schedule(self, edge: Edge, seen: CostEvidence, present: Grouping | None) -> Plan:
        if not seen.costs.total:
            return Plan()
        informed = seen.explained >= self.least_explained
        figures = {"explained": seen.explained, "spread": seen.spread}
        if not seen.uniform:
            figures |= {"fastest": min(seen.paces), "slowest": max(seen.paces)}
        if not informed and seen.uniform:
            text = "left as it is: the key of a tuple does not tell what it costs"
            return Plan(notes=(self.note(str(edge), text, figures),))
        former = present if isinstance(present, LeastWork) else None
        proposal = self._proposal(seen, former)
        if former is not None:
            changed = _change(former, proposal)
            if math.isfinite(changed):
                figures["changed"] = changed
            if changed <= self.change:
                return Plan(notes=(self.note(str(edge), "left: costs are as they were", figures),))
        note = self.note(str(edge), "each tuple to the instance that finishes it first", figures)
        return Plan(scheduling={edge.name: proposal}, notes=(note,))

    def _proposal(self, seen: CostEvidence, former: LeastWork | None) -> LeastWork:
        costs = seen.costs
        if former is not None and former.costs is not None and self.lasting:
            past = former.costs.copy()
            if _fit(past, costs):
                past.decay(self.lasting)
                costs |= past
        paces = () if seen.uniform else seen.paces
        return LeastWork(
            messages=self.messages,
            tolerance=self.tolerance,
            keys=self.keys,
            costs=costs,
            paces=paces,
        )


def _fit(past: CostSketch, costs: CostSketch) -> bool:
    """Return whether two sketches can be added up: settings and kinds of keys may have changed."""
    same = all(
        getattr(past, name) == getattr(costs, name) for name in ("width", "depth", "seed", "exact")
    )
    return same and past.kind == costs.kind


def _change(former: LeastWork, proposal: LeastWork) -> float:
    """Return how far the costs of keys have moved, as a share of them, or the paces if further."""
    if former.costs is None or proposal.costs is None or not _fit(former.costs, proposal.costs):
        return math.inf
    moved = proposal.costs.relative_change(former.costs.averages())
    paces = [
        np.array(spec.paces or (1.0,) * max(len(former.paces), len(proposal.paces)))
        for spec in (former, proposal)
    ]
    return max(moved, float(np.abs(paces[1] / paces[0] - 1.0).max(initial=0.0)))
