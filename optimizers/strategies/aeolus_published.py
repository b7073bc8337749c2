"""The paper's own Aeolus: Algorithm 1, as a baseline."""

from dataclasses import dataclass

from batching.errors import DataflowError, OverloadError
from batching.planner_published import plan_as_published
from batching.tuple_costs import Shipping
from optimizers.cluster import Cluster
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.parts.observed_dataflow import observed_dataflow
from optimizers.topology import Topology


@dataclass(frozen=True)
class PublishedAeolus(Optimizer):
    """Decides instances and batches by Algorithm 1 of the paper, on any engine.

    It takes every engine for one whose instances all run all the time, an operator for one that
    emits a tuple for each, to one consumer, and knows no hot keys. It plans again each time that
    it is asked.

    Attributes:
        message: seconds for a message between instances.
        byte: seconds for a byte in it.

    References:
        M. Sax, M. Castellanos, Q. Chen, M. Hsu, "Performance optimization for distributed
        intra-node-parallel streaming systems", ICDE Workshops 2013.
    """

    message: float = 1e-4
    byte: float = 1e-8

    observes = frozenset({Probe.OPERATORS})

    def __post_init__(self) -> None:
        Shipping(self.message, self.byte)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose the instances and batches that the algorithm says."""
        seen = observed_dataflow(topology, statistics)
        if seen is None or not seen.flow.rates.sum():
            return Plan()
        try:
            found = plan_as_published(seen.flow, Shipping(self.message, self.byte))
        except (DataflowError, OverloadError) as error:
            return Plan(notes=(self.note("the job", f"left as it is: {error}"),))
        parallelism, batch = dict[str, int](), dict[str, int]()
        for place, name in enumerate(seen.flow.names):
            operator = topology.operator(name)
            instances, size = int(found.instances[place]), int(found.batches[place])
            if operator.keyed:
                instances = min(instances, operator.key_groups)
            if name not in topology.sources and instances != operator.parallelism:
                parallelism[name] = instances
            if topology.outputs(name) and size != current.batch.get(name, 1):
                batch[name] = size
        return Plan(parallelism=parallelism, batch=batch)
