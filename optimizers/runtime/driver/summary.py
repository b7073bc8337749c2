"""The summary of a batch, from the reports of its tasks."""

import logging
from collections import defaultdict
from collections.abc import Sequence

from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.layout import Instance, Layout
from optimizers.operators import EdgeName, OnError
from optimizers.runtime.driver.collector import edge_flows
from optimizers.runtime.task.reports import BadCount, TaskReport
from optimizers.statistics import EdgeStatistics
from sketches.values import FrozenMap

_LOG = logging.getLogger(__name__)


def summary_of(
    batch: int, planned: int, seconds: float, layout: Layout, reports: Sequence[TaskReport]
) -> BatchSummary:
    """Sum up the reports of a batch.

    Args:
        batch: its number.
        planned: the batch with which the plan in force came.
        seconds: how long it took.
        layout: the job as it was laid out.
        reports: what its tasks report.
    """
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
    return BatchSummary(batch, planned, seconds, instances, FrozenMap(edges), skipped, aside)


def bad_rows(reports: Sequence[TaskReport], layout: Layout, how: OnError) -> dict[str, BadCount]:
    """Return how many rows operators that deal so with bad ones could not take in, and which."""
    found: dict[str, BadCount] = {}
    for report in sorted(reports, key=lambda each: (each.operator, each.sender)):
        for name, count in report.bad.items():
            if layout.topology.operator(name).on_error is how:
                known = found.get(name, BadCount(0, count.example))
                found[name] = BadCount(known.rows + count.rows, known.example)
    return dict(sorted(found.items()))


def log_bad_rows(batch: int, reports: Sequence[TaskReport], layout: Layout) -> None:
    """Log how many rows operators could not take in, with one of them."""
    for how, level, what in (
        (OnError.SKIP, logging.WARNING, "left out"),
        (OnError.ASIDE, logging.INFO, "handed aside"),
    ):
        for name, bad in bad_rows(reports, layout, how).items():
            _LOG.log(
                level,
                "batch %d: operator %r could not take %d rows, which were %s, such as: %s",
                *(batch, name, bad.rows, what, bad.example),
            )
