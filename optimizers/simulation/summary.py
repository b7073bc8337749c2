"""The summary of a batch of a simulated run: the stretch of it that one epoch is."""

from collections.abc import Mapping

import numpy as np

from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.simulation.observation import Epoch
from optimizers.simulation.tuples import Tuples
from sketches.arrays import Floats
from sketches.values import FrozenMap


def summary_of(
    epoch: Epoch, planned: int, until: float, tuples: Tuples, shipping: Mapping[str, Floats]
) -> BatchSummary:
    """Sum up what was executed in a stretch of a run.

    Args:
        epoch: what was executed.
        planned: the batch with which the plan in force came.
        until: when it ended.
        tuples: all tuples of the run.
        shipping: by operator, how many seconds each instance spent on sending in it.
    """
    return BatchSummary(
        epoch.number,
        planned,
        until - epoch.start,
        tuple(
            instance
            for name in sorted(epoch.served)
            for instance in _instances(epoch, name, tuples, shipping[name])
        ),
        FrozenMap({name: flow.statistics for name, flow in sorted(epoch.flows.items())}),
    )


def _instances(epoch: Epoch, name: str, tuples: Tuples, shipping: Floats) -> list[InstanceSummary]:
    """Return what each instance did; one that a plan has taken away may still have had tuples."""
    served, nodes = epoch.served[name], epoch.nodes[name]
    count = len(nodes)
    emitted = tuples.emitted(name)
    sent = np.ones(len(served)) if emitted is None else emitted[served.rows].astype(np.float64)
    taken_over = np.zeros(count, dtype=np.int64)
    if name in epoch.moves:
        found = epoch.moves[name].taken_over
        taken_over[: len(found)] = found
    columns = zip(
        nodes,
        np.bincount(served.instances, minlength=count).tolist(),
        np.bincount(served.instances, sent, count).astype(np.int64).tolist(),
        np.bincount(served.instances, served.ended - served.started, count).tolist(),
        shipping.tolist(),
        taken_over.tolist(),
        strict=True,
    )
    return [
        InstanceSummary(name, number, node, received, out, seconds, spent, keys)
        for number, (node, received, out, seconds, spent, keys) in enumerate(columns)
    ]
