"""The tasks of one stage of a batch, and what each has to do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.layout import Layout
from optimizers.simulation.rows import Arrivals, Served
from sketches.arrays import Floats


@dataclass(frozen=True, eq=False)
class Share:
    """What the instances of an operator do in their tasks.

    Attributes:
        name: the operator.
        queue: the tuples that they get, those of one instance together.
        seconds: how long each of these takes its task.
        work: how many CPU seconds the operator's own work on it takes.
        walls: how many seconds that takes by the clock.
        rows: by how many tuples each counts, more than one where instances are slow.
    """

    name: str
    queue: Arrivals
    seconds: Floats
    work: Floats
    walls: Floats
    rows: Floats

    def served(self, arrived: float, first: Floats | None = None) -> Served:
        """Return the tuples as instances work on them, one after the other.

        Args:
            arrived: when those came that do not come from outside.
            first: when each instance begins; None where no one asks.
        """
        queue = self.queue
        ended = np.cumsum(self.seconds)
        if first is not None and len(queue):
            heads = np.searchsorted(queue.instances, queue.instances)
            ended += first[queue.instances] - (ended - self.seconds)[heads]
        came = np.where(queue.edges < 0, queue.times, arrived)
        began = ended - self.work
        return Served(queue.rows, queue.instances, queue.edges, came, began, ended, self.walls)


class Tasks:
    """The tasks of a stage: the instances of the operators that have it for their own.

    What an operator without a stage of its own does, it does in the tasks of the one that feeds it.

    Args:
        names: the operators of the stage, in the order of the job.
        layout: the job as it is laid out.
        numbers: the number of each node.

    Attributes:
        nodes: the node of each task.
        seconds: how long each has to work.
        work: how much of that is operators' own work.
        rows: how many tuples it takes in.
        waits: how long it waits for state.
    """

    def __init__(self, names: Sequence[str], layout: Layout, numbers: Mapping[str, int]) -> None:
        self._layout = layout
        self._spans: dict[str, slice] = {}
        self.nodes: list[int] = []
        for name in names:
            if name in layout.attached:
                self._spans[name] = self._spans[layout.topology.inputs(name)[0].source]
            else:
                homes = [numbers[node] for node in layout.homes[name].nodes]
                self._spans[name] = slice(len(self.nodes), len(self.nodes) + len(homes))
                self.nodes += homes
        each = (np.zeros(len(self.nodes)) for _ in range(4))
        self.seconds, self.work, self.rows, self.waits = each

    def wait(self, name: str, pauses: Floats) -> None:
        """Let the tasks of an operator wait for state."""
        for total in (self.seconds, self.waits):
            total[self._spans[name]] += pauses

    def add(self, share: Share) -> Floats:
        """Let tasks do what an operator has to do, and return what each has done before that."""
        span = self._spans[share.name]
        before: Floats = self.seconds[span].copy()
        for total, amounts in (
            (self.seconds, share.seconds),
            (self.work, share.work),
            (self.rows, share.rows),
        ):
            total[span] += np.bincount(share.queue.instances, amounts, len(before))
        return before

    def of(self, name: str, each: Floats) -> Floats:
        """Return those of some values of tasks that are of an operator's instances."""
        return each[self._spans[name]]

    def turns(self, cores: Mapping[int, float]) -> float:
        """Return how many tasks there are for a core, on the node that has most."""
        return max(count / cores[node] for node, count in Counter(self.nodes).items())
