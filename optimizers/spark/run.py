"""One job as it runs on Spark, batch by batch."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from optimizers.errors import CheckpointError, DeliveryError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.checkpoint import Checkpoint
from optimizers.runtime.coordinator import Assignment, Coordinator
from optimizers.runtime.history import Totals
from optimizers.runtime.layout import Layout
from optimizers.runtime.mark import SPARK
from optimizers.runtime.parcels import REPORT, from_batches
from optimizers.runtime.reports import TaskReport
from optimizers.runtime.results import results_of
from optimizers.runtime.summary import BatchSummary, Decision
from optimizers.runtime.work import Work
from optimizers.spark.checks import check_batch, warn_of_many_instances
from optimizers.spark.cores import tasks_at_once
from optimizers.spark.failures import told_as_ours
from optimizers.spark.hadoop import location_in
from optimizers.spark.hush import hushed
from optimizers.spark.leaving import Leaving, left_in
from optimizers.spark.machines import Machines
from optimizers.spark.replay import admit
from optimizers.spark.sharing import Sharing
from optimizers.spark.shipping import ship
from optimizers.spark.sources import Sources, by_source
from optimizers.spark.tasks import COLUMNS, SharedWork, SourceTask, StageTask
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.spark.engine import SparkEngine

_ATTEMPTS = 3

_LOG = logging.getLogger(__name__)


class Run:
    """One job as it runs, and what has happened so far.

    Args:
        engine: how it is run.
        session: by which session.
        topology: the job.
        optimizer: who decides.
        leaving: who gets what leaves the job; None where that is not handed out.
    """

    def __init__(
        self,
        engine: "SparkEngine",
        session: SparkSession,
        topology: Topology,
        optimizer: Optimizer,
        leaving: Leaving | None = None,
    ) -> None:
        self._session = session
        self._topology = topology
        self._leaving = leaving
        location = location_in(session, engine.checkpoint)
        self._checkpoint = Checkpoint.create_or_open(location, topology)
        location.check_fence()
        self._machines = Machines(session, topology, engine.cluster)
        self._coordinator = Coordinator(
            topology,
            self._machines.look,
            optimizer,
            self._checkpoint,
            every=engine.every,
            drift=engine.drift,
            meanwhile=engine.meanwhile,
            remember=engine.remember,
            settings=replace(engine.settings, sharing=tasks_at_once(session)),
        )
        self._sharing = Sharing(session.sparkContext)
        warn_of_many_instances(topology, session.sparkContext.defaultParallelism)
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
    def spark_folder(self) -> str:
        """Where Spark keeps its own memory of the job, as Spark calls it."""
        return self._checkpoint.location.spark_path_of(SPARK)

    @property
    def layout(self) -> Layout:
        """The job as the plan in force lays it out."""
        return self._coordinator.layout

    def state(self, operator: str) -> pa.Table:
        """Return the state of a keyed operator as the last batch left it: keys and results."""
        return results_of(self._topology, operator, self._checkpoint.read(operator))

    def rest(self) -> None:
        """Give back what Spark keeps for this run; with the next batch it is taken again."""
        self._sharing.end()
        self._machines.rest()

    def execute(self, sources: Sources) -> None:
        """Run the next batch.

        Args:
            sources: the rows of each source.

        Raises:
            DeliveryError: tuples were lost on their way, several times in a row.
        """
        frames = by_source(self._topology, sources)
        check_batch(frames)
        assignment = self._assign()
        self._execute(
            assignment,
            [
                frame.mapInArrow(self._source_task(assignment, (source,)), COLUMNS)
                for source, frame in frames.items()
            ],
        )
        self.hand_out(assignment.ticket.batch)

    def admitted(self, otherwise: Mapping[str, int]) -> dict[str, int]:
        """Return how many tuples sources are to let in from the next batch on.

        The plan of that batch is written down with it.

        Args:
            otherwise: the sources, and their numbers where the plan says nothing.
        """
        if not otherwise:
            return {}
        plan = self._coordinator.assign().plan
        return {source: plan.batch.get(source, rows) for source, rows in otherwise.items()}

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
        if self._leaving is None or commit is None or commit.batch != number:
            return
        read = partial(left_in, self._session, self._checkpoint.location)
        self._leaving.hand_out(read, commit.outputs, number)

    def _assign(self) -> Assignment:
        """Return what is to be done next, having told recorded sources what to let in from now."""
        assignment = self._coordinator.assign()
        if assignment.ticket.first:
            self._machines.forget_others(assignment.work.layout)
            for source in self._topology.sources:
                if source in assignment.plan.batch:
                    admit(self._checkpoint.location, source, assignment.plan.batch[source])
        return assignment

    def _source_task(self, assignment: Assignment, sources: tuple[str, ...]) -> SourceTask:
        return SourceTask(
            self._share(assignment.work), self._sharing.ticket(assignment.ticket), sources
        )

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
        shared, ticket = self._share(assignment.work), self._sharing.ticket(assignment.ticket)
        layout = assignment.work.layout
        for stage, tasks in list(enumerate(layout.stages))[1:]:
            arriving = parcels.repartition(len(tasks), "task")
            arriving = self._machines.held(arriving, layout, stage)
            parcels = arriving.mapInArrow(StageTask(shared, ticket, stage), COLUMNS)
        with hushed(self._session), told_as_ours():
            arrived = from_batches(parcels.toArrow().to_batches())
        return [TaskReport.from_parcel(parcel) for parcel in arrived if parcel.edge == REPORT]

    def _share(self, work: Work) -> SharedWork:
        """Return the work as executors get it, once for each plan."""
        return self._sharing.of(work)
