"""How reports reach the driver: through a few tasks of each later stage, which merge them.

Reports travel with the parcels, so they take no stage of their own. They go through about as many
tasks of the next stage as the root of their number: a thousand reports through 32 tasks, so that
32 go on from there. Those of the last stage go to the driver as they are.
"""

from collections.abc import Iterator, Sequence
from math import isqrt

from optimizers.layout import Layout
from optimizers.runtime.observe.table_sums import added_up
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.task.reports import Reports

MERGED_FROM = 8
"""How many reports are merged at least. Of fewer, it would take more than it saves."""


def collector(layout: Layout, stage: int, sender: int) -> int:
    """Return the task of the stage after ``stage`` that the report of a sender goes through."""
    following = layout.stages[stage + 1 : stage + 2]
    if not following:
        return 0
    tasks = len(following[0])
    collectors = isqrt(tasks - 1) + 1
    return sender % collectors * tasks // collectors


def passed_on(layout: Layout, stage: int, reports: Sequence[Parcel]) -> Iterator[Parcel]:
    """Yield the reports that came to a task of a stage, for the next one; if many, as one.

    Args:
        layout: the job as laid out.
        stage: the stage that they came to.
        reports: the parcels, in any order.
    """
    if len(reports) < MERGED_FROM:
        for parcel in reports:
            yield parcel.through(collector(layout, stage, parcel.sender))
        return
    merged = Reports.merged(map(Reports.from_parcel, reports)).mapped(added_up)
    yield merged.to_parcel(collector(layout, stage, merged.names[0][1]))
