"""The power of both choices as a strategy: each key on two instances, and what merging costs."""

from dataclasses import dataclass

from grouping.groupings import PartialKey
from optimizers.cluster import Cluster
from optimizers.operators import Operator
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology
from sketches import checks


@dataclass(frozen=True)
class BothChoices(Optimizer):
    """Sends each tuple to the emptier of two instances of its key, where results are merged later.

    No state ever moves; what it costs instead is to merge, from then on, the results of two
    instances for a key. It is there to be compared with methods that move key groups.

    >>> from optimizers.statistics import OperatorStatistics
    >>> job = (
    ...     Topology.source("edits", parallelism=2)
    ...     .then("counts", key="article", parallelism=4, partial=True)
    ...     .then("totals", key="article", parallelism=2)
    ... )
    >>> seen = Statistics(operators={"counts": OperatorStatistics(100)})
    >>> BothChoices().plan(job, Cluster.uniform(2), seen, Plan()).routing
    FrozenMap({'counts': PartialKey(choices=2)})

    It can do something for an operator with a key that is ``partial`` and has as many instances as
    there are choices at least, if an operator that is not ``partial`` takes its results by key
    and merges them. For a job without any it does nothing, and says of each operator why.

    Attributes:
        choices: on how many instances a key may be.

    References:
        Nasir et al., "The power of both choices: practical load balancing for distributed stream
        processing engines", ICDE 2015.
    """

    choices: int = 2

    observes = frozenset({Probe.OPERATORS})

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", checks.whole("choices", self.choices, at_least=2))

    @property
    def name(self) -> str:
        """As it is registered."""
        return "potc"

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose two instances for the keys of each operator whose results are merged."""
        keyed = [operator for operator in topology.operators if operator.keyed]
        obstacles = {each.name: self._obstacle(topology, each) for each in keyed}
        fitting = [name for name, obstacle in obstacles.items() if not obstacle]
        if not fitting:
            reasons = "; ".join(obstacles.values()) or "no operator has a key"
            return self.idle(reasons)
        if not statistics.operators:  # what merging takes is to be told
            return Plan()
        return Plan(
            routing={name: PartialKey(self.choices) for name in fitting},
            notes=tuple(self._merging(topology, name, statistics) for name in fitting),
        )

    def _obstacle(self, topology: Topology, operator: Operator) -> str:
        """Return why nothing can be done for an operator; empty if something can."""
        name = repr(operator.name)
        if not operator.partial:
            return f"operator {name} keeps each key on one instance, it is not partial"
        if operator.parallelism < self.choices:
            return f"operator {name} has {operator.parallelism} of {self.choices} instances"
        if not _mergers(topology, operator.name):
            return f"no operator that is not partial merges the results of {name} by key"
        return ""

    def _merging(self, topology: Topology, name: str, statistics: Statistics) -> Note:
        """Tell what is merged, and what that takes at most, as far as it was seen.

        As long as a key is on one instance, each choice more brings as many results again.
        """
        mergers = _mergers(topology, name)
        text = f"each key on {self.choices} instances, merged by {' and '.join(mergers)}"
        edges = [(name, merger) for merger in mergers]
        seen = [(edge[1], statistics.edges[edge]) for edge in edges if edge in statistics.edges]
        if not seen:
            return self.note(name, text)
        split = all(
            isinstance(topology.grouping(*edge.name), PartialKey) for edge in topology.inputs(name)
        )
        times = 1 if split else self.choices
        figures = {"merged now": sum(flow.tuples for _, flow in seen)}
        figures["merged at most"] = figures["merged now"] * times
        seconds = 0.0
        for merger, flow in seen:
            operator = statistics.operators.get(merger)
            if operator is not None and operator.tuples:
                seconds += operator.seconds / operator.tuples * flow.tuples * times
        figures["CPU seconds to merge"] = seconds
        return self.note(name, text, figures)


def _mergers(topology: Topology, name: str) -> list[str]:
    """Return the operators that take all results of a key of an operator together."""
    targets = [topology.operator(edge.target) for edge in topology.outputs(name)]
    return [target.name for target in targets if target.keyed and not target.partial]
