"""The result of a simulated run, put together from its batches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from optimizers.control.summary import Spread
from optimizers.operators import EdgeName
from optimizers.simulation.control import Control
from optimizers.simulation.observation import Stretch
from optimizers.simulation.result import EdgeCounts, OperatorTimes, Simulated
from optimizers.simulation.rows import Served
from optimizers.simulation.run import Running
from sketches.arrays import Floats, Integers


def result_of(running: Running, control: Control) -> Simulated:
    """Return the result of a finished run."""
    happened = control.loop.happened
    completed, operators = _executed(running, control)
    times = _times(control, running.tuples.times, completed)
    seconds = [taken for taken, _ in times]
    kept = len(times) - len(happened.batches)  # from this batch on, summaries are
    batches = [
        replace(summary, seconds=taken, latency=latency)
        for summary, (taken, latency) in zip(happened.batches, times[kept:], strict=True)
    ]
    return Simulated(
        running.tuples.times,
        completed,
        operators,
        _edges(running, control),
        tuple(batches),
        tuple(control.plans[kept:]),
        tuple(happened.decisions),
        replace(happened.totals, seconds=sum(seconds)),
        control.batches[-1].layout,
        control.batches[-1].cluster,
        tuple(batch.counted for batch in control.batches if batch.counted is not None),
        control.loop.told,
    )


def _executed(running: Running, control: Control) -> tuple[Floats, Mapping[str, OperatorTimes]]:
    """Return when each tuple of the streams was done, and what each operator did."""
    completed = running.tuples.times.copy()
    operators = {}
    for name in running.topology.order:
        served = Served.none().joined(*(batch.served[name] for batch in control.batches))
        np.maximum.at(completed, served.rows, served.ended)
        operators[name] = OperatorTimes(
            served.rows,
            served.instances,
            served.arrived,
            served.started,
            served.ended,
            running.operator_queues[name].shipping,
            running.operator_queues[name].receiving,
        )
    for batch in control.batches:
        if batch.ended is not None:
            completed[_came_in(batch, running.topology.sources)] = batch.ended
    return completed, operators


def _came_in(batch: Stretch, sources: Sequence[str]) -> Integers:
    """Return the tuples of the streams in a batch whose tuples are done together."""
    return np.concatenate([batch.served[name].rows for name in sources])


def _edges(running: Running, control: Control) -> dict[EdgeName, EdgeCounts]:
    parts = ("tuples", "bytes", "local", "messages", "carried")
    return {
        name: EdgeCounts(
            **{
                part: sum(getattr(batch.flows[name], part) for batch in control.batches)
                for part in parts
            }
        )
        for name in running.edge_runs
    }


def _times(control: Control, came: Floats, completed: Floats) -> list[tuple[float, Spread]]:
    """Return how long each batch took, and its tuples: known only after the run."""
    starts = np.array([batch.start for batch in control.batches])
    numbers = np.searchsorted(starts, came, side="right") - 1
    for number, batch in enumerate(control.batches):
        if batch.ended is not None:
            numbers[_came_in(batch, control.batches[0].layout.topology.sources)] = number
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(starts) + 1))
    found = []
    for number in range(len(starts)):
        rows = order[bounds[number] : bounds[number + 1]]
        done = float(completed[rows].max()) if len(rows) else float(starts[number])
        found.append((done - float(starts[number]), Spread.of(completed[rows] - came[rows])))
    return found
