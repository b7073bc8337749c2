"""What happened in a batch, on any engine."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimizers.operators import EdgeName
from optimizers.statistics import EdgeStatistics
from sketches.values import FrozenMap


@dataclass(frozen=True, slots=True)
class InstanceSummary:
    """One instance in one batch.

    Attributes:
        operator: its operator.
        number: which of the operator's instances it is.
        node: where it was.
        tuples: how many tuples it received.
        emitted: how many it emitted.
        seconds: CPU seconds of the operator's own work.
        shipping: CPU seconds for sending what it emitted.
        taken_over: how many keys it got from other instances.
    """

    operator: str
    number: int
    node: str
    tuples: int
    emitted: int
    seconds: float
    shipping: float
    taken_over: int


@dataclass(frozen=True)
class BatchSummary:
    """One batch, as it was executed.

    Attributes:
        batch: its number.
        planned: the batch with which the plan in force came.
        seconds: how long it took from the first task to the commit.
        instances: what each instance did; sources once for each of their partitions.
        edges: what each edge carried.
        skipped: how many rows each operator could not take in that were left out; see `OnError`.
        aside: how many it could not take in that were handed aside.
    """

    batch: int
    planned: int
    seconds: float
    instances: tuple[InstanceSummary, ...]
    edges: Mapping[EdgeName, EdgeStatistics]
    skipped: Mapping[str, int] = field(default_factory=FrozenMap)
    aside: Mapping[str, int] = field(default_factory=FrozenMap)

    @property
    def taken_over(self) -> int:
        """How many keys changed their instance with this batch."""
        return sum(instance.taken_over for instance in self.instances)

    def locality(self, edges: Sequence[EdgeName] | None = None) -> float:
        """Return the share of tuples that stayed on their node, on some edges or all; 1 of none."""
        chosen = [self.edges[name] for name in (edges or self.edges) if name in self.edges]
        tuples = sum(edge.tuples for edge in chosen)
        return sum(edge.local for edge in chosen) / tuples if tuples else 1.0

    def loads(self, operator: str) -> tuple[int, ...]:
        """Return how many tuples each instance of an operator received."""
        found: dict[int, int] = defaultdict(int)
        for instance in self.instances:
            if instance.operator == operator:
                found[instance.number] += instance.tuples
        return tuple(found[number] for number in sorted(found))

    def imbalance(self, operator: str) -> float:
        """Return how many times the average load the fullest instance had; 1 without any load."""
        loads = self.loads(operator)
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0
