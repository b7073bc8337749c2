"""Parcels that arrived at a task: whose they are, where they go on to, and what is in them."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from optimizers.errors import DeliveryError, FoldError
from optimizers.layout import Instance
from optimizers.operators import columns_of
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.task.shared_parcels import in_order
from optimizers.runtime.work import JobContext


def check_address(work: JobContext, instance: Instance, parcel: Parcel) -> None:
    """Refuse a parcel for another instance: its sender would take it for delivered."""
    target = Instance(work.topology.edges[parcel.edge].target, parcel.target)
    if target != instance:
        raise _astray(parcel, target, f"came to {instance}")


def sent_on(work: JobContext, stage: int, parcel: Parcel) -> Parcel:
    """Return a parcel for a later stage, with the task of the next one that it goes through."""
    target = Instance(work.topology.edges[parcel.edge].target, parcel.target)
    if target.number >= work.topology.operator(target.operator).parallelism:
        raise _astray(parcel, target, "is for no instance")
    return parcel.through(work.layout.next_task(stage, target))


def _astray(parcel: Parcel, target: Instance, where: str) -> DeliveryError:
    return DeliveryError(
        f"parcel {parcel.number} of sender {parcel.sender} for {target} {where}; "
        "run the batch again, and report this if it comes back"
    )


def unpacked_parcels(
    work: JobContext, parcels: Sequence[Parcel]
) -> Iterator[tuple[Parcel, pa.Table]]:
    """Yield the tuples of parcels, each with a parcel that says where they are from."""
    if work.settings.shared_batches:
        unpacked = in_order(parcels)
    else:
        unpacked = ((parcel, parcel.tuples()) for parcel in parcels)
    for parcel, tuples in unpacked:
        yield parcel, _with_names(work, parcel, tuples)


def _with_names(work: JobContext, parcel: Parcel, tuples: pa.Table) -> pa.Table:
    """Return tuples with their keys named as the operator names them."""
    edge = work.topology.edges[parcel.edge]
    target = work.topology.operator(edge.target)
    if not target.keyed or edge.key is None:
        return tuples
    names = dict(zip(columns_of(edge.key), target.key_columns, strict=True))
    renamed = [names.get(name, name) for name in tuples.column_names]
    if len(set(renamed)) < len(renamed):
        raise FoldError(
            f"edge {edge}: its key {edge.key!r} becomes {target.key!r} at {target.name!r}, but its "
            f"tuples have such a column already: {tuples.column_names}; rename one"
        )
    return tuples.rename_columns(renamed)
