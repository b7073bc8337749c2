"""The files of all state after a batch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from optimizers.runtime.state.file import StateFile
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.runtime.task.reports import TaskReport
    from optimizers.runtime.work import StateFiles


def state_after(
    topology: Topology, before: "StateFiles", reports: Iterable["TaskReport"]
) -> "StateFiles":
    """Return the files of all state after a batch: those reported, else as they were.

    Args:
        topology: the job as it ran.
        before: the state that the batch began with.
        reports: what its tasks report.
    """
    written = {
        (report.operator, report.instance): report.state
        for report in reports
        if report.state is not None
    }
    found: dict[str, tuple[tuple[StateFile, ...], ...]] = {}
    for operator in topology.operators:
        if operator.keyed:
            name, known = operator.name, before.get(operator.name, ())
            found[name] = tuple(
                written.get((name, number), known[number] if number < len(known) else ())
                for number in range(operator.parallelism)
            )
    return found
