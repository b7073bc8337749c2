"""The summary of a batch of a simulated run."""

from collections.abc import Mapping, Sequence

import numpy as np

from optimizers.control.summary import (
    BatchSummary,
    InstanceSummary,
    Messages,
    StateMoves,
    makespan,
)
from optimizers.operators import Edge
from optimizers.simulation.loads import state_by_instance
from optimizers.simulation.observation import Stretch
from optimizers.simulation.state_moves import KeysMet
from optimizers.simulation.tuples import Tuples
from sketches.values import FrozenMap


def summary_of(
    stretch: Stretch, planned: int, until: float, tuples: Tuples, seen: Mapping[str, KeysMet]
) -> BatchSummary:
    """Sum up what was executed in a batch.

    Args:
        stretch: the batch.
        planned: the batch with which the plan in force came.
        until: when it ended.
        tuples: all tuples of the run.
        seen: the keys that each keyed operator has met.
    """
    flows, moves = sorted(stretch.flows.items()), stretch.moves.values()
    instances = tuple(
        instance
        for name in sorted(stretch.served)
        for instance in _instances(stretch, name, tuples, seen)
    )
    return BatchSummary(
        stretch.number,
        planned,
        until - stretch.start,
        instances,
        FrozenMap({name: flow.statistics for name, flow in flows}),
        start=stretch.start,
        moved=StateMoves(
            sum(move.keys for move in moves),
            sum(move.bytes for move in moves),
            max((float(move.pauses.max()) for move in moves), default=0.0),
        ),
        messages=FrozenMap({name: Messages(flow.messages, flow.carried) for name, flow in flows}),
        time=stretch.times[0] if stretch.times else None,
        makespan=makespan(instances, stretch.layout),
    )


def _instances(
    stretch: Stretch, name: str, tuples: Tuples, seen: Mapping[str, KeysMet]
) -> list[InstanceSummary]:
    """Return what each instance did; one that a plan has taken away may still have had tuples."""
    served, nodes = stretch.served[name], stretch.nodes[name]
    count = len(nodes)
    emitted, job = tuples.emitted(name), stretch.layout.topology
    sent = np.ones(len(served)) if emitted is None else emitted[served.rows].astype(np.float64)
    taken_over = np.zeros(count, dtype=np.int64)
    if name in stretch.moves:
        found = stretch.moves[name].taken_over
        taken_over[: len(found)] = found
    state = state_by_instance(stretch.layout, name, tuples, seen, count)
    columns = zip(
        range(count),
        nodes,
        np.bincount(served.instances, minlength=count).tolist(),
        np.bincount(served.instances, sent, count).astype(np.int64).tolist(),
        np.bincount(served.instances, served.ended - served.started, count).tolist(),
        np.bincount(served.instances, served.walls, count).tolist(),
        stretch.shipping[name].tolist(),
        stretch.receiving[name].tolist(),
        taken_over.tolist(),
        _remote(stretch, tuples, job.inputs(name), "instances", count),
        _remote(stretch, tuples, job.outputs(name), "senders", count),
        [None] * count if state is None else state.tolist(),
        strict=True,
    )
    return [
        InstanceSummary(
            name,
            number,
            node,
            taken,
            out,
            seconds,
            shipped,
            keys,
            receiving=received,
            wall=wall,
            remote_in=came,
            remote_out=went,
            state_bytes=held,
        )
        for number, node, taken, out, seconds, wall, shipped, received, keys, came, went, held in (
            columns
        )
    ]


def _remote(
    stretch: Stretch, tuples: Tuples, edges: Sequence[Edge], end: str, count: int
) -> list[float]:
    """Return how large the tuples of edges were that left their node, by the instance at an end."""
    total = np.zeros(count)
    for edge in edges:
        sent = stretch.sent[edge.name]
        sizes = tuples.sizes[sent.rows] * ~sent.local
        total += np.bincount(getattr(sent, end), sizes, count)
    return total.tolist()
