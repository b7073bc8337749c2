"""Whether senders know how many of the bytes they sent in a batch went to other hosts."""

import numpy as np

from optimizers.layout import Layout
from optimizers.runtime.task.flows import Flows, codes_of
from optimizers.runtime.task.reports import Reports


def unsure_senders(reports: Reports, layout: Layout) -> set[str]:
    """Return the operators of which it is not known how many bytes they sent to other hosts.

    A sender goes by the hosts that are planned for its targets, and by the host it runs on itself.
    So it may be wrong where a target ran on another host, or where the sender itself ran twice, on
    two hosts, because one was lost: some targets then received the parcels of the other run.
    Receivers always know, as each parcel says where it was sent from.

    Args:
        reports: what the tasks of a batch report, merged.
        layout: the job as it was laid out.
    """
    targets = _misplaced(reports, layout)
    edges = _told_otherwise(reports)
    return {
        edge.source
        for number, edge in enumerate(layout.topology.edges)
        if edge.target not in layout.attached and (edge.target in targets or number in edges)
    }


def _misplaced(reports: Reports, layout: Layout) -> set[str]:
    """Return the operators with an instance that did not run on the planned host."""
    if not reports.columns["host"].lengths.any():
        return set()  # nodes are virtual
    hosts, numbers = np.array(reports.hosts), reports.numbers("instance")
    planned = {name: np.array(layout.homes[name].nodes) for name in reports.tasks}
    return {
        name
        for name, tasks in reports.tasks.items()
        if (hosts[tasks] != planned[name][numbers[tasks]]).any()
    }


def _told_otherwise(reports: Reports) -> set[int]:
    """Return the edges on which receivers count other bytes as local than senders do."""
    sent, received = (_local(flows) for flows in (reports.sent, reports.received))
    return {code >> 32 for code, size in sent.items() if received.get(code) != size}


def _local(flows: Flows) -> dict[int, int]:
    """Return how many bytes of each flow were local, by the code of its ends."""
    return dict(zip(codes_of(flows).tolist(), flows["local_bytes"].tolist(), strict=True))
