"""The summary of a run, on any engine: one table, and one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from optimizers.batch_time import KEPT, BatchTime
from optimizers.control.decision import DecisionFacts
from optimizers.control.engine import JobRun
from optimizers.control.part_summaries import (
    EdgeSummary,
    OperatorSummary,
    edge_summary,
    operator_summary,
    spread_of,
)
from optimizers.control.summary import BatchSummary, Spread
from optimizers.control.time_table import time_rows
from optimizers.documents import Record, read, write
from optimizers.errors import UnknownNameError
from optimizers.flow import SourceStatistics
from optimizers.topology import Topology
from sketches.values import FrozenMap

NOTHING = "-"
"""Printed where an engine does not know a fact."""


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run, or of some of its batches.

    Attributes:
        batches: how many batches it is about: those that the run remembers.
        tuples: how many tuples came in.
        seconds: how long that took.
        operators: what each operator did, in the order of the job.
        edges: what each edge carried.
        decisions: the optimizer's decisions.
        taken_over: how many keys changed their instance.
        latency: how long tuples took until all their results were done; None where the engine does
            not know.
        times: where the time of the last batches went; empty where the engine does not know.
        first: the number of the first batch.
        changed: how many of the batches brought another plan into force.
        makespan: CPU seconds that the batches would have taken together with a core for each
            instance and a free network, see `optimizers.control.summary.makespan`; None where the
            engine does not know.
        sources: what came to each source in all finished epochs, as far as that is known; empty for
            some batches only, as an epoch may end in another.
        nodes: the names of the nodes that are there; for some batches only, in the last of them.
        wanted: how many nodes the plan in force wants; None for the present number.
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
    first: int = 0
    changed: int = 0
    makespan: float | None = None
    sources: Mapping[str, SourceStatistics] = FrozenMap()
    nodes: tuple[str, ...] = ()
    wanted: int | None = None

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
        found = cls.of_batches(run.layout.topology, run.batches)
        known = FrozenMap[str, Spread]() if latencies is None else latencies
        return replace(
            found,
            tuples=run.totals.tuples if tuples is None else tuples,
            seconds=run.totals.seconds if seconds is None else seconds,
            operators=tuple(replace(o, latency=known.get(o.operator)) for o in found.operators),
            decisions=tuple(map(DecisionFacts.of, run.decisions)),
            latency=latency,
            sources=run.totals.sources,
            nodes=tuple(node.name for node in run.cluster.nodes),
            wanted=run.plan.nodes,
        )

    @classmethod
    def of_batches(cls, job: Topology, batches: Sequence[BatchSummary]) -> "RunSummary":
        """Sum up some batches of a job, of one engine.

        Args:
            job: the job.
            batches: the batches; the latency is kept if there is only one.
        """
        came = (
            instance.tuples
            for batch in batches
            for instance in batch.instances
            if instance.operator in job.sources
        )
        makespans = [batch.makespan for batch in batches if batch.makespan is not None]
        return cls(
            len(batches),
            sum(came),
            sum(batch.seconds for batch in batches),
            tuple(operator_summary(job, name, batches) for name in job.order),
            tuple(edge_summary(job, edge.name, batches) for edge in job.edges),
            taken_over=sum(batch.taken_over for batch in batches),
            latency=batches[0].latency if len(batches) == 1 else None,
            first=batches[0].batch if batches else 0,
            changed=sum(batch.changed for batch in batches),
            makespan=sum(makespans) if len(makespans) == len(batches) else None,
            nodes=batches[-1].nodes if batches else (),
            wanted=batches[-1].wanted if batches else None,
            times=tuple(batch.time for batch in batches[-KEPT:] if batch.time is not None),
        )

    @property
    def hops(self) -> float:
        """How many tuples went from one key to another; see `EdgeSummary.hop`."""
        return sum(edge.tuples for edge in self.edges if edge.hop)

    @property
    def local(self) -> float:
        """How many of these stayed on their node."""
        return sum(edge.local for edge in self.edges if edge.hop)

    @property
    def remote_bytes(self) -> float | None:
        """How many bytes went to another node; None where the engine does not know."""
        known = [edge.remote_bytes for edge in self.edges]
        return None if None in known else sum(size for size in known if size is not None)

    def operator(self, name: str) -> OperatorSummary:
        """Return what the operator of that name did."""
        for found in self.operators:
            if found.operator == name:
                return found
        raise UnknownNameError.among("operator", name, (each.operator for each in self.operators))

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
        lines += _aligned(
            ["source", "arrived", "a second", "let in", "waiting"],
            [_source_cells(name, seen) for name, seen in self.sources.items()],
        )
        rows = time_rows(self.times)
        lines += _aligned(rows[0], rows[1:]) if rows else []
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        sources = {name: asdict(seen) for name, seen in self.sources.items()}
        times = [time.to_dict() for time in self.times]
        return {**asdict(replace(self, sources={})), "times": times, "sources": sources}

    def to_json(self) -> str:
        """Write the summary as a JSON document."""
        return write("run", self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> "RunSummary":
        """Read what `to_json` wrote."""
        return read(text, "run", cls.from_record)

    @classmethod
    def from_record(cls, record: Record) -> "RunSummary":
        """Build it from the record of a document."""
        return cls(
            record.take("batches", int),
            record.take("tuples", int),
            record.take("seconds", float),
            tuple(record.each("operators", OperatorSummary.from_record)),
            tuple(record.each("edges", EdgeSummary.from_record)),
            tuple(record.each("decisions", DecisionFacts.from_record)),
            record.take("taken_over", int),
            spread_of(record),
            tuple(record.each("times", BatchTime.from_record)),
            record.take("first", int, 0),
            record.take("changed", int, 0),
            record.optional("makespan", float),
            FrozenMap(record.mapping("sources", _source)),
            record.strings("nodes"),
            record.optional("wanted", int),
        )


def _source(value: Any, where: str) -> SourceStatistics:
    return Record(value, where).into(SourceStatistics.from_record)


def _source_cells(name: str, seen: SourceStatistics) -> list[str]:
    figures = (seen.arrived, seen.rate, seen.admitted, seen.waiting)
    return [name, *(NOTHING if figure is None else f"{figure:,.0f}" for figure in figures)]


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
