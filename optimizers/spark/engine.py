"""The engine: runs a job on Spark under an optimizer, and changes its plan while it runs."""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, functions

from optimizers.cluster import Cluster, Node
from optimizers.errors import CheckpointError, DeliveryError, TopologyError, UnknownNameError
from optimizers.fixed import Fixed
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.checkpoint import Checkpoint
from optimizers.runtime.coordinator import Assignment, Coordinator
from optimizers.runtime.files import Location
from optimizers.runtime.history import REMEMBERED, Totals
from optimizers.runtime.layout import Layout
from optimizers.runtime.parcels import REPORT, from_batches
from optimizers.runtime.reports import TaskReport
from optimizers.runtime.results import results_of
from optimizers.runtime.summary import BatchSummary, Decision
from optimizers.runtime.work import Settings, Work
from optimizers.spark.failures import told_as_ours
from optimizers.spark.leaving import left_in
from optimizers.spark.pinning import Pins, executor_hosts
from optimizers.spark.replay import admit, recorded
from optimizers.spark.session import local_session
from optimizers.spark.shipping import ship
from optimizers.spark.tasks import COLUMNS, SOURCE, SharedWork, SourceTask, StageTask, rows_of
from optimizers.topology import Topology

Sources = Mapping[str, DataFrame] | DataFrame

