"""Ds2: as many instances as the rates of the sources need, by what operators could do: a rival."""

from dataclasses import dataclass

from batching.ds2 import ds2_instances
from optimizers.cluster import Cluster
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.observed_dataflow import observed_dataflow
from optimizers.topology import Topology


@dataclass(frozen=True)
class Ds2(Optimizer):
    """Decides how many instances operators have, by their true rates, as DS2 does.

    It scales at once to what the paper's equations say, and knows neither hot keys nor batches nor
    stages. It is there to be compared with.

    >>> from optimizers.statistics import EdgeStatistics, OperatorStatistics
    >>> job = Topology.source("words").then("count", key="word")
    >>> seen = Statistics(
    ...     seconds=1, operators={"words": OperatorStatistics(500), "count": OperatorStatistics(
    ...     500, seconds=2.5)}, edges={("words", "count"): EdgeStatistics(500, 4e3)})
    >>> Ds2().plan(job, Cluster.uniform(2), seen, Plan()).parallelism
    FrozenMap({'count': 3})

    References:
        Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions
        for distributed streaming dataflows", OSDI 2018.
    """

    observes = frozenset({Probe.OPERATORS})

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose numbers of instances where they are not those that rates need."""
        seen = observed_dataflow(topology, statistics)
        if seen is None or not seen.flow.rates.sum():
            return Plan()
        flow = seen.flow
        rates, parallelism, notes = flow.arrivals(flow.rates), {}, list[Note]()
        for place, (name, needed) in enumerate(
            zip(flow.names, ds2_instances(flow).tolist(), strict=True)
        ):
            operator = topology.operator(name)
            wanted = min(needed, operator.key_groups) if operator.keyed else needed
            if name in topology.sources or wanted == operator.parallelism:
                continue
            parallelism[name] = wanted
            figures = {"rate": float(rates[place]), "seconds a tuple": float(flow.seconds[place])}
            text = f"{wanted} instances for what comes to it, in place of {operator.parallelism}"
            if wanted < needed:
                text += f"; {needed} are needed, and its {wanted} key groups allow no more"
            notes.append(self.note(name, text, figures))
        if parallelism:
            notes += [self.note(about, what) for about, what in seen.assumed]
        return Plan(parallelism=parallelism, notes=tuple(notes))
