"""What happened: of each batch, and of each decision of the optimizer."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from optimizers.layout import Instance, Layout
from optimizers.operators import EdgeName, OnError
from optimizers.plan import Note, Plan
from optimizers.runtime.driver.epoch import edge_flows
from optimizers.runtime.driver.plan_outline import PlanOutline
from optimizers.runtime.task.reports import BadCount, TaskReport
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

    @classmethod
    def of(
        cls,
        batch: int,
        planned: int,
        seconds: float,
        layout: Layout,
        reports: Sequence[TaskReport],
    ) -> "BatchSummary":
        """Sum up the reports of a batch."""
        flows: dict[EdgeName, list[float]] = defaultdict(lambda: [0.0] * 4)
        for report in reports:
            for name, counts in edge_flows(report, layout).items():
                flows[name] = [sum(pair) for pair in zip(flows[name], counts, strict=True)]
        instances = tuple(
            InstanceSummary(
                report.operator,
                report.instance,
                layout.node_of(Instance(report.operator, report.instance)),
                report.tuples,
                report.emitted,
                report.seconds,
                report.shipping,
                report.taken_over,
            )
            for report in sorted(reports, key=lambda each: (each.operator, each.sender))
        )
        edges = {name: EdgeStatistics(*flow) for name, flow in sorted(flows.items())}
        skipped, aside = (
            FrozenMap({name: count.rows for name, count in bad_rows(reports, layout, how).items()})
            for how in (OnError.SKIP, OnError.ASIDE)
        )
        return cls(batch, planned, seconds, instances, FrozenMap(edges), skipped, aside)

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


def bad_rows(reports: Sequence[TaskReport], layout: Layout, how: OnError) -> dict[str, BadCount]:
    """Return how many rows operators that deal so with bad ones could not take in, and which."""
    found: dict[str, BadCount] = {}
    for report in sorted(reports, key=lambda each: (each.operator, each.sender)):
        for name, count in report.bad.items():
            if layout.topology.operator(name).on_error is how:
                known = found.get(name, BadCount(0, count.example))
                found[name] = BadCount(known.rows + count.rows, known.example)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Decision:
    """What an optimizer said after a batch, and what became of it.

    Attributes:
        after: the batch after which it was asked; -1 for before the first.
        plan: what it decided; `Plan()` with a note where it decided to leave things alone. Only the
            last decision has its tables; of earlier ones they are told in outline, see
            `in_outline`.
        refused: why the decision could not be carried out; empty if it was.
        before: the share of tuples that stayed on their node, on edges between keyed operators,
            in the epoch it was decided from.
        since: the same, in the epoch that followed; None as long as that is not over.
        seconds: CPU seconds that the decision took.
        applied: whether it changed anything; what is in force already changes nothing.
        fits: whether it is no optimizer's: machines came or went, and the plan in force was fitted
            to those that are there. The plan tells what had to be changed.
    """

    after: int
    plan: Plan | PlanOutline
    refused: str = ""
    before: float = 1.0
    since: float | None = None
    seconds: float = 0.0
    applied: bool = False
    fits: bool = False

    @property
    def notes(self) -> tuple[Note, ...]:
        """Why, in the words and figures of the strategies."""
        return self.plan.notes

    def in_outline(self) -> "Decision":
        """Return the same with a few words in place of each table, so that it can be remembered."""
        plan = self.plan
        return self if isinstance(plan, PlanOutline) else replace(self, plan=PlanOutline.of(plan))

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.notes))
        if self.fits:
            return f"after batch {self.after}: fitted to the machines that are there ({reasons})"
        if self.refused:
            aside = f" ({reasons})" if reasons else ""
            return f"after batch {self.after}: refused, for {self.refused}{aside}"
        what = ", ".join(sorted(_parts(self.plan))) if self.applied else "nothing"
        return f"after batch {self.after}: {what} changes ({reasons or 'no reason given'})"


def _parts(plan: Plan | PlanOutline) -> list[str]:
    parts = ("parallelism", "batch", "routing", "placement", "scheduling", "add", "drain")
    return [part for part in parts if getattr(plan, part)]
