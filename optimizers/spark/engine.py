"""The engine: runs a job on Spark under an optimizer, and changes its plan while it runs."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from optimizers.cluster import Cluster
from optimizers.control.engine import Engine
from optimizers.control.provisioning import Provisioner
from optimizers.control.settings import Asking
from optimizers.error_boundary import front_door
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.spark import checks
from optimizers.spark.hadoop import location_in
from optimizers.spark.harness import SparkHarness
from optimizers.spark.host_properties import Hosts
from optimizers.spark.outputs import OutputHandlers, Sinks
from optimizers.spark.replay import recorded
from optimizers.spark.run import Run
from optimizers.spark.session import local_session
from optimizers.spark.sized import Sized
from optimizers.spark.source_limits import limits_of_bounded, limits_of_streams
from optimizers.spark.sources import Sources, by_source, united
from optimizers.spark.streaming import StreamingRun
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology
from sketches.checks import seed as checked_seed
from sketches.checks import whole

__all__ = ["Run", "SparkEngine", "StreamingRun"]

Streams = Mapping[str, DataFrame | Sized] | DataFrame | Sized
"""The stream of each source, by its name; of the only source, alone."""


@dataclass(frozen=True, kw_only=True)
class SparkEngine(Asking):
    """Runs jobs on Spark.

    A micro-batch is one Spark job: tuples are let in and travel from stage to stage, to the
    instances that the plan says, and at the end the driver commits the reports of the tasks.
    Spark's own scheduler, retries and shuffles do the work; the plan decides which instance gets
    what. ``every``, ``drift``, ``meanwhile`` and ``remember`` say when the optimizer is asked, see
    `optimizers.control.settings.Asking`.

    Attributes:
        checkpoint: a folder on storage that driver and executors share: a path on one machine,
            or a URI such as ``"s3a://..."``. It holds the state and log of one job; a job that was
            stopped goes on where it was. Where Spark has another name for the folder than Python,
            give both: ``Location("/mnt/jobs", spark="abfss://...")``.
        spark: the session; by default the active one, or a new one on this machine.
        cluster: the machines that instances are placed on. A node named like an executor's
            host is that host, and its instances are pinned there; any other node is virtual. By
            default the hosts, or where there is but one, a node for each instance of the most
            parallel operator.
        hosts: what hosts cannot tell of themselves, by name: properties of their nodes, such as
            ``{"10.0.0.7": {"bandwidth": 1.25e9, "rack": "left"}}``; or a function of the name that
            returns such properties, or None. It counts before what is read of a host; hosts come
            and go as without it.
        provisioner: acquires nodes where a plan wants more, and gives back those that it drains:
            `SparkExecutors()`, or an object with its two methods. By default plans only advise.
        keep: the least number of batches whose state is kept, for readers while the job runs; files
            of earlier ones are removed now and then.
        seed: of the hashes of keys, for a new checkpoint; by default it draws one, so that no
            outsider knows which keys collide. Equal runs need equal seeds.
        settings: settings of tasks.
    """

    checkpoint: str | os.PathLike[str] | Location
    spark: SparkSession | None = None
    cluster: Cluster | None = None
    hosts: Hosts | None = None
    provisioner: Provisioner | None = None
    keep: int = 2
    seed: int | None = None
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "checkpoint", checks.check_checkpoint(self.checkpoint))
        object.__setattr__(self, "keep", whole("keep", self.keep, at_least=1))
        if self.seed is not None:
            object.__setattr__(self, "seed", checked_seed(self.seed))
        if self.spark is not None:
            checks.check_session(self.spark)
        if self.cluster is not None:
            checks.check_cluster(self.cluster)
        if self.hosts is not None:
            object.__setattr__(self, "hosts", checks.check_hosts(self.hosts, self.cluster))
        if self.provisioner is not None:
            checks.check_provisioner(self.provisioner, self.cluster)
        checks.check_settings(self.settings)

    @front_door
    def run(  # noqa: PLR0913
        self,
        topology: Topology,
        batches: Iterable[Sources] | Sources,
        optimizer: Optimizer | None = None,
        *,
        names: Iterable[str] | None = None,
        resume: bool = False,
        append: bool = False,
        each_batch: Sinks | None = None,
        each_aside: Sinks | None = None,
    ) -> "Run":
        """Run a job on bounded data, batch by batch, and return the run.

        The data is added to all that the job has had so far, from bounded data or streams. No batch
        counts twice: to go on after an interruption, or to add batches, give ``names`` or
        ``resume``.

        Args:
            topology: the job.
            batches: for each batch the rows of each source, by its name; where there is one
                source, its rows alone. One batch needs no list around it.
            optimizer: decides; without one, keys are routed by hash and nothing changes.
            names: the name of each batch. Those whose name is done on this checkpoint are skipped
                and listed in `Run.skipped`; all others run, in their order.
            resume: whether the batches begin with all bounded ones that are done on this
                checkpoint; those are skipped.
            append: whether those whose names are not done are further input, though batches
                without a name are done on this checkpoint, which may be any.
            each_batch: is called with the job's output of a batch, and its number. If several
                operators feed no other, a column ``operator`` names the row's operator; or give a
                mapping from operators to functions. A job that goes on first hands out the last
                done batch again, as that call may not have happened.
            each_aside: is called with the bad rows of operators with ``on_error="aside"`` in the
                same way: columns ``operator``, ``batch``, ``reason``, and the ``row`` as JSON.

        Raises:
            CheckpointError: bounded batches are done on this checkpoint, and neither ``names`` nor
                ``resume`` says whether these are others; or some are done without a name, and
                ``append`` does not say that those with new names are others.
        """
        checks.check_job(topology, optimizer)
        listed = checks.listed(batches)
        handlers = OutputHandlers(topology, each_batch, each_aside)
        handlers.check_taken()
        asked = optimizer or Fixed(Plan())
        limits = limits_of_bounded(topology.sources)
        run = Run(self, self._session(), topology, asked, handlers, limits=limits)
        try:
            run.work_through(listed, names=names, resume=resume, append=append)
        finally:
            run.rest()
        return run

    @front_door
    def start(  # noqa: PLR0913
        self,
        topology: Topology,
        streams: Streams,
        optimizer: Optimizer | None = None,
        *,
        each_batch: Sinks | None = None,
        each_aside: Sinks | None = None,
        trigger: Mapping[str, Any] | None = None,
        name: str | None = None,
        append: bool = False,
    ) -> "StreamingRun":
        """Start a job on streams, and return at once; the job goes on until it is stopped.

        The job may have had bounded data before, by `run`: the streams are added to that. If
        streams fed it before, it goes on where they were.

        Args:
            topology: the job.
            streams: the stream of each source, by its name; of the only source, alone. A plan
                can say how much is admitted of those that are `Sized`, or played back by `replay`.
            optimizer: decides; without one, keys are routed by hash and nothing changes.
            each_batch: is called with the job's output of a batch, and its number, as in `run`.
                It is called again with the last batch of the driver before.
            each_aside: is called with the bad rows that operators hand aside, as in `run`.
            trigger: how often, as `DataStreamWriter.trigger` takes it; by default without pause.
            name: of the query, in Spark's own reports.
            append: whether these streams are further input, though others fed the job before and
                Spark no longer knows how far they were read.

        Raises:
            CheckpointError: others fed the job before, and ``append`` is not given.
            PlanError: the plan in force sizes a source that is not `Sized`.
        """
        checks.check_job(topology, optimizer)
        handlers = OutputHandlers(topology, each_batch, each_aside)
        handlers.check_taken()
        given: dict[str, DataFrame | Sized] = by_source(topology, streams)
        checks.check_streams(given)
        if trigger is not None:
            checks.check_trigger(trigger)
        asked = optimizer or Fixed(Plan())
        limits = limits_of_streams(given)
        run = Run(self, self._session(), topology, asked, handlers, limits=limits)

        def begin(batch: Callable[[DataFrame, int], None], rows: Mapping[str, int]) -> Any:
            frames = {
                source: stream.read(rows[source]) if isinstance(stream, Sized) else stream
                for source, stream in given.items()
            }
            checks.check_streams(frames)
            run.watch({source: frames[source] for source in topology.sources})
            writer = united(topology, frames).writeStream.foreachBatch(batch)
            writer = writer.option("checkpointLocation", run.spark_folder)
            if trigger:
                writer = writer.trigger(**trigger)
            if name:
                writer = writer.queryName(name)
            return writer.start()

        sized = {
            source: stream.rows for source, stream in given.items() if isinstance(stream, Sized)
        }
        with run.resting_on_errors():
            run.begin_stream(append=append)
            # One batch only is never followed by another.
            return StreamingRun(run, begin, sized, again=not (trigger or {}).get("once"))

    @front_door
    def replay(self, source: str, tuples: pa.Table, *, rows: int, partitions: int = 2) -> DataFrame:
        """Return recorded tuples of a source as a stream whose batches a plan can size.

        A plan's admission of this source applies from the next batch that is cut.

        Args:
            source: the name of the source in the job.
            tuples: the tuples, in their order.
            rows: how many are let in at once, until a plan says otherwise.
            partitions: in how many partitions they come.
        """
        session = self._session()
        location = location_in(session, self.checkpoint)
        return recorded(session, location, source, tuples, rows=rows, partitions=partitions)

    def harness(self, topology: Topology) -> SparkHarness:
        """Return the setting of a comparison of optimizers on a job; see `compare`."""
        return SparkHarness(replace(self, spark=self._session()), topology)

    def _session(self) -> SparkSession:
        if self.spark is None:
            return local_session()
        checks.check_running(self.spark)  # it may have been stopped since
        return self.spark


if TYPE_CHECKING:
    _ENGINE: type[Engine] = SparkEngine  # which it fulfils
