"""What came of a run, on any engine: one table, and one JSON document."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from optimizers.batch_time import KEPT, BatchTime
from optimizers.control.decision import DecisionFacts
from optimizers.control.engine import JobRun
from optimizers.control.summary import BatchSummary, Messages, Spread
from optimizers.control.time_table import time_rows
from optimizers.documents import Record, read, write
from optimizers.operators import EdgeName
from sketches.values import FrozenMap

NOTHING = "-"
"""What stands where an engine knows nothing."""


@dataclass(frozen=True)
class OperatorSummary:
    """What one operator did.

    Attributes:
        operator: its name.
        tuples: how many tuples each instance received.
        busy: how many seconds each worked, on tuples and on sending.
        latency: how long tuples were at their instance; None where the engine does not tell.
    """

    operator: str
    tuples: tuple[int, ...]
    busy: tuple[float, ...]
    latency: Spread | None = None

    @property
    def imbalance(self) -> float:
        """How many times the average the busiest instance worked; by tuples if none did."""
        loads = self.busy if any(self.busy) else self.tuples
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0

    @classmethod
    def from_record(cls, record: Record) -> "OperatorSummary":
        """Build it from the record of a document."""
        return cls(
            record.take("operator", str),
            record.integers("tuples"),
            record.floats("busy"),
            _spread(record),
        )


@dataclass(frozen=True)
class EdgeSummary:
    """What one edge carried.

    Attributes:
        source: where it begins.
        target: where it ends.
        tuples: how many tuples.
        bytes: how large they were together.
        local: how many of them stayed on their node.
        messages: messages from instances back to their senders; None where the engine has none.
    """

    source: str
    target: str
    tuples: float
    bytes: float
    local: float
    messages: Messages | None = None

    @property
    def locality(self) -> float:
        """The share of tuples that stayed on their node; 1 of none."""
        return self.local / self.tuples if self.tuples else 1.0

    @classmethod
    def from_record(cls, record: Record) -> "EdgeSummary":
        """Build it from the record of a document."""
        messages = tuple(map(int, record.floats("messages")))
        return cls(
            record.take("source", str),
            record.take("target", str),
            record.take("tuples", float),
            record.take("bytes", float),
            record.take("local", float),
            Messages(*messages) if messages else None,
        )


@dataclass(frozen=True)
class RunSummary:
    """What came of a run.

    Attributes:
        batches: how many batches it is about: those that the run remembers.
        tuples: how many tuples came in.
        seconds: how long that took.
        operators: what each operator did, in the order of the job.
        edges: what each edge carried.
        decisions: what the optimizer said.
        taken_over: how many keys changed their instance.
        latency: how long tuples took until all that came of them was done; None where the engine
            does not tell.
        times: where the time of the last batches went; empty where the engine does not tell.
    """

    batches: int
    tuples: int
    seconds: float
    operators: tuple[OperatorSummary, ...]
    edges: tuple[EdgeSummary, ...]
    decisions: tuple[DecisionFacts, ...] = ()
    taken_over: int = 0
    latency: Spread | None = None
    times: tuple[BatchTime, ...] = ()

    @classmethod
    def of(
        cls,
        run: JobRun,
        *,
        tuples: int | None = None,
        seconds: float | None = None,
        latency: Spread | None = None,
        latencies: Mapping[str, Spread] | None = None,
    ) -> "RunSummary":
        """Sum up the batches that a run remembers.

        Args:
            run: the run.
            tuples: how many tuples came in; by default as its totals say.
            seconds: how long it took; by default all batches, one after the other.
            latency: how long tuples took, if that is known.
            latencies: how long they were at an instance of each operator, if that is known.
        """
        batches, job = run.batches, run.layout.topology
        known = FrozenMap[str, Spread]() if latencies is None else latencies
        return cls(
            len(batches),
            run.totals.tuples if tuples is None else tuples,
            run.totals.seconds if seconds is None else seconds,
            tuple(_operator(name, batches, known.get(name)) for name in job.order),
            tuple(_edge(edge.name, batches) for edge in job.edges),
            tuple(map(DecisionFacts.of, run.decisions)),
            sum(batch.taken_over for batch in batches),
            latency,
            tuple(batch.time for batch in batches[-KEPT:] if batch.time is not None),
        )

    @property
    def throughput(self) -> float:
        """How many tuples were done in a second; infinite in no time."""
        return self.tuples / self.seconds if self.seconds else float("inf")

    def __str__(self) -> str:
        head = f"{self.tuples:,} tuples in {self.seconds:.6g} s: {self.throughput:,.6g} a second"
        lines = [head]
        if self.latency is not None:
            mean, half, most, longest = self.latency
            lines.append(
                f"latency: mean {mean:.4g} s, p50 {half:.4g} s, p99 {most:.4g} s, "
                f"max {longest:.4g} s"
            )
        lines += _aligned(
            ["operator", "instances", "tuples", "mean s", "p99 s", "busiest", "imbalance"],
            [_operator_cells(operator, self.seconds) for operator in self.operators],
        )
        lines += _aligned(
            ["edge", "tuples", "local", "messages", "carried"], list(map(_edge_cells, self.edges))
        )
        rows = time_rows(self.times)
        lines += _aligned(rows[0], rows[1:]) if rows else []
        return "\n".join(lines)

    def to_json(self) -> str:
        """Write the summary as a JSON document."""
        return write("run", {**asdict(self), "times": [time.to_dict() for time in self.times]})

    @classmethod
    def from_json(cls, text: str | bytes) -> "RunSummary":
        """Read what `to_json` wrote."""
        return read(text, "run", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "RunSummary":
        return cls(
            record.take("batches", int),
            record.take("tuples", int),
            record.take("seconds", float),
            tuple(record.each("operators", OperatorSummary.from_record)),
            tuple(record.each("edges", EdgeSummary.from_record)),
            tuple(record.each("decisions", DecisionFacts.from_record)),
            record.take("taken_over", int),
            _spread(record),
            tuple(record.each("times", BatchTime.from_record)),
        )


def _spread(record: Record) -> Spread | None:
    times = record.floats("latency")
    return Spread(*times) if times else None


def _operator(
    name: str, batches: Sequence[BatchSummary], latency: Spread | None
) -> OperatorSummary:
    tuples: dict[int, int] = defaultdict(int)
    busy: dict[int, float] = defaultdict(float)
    for batch in batches:
        for instance in batch.instances:
            if instance.operator == name:
                tuples[instance.number] += instance.tuples
                busy[instance.number] += instance.seconds + instance.shipping
    numbers = sorted(tuples)
    return OperatorSummary(
        name, tuple(tuples[n] for n in numbers), tuple(busy[n] for n in numbers), latency
    )


def _edge(name: EdgeName, batches: Sequence[BatchSummary]) -> EdgeSummary:
    flows = [batch.edges[name] for batch in batches if name in batch.edges]
    told = [batch.messages[name] for batch in batches if batch.messages is not None]
    messages = Messages(*np.sum(told, axis=0).tolist()) if told else None
    return EdgeSummary(
        *name,
        sum((flow.tuples for flow in flows), 0.0),
        sum((flow.bytes for flow in flows), 0.0),
        sum((flow.local for flow in flows), 0.0),
        messages,
    )


def _operator_cells(operator: OperatorSummary, seconds: float) -> list[str]:
    latency = operator.latency
    busiest = max(operator.busy, default=0.0) / seconds if seconds else 0.0
    return [
        operator.operator,
        str(len(operator.tuples)),
        f"{sum(operator.tuples):,}",
        NOTHING if latency is None else f"{latency.mean:.4g}",
        NOTHING if latency is None else f"{latency.p99:.4g}",
        f"{busiest:.1%}",
        f"{operator.imbalance:.3f}",
    ]


def _edge_cells(edge: EdgeSummary) -> list[str]:
    messages = edge.messages
    return [
        f"{edge.source} -> {edge.target}",
        f"{edge.tuples:,.0f}",
        f"{edge.locality:.1%}",
        NOTHING if messages is None else f"{messages.sent:,}",
        NOTHING if messages is None else f"{messages.carried:,}",
    ]


def _aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lay rows out in aligned columns, names to the left and numbers to the right."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
