"""What an engine is: it runs jobs under an optimizer, and tells what came of that.

Comparisons, reports and tables know engines by these protocols alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from optimizers.cluster import Cluster
from optimizers.control.decision import Decision
from optimizers.control.history import Totals
from optimizers.control.summary import BatchSummary
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.topology import Topology


class JobRun(Protocol):
    """A job that runs on an engine, or has run."""

    @property
    def batches(self) -> Sequence[BatchSummary]:
        """What happened in each of the last batches."""

    @property
    def decisions(self) -> Sequence[Decision]:
        """What the optimizer said the last times it was asked."""

    @property
    def totals(self) -> Totals:
        """Sums over all batches and decisions."""

    @property
    def plan(self) -> Plan:
        """The plan in force."""

    @property
    def layout(self) -> Layout:
        """The job as the plan in force lays it out."""

    @property
    def cluster(self) -> Cluster:
        """The machines that are there, as the plan in force has them."""


class Engine(Protocol):
    """Runs jobs."""

    def run(self, topology: Topology, source: Any, optimizer: Optimizer | None = None, /) -> JobRun:
        """Run a job on what its sources bring, under an optimizer.

        Args:
            topology: the job.
            source: the tuples of each source, as the engine takes them.
            optimizer: who decides; None for keys by hash.
        """

    def harness(self, topology: Topology) -> "Harness":
        """Return what a comparison of optimizers of a job is run with."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One batch that is recorded, so that every variant of a comparison gets the same.

    Attributes:
        tables: the tuples of each source, as Arrow tables or what else has a length.
        given: the same, as a trial of the engine takes them.
    """

    tables: Mapping[str, Any]
    given: Any


class Trial(Protocol):
    """One variant of a comparison as it runs."""

    @property
    def next_batch(self) -> int:
        """The batch that has to be executed next."""

    @property
    def decisions(self) -> Sequence[Decision]:
        """What the optimizer said."""

    @property
    def cuts(self) -> bool:
        """Whether the next batch is run in pieces, for a plan admits less of a source."""

    def execute(self, batch: Recording) -> Sequence[Mapping[str, Any]]:
        """Execute the next batch, and return the pieces that it was run in, one after the other."""

    def executed(self) -> Sequence[Sequence[BatchSummary]]:
        """Return what happened in the pieces of each batch that was given; nothing follows."""

    def outputs(self) -> Mapping[str, Any]:
        """Return what left the job in the last batch, by operator."""

    def state(self, operator: str) -> Any:
        """Return the results of all keys of an operator."""


class Harness(Protocol):
    """What a comparison is run with: the same batches for every variant, and a trial of each."""

    where: str
    """On what jobs are run."""
    nodes: int
    """On how many nodes."""
    imagined: bool
    """Whether the nodes are only thought of, on hosts that are others or one."""
    hosts: tuple[str, ...]
    """The nodes that are hosts, as jobs begin; none where all are thought of, or simulated."""
    computes: bool
    """Whether jobs are computed, so that there are results to be checked."""
    keeps_output: bool
    """Whether what leaves jobs is kept, so that it can be checked."""
    wanted: str
    """What the rows of a source have to be, in words."""

    def takes(self, rows: Any) -> bool:
        """Return whether these are the rows of one source."""

    def record(self, rows: Mapping[str, Any]) -> Recording:
        """Record a batch, given the rows of each source."""

    def begin(self, name: str, optimizer: Optimizer | None) -> Trial:
        """Begin a variant."""
