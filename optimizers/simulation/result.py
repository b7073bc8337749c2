"""The result of a simulated run."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from optimizers.cluster import Cluster
from optimizers.control.decision import Decision
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.history import Totals
from optimizers.control.run_summary import RunSummary
from optimizers.control.summary import BatchSummary, Spread
from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.simulation.stages.micro_batches import Counted
from sketches.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class OperatorTimes:
    """What one operator did. The arrays have an element for each tuple that it executed.

    Attributes:
        rows: which tuple of the streams it came of, counted over all sources in order.
        instances: which instance executed it.
        arrived: when it arrived there.
        started: when work on it began.
        ended: when it was done.
        shipping: how many seconds each instance spent on sending.
        receiving: how many seconds each instance spent on taking in what was sent to it.
    """

    rows: Integers
    instances: Integers
    arrived: Floats
    started: Floats
    ended: Floats
    shipping: Floats
    receiving: Floats

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            getattr(self, name).setflags(write=False)

    @property
    def latencies(self) -> Floats:
        """How long each tuple was at its instance, waiting and being worked on."""
        return self.ended - self.arrived

    @property
    def latency(self) -> Spread:
        """How `latencies` spread."""
        return Spread.of(self.latencies)

    @property
    def tuples(self) -> NDArray[np.int64]:
        """How many tuples each instance executed."""
        return np.bincount(self.instances, minlength=len(self.shipping))

    @property
    def busy(self) -> Floats:
        """How many seconds each instance worked: on tuples, on sending and on receiving."""
        taken = np.bincount(self.instances, self.ended - self.started, len(self.shipping))
        busy: Floats = taken + self.shipping + self.receiving
        return busy

    @property
    def imbalance(self) -> float:
        """The work of the busiest instance, in averages; by tuples if none worked."""
        loads = self.busy if self.busy.any() else self.tuples
        return float(loads.max() / loads.mean()) if loads.any() else 1.0


@dataclass(frozen=True)
class EdgeCounts:
    """What one edge carried.

    Attributes:
        tuples: how many tuples.
        bytes: how large they were together.
        local: how many of them stayed on their node.
        messages: how many messages went from instances back to their senders.
        carried: how many messages travelled with a tuple.
    """

    tuples: int
    bytes: float
    local: int
    messages: int
    carried: int

    @property
    def locality(self) -> float:
        """The share of tuples that stayed on their node; 1 if there were none."""
        return self.local / self.tuples if self.tuples else 1.0


@dataclass(frozen=True, eq=False)
class Simulated:
    """The result of a simulated run.

    >>> from optimizers import Topology
    >>> from optimizers.simulation import SimulationEngine, Stream, Work
    >>> job = Topology.source("in").then("work")
    >>> run = SimulationEngine().run(job, Stream([0.0, 1.0]), work={"work": Work(3.0)})
    >>> run.latency
    Spread(mean=4.0, p50=4.0, p99=4.98, max=5.0)
    >>> print(run)
    2 tuples in 6 s: 0.333333 a second
    latency: mean 4 s, p50 4 s, p99 4.98 s, max 5 s
    operator  instances  tuples  mean s  p99 s  busiest  imbalance
    in                1       2       0      0     0.0%      1.000
    work              1       2       4   4.98   100.0%      1.000
    edge        tuples   local  messages  carried
    in -> work       2  100.0%         0        0

    Attributes:
        came: when each tuple of the streams came in, over all sources in order.
        completed: when the last of its results was done.
        operators: what each operator did, in the order of the job.
        edges: what each edge carried, by source and target.
        batches: what happened in each batch, as on any engine.
        plans: the plan that was in force in each.
        decisions: the optimizer's decisions, as on any engine.
        totals: sums over all batches and decisions.
        layout: the job as it was laid out at the end.
        cluster: the machines that were there at the end.
        counted: the counts of each micro-batch that constants are multiplied by, to fit them to
            measured ones.
        epochs: the facts of the last epochs that are over, as on any engine.
    """

    came: Floats
    completed: Floats
    operators: Mapping[str, OperatorTimes]
    edges: Mapping[EdgeName, EdgeCounts]
    batches: tuple[BatchSummary, ...]
    plans: tuple[Plan, ...]
    decisions: tuple[Decision, ...]
    totals: Totals
    layout: Layout
    cluster: Cluster
    counted: tuple[Counted, ...] = ()
    epochs: tuple[EpochFacts, ...] = ()

    def __post_init__(self) -> None:
        for name in ("came", "completed"):
            getattr(self, name).setflags(write=False)

    @property
    def latencies(self) -> Floats:
        """How long each tuple of the streams took until all its results were done."""
        return self.completed - self.came

    @property
    def latency(self) -> Spread:
        """How `latencies` spread."""
        return Spread.of(self.latencies)

    @property
    def makespan(self) -> float:
        """How many seconds passed from the first tuple to the end of the last work."""
        return float(self.completed.max() - self.came.min())

    @property
    def throughput(self) -> float:
        """How many tuples of the streams were completed in a second; infinite in no time."""
        return len(self.came) / self.makespan if self.makespan else float("inf")

    @property
    def messages(self) -> int:
        """How many messages went back to senders, on all edges."""
        return sum(edge.messages for edge in self.edges.values())

    @property
    def carried(self) -> int:
        """How many messages travelled with tuples, on all edges."""
        return sum(edge.carried for edge in self.edges.values())

    @property
    def plan(self) -> Plan:
        """The plan that was in force at the end."""
        return self.plans[-1]

    def utilisation(self, operator: str) -> Floats:
        """Return the share of the makespan that each instance of an operator worked."""
        busy = self.operators[operator].busy
        return busy / self.makespan if self.makespan else np.zeros(len(busy))

    @property
    def summary(self) -> RunSummary:
        """The summary of the run, as on any engine: a table, and a JSON document."""
        return RunSummary.of(
            self,
            tuples=len(self.came),
            seconds=self.makespan,
            latency=self.latency,
            latencies={name: operator.latency for name, operator in self.operators.items()},
        )

    def __str__(self) -> str:
        return str(self.summary)
