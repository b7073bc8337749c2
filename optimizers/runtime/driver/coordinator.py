"""The coordinator: leads a job from batch to batch, and from plan to plan.

It does not know where tasks run. Before a batch it hands out an assignment under a plan; after it,
it takes the reports, commits the batch and asks the optimizer what should change.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from grouping.owners import Handover, handover
from optimizers.cluster import Cluster
from optimizers.control.adoption import adopting_hops
from optimizers.control.checking import EngineLimits
from optimizers.control.decision import Decision
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.history import Totals
from optimizers.control.loop import Change, ControlLoop, Observed, Pasts
from optimizers.control.plan_outline import PlanOutline
from optimizers.control.provisioning import Provisioning
from optimizers.control.settings import Asking
from optimizers.control.summary import BatchSummary
from optimizers.errors import CheckpointError
from optimizers.execution import Execution
from optimizers.layout import Layout, completed
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.driver.assignment import Assignment
from optimizers.runtime.driver.collector import EpochCollector, pairs_of
from optimizers.runtime.driver.delivery import check_delivery
from optimizers.runtime.driver.inflow import Inflow
from optimizers.runtime.driver.learned import Learned
from optimizers.runtime.driver.redeclaring import redeclared
from optimizers.runtime.driver.summary import log_bad_rows, summary_of
from optimizers.runtime.driver.time_parts import Timing, time_of
from optimizers.runtime.log.checkpoint import Checkpoint, SavedPlan
from optimizers.runtime.log.origins import Bounded, Origin, Progress
from optimizers.runtime.log.records import Commit
from optimizers.runtime.state.files_after import state_after
from optimizers.runtime.state.schema import Columns, columns_after, key_types
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import (
    JobContext,
    Settings,
    StateFiles,
    Ticket,
    check_change,
    check_work,
)
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology
from sketches.checks import whole

_CLEANED_EVERY = 16  # batches; leftover files are harmless, so they are deleted in bulk


class Coordinator:
    """Leads one job.

    Args:
        topology: the job.
        cluster: the machines; or a function that returns those that are there, which is called at
            first, and before and after each batch.
        optimizer: decides.
        checkpoint: where state and the log are kept; the job goes on where that ends.
        asking: when it is asked, and how much is remembered.
        keep: the least number of batches whose state is kept.
        settings: settings of tasks; the optimizer decides what is observed.
        limits: what plans cannot ask of the sources.
        provisioning: gets the machines that plans want; by default plans only advise.
        slots: returns how many tasks run at a time on all machines; by default that is not known.

    Attributes:
        inflow: what comes to the sources, as far as that is watched.
    """

    def __init__(  # noqa: PLR0913
        self,
        topology: Topology,
        cluster: Cluster | Callable[[], Cluster],
        optimizer: Optimizer,
        checkpoint: Checkpoint,
        *,
        asking: Asking | None = None,
        keep: int = 2,
        settings: Settings | None = None,
        limits: EngineLimits | None = None,
        provisioning: Provisioning | None = None,
        slots: Callable[[], int | None] = lambda: None,
    ) -> None:
        topology = topology.seeded(checkpoint.seed)
        check_work(topology)
        self._topology = topology
        self._look = cluster if callable(cluster) else lambda: cluster
        self._slots = slots
        self._cluster = self._look()
        self._checkpoint = checkpoint
        self._loop = ControlLoop(
            topology, self._cluster, optimizer, asking or Asking(), provisioning
        )
        self._keep = whole("keep", keep, at_least=1)
        self._settings = replace(settings or Settings(), observes=optimizer.observes)
        self._learned = Learned()
        self.inflow = Inflow()
        self._columns: dict[str, Columns] = {}  # of state, by operator, as far as known
        self._committed = checkpoint.last_commit()
        self._base_limits = limits or EngineLimits()
        self._declared = {operator.name: operator.parallelism for operator in topology.operators}
        self._plan = completed(Plan(), topology, self._cluster)
        self._planned, self._plan_revision = 0, 0
        self._in_force: int | None = None  # the batch whose plan this coordinator put in force
        if self._committed is not None:
            known = checkpoint.plan_of(self._committed.batch)
            if known is not None:
                self._plan = self._fitted(known.plan)
                self._planned, self._plan_revision = known.number
        self._resumed = False  # whether plans of an earlier driver were looked for
        self._layout = Layout.of(topology, self._cluster, self._plan)
        self._work = self._work_under(self._layout, {})
        self._collector = EpochCollector(self._layout, 0)
        self._loop.begin(self._layout)
        self._change = Change()  # what comes into force with the next batch
        if self._committed is None and checkpoint.plan_of(0) is None:
            self._change = Change(self._loop.ask_first(self._plan, self._limits))

    @property
    def next_batch(self) -> int:
        """The batch that has to be executed next."""
        return 0 if self._committed is None else self._committed.batch + 1

    @property
    def committed(self) -> Commit | None:
        """The last commit; None before the first."""
        return self._committed

    @property
    def progress(self) -> Progress:
        """How far each input has come."""
        return Progress() if self._committed is None else self._committed.progress

    @property
    def batches(self) -> list[BatchSummary]:
        """Summaries of the last batches."""
        return self._loop.happened.batches

    @property
    def plans(self) -> list[Plan | PlanOutline]:
        """The plan of each of these batches: the last plan whole, those before it in outline."""
        return self._loop.happened.plans

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions."""
        return self._loop.happened.decisions

    @property
    def epochs(self) -> tuple[EpochFacts, ...]:
        """The facts of the last epochs that are over."""
        return self._loop.told

    @property
    def totals(self) -> Totals:
        """Sums over all batches and decisions."""
        return self._loop.happened.totals

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    @property
    def next_plan(self) -> Plan:
        """The plan of the next batch, as far as it is decided by now; nothing is written down."""
        if self._in_force == self.next_batch:
            return self._plan
        if not self._resumed:
            saved = self._checkpoint.plan_of(self.next_batch)
            if saved is not None:
                return saved.plan
        return self._plan.amended(self._change.plan, self._cluster)

    @property
    def cluster(self) -> Cluster:
        """The machines that were there after the last batch, as the plan has them."""
        return self._cluster.under(self._plan)

    @property
    def layout(self) -> Layout:
        """The job as it is laid out."""
        return self._layout

    @property
    def is_thinking(self) -> bool:
        """Whether the optimizer is thinking while batches go on."""
        return self._loop.is_thinking

    def look_again(self) -> None:
        """Go on from the files of the last batch as they are by now.

        They may have been compacted while this driver rested.
        """
        newest = self._checkpoint.last_commit()
        if newest is not None and newest.batch == self.next_batch - 1:
            self._committed = newest

    def check_newest(self) -> None:
        """Refuse to go on if others have committed, or rewritten the state, since the last batch.

        Raises:
            CheckpointError: they have.
        """
        if self._committed is not None:
            self._checkpoint.check_newest(self._committed)

    def assign(self) -> Assignment:
        """Return the assignment of the next batch; asked again, return the same.

        A new plan is written down before any work under it, so that a driver that takes over after
        a crash uses the same plan.
        """
        batch, is_first = self.next_batch, not self._resumed
        self._meet(self._look())
        if self._in_force != batch:
            saved = self._plan_for(batch)
            if saved is not None:
                self._put_in_force(saved)
        if is_first:
            self._loop.started(self._plan, self._cluster, again=self._committed is not None)
        self._change = Change()
        ticket = Ticket(batch, self._planned == batch, self._state, self._learned.trials.calls)
        return Assignment(self._work, ticket, self._plan, self._planned, self._plan_revision)

    def commit(
        self,
        assignment: Assignment,
        reports: Iterable[Reports],
        seconds: float,
        origin: Origin | None = None,
        timing: Timing | None = None,
    ) -> BatchSummary:
        """Commit a batch by the reports of its tasks, and ask the optimizer if it is time to.

        Args:
            assignment: the batch.
            reports: the reports of its tasks, in parts that came in any order.
            seconds: how long it took.
            origin: its input; by default a bounded batch without a name.
            timing: returns when it ran, after the commit; by default that is not known.

        Raises:
            DeliveryError: not all that was sent has arrived; nothing is committed.
            StateError: instances would keep keys or values of different types.
            CheckpointError: it cannot be written, or others have committed since.
        """
        batch = assignment.ticket.batch
        if batch != self.next_batch:
            raise CheckpointError(
                f"batch {batch} was to be committed, but {self.next_batch} is next; "
                "commit each batch once, in order"
            )
        # 1. Check that all has arrived. Results must not depend on the order of reports.
        merged = Reports.merged(reports)
        check_delivery(merged, self._layout)
        # 2. Write the batch down. From here on it is done, even if a step below fails.
        committed = self._write_down(assignment, merged, origin or Bounded())
        # 3. Learn from it.
        took = time_of(batch, committed.tuples, merged, self._layout, timing)
        summary = replace(
            summary_of(batch, assignment.planned, seconds, self._layout, merged, took),
            nodes=tuple(node.name for node in self.cluster.nodes),
            wanted=self._plan.nodes,
        )
        self._learn(committed, merged, summary)
        # 4. Say what is to change with the next batch.
        self._change = self._decide(merged)
        self._loop.provide(self._plan, self._change.plan, [self._layout], batch, time.monotonic())
        # 5. Remove files that no one needs any more, now and then.
        if batch % _CLEANED_EVERY == _CLEANED_EVERY - 1:
            self._checkpoint.clean(self._keep)
        return summary

    def _write_down(self, assignment: Assignment, reports: Reports, origin: Origin) -> Commit:
        """Commit a batch, with the state, the output and the progress that it leaves."""
        columns = columns_after(self._columns, reports, self._state, self._checkpoint.location)
        record = Commit(
            batch=assignment.ticket.batch,
            plan=assignment.planned,
            state=state_after(self._layout.topology, self._state, reports),
            outputs=tuple(file for _, files in reports.documents("output") for file in files),
            tuples=sum(
                int(reports.numbers("tuples")[reports.tasks[name]].sum())
                for name in self._topology.sources
                if name in reports.tasks
            ),
            plan_revision=assignment.plan_revision,
            origin=origin,
            progress=self.progress.after(origin),
        )
        self._checkpoint.commit(record, after=self._committed)
        self._committed, self._columns = record, columns
        return record

    def _learn(self, committed: Commit, reports: Reports, summary: BatchSummary) -> None:
        """Take in the batch that was committed last."""
        self.inflow.hear(committed.origin, summary)
        self._learned.add(reports, committed.state)
        self._collector.add(reports, summary.seconds, summary.time)
        self._loop.hear(summary, committed.tuples, self._plan)
        log_bad_rows(committed.batch, reports, self._layout)

    def _decide(self, reports: Reports) -> Change:
        """Return what is to change with the next batch, given the present machines."""
        self._meet(self._look())
        seen = Observed(self._statistics, lambda hop: pairs_of(reports, hop))
        return self._loop.decide(self._plan, seen, self._limits)

    def _statistics(self, pasts: Pasts) -> Statistics:
        """Return the statistics of the epoch, and begin to count the next."""
        cluster = self._cluster.under(self._plan)
        seen = self._learned.statistics(self._collector, self._state, pasts, cluster)
        self._collector = EpochCollector(self._layout, self._loop.epochs + 1)
        limits = self._base_limits
        how = Execution(
            micro_batches=True,
            slots=self._slots(),
            sized=tuple(set(self._topology.sources) - set(limits.unsized)),
            paced=not limits.unpaced,
            cuts=limits.cuts,
        )
        return replace(seen, execution=how, sources=self.inflow.end())

    def _begin_epoch(self) -> None:
        """Begin to count and to adopt keys, under the plan that is in force from now on."""
        self._collector = EpochCollector(self._layout, self._loop.epochs)
        self.inflow.begin()
        self._loop.begin(self._layout)

    @property
    def _limits(self) -> EngineLimits:
        types = partial(key_types, self._columns)
        return replace(self._base_limits, check_change=check_change, key_types=types)

    @property
    def _state(self) -> StateFiles:
        return {} if self._committed is None else self._committed.state

    def _plan_for(self, batch: int) -> SavedPlan | None:
        """Return the plan that comes into force with a batch, written down; None if none does."""
        if not self._resumed:
            # An earlier driver may have saved a plan for this batch, acted on it, and crashed.
            saved = self._checkpoint.plan_of(batch)
            if saved is not None and saved.declared != self._declared:
                saved = self._redeclared(batch, saved)
            self._resumed = True
            if saved is not None and saved.batch == batch:
                return saved
        if batch > 0 and not self._change.plan:
            return None
        return self._saved(batch, self._plan.amended(self._change.plan, self._cluster))

    def _redeclared(self, batch: int, before: SavedPlan) -> SavedPlan:
        """Save, for the first batch of this driver, the plan that its job declares by now.

        A plan that was saved for this very batch is replaced, for it may be the one that the job
        could not be run under.
        """
        running = None if self._committed is None else self._layout.topology
        plan = redeclared(before, self._declared, self._topology, self._cluster, running)
        return self._saved(batch, plan, instead_of=before if before.batch == batch else None)

    def _saved(self, batch: int, plan: Plan, instead_of: SavedPlan | None = None) -> SavedPlan:
        """Write a plan down for a batch, with all that says where keys are."""
        return self._checkpoint.save_plan(
            batch,
            self._whole(plan),
            declared=self._declared,
            after=self._committed,
            instead_of=instead_of,
        )

    def _put_in_force(self, saved: SavedPlan) -> None:
        plan, batch = self._fitted(saved.plan), saved.batch
        layout = Layout.of(self._topology, self._cluster, plan)
        handovers = {}
        for operator in self._topology.operators:
            if operator.keyed and not operator.partial:
                change = handover(self._layout.owners(operator.name), layout.owners(operator.name))
                if change:
                    handovers[operator.name] = change
        self._plan, self._layout = plan, layout
        self._planned, self._plan_revision = saved.number
        self._in_force = batch
        self._work = self._work_under(layout, handovers)
        if self._change.adopts:
            self._loop.adopted(layout)  # the epoch goes on: instances and machines are as before
        else:
            self._begin_epoch()

    def _meet(self, cluster: Cluster) -> None:
        """Go by the machines that are there from the next batch on.

        Nothing has to be written down: where instances are does not change what they do.
        """
        if cluster == self._cluster:
            return
        known = {node.name for node in (*self._cluster.nodes, *self._plan.add)}
        came = [node.name for node in cluster.nodes if node.name not in known]
        self._cluster = cluster
        self._plan = self._fitted(self._plan, came)
        layout = Layout.of(self._topology, cluster, self._plan)
        if layout != self._layout:
            self._layout, self._work = layout, self._work_under(layout, {})
            self._collector.go_on_under(layout)
        self._loop.meet(cluster, layout)

    def _fitted(self, plan: Plan, came: Sequence[str] = ()) -> Plan:
        """Return a plan that the machines can carry out, and that says where everything is."""
        return self._whole(self._loop.fitted(plan, self._cluster, self.next_batch - 1, came))

    def _whole(self, plan: Plan) -> Plan:
        """Return a plan with all that says where keys and instances are."""
        return completed(plan, self._topology, self._cluster)

    def _work_under(self, layout: Layout, handovers: Mapping[str, Handover]) -> JobContext:
        location, settings = self._checkpoint.location, self._settings
        if adopting_hops(layout.topology, self._plan):
            settings = replace(settings, observes=settings.observes | {Probe.PAIRS})
        return JobContext(layout, self._plan.batch, location, settings, handovers)
