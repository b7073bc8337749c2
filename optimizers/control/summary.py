"""The summary of a batch, on any engine."""

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
    """The distribution of some times, in seconds; all zero where there are none."""

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
        sent: how many travelled alone.
        carried: how many travelled with a tuple.
    """

    sent: int
    carried: int


class StateMoves(NamedTuple):
    """The state that moved when a plan came into force.

    Attributes:
        keys: how many keys got another instance or node.
        bytes: how much state travelled between nodes, or was read from other instances' files.
        pause: the longest time in seconds that an instance waited for state; of stages that wait
            for each other, these times together.
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
        node: where it was planned to be.
        tuples: how many tuples it received.
        emitted: how many it emitted.
        seconds: CPU seconds of the operator's own work.
        shipping: CPU seconds for sending what it emitted.
        taken_over: how many keys it got from other instances.
        wall: wall-clock seconds of the operator's own work, see `OperatorStatistics.wall`; None
            where the engine does not know.
        host: the host on which it really ran; None where nodes are virtual.
        remote_in: how many bytes came from other hosts; None where the engine does not know.
        remote_out: how many bytes it sent to other nodes; None likewise, and where tasks ran on
            other hosts than was planned.
        state_bytes: how much state it held at the end; None where it did not look.
        receiving: CPU seconds of its task for all that is neither `seconds` nor `shipping`: taking
            in what arrived, state, observing; None where the engine does not know.
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
    receiving: float | None = None

    @property
    def busy(self) -> float:
        """CPU seconds all in all: working, sending and, where the engine knows it, receiving."""
        return self.seconds + self.shipping + (self.receiving or 0.0)


@dataclass(frozen=True)
class BatchSummary:
    """One batch, as it was executed, on any engine.

    Facts that an engine does not know are None: Spark does not know when each tuple was done, and
    its instances do not report to senders.

    Attributes:
        batch: its number.
        planned: the batch with which the plan in force came.
        seconds: how long it took: on Spark from the first task to the commit, with the time that
            it took to cut it where a plan admits less, in the simulation from its begin until all
            its tuples were done.
        instances: what each instance did; sources once for each of their partitions.
        edges: what each edge carried.
        skipped: how many bad rows of each operator were left out; see `OnError`.
        aside: how many of them were handed aside.
        start: when it began, in seconds of the stream.
        latency: how long its tuples took until all their results were done.
        moved: the state that moved as it began.
        messages: by edge, the messages from instances back to their senders.
        time: where its time went, with planning and the commit.
        makespan: how long it would have taken in CPU seconds if each instance had a core of its
            own and the network were free; see `makespan`.
        nodes: the names of the nodes that were there.
        wanted: how many nodes the plan in force wanted; None for the present number.
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
    nodes: tuple[str, ...] = ()
    wanted: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "instances", packed(self.instances))

    @property
    def changed(self) -> bool:
        """Whether another plan came into force with it."""
        return self.planned == self.batch > 0

    @property
    def taken_over(self) -> int:
        """How many keys changed their instance with this batch."""
        return sum(instance.taken_over for instance in self.instances)

    def locality(self, edges: Sequence[EdgeName] | None = None) -> float:
        """Return the share of tuples that stayed on their node, on some edges or all; 1 if none."""
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
        """Return the load of the fullest instance, in averages; 1 without any load."""
        loads = self.loads(operator)
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


def makespan(instances: Sequence[InstanceSummary], layout: Layout) -> float:
    """Return for how long the busiest instance of each stage was busy, added up.

    An operator without a stage of its own works where those do that feed it.

    Args:
        instances: what each instance did in a batch.
        layout: the layout of the job.
    """
    job, stages = layout.topology, layout.stage_of
    busy: dict[int, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for instance in instances:
        name = instance.operator
        while name in layout.attached:
            name = job.inputs(name)[0].source
        busy[stages[name]][name, instance.number] += instance.busy
    return sum(max(tasks.values()) for tasks in busy.values())
