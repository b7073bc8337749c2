"""The parcels of an edge in a batch: a sender packs its tuples for each instance apart."""

import numpy as np

from optimizers.simulation.rows import Shipments


def parcels(sent: Shipments, size: int, at_once: int) -> int:
    """Return how many parcels an edge's tuples come in.

    >>> rows, times = np.arange(5), np.zeros(5)
    >>> sent = Shipments(rows, np.array([0, 0, 0, 0, 1]), np.array([7, 7, 7, 8, 7]), times, times)
    >>> parcels(sent, size=2, at_once=100), parcels(sent, size=2, at_once=2)
    (4, 4)

    Args:
        sent: the tuples, those of each sender in their order.
        size: how many tuples are in a parcel, at most.
        at_once: how many tuples a sender packs at a time.
    """
    order = np.argsort(sent.senders, kind="stable")
    senders, instances = sent.senders[order], sent.instances[order]
    first = np.searchsorted(senders, senders)
    packs = (np.arange(len(order)) - first) // at_once
    counts = np.unique(np.stack([senders, packs, instances]), axis=1, return_counts=True)[1]
    return int((-(-counts // size)).sum())
