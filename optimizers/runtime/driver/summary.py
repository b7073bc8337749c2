"""The summary of a batch, from the reports of its tasks."""

import logging

import numpy as np

from optimizers.batch_time import BatchTime
from optimizers.control.summary import BatchSummary, InstanceSummary, StateMoves, makespan
from optimizers.layout import Instance, Layout
from optimizers.operators import OnError
from optimizers.runtime.driver.collector import edge_statistics, edge_sums
from optimizers.runtime.driver.sent_bytes import unsure_senders
from optimizers.runtime.task.reports import BadCount, Reports
from sketches.values import FrozenMap

_LOG = logging.getLogger(__name__)


def summary_of(  # noqa: PLR0913, PLR0917
    batch: int,
    planned: int,
    seconds: float,
    layout: Layout,
    reports: Reports,
    time: BatchTime | None = None,
) -> BatchSummary:
    """Sum up the reports of a batch.

    Args:
        batch: its number.
        planned: the batch with which the plan in force came.
        seconds: how long it took.
        layout: the job as it was laid out.
        reports: what its tasks report, merged.
        time: where its time went.
    """
    operators, numbers = reports.operators, reports.numbers("instance").tolist()
    nodes = [layout.node_of(Instance(*each)) for each in zip(operators, numbers, strict=True)]
    facts = ("tuples", "emitted", "seconds", "shipping", "taken_over", "wall")
    columns = [reports.numbers(name).tolist() for name in facts]
    columns += [
        _hosts(reports),
        _remote_in(reports, layout),
        _remote_out(reports, layout),
        _state_bytes(reports),
        reports.numbers("receiving").tolist(),
    ]
    instances = tuple(
        InstanceSummary(*each) for each in zip(operators, numbers, nodes, *columns, strict=True)
    )
    edges = edge_statistics(edge_sums(reports, layout.topology))
    skipped, aside = (
        FrozenMap({name: count.rows for name, count in bad_rows(reports, layout, how).items()})
        for how in (OnError.SKIP, OnError.ASIDE)
    )
    return BatchSummary(
        batch,
        planned,
        seconds,
        instances,
        FrozenMap(edges),
        skipped,
        aside,
        moved=_moved(reports, layout),
        makespan=makespan(instances, layout),
        time=time,
    )


def _moved(reports: Reports, layout: Layout) -> StateMoves:
    """Return the state that instances read from others' files; stages wait for it in turn."""
    pauses: dict[int, float] = {}
    waits = reports.numbers("loading").tolist()
    for name, waited in zip(reports.operators, waits, strict=True):
        stage = layout.stage_of[name]
        pauses[stage] = max(pauses.get(stage, 0.0), waited)
    keys, size = (int(reports.numbers(name).sum()) for name in ("taken_over", "loaded"))
    return StateMoves(keys, float(size), sum(pauses.values()))


def _hosts(reports: Reports) -> list[str | None]:
    if not reports.columns["host"].lengths.any():
        return [None] * len(reports)
    return [host or None for host in reports.hosts]


def _state_bytes(reports: Reports) -> list[float | None]:
    """Return how much state each task held; None of one that did not look."""
    sizes = reports.vectors("state_size")
    found: list[float | None] = [None] * len(reports)
    looked = np.flatnonzero(sizes.lengths)
    told = sizes.taken(looked).values.reshape(-1, 2)[:, 0]
    for task, size in zip(looked.tolist(), told.astype(float).tolist(), strict=True):
        found[task] = size
    return found


def _remote_in(reports: Reports, layout: Layout) -> list[float]:
    """Return how large the tuples were that came to each task from other hosts."""
    found, flows = np.zeros(len(reports)), reports.received
    numbers = reports.numbers("instance")
    for edge in np.unique(flows["edge"]).tolist():
        mine = flows[flows["edge"] == edge]
        tasks = reports.tasks[layout.topology.edges[edge].target]
        came = np.zeros(1 + int(max(numbers[tasks].max(), mine["instance"].max())))
        np.add.at(came, mine["instance"], mine["bytes"] - mine["local_bytes"])
        found[tasks] += came[numbers[tasks]]
    return list(found.tolist())


def _remote_out(reports: Reports, layout: Layout) -> list[float | None]:
    """Return how many bytes each task sent to other hosts; None where that is not known."""
    unsure, sizes = unsure_senders(reports, layout), reports.numbers("remote_out").astype(float)
    return [
        None if name in unsure else size
        for name, size in zip(reports.operators, sizes.tolist(), strict=True)
    ]


def bad_rows(reports: Reports, layout: Layout, how: OnError) -> dict[str, BadCount]:
    """Return how many rows operators that deal so with bad ones could not take in, and which."""
    found: dict[str, BadCount] = {}
    for _, bad in reports.documents("bad"):
        for name, count in bad.items():
            if layout.topology.operator(name).on_error is how:
                known = found.get(name, BadCount(0, count.example))
                found[name] = BadCount(known.rows + count.rows, known.example)
    return dict(sorted(found.items()))


def log_bad_rows(batch: int, reports: Reports, layout: Layout) -> None:
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
