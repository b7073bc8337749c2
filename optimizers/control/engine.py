"""The protocols of engines: an engine runs jobs under an optimizer, and reports on them.

Comparisons, reports and tables know engines by these protocols alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from optimizers.cluster import Cluster
from optimizers.control.decision import Decision
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.history import Totals
from optimizers.control.plan_outline import PlanOutline
from optimizers.control.summary import BatchSummary
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.control.run_summary import RunSummary  # which sums up any `JobRun`


class JobRun(Protocol):
    """A job that runs on an engine, or has run.

    Engines that compute results have more, such as `outputs()` and `state()` of the run on Spark.
    """

    @property
    def batches(self) -> Sequence[BatchSummary]:
        """A summary of each of the last batches."""

    @property
    def plans(self) -> Sequence[Plan | PlanOutline]:
        """The plan that was in force in each of these batches.

        A job without an end keeps earlier ones in outline, as it does with decisions.
        """

    @property
    def decisions(self) -> Sequence[Decision]:
        """The last decisions."""

    @property
    def epochs(self) -> Sequence[EpochFacts]:
        """The facts of the last epochs that are over, and the decision at the end of each."""

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

    @property
    def summary(self) -> "RunSummary":
        """The summary of these batches: a table, and a JSON document."""


def check_engine(engine: Any) -> None:
    """Refuse anything but an engine that comparisons can be run on."""
    if isinstance(engine, type) or not callable(getattr(engine, "harness", None)):
        remedy = f"make one, by {engine.__name__}(...)" if isinstance(engine, type) else "give one"
        raise InvalidValueError(
            f"engine={engine!r} is not an engine; {remedy}, such as SparkEngine(checkpoint=...), "
            "or leave it out"
        )


class Engine(Protocol):
    """Runs jobs."""

    def run(self, topology: Topology, source: Any, optimizer: Optimizer | None = None, /) -> JobRun:
        """Run a job on the tuples of its sources, under an optimizer.

        Args:
            topology: the job.
            source: the tuples of each source, as the engine takes them.
            optimizer: decides what changes; None for keys by hash.
        """

    def harness(self, topology: Topology) -> "Harness":
        """Return the setting of a comparison of optimizers on a job."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One batch that is recorded, so that every variant of a comparison gets the same.

    Attributes:
        tables: the tuples of each source, as Arrow tables or anything else that has a length.
        given: the same tuples, in the form that the engine's trials take.
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
        """The optimizer's decisions."""

    @property
    def cuts(self) -> bool:
        """Whether the next batch runs in pieces, as a plan admits less of a source."""

    def execute(self, batch: Recording) -> Sequence[Mapping[str, Any]]:
        """Execute the next batch, and return the pieces that it was run in, one after the other."""

    @property
    def epochs(self) -> Sequence[EpochFacts]:
        """The facts of the last epochs that are over, once all batches were given."""

    def executed(self) -> Sequence[Sequence[BatchSummary]]:
        """Return summaries of the pieces of each batch, once all batches were given."""

    def outputs(self) -> Mapping[str, Any]:
        """Return the job's output of the last batch, by operator."""

    def state(self, operator: str) -> Any:
        """Return the results of all keys of an operator."""


class Harness(Protocol):
    """The setting of a comparison: the same batches for every variant, and a trial for each."""

    where: str
    """The engine that runs the jobs, in words."""
    nodes: int
    """The number of nodes."""
    imagined: bool
    """Whether the nodes are virtual, without hosts of their own."""
    hosts: tuple[str, ...]
    """The nodes that are hosts when jobs begin; empty where nodes are virtual or simulated."""
    computes: bool
    """Whether jobs are computed, so that their results can be checked."""
    keeps_output: bool
    """Whether the output of jobs is kept, so that it can be checked."""
    wanted: str
    """What the rows of a source have to be, in words."""

    def takes(self, rows: Any) -> bool:
        """Return whether these are the rows of one source."""

    def record(self, rows: Mapping[str, Any]) -> Recording:
        """Record a batch, given the rows of each source."""

    def begin(self, name: str, optimizer: Optimizer | None) -> Trial:
        """Begin a variant."""
