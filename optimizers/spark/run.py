"""One job as it runs on Spark, batch by batch."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from optimizers.cluster import Cluster
from optimizers.control.checking import EngineLimits
from optimizers.control.decision import Decision
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.history import Totals
from optimizers.control.plan_outline import PlanOutline
from optimizers.control.provisioning import Provisioning
from optimizers.control.run_summary import RunSummary
from optimizers.control.settings import Asking
from optimizers.control.summary import BatchSummary
from optimizers.error_boundary import front_door
from optimizers.errors import CheckpointError, DeliveryError
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.driver.assignment import Assignment
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.mark import SPARK
from optimizers.runtime.log.origins import Bounded, OfStream, Origin, Progress
from optimizers.runtime.log.presence import Presence
from optimizers.runtime.results import outputs_of, results_of
from optimizers.runtime.task.parcels import REPORT, from_batches
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import JobContext
from optimizers.spark.bounded import to_be_run
from optimizers.spark.broadcasts import Broadcasts
from optimizers.spark.checks import check_batch, warn_of_many_instances
from optimizers.spark.cores import tasks_at_once
from optimizers.spark.cutting import CutBatch, sliced
from optimizers.spark.hadoop import location_in
from optimizers.spark.machines import Machines
from optimizers.spark.muted_logs import muted
from optimizers.spark.outputs import OutputHandlers, left_in
from optimizers.spark.query_log import arrived, begun_at, is_noted, query_at
from optimizers.spark.replay import admit
from optimizers.spark.shipping import ship
from optimizers.spark.source_limits import check_in_force
from optimizers.spark.source_meters import last_progress, meters_of
from optimizers.spark.sources import Sources, by_source
from optimizers.spark.stage_clock import Begun, Watch
from optimizers.spark.task_errors import as_penstock_errors
from optimizers.spark.tasks import COLUMNS, SharedWork, SourceTask, StageTask, as_tasks_have
from optimizers.spark.triggers import Triggers
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.spark.engine import SparkEngine

_ATTEMPTS = 3

_LOG = logging.getLogger(__name__)


class Run:
    """One job as it runs, and its history.

    Args:
        engine: runs it.
        session: the session.
        topology: the job.
        optimizer: decides what changes.
        handlers: the functions that get the job's output; None where it is not handed out.
        limits: what plans cannot ask of the sources.

    Attributes:
        skipped: the bounded batches that were given and not run, as they were done already: their
            names, or else their places.
    """

    def __init__(  # noqa: PLR0913
        self,
        engine: "SparkEngine",
        session: SparkSession,
        topology: Topology,
        optimizer: Optimizer,
        handlers: OutputHandlers | None = None,
        *,
        limits: EngineLimits | None = None,
    ) -> None:
        self._session = session
        self._topology = topology
        self._handlers = handlers
        location = location_in(session, engine.checkpoint)
        self._checkpoint = Checkpoint.create_or_open(location, topology, seed=engine.seed)
        location.check_fence()
        self._machines = Machines(session, topology, engine.cluster, engine.hosts)
        self.skipped: list[str] = []
        self._append = False
        self._is_watched = False
        self._query: str | None = None  # the id of the query of Spark that drives it
        self._triggers = Triggers()
        self._handed: int | None = None  # the last batch that this run has handed out
        self._watch = Watch(session)
        self._broadcasts = Broadcasts(session.sparkContext, self._checkpoint.mark.name)
        warn_of_many_instances(topology, session.sparkContext.defaultParallelism)
        ship(session.sparkContext)
        self._presence = Presence(self._checkpoint)
        with self.resting_on_errors():
            # The coordinator reads which files the state is in, and they must stay from then on.
            self._presence.begin()
            self._coordinator = Coordinator(
                topology,
                self._machines.look,
                optimizer,
                self._checkpoint,
                asking=Asking.of(engine),
                keep=engine.keep,
                settings=replace(engine.settings, sharing=tasks_at_once(session)),
                limits=limits,
                provisioning=Provisioning(engine.provisioner),
                slots=lambda: self._machines.slots,
            )
            check_in_force(self._coordinator.next_plan, limits)

    @property
    def next_batch(self) -> int:
        """The batch that has to be run next."""
        return self._coordinator.next_batch

    @property
    def progress(self) -> Progress:
        """How far each input of the job has come."""
        return self._coordinator.progress

    @property
    def batches(self) -> list[BatchSummary]:
        """Summaries of the last batches since this run began."""
        return self._coordinator.batches

    @property
    def plans(self) -> list[Plan | PlanOutline]:
        """The plan of each of `batches`: the last plan whole, those before it in outline."""
        return self._coordinator.plans

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions since this run began."""
        return self._coordinator.decisions

    @property
    def epochs(self) -> tuple[EpochFacts, ...]:
        """The facts of the last epochs that are over, and the decision at the end of each."""
        return self._coordinator.epochs

    @property
    def totals(self) -> Totals:
        """Sums over all batches and decisions since this run began."""
        return self._coordinator.totals

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._coordinator.plan

    @property
    def cluster(self) -> Cluster:
        """The machines that were there after the last batch, as the plan in force has them."""
        return self._coordinator.cluster

    @property
    def spark_folder(self) -> str:
        """The folder of Spark's own records of the job, by Spark's name."""
        return self._checkpoint.location.spark_path_of(SPARK)

    @property
    def layout(self) -> Layout:
        """The job as the plan in force lays it out."""
        return self._coordinator.layout

    @property
    def summary(self) -> RunSummary:
        """The summary of the last batches, as on any engine: a table, and a JSON document."""
        return RunSummary.of(self)

    @front_door
    def state(self, operator: str) -> pa.Table:
        """Return the state of a keyed operator as the last batch left it: keys and results."""
        return results_of(self._topology, operator, self._checkpoint.read(operator))

    @front_door
    def outputs(self) -> dict[str, pa.Table]:
        """Return the job's output of the last batch, by operator."""
        return outputs_of(self._checkpoint)

    def rest(self) -> None:
        """Release what Spark keeps for this run; the next batch takes it again."""
        self._broadcasts.end()
        self._machines.rest()
        self._presence.end()

    @contextmanager
    def resting_on_errors(self) -> Iterator[None]:
        """Rest if it cannot begin, as a driver that has not begun keeps no other away."""
        try:
            yield
        except BaseException:
            self.rest()
            raise

    @front_door
    def execute(self, sources: Sources, name: str | None = None) -> None:
        """Run the next batch; where a plan admits less of a source, piece by piece.

        Args:
            sources: the rows of each source.
            name: the name of the batch, if it has one.

        Raises:
            DeliveryError: tuples were lost on their way, several times in a row.
        """
        for _ in self.pieces(sources, name):
            pass

    def pieces(
        self, sources: Sources, name: str | None = None
    ) -> Iterator[Mapping[str, pa.Table] | None]:
        """Run the next batch, and yield after each piece its rows; None for a whole batch.

        A batch is cut where a plan admits less of a source; its rows are brought to the driver for
        that.
        """
        frames = by_source(self._topology, sources)
        check_batch(frames)
        if not self.cuts:
            self._execute_frames(frames, Bounded(name), self._watch.begin())
            self.hand_out()
            yield None
            return
        begun, since = self._watch.begin(), time.perf_counter()
        progress = self.progress
        location = self._checkpoint.location
        batch = CutBatch(location, progress.bounded, frames, progress.begun, name)
        while True:
            piece = batch.take(self._coordinator.next_plan.admit)
            given = {}
            for source, table in piece.items():
                chunks = sliced(table, self._topology.operator(source).parallelism)
                given[source] = self._session.createDataFrame(chunks, frames[source].schema)
            self._execute_frames(given, batch.origin, begun, time.perf_counter() - since)
            self.hand_out()
            yield piece
            if batch.is_done:
                break
            begun, since = self._watch.begin(), time.perf_counter()
        batch.forget()

    @property
    def cuts(self) -> bool:
        """Whether the next batch of bounded data is cut."""
        return bool(self._coordinator.next_plan.admit) or self.progress.begun is not None

    def _execute_frames(
        self, frames: Mapping[str, DataFrame], origin: Origin, begun: Begun, cutting: float = 0.0
    ) -> None:
        """Run a batch of these rows.

        Args:
            frames: the rows of each source.
            origin: where they are from.
            begun: when the batch was begun.
            cutting: seconds that it took to record and cut it.
        """
        assignment = self._assign()
        tasks = {source: self._source_task(assignment, (source,)) for source in frames}
        parcels = [frame.mapInArrow(tasks[name], COLUMNS) for name, frame in frames.items()]
        self._execute(assignment, begun, origin, parcels, cutting)

    def work_through(
        self,
        batches: Iterable[Sources],
        *,
        names: Iterable[str] | None,
        resume: bool,
        append: bool,
    ) -> None:
        """Run all batches that are not done yet; see `SparkEngine.run`."""
        left = to_be_run(
            batches,
            self.progress,
            names=names,
            resume=resume,
            append=append,
            skipped=self.skipped,
        )
        for sources, name in left:
            self.hand_out()  # the last batch of an earlier run, which may not have done so
            self.execute(sources, name)
        if self.skipped:
            self.hand_out()

    @property
    def period(self) -> float:
        """How many seconds there have to be between the beginnings of two batches, from now on."""
        return self._coordinator.next_plan.period or 0.0

    def paused(self, seconds: float) -> None:
        """Hear for how long the query was held back after the last batch."""
        self._triggers.paused(seconds)

    def admitted(self, otherwise: Mapping[str, int]) -> dict[str, int]:
        """Return how many tuples sources are to let in from the next batch on.

        Args:
            otherwise: the sources, and their numbers where the plan says nothing.
        """
        if not otherwise:
            return {}
        plan = self._coordinator.next_plan
        return {source: plan.admit.get(source, rows) for source, rows in otherwise.items()}

    def begin_stream(self, *, append: bool) -> None:
        """Refuse a stream whose rows would count twice, before any of them is read.

        Args:
            append: whether a stream of which the job knows nothing is further input.

        Raises:
            CheckpointError: another stream has fed the job, and its progress is gone.
        """
        self._append = append
        query = query_at(self._checkpoint.location)
        self.progress.check_query(query, append=append)
        last = self._coordinator.committed
        if last is not None and (query is None or getattr(last.origin, "query", None) != query):
            self.hand_out()  # Spark does not know this one, and will not replay it

    def watch(self, streams: Mapping[str, DataFrame]) -> None:
        """Watch what comes to the streams of a query from now on.

        Args:
            streams: the stream of each source.
        """
        if self._is_watched:
            return
        self._is_watched = True
        self._triggers.watch(last_progress(self._checkpoint.location, streams))
        location, commit = self._checkpoint.location, self._coordinator.committed
        last: tuple[str, ...] = ()
        if commit is not None and isinstance(commit.origin, OfStream):
            last = commit.origin.offsets if commit.origin.query == query_at(location) else ()
        self._coordinator.inflow.watch(*meters_of(location, streams), last)

    def execute_stream(self, batch: DataFrame, number: int) -> None:
        """Run a batch of a query: what `DataStreamWriter.foreachBatch` is given.

        The last batch of the query, if it comes again, is not run again, but handed out again.

        Raises:
            CheckpointError: rows would be lost, or count twice.
        """
        location = self._checkpoint.location
        if self._query is None:
            self._query = begun_at(location)
        origin, cut = arrived(location, self._query, number)
        self.progress.check_query(origin.query, append=self._append)
        if self.progress.is_next(origin):
            begun = self._watch.begin(self._triggers.before(number, cut, time.time()))
            assignment = self._assign()
            task = self._source_task(assignment, self._topology.sources)
            begun = self._execute(assignment, begun, origin, [batch.mapInArrow(task, COLUMNS)])
            self._triggers.after(number, cut, begun.wall, self.batches[-1].time)
        else:
            self._triggers.forget()
        last = self._coordinator.committed
        if last is not None and last.origin == origin:
            self.hand_out()

    def is_noted(self, number: int) -> bool:
        """Return whether Spark has recorded that a batch of its query is done."""
        return is_noted(self._checkpoint.location, number)

    def hand_out(self) -> None:
        """Hand out the job's output of the last batch, unless this run has done so before."""
        commit = self._coordinator.committed
        if self._handlers is None or commit is None or commit.batch == self._handed:
            return
        read = partial(left_in, self._session, self._checkpoint.location)
        self._handlers.hand_out(read, commit.outputs, commit.batch)
        self._handed = commit.batch

    def _assign(self) -> Assignment:
        """Return the next assignment, after setting how much recorded sources let in."""
        if self._presence.begin():
            self._coordinator.look_again()
        assignment = self._coordinator.assign()
        if assignment.ticket.first:
            self._machines.forget_others(assignment.work.layout)
            for source in self._topology.sources:
                if source in assignment.plan.admit:
                    admit(self._checkpoint.location, source, assignment.plan.admit[source])
        return assignment

    def _source_task(self, assignment: Assignment, sources: tuple[str, ...]) -> SourceTask:
        return SourceTask(
            self._share(assignment.work), self._broadcasts.ticket(assignment.ticket), sources
        )

    def _execute(
        self,
        assignment: Assignment,
        begun: Begun,
        origin: Origin,
        parcels: Sequence[DataFrame],
        cutting: float = 0.0,
    ) -> Begun:
        """Run a batch, again if tuples are lost; return when that was begun which it is done by."""
        for attempt in range(1, _ATTEMPTS + 1):
            begun = begun if attempt == 1 else self._watch.begin(begun.trigger)
            started = time.perf_counter()
            try:
                reports, brought = self._reports(assignment, reduce(DataFrame.unionAll, parcels))
                seconds = time.perf_counter() - started + cutting
                timing = partial(self._watch.read, begun, brought)
                self._coordinator.commit(assignment, reports, seconds, origin, timing)
            except DeliveryError as error:
                if attempt == _ATTEMPTS:
                    raise
                _LOG.warning("batch %d runs again: %s", assignment.ticket.batch, error)
            except CheckpointError:
                # Where files are missing because others rewrote the state, that is what to say.
                self._coordinator.check_newest()
                raise
            else:
                break
        self._presence.committed()
        return begun

    def _reports(self, assignment: Assignment, parcels: DataFrame) -> tuple[list[Reports], float]:
        """Run all tasks of a batch as one Spark job; return their reports, and when they came."""
        shared, ticket = self._share(assignment.work), self._broadcasts.ticket(assignment.ticket)
        layout = assignment.work.layout
        for stage, tasks in list(enumerate(layout.stages))[1:]:
            arriving = parcels.repartition(len(tasks), "task")
            arriving = self._machines.held(arriving, layout, stage)
            parcels = arriving.mapInArrow(StageTask(shared, ticket, stage), COLUMNS)
        with muted(self._session), as_penstock_errors():
            brought = parcels.toArrow().to_batches()
        at, arrived = time.time(), from_batches(map(as_tasks_have, brought))
        return [Reports.from_parcel(each) for each in arrived if each.edge == REPORT], at

    def _share(self, work: JobContext) -> SharedWork:
        """Return the work as executors get it, once for each plan."""
        return self._broadcasts.of(work)
