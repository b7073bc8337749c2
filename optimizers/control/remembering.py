"""Remembering epochs for strategies, which are pure functions and have no memory of their own."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, replace

from optimizers.control.expecting import found_in
from optimizers.control.summary import BatchSummary
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.past import RESOURCES, Past, PastDecision, PastEpoch, PastGroups
from optimizers.plan import Plan
from optimizers.statistics import Statistics

_LASTING = 0.5
"""The weight of earlier epochs in averages of loads; the last one has the same."""


class Remembering:
    """Takes in batches and decisions, and keeps what `Past` holds of each epoch.

    Attributes:
        past: the finished epochs, as far as they are remembered.
    """

    def __init__(self) -> None:
        self.past = Past()
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget the batches of an epoch that is not over, and begin another."""
        self._batches = 0
        self._tuples: dict[str, float] = defaultdict(float)
        self._busy: dict[str, float] = defaultdict(float)
        self._nodes: dict[str, float] = defaultdict(float)
        self._taken_over = 0
        self._moved: tuple[float, float] | None = None

    def hear(self, summary: BatchSummary) -> None:
        """Take in what happened in a batch."""
        self._batches += 1
        self._taken_over += summary.taken_over
        there = set(summary.nodes)
        for instance in summary.instances:
            node = instance.host if instance.host in there else instance.node
            self._tuples[instance.operator] += instance.tuples
            self._busy[instance.operator] += instance.busy
            self._nodes[node] += instance.busy
        if summary.moved is not None:
            size, pause = self._moved or (0.0, 0.0)
            self._moved = size + summary.moved.bytes, pause + summary.moved.pause

    def found(self, seconds: float, local: float) -> dict[str, float]:
        """Return what came of the decision before the epoch that ends, and remember that with it.

        Args:
            seconds: how long the epoch lasted.
            local: the share of tuples that stayed on their node, between keyed operators.
        """
        figures = found_in(local, self._batches, seconds, self._nodes)
        if self.past.epochs:
            *others, last = self.past.epochs
            decision = last.decision
            if decision is not None and decision.expected:
                known = {name: figures[name] for name in decision.expected if name in figures}
                last = replace(last, decision=replace(decision, found=known))
                self.past = Past((*others, last), self.past.groups)
        return figures

    def end_epoch(
        self, number: int, statistics: Statistics, local: float, layout: Layout
    ) -> PastEpoch:
        """Keep the epoch that is over, and begin the next; the decision is added later.

        Args:
            number: which epoch it is.
            statistics: the facts of it.
            local: the share of tuples that stayed on their node, between keyed operators.
            layout: the layout of the job.
        """
        size, pause = self._moved or (None, None)
        ended = PastEpoch(
            number,
            self._batches,
            statistics.seconds,
            tuples=self._tuples,
            arrivals={
                name: source.rate
                for name, source in statistics.sources.items()
                if source.rate is not None
            },
            busy=self._busy,
            nodes=self._nodes,
            instances={op.name: op.parallelism for op in layout.topology.operators},
            local=local,
            taken_over=self._taken_over,
            moved_bytes=size,
            pause=pause,
            sources=statistics.sources,
        )
        seen = {
            name: _averaged(self.past.groups.get(name), groups)
            for name, groups in statistics.groups.items()
        }
        groups = {**self.past.groups, **seen}
        self.past = Past((*self.past.epochs, ended), groups)
        self.begin_epoch()
        return ended

    def decided(self, epoch: int, decision: PastDecision) -> None:
        """Add the decision at the end of an epoch.

        Loads of operators whose keys it gives other groups are forgotten, as groups have changed.
        """
        epochs = tuple(
            replace(known, decision=decision) if known.epoch == epoch else known
            for known in self.past.epochs
        )
        regrouped = [about for part, about in decision.parts if part == "routing"]
        known = Past(epochs, self.past.groups)
        self.past = known.without(regrouped) if decision.applied else known


def parts_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the parts of a plan that decide something."""
    numbers = {"nodes": plan.nodes, "period": plan.period}
    found = [(name, f"{number:g}") for name, number in numbers.items() if number is not None]
    for field in fields(plan):
        if field.name in {*numbers, "notes"}:
            continue
        for about in getattr(plan, field.name):
            if isinstance(about, tuple):
                found.append((field.name, " -> ".join(about)))
            else:
                found.append((field.name, getattr(about, "name", str(about))))
    return tuple(found)


def expected_loads(
    seen: PastEpoch, groups: Mapping[str, GroupStatistics], old: Layout, new: Layout
) -> dict[str, float]:
    """Return each node's CPU seconds a second in an epoch, if it had another layout.

    It is known if only key groups of observed load change their node; otherwise the result is
    empty.
    """
    loads = defaultdict(float, seen.loads)
    for name, home in new.homes.items():
        before = old.homes[name]
        if home == before:
            continue
        known = groups.get(name)
        cpu = None if known is None else known.cpu
        if cpu is None or not cpu.any() or not seen.seconds or not home.groups:
            return {}
        busy = seen.busy.get(name, 0.0) / seen.seconds
        shares = (cpu / cpu.sum() * busy).tolist()
        for share, here, there in zip(shares, before.groups, home.groups, strict=True):
            loads[before.nodes[here]] -= share
            loads[home.nodes[there]] += share
    return {node: max(load, 0.0) for node, load in loads.items()}


def _averaged(before: PastGroups | None, seen: GroupStatistics) -> PastGroups:
    """Return the averages of loads with one more epoch."""
    found = {}
    for name in RESOURCES:
        now, past = getattr(seen, name), getattr(before, name, None)
        found[name] = now if now is None or past is None else _LASTING * past + _LASTING * now
    return PastGroups(**found)
