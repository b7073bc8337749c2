"""The files of all state after a batch."""

from typing import TYPE_CHECKING

from optimizers.runtime.state.file import StateFile
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.runtime.task.reports import Reports
    from optimizers.runtime.work import StateFiles


def state_after(topology: Topology, before: "StateFiles", reports: "Reports") -> "StateFiles":
    """Return the files of all state after a batch: earlier ones, and those that it wrote.

    Args:
        topology: the job as it ran.
        before: the state that the batch began with.
        reports: the reports of its tasks.
    """
    operators, instances = reports.texts("operator"), reports.numbers("instance").tolist()
    written: dict[tuple[str, int], StateFile] = {
        (operators[task], instances[task]): file for task, file in reports.documents("state")
    }
    found: dict[str, tuple[tuple[StateFile, ...], ...]] = {}
    for operator in topology.operators:
        if operator.keyed:
            name, known = operator.name, before.get(operator.name, ())
            chains = (*known, *[()] * (operator.parallelism - len(known)))
            found[name] = tuple(
                written[name, number].after(chain) if (name, number) in written else chain
                for number, chain in enumerate(chains[: operator.parallelism])
            )
    return found
