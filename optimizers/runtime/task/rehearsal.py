"""Parts of a batch that were folded once more: unpacked, and sent nowhere, to time that too."""

import time
from collections import deque
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from optimizers.layout import Instance
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.task.arrow_tables import joined
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.keyed import Tried
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.task.parcels import checksum, packed
from optimizers.runtime.work import JobContext

_MOST = 16  # parcels that are packed for it

Sender: TypeAlias = tuple[JobContext, Instance, int, Attempt, str]
"""The job, the instance, the number of its parcels, its attempt, and where it runs."""


def rehearse(tried: Tried, parcels: int, outbox: Outbox | None, sender: Sender) -> None:
    """Add to the seconds of a part that was tried what it takes to check, unpack and send it.

    Args:
        tried: the part.
        parcels: in how many parcels all tuples came.
        outbox: through which the instance sends.
        sender: who would send.
    """
    # 1. Out of as many parcels as there were, but not very many.
    cut = max(1, min(parcels, _MOST))
    whole = tried.tuples.combine_chunks()
    ends = [len(whole) * place // cut for place in range(cut + 1)]
    bodies = [
        packed(batch)
        for start, end in pairwise(ends)
        for batch in whole.slice(start, end - start).to_batches()
    ]
    started = time.process_time()
    for body in bodies:
        checksum(body)
    joined([pa.ipc.open_stream(body).read_all() for body in bodies], "a part")
    tried.seconds += (time.process_time() - started) * max(1.0, parcels / max(1, len(bodies)))
    # 2. To all that it would go to.
    if outbox is None or tried.emitted is None:
        return
    work, instance, number, attempt, place = sender
    bad = BadRows(work.location, attempt)  # counted already, and never written
    box = Outbox(work, outbox.edges, instance, number, bad, place=place)
    started = time.process_time()
    first = 0
    for batch in tried.emitted.to_batches():
        last = first + len(batch)
        deque(box.send(batch, None if tried.groups is None else tried.groups[first:last]), maxlen=0)
        first = last
    deque(box.finish(), maxlen=0)
    tried.seconds += time.process_time() - started
