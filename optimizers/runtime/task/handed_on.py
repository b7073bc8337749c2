"""What an instance hands on within its task, to operators that are attached to it."""

import pyarrow as pa

from optimizers.folds.casting import bytes_in
from optimizers.layout import Instance
from optimizers.operators import Edge
from optimizers.runtime.observe.group_loads import BytesOut
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.work import JobContext
from optimizers.statistics import Probe
from sketches.arrays import Floats, Parts


class HandedOn:
    """Counts tuples that go on where they are; each of the edges carries all of them.

    Args:
        work: the job.
        edges: the edges to operators that are attached.
        instance: who hands them on.

    Attributes:
        sent: what was handed on.
    """

    def __init__(self, work: JobContext, edges: list[Edge], instance: Instance) -> None:
        operator = work.topology.operator(instance.operator)
        self.sent = FlowCounter()
        self._edges = [work.topology.edges.index(edge) for edge in edges]
        self._instance = instance.number
        counts = operator.keyed and Probe.GROUPS in work.settings.observes
        self._by_group = BytesOut(operator.key_groups) if counts else None

    def add(
        self, tuples: pa.RecordBatch, groups: Parts | None, received: list[FlowCounter]
    ) -> None:
        """Count tuples.

        Args:
            tuples: the tuples.
            groups: the key group that each is of at the operator that hands them on, where known.
            received: where those who get them count what they receive, in the order of the edges.
        """
        size = bytes_in(tuples)
        for edge, there in zip(self._edges, received, strict=True):
            for counter in (self.sent, there):
                counter.add_beside(edge, self._instance, len(tuples), size)
        if self._by_group is not None:
            self._by_group.add(pa.Table.from_batches([tuples]), groups, None)

    def group_sums(self) -> Floats | None:
        """Return by key group the bytes that were handed on, and those to other machines: none.

        None where the key group of some tuple is not known, or groups are not observed.
        """
        return None if self._by_group is None else self._by_group.sums(self.sent.bytes, 0)
