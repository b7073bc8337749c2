"""The sequential reference: the results of a job that runs in one process, one instance each."""

import shutil
from collections.abc import Mapping, Sequence
from time import perf_counter

import pyarrow as pa

from optimizers.cluster import Cluster
from optimizers.plan import Plan
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.results import outputs_of, results_of
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology


class Reference:
    """The job done in this process by one instance of each operator, under one plan.

    Nothing is routed, moved or run twice, so any other execution must have these results. It does
    not apply to an operator whose result depends on the order of tuples from several senders (such
    as `Last` after another keyed operator). A ``partial`` operator emits parts of results elsewhere
    and whole results here: their keys are compared, and the results by the state.

    >>> import tempfile
    >>> job = Topology.source("words").then("count", key="word", parallelism=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reference = Reference(job, folder)
    ...     reference.execute({"words": pa.table({"word": ["to", "be", "to"]})})
    ...     sorted(reference.results("count").to_pylist(), key=lambda row: row["word"])
    [{'word': 'be', 'count': 1}, {'word': 'to', 'count': 2}]

    Args:
        topology: the job.
        folder: an empty folder for its state.
        keep_output: whether the job's output is kept.
    """

    def __init__(self, topology: Topology, folder: str, *, keep_output: bool = True) -> None:
        alone = Plan(parallelism={operator.name: 1 for operator in topology.operators})
        self._declared, self._folder, self._keep_output = topology, folder, keep_output
        self._topology = topology.under(alone)
        self._checkpoint = Checkpoint.create_or_open(Location(folder), self._topology, seed=0)
        self._coordinator = Coordinator(
            self._topology,
            Cluster.uniform(1),
            Fixed(Plan()),
            self._checkpoint,
            settings=Settings(keep_output=keep_output),
        )

    def execute(self, sources: Mapping[str, pa.Table]) -> None:
        """Do the next batch.

        Args:
            sources: the tuples of each source.
        """
        assignment = self._coordinator.assign()
        started = perf_counter()
        batches = {name: [table.to_batches()] for name, table in sources.items()}
        try:
            reports = run_batch(assignment.work, assignment.ticket, batches)
        except Exception as error:
            error.add_note("in the sequential reference, which runs before all variants")
            raise
        self._coordinator.commit(assignment, reports, perf_counter() - started)

    def outputs_of(self, pieces: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        """Do a batch piece by piece, and return the job's output, by operator."""
        left = dict[str, list[pa.Table]]()
        for piece in pieces:
            self.execute(piece)
            for name, table in self.outputs().items():
                left.setdefault(name, []).append(table)
        return {name: pa.concat_tables(tables) for name, tables in left.items()}

    def copied(self, folder: str) -> "Reference":
        """Return another one that goes on from here, with its state in a new folder.

        Args:
            folder: the folder.
        """
        shutil.copytree(self._folder, folder)
        return Reference(self._declared, folder, keep_output=self._keep_output)

    def results(self, operator: str) -> pa.Table:
        """Return a row for each key of an operator: the columns of its key, and its results."""
        return results_of(self._topology, operator, self._checkpoint.read(operator))

    def outputs(self) -> dict[str, pa.Table]:
        """Return the job's output of the last batch, by operator."""
        return outputs_of(self._checkpoint)
