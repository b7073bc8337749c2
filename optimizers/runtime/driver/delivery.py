"""Whether all that was sent has arrived, and every task has said what it did."""

import numpy as np

from optimizers.errors import DeliveryError
from optimizers.layout import Layout
from optimizers.runtime.task.flows import CHECKED, FLOW, Flows, codes_of
from optimizers.runtime.task.reports import Reports
from sketches.arrays import Integers

_SHOWN = 12  # numbers of tasks in a message


def check_delivery(reports: Reports, layout: Layout) -> None:
    """Refuse a batch in which not every parcel that was sent was received, once and whole.

    Nor one that not every instance reports of, once: what an instance has done that neither sent
    nor received anything, such as to take keys over, would be forgotten or be counted twice.

    A lost machine can make Spark run a task again after some of its parcels were read already.
    Where its tuples then come in another order, say from a source that has none, parcels of the
    two runs do not fit together, and tuples would be lost or doubled unseen.

    Raises:
        DeliveryError: what was received is not what was sent.
    """
    _check_complete(reports, layout)
    codes = np.union1d(codes_of(reports.sent), codes_of(reports.received))
    sent, received = _at(codes, reports.sent), _at(codes, reports.received)
    same = np.logical_and.reduce([sent[name] == received[name] for name in CHECKED])
    if not same.all():
        there, here = (flows[int(np.argmin(same))] for flows in (sent, received))
        code = int(codes[np.argmin(same)])
        raise DeliveryError(
            f"edge {layout.topology.edges[code >> 32]}: of {there['rows']} tuples in "
            f"{there['parcels']} parcels sent to instance {code & 0xFFFFFFFF}, {here['rows']} in "
            f"{here['parcels']} arrived, or others than were sent; the batch is not committed and "
            "has to run again"
        )


def _at(codes: Integers, flows: Flows) -> Flows:
    """Return the flow of each of these ends, nothing where there was none."""
    found = np.zeros(len(codes), dtype=FLOW)
    found[np.searchsorted(codes, codes_of(flows))] = flows
    return found


def _check_complete(reports: Reports, layout: Layout) -> None:
    """Refuse reports of which one is missing, comes twice, or is of no task that there is."""
    senders, instances = reports.numbers("sender"), reports.numbers("instance")
    none = np.empty(0, dtype=np.intp)
    tasks = {name: reports.tasks.get(name, none) for name in layout.topology.order}
    found = {name: np.sort(senders[mine]) for name, mine in tasks.items()}
    for name, mine in tasks.items():
        parallelism = layout.topology.operator(name).parallelism
        if layout.stage_of[name]:
            wanted = np.arange(parallelism)
        elif name in layout.attached:
            wanted = found[layout.topology.inputs(name)[0].source]
        else:
            # How many partitions a source has is not known; they are numbered in one go.
            wanted = np.arange(*found[name][[0, -1]] + [0, 1]) if len(found[name]) else found[name]
        if not np.array_equal(found[name], wanted):
            raise DeliveryError(
                f"tasks {_shown(found[name], wanted)} of operator {name!r} reported, and "
                f"{_shown(wanted, found[name])} had to, each once; the batch is not committed and "
                "has to run again"
            )
        if not np.array_equal(senders[mine] % parallelism, instances[mine]):
            raise DeliveryError(
                f"a task of operator {name!r} reports for an instance that is not its own; the "
                "batch is not committed and has to run again"
            )


def _shown(numbers: Integers, others: Integers) -> str:
    """Return numbers as a message shows them; of many, how they differ from others."""
    if len(numbers) <= _SHOWN:
        return str(numbers.tolist())
    unknown, absent = np.setdiff1d(numbers, others), np.setdiff1d(others, numbers)
    found, counts = np.unique(numbers, return_counts=True)
    differences = [
        f"{how} {', '.join(map(str, those[:_SHOWN].tolist()))}{' ...' * (len(those) > _SHOWN)}"
        for how, those in (("with", unknown), ("without", absent), ("twice", found[counts > 1]))
        if len(those)
    ]
    return f"{found[0]} to {found[-1]}" + f" ({'; '.join(differences)})" * bool(differences)
