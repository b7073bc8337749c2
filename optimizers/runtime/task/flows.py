"""Flows: what was sent to each instance by each edge, or arrived there, added up.

Tuples travel in parcels, but for those to an operator that is attached: they stay in their task.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizers.runtime.task.parcels import Parcel

FLOW = np.dtype(
    [
        ("edge", np.int32),  # by its place in the topology
        ("instance", np.int32),  # of the edge's target
        ("parcels", np.int64),
        ("rows", np.int64),
        ("bytes", np.int64),
        ("digest", np.uint64),  # of all parcels; modulo 2^62
        ("local_rows", np.int64),  # of those from an instance on one machine with the target's
        ("local_bytes", np.int64),
    ]
)
"""One flow. Flows of equal ends and equal `CHECKED` were of the same parcels."""

CHECKED = ("parcels", "rows", "bytes", "digest")
"""What has to be the same of what was sent and what was received."""

Flows = NDArray[Any]
"""An array of `FLOW`, each edge and instance once, in this order."""

NO_FLOWS: Flows = np.empty(0, dtype=FLOW)
NO_FLOWS.setflags(write=False)

_DIGESTS = (1 << 62) - 1


class FlowCounter:
    """Counts parcels by edge and instance, and tuples that go on in their task.

    >>> counter = FlowCounter()
    >>> for number in range(3):
    ...     counter.add(Parcel(0, 4, 1, 7, number, rows=10, body=b"abc"))
    >>> counter.flows()[["edge", "instance", "parcels", "rows", "bytes"]].tolist()
    [(4, 1, 3, 30, 9)]
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], list[int]] = {}
        self.rows = self.bytes = self.local_bytes = 0

    def add(self, parcel: Parcel, *, local: bool = False, body: int | None = None) -> None:
        """Count one parcel more.

        Args:
            parcel: the parcel.
            local: whether it stays on its node.
            body: the checksum of its body, if that is known.
        """
        rows, size = parcel.rows, parcel.size
        self.rows += rows
        self.bytes += size
        self.local_bytes += size * local
        sums = self._sums.setdefault((parcel.edge, parcel.target), [0] * 6)
        sums[0] += 1
        sums[1] += rows
        sums[2] += size
        digest = parcel.digest if body is None else parcel.digest_with(body)
        sums[3] = (sums[3] + digest) & _DIGESTS
        if local:
            sums[4] += rows
            sums[5] += size

    def add_beside(self, edge: int, instance: int, rows: int, size: int) -> None:
        """Count tuples that go on in their task, without a parcel.

        Args:
            edge: the edge, by its place in the topology.
            instance: of the edge's target.
            rows: how many tuples there are.
            size: how many bytes they take.
        """
        self.rows += rows
        self.bytes += size
        self.local_bytes += size
        sums = self._sums.setdefault((edge, instance), [0] * 6)
        for place, amount in ((1, rows), (2, size), (4, rows), (5, size)):
            sums[place] += amount

    def flows(self) -> Flows:
        """Return what was counted."""
        rows = [(*ends, *sums) for ends, sums in sorted(self._sums.items())]
        return np.array(rows, dtype=FLOW)


def added_up(parts: Iterable[Flows]) -> Flows:
    """Return the sums of flows, each edge and instance once."""
    given = [part for part in parts if len(part)]
    if len(given) <= 1:
        return given[0] if given else NO_FLOWS
    flows = np.concatenate(given)
    codes = codes_of(flows)
    order = np.argsort(codes, kind="stable")
    flows, codes = flows[order], codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    sums = flows[starts]
    for name in FLOW.names[2:]:  # type: ignore[index]
        sums[name] = np.add.reduceat(flows[name], starts)
    sums["digest"] &= np.uint64(_DIGESTS)
    return sums


def codes_of(flows: Flows) -> NDArray[np.int64]:
    """Return a number for the ends of each flow, rising by edge and instance."""
    codes: NDArray[np.int64] = flows["edge"].astype(np.int64) << 32 | flows["instance"]
    return codes