_ATTEMPTS = 3

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SparkEngine:
    """Runs jobs on Spark.

    A micro-batch is one Spark job: tuples are let in, travel from stage to stage to the instances
    that the plan says, and at the end the driver commits what the tasks report. Spark's own
    scheduler, retries and shuffles do the work; the plan decides who gets what.

    Attributes:
        checkpoint: a folder on storage that driver and executors share: a path on one machine,
            or a URI such as ``"hdfs://..."``. State and log of one job are kept there; a job that
            was stopped goes on where it was.
        spark: the session; by default the active one, or a new one on this machine.
        cluster: the machines that instances are placed on. Nodes called as hosts that executors
            run on are those hosts, and instances are held there; others are only thought of. By
            default the hosts, or where there is but one, a node for each instance of the most
            parallel operator.
        every: after how many micro-batches the optimizer is asked.
        drift: by how much the share of tuples that stay on their node may fall, between keyed
            operators, before the optimizer is asked earlier; None for never.
        remember: how many batches, and how many decisions, a run can tell of; of all there were
            it can tell the sums.
        settings: how tasks go about their work.
    """

    checkpoint: str
    spark: SparkSession | None = None
    cluster: Cluster | None = None
    every: int = 10
    drift: float | None = 0.1
    remember: int = REMEMBERED
    settings: Settings = field(default_factory=Settings)

    def run(
        self,
        topology: Topology,
        batches: Iterable[Sources] | Sources,
        optimizer: Optimizer | None = None,
        *,
        each_batch: Callable[[DataFrame, int], None] | None = None,
    ) -> "Run":
        """Run a job on bounded data, batch by batch, and return what happened.

        Batches that the checkpoint has already are not run again.

        Args:
            topology: the job.
            batches: for each batch the rows of each source, by its name; where there is one
                source, its rows alone. One batch needs no list around it.
            optimizer: who decides; without one, keys are routed by hash and nothing changes.
            each_batch: is called with what left the job in a batch, and its number. A job that
                goes on begins with the last batch that is done, for who knows whether it came
                to that.
        """
        run = Run(self, self._session(), topology, optimizer or Fixed(Plan()), each_batch)
        listed = [batches] if isinstance(batches, DataFrame | Mapping) else batches
        for number, sources in enumerate(listed):
            if number >= run.next_batch:
                run.execute(sources)
            elif number == run.next_batch - 1:
                run.hand_out(number)
        return run

    def start(  # noqa: PLR0913
        self,
        topology: Topology,
        streams: Sources,
        optimizer: Optimizer | None = None,
        *,
        each_batch: Callable[[DataFrame, int], None] | None = None,
        trigger: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> "StreamingRun":
        """Start a job on streams, and return at once; the job goes on until it is stopped.

        Args:
            topology: the job.
            streams: the stream of each source, by its name; of the only source, alone.
            optimizer: who decides; without one, keys are routed by hash and nothing changes.
            each_batch: is called with what left the job in a batch, and its number. After a
                crash it may be called again with the same batch.
            trigger: how often, as `DataStreamWriter.trigger` takes it; by default without pause.
            name: of the query, in Spark's own reports.
        """
        run = Run(self, self._session(), topology, optimizer or Fixed(Plan()), each_batch)
        frame = _united(topology, _by_source(topology, streams))
        writer = frame.writeStream.foreachBatch(run.execute_stream)
        writer = writer.option("checkpointLocation", f"{Location(self.checkpoint).root}/spark")
        if trigger:
            writer = writer.trigger(**trigger)
        if name:
            writer = writer.queryName(name)
        return StreamingRun(run, writer.start())

    def replay(self, source: str, tuples: pa.Table, *, rows: int, partitions: int = 2) -> DataFrame:
        """Return recorded tuples of a source as a stream whose batches a plan can size.

        What a plan says of ``batch`` for this source acts from the next batch on that it cuts.

        Args:
            source: the name of the source in the job.
            tuples: the tuples, in their order.
            rows: how many are let in at once, until a plan says otherwise.
            partitions: in how many partitions they come.
        """
        return recorded(
            self._session(), self.checkpoint, source, tuples, rows=rows, partitions=partitions
        )

    def _session(self) -> SparkSession:
        return self.spark or local_session()


class Run:
    """One job as it runs, and what has happened so far.

    Args:
        engine: how it is run.
        session: by which session.
        topology: the job.
        optimizer: who decides.
        each_batch: gets what leaves the job.
    """

    def __init__(
        self,
        engine: SparkEngine,
        session: SparkSession,
        topology: Topology,
        optimizer: Optimizer,
        each_batch: Callable[[DataFrame, int], None] | None,
    ) -> None:
        self._session = session
        self._topology = topology
        self._each_batch = each_batch
        self._checkpoint = Checkpoint.create_or_open(Location(engine.checkpoint), topology)
        hosts = executor_hosts(session)
        cluster = engine.cluster or _cluster_of(hosts, topology)
        self._pins = _pins(session, hosts, cluster)
        self._coordinator = Coordinator(
            topology,
            cluster,
            optimizer,
            self._checkpoint,
            every=engine.every,
            drift=engine.drift,
            remember=engine.remember,
            settings=engine.settings,
        )
        self._shared: tuple[Work, SharedWork] | None = None
        ship(session.sparkContext)

    @property
    def next_batch(self) -> int:
        """The batch that has to be run next."""
        return self._coordinator.next_batch

    @property
    def batches(self) -> list[BatchSummary]:
        """What happened in each of the last batches since this run began."""
        return self._coordinator.batches

    @property
    def decisions(self) -> list[Decision]:
        """What the optimizer said the last times it was asked since this run began."""
        return self._coordinator.decisions

    @property
    def totals(self) -> Totals:
        """Sums over all batches and decisions since this run began."""
        return self._coordinator.totals

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._coordinator.plan

    @property
    def layout(self) -> Layout:
        """The job as the plan in force lays it out."""
        return self._coordinator.layout

    def state(self, operator: str) -> pa.Table:
        """Return the state of a keyed operator as the last batch left it: keys and results."""
        return results_of(self._topology, operator, self._checkpoint.read(operator))

    def execute(self, sources: Sources) -> None:
        """Run the next batch.

        Args:
            sources: the rows of each source.

        Raises:
            DeliveryError: tuples were lost on their way, several times in a row.
        """
        frames = _by_source(self._topology, sources)
        assignment = self._assign()
        self._execute(
            assignment,
            [
                frame.mapInArrow(self._source_task(assignment, (source,)), COLUMNS)
                for source, frame in frames.items()
            ],
        )
        self.hand_out(assignment.ticket.batch)

    def execute_stream(self, batch: DataFrame, number: int) -> None:
        """Run a batch of a query: what `DataStreamWriter.foreachBatch` is given.

        A batch that is committed already is not run again, but handed out again.
        """
        if number >= self.next_batch:
            assignment = self._assign()
            if number != assignment.ticket.batch:
                raise CheckpointError(
                    f"batch {number} arrived and {assignment.ticket.batch} is next: the stream "
                    "and the state are not of one job; give it a new checkpoint"
                )
            task = self._source_task(assignment, self._topology.sources)
            self._execute(assignment, [batch.mapInArrow(task, COLUMNS)])
        self.hand_out(number)

    def hand_out(self, number: int) -> None:
        """Hand out what left the job in a batch, if it is the last that is done; perhaps again."""
        commit = self._coordinator.committed
        if self._each_batch is None or commit is None or commit.batch != number:
            return
        if commit.outputs:
            rows = left_in(self._session, self._checkpoint.location, commit.outputs)
            self._each_batch(rows, number)

    def _assign(self) -> Assignment:
        """Return what is to be done next, having told recorded sources what to let in from now."""
        assignment = self._coordinator.assign()
        if assignment.ticket.first:
            for source in self._topology.sources:
                if source in assignment.plan.batch:
                    admit(self._checkpoint.location, source, assignment.plan.batch[source])
        return assignment

    def _source_task(self, assignment: Assignment, sources: tuple[str, ...]) -> SourceTask:
        return SourceTask(self._share(assignment.work), assignment.ticket, sources)

    def _execute(self, assignment: Assignment, parcels: Sequence[DataFrame]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            started = time.perf_counter()
            try:
                reports = self._reports(assignment, reduce(DataFrame.unionAll, parcels))
                self._coordinator.commit(assignment, reports, time.perf_counter() - started)
            except DeliveryError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                break

    def _reports(self, assignment: Assignment, parcels: DataFrame) -> list[TaskReport]:
        """Run all tasks of a batch as one Spark job, and return what they report."""
        shared = self._share(assignment.work)
        layout = assignment.work.layout
        for stage, tasks in list(enumerate(layout.stages))[1:]:
            arriving = parcels.repartition(len(tasks), "task")
            if self._pins is not None:
                arriving = self._pins.held(arriving, [layout.node_of(task) for task in tasks])
            parcels = arriving.mapInArrow(StageTask(shared, assignment.ticket, stage), COLUMNS)
        with told_as_ours():
            arrived = from_batches(parcels.toArrow().to_batches())
        return [TaskReport.from_parcel(parcel) for parcel in arrived if parcel.edge == REPORT]

    def _share(self, work: Work) -> SharedWork:
        """Return the work as executors get it, once for each plan."""
        if self._shared is None or self._shared[0] is not work:
            if self._shared is not None:
                self._shared[1].pickled.unpersist()
            pickled = self._session.sparkContext.broadcast(_pickled(work))
            self._shared = work, SharedWork(secrets.token_hex(8), pickled)
        return self._shared[1]


class StreamingRun:
    """A job on streams that goes on in the background.

    Args:
        run: the job.
        query: the query of Spark that drives it.
    """

    def __init__(self, run: Run, query: Any) -> None:
        self.run = run
        self.query = query

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the job has ended, or so long; return whether it has.

        Raises:
            PenstockError: the job was ended by an error of ours.
            StreamingQueryException: it was ended by another.
        """
        with told_as_ours():
            return bool(self.query.awaitTermination(seconds))

    def stop(self) -> None:
        """Stop the job after the batch at hand; what is committed stays."""
        self.query.stop()


def _cluster_of(hosts: Mapping[str, Sequence[str]], topology: Topology) -> Cluster:
    """Return the hosts as a cluster, or one that is only thought of where there is but one."""
    if len(hosts) > 1:
        return Cluster(tuple(Node(host, float(len(names))) for host, names in hosts.items()))
    return Cluster.uniform(max(operator.parallelism for operator in topology.operators))


def _pins(
    session: SparkSession, hosts: dict[str, tuple[str, ...]], cluster: Cluster
) -> Pins | None:
    """Return what holds instances on their nodes, where there is a choice of hosts."""
    if len(hosts) < 2:
        return None
    if not any(node.name in hosts for node in cluster.nodes):
        _LOG.warning(
            "no node of %s is called as one of the hosts %s, so instances run anywhere; give the "
            "nodes the names of hosts, or leave the cluster out",
            [node.name for node in cluster.nodes],
            list(hosts),
        )
        return None
    return Pins(session, hosts)


def _by_source(topology: Topology, sources: Sources) -> dict[str, DataFrame]:
    """Return the rows of each source by its name, or say which is missing."""
    if isinstance(sources, DataFrame):
        if len(topology.sources) != 1:
            raise TopologyError(
                f"the job has sources {list(topology.sources)} and one DataFrame is given; "
                "give a dict with one for each"
            )
        return {topology.sources[0]: sources}
    for name in sources:
        if name not in topology.sources:
            raise UnknownNameError.among("source", name, topology.sources)
    missing = [name for name in topology.sources if name not in sources]
    if missing:
        raise TopologyError(f"source {missing[0]!r} has no rows; give it a DataFrame")
    return {name: sources[name] for name in topology.sources}


def _united(topology: Topology, streams: Mapping[str, DataFrame]) -> DataFrame:
    """Return several streams as one, for a query of Spark drives its batches by one."""
    if len(streams) == 1:
        return streams[topology.sources[0]]
    parts = (
        streams[name].select(
            functions.lit(number).alias(SOURCE), functions.struct("*").alias(rows_of(number))
        )
        for number, name in enumerate(topology.sources)
    )
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def _pickled(work: Work) -> bytes:
    """Return the work as bytes; functions of scripts and notebooks go by value."""
    data: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return data
