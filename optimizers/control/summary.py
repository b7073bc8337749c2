"""What happened in a batch, on any engine."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from optimizers.batch_time import BatchTime
from optimizers.control.packed_rows import packed
from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.statistics import EdgeStatistics
from sketches.arrays import Floats
from sketches.values import FrozenMap


class Spread(NamedTuple):
    """How some times spread, in seconds; all zero where there are none."""

    mean: float
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, times: Floats) -> "Spread":
        """Sum times up."""
        if not len(times):
            return cls(0.0, 0.0, 0.0, 0.0)
        middle, high = np.quantile(times, [0.5, 0.99]).tolist()
        return cls(float(times.mean()), middle, high, float(times.max()))


class Messages(NamedTuple):
    """Messages from the instances of an edge back to those that send to them.

    Attributes:
        sent: how many went by themselves.
        carried: how many travelled with a tuple.
    """

    sent: int
    carried: int


class StateMoves(NamedTuple):
    """The state that moved as a plan came into force.

    Attributes:
        keys: how many keys got another instance or node.
        bytes: how much state travelled between nodes.
        pause: for how many seconds the instance waited that waited longest for state.
    """

    keys: int
    bytes: float
    pause: float


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
        wall: seconds of the operator's own work by the clock on the wall; None where the engine
            does not tell.
        host: the host on which it really was; None where nodes are imaginary.
        remote_in: how large the tuples were that came from other hosts; None where the engine does
            not tell.
        remote_out: how large the tuples were that it sent to other nodes; None likewise.
        state_bytes: how much state it held at the end; None where it did not look.
    """

    operator: str
    number: int
    node: str
    tuples: int
    emitted: int
    seconds: float
    shipping: float
    taken_over: int
    wall: float | None = None
    host: str | None = None
    remote_in: float | None = None
    remote_out: float | None = None
    state_bytes: float | None = None


@dataclass(frozen=True)
class BatchSummary:
    """One batch, as it was executed, on any engine.

    What an engine does not know is None: Spark does not tell when each tuple was done, and
    instances there do not talk to senders.

    Attributes:
        batch: its number.
        planned: the batch with which the plan in force came.
        seconds: how long it took: on Spark from the first task to the commit, in the simulation
            from its begin until all that came in with it was done.
        instances: what each instance did; sources once for each of their partitions.
        edges: what each edge carried.
        skipped: how many rows each operator could not take in that were left out; see `OnError`.
        aside: how many it could not take in that were handed aside.
        start: when it began, in seconds of the stream.
        latency: how long tuples that came in with it took until all that came of them was done.
        moved: the state that moved as it began.
        messages: by edge, the messages from instances back to their senders.
        time: where its time went, of all that it took, with planning and the commit.
        makespan: how long it would have taken in CPU seconds if each instance had a core of its
            own and the network were free; see `makespan`.
    """

    batch: int
    planned: int
    seconds: float
    instances: Sequence[InstanceSummary]
    edges: Mapping[EdgeName, EdgeStatistics]
    skipped: Mapping[str, int] = field(default_factory=FrozenMap)
    aside: Mapping[str, int] = field(default_factory=FrozenMap)
    start: float | None = None
    latency: Spread | None = None
    moved: StateMoves | None = None
    messages: Mapping[EdgeName, Messages] | None = None
    time: BatchTime | None = None
    makespan: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "instances", packed(self.instances))

    @property
    def changed(self) -> bool:
        """Whether another plan came into force with it, in place of one before."""
        return self.planned == self.batch > 0

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


def makespan(instances: Sequence[InstanceSummary], layout: Layout) -> float:
    """Return the CPU seconds of the busiest instance of each stage, added up.

    An operator without a stage of its own works where those do that feed it.

    Args:
        instances: what each instance did in a batch.
        layout: the job as it was laid out.
    """
    job, stages = layout.topology, layout.stage_of
    busy: dict[int, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for instance in instances:
        name = instance.operator
        while name in layout.attached:
            name = job.inputs(name)[0].source
        busy[stages[name]][name, instance.number] += instance.seconds + instance.shipping
    return sum(max(tasks.values()) for tasks in busy.values())
