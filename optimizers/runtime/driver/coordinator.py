"""The coordinator: leads a job from batch to batch, and from plan to plan.

It knows nothing of where tasks run. Before a batch it says what is to be done, under which plan;
after it, it takes the reports, commits the batch and asks the optimizer what should change.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grouping.owners import Handover, handover
from optimizers.cluster import Cluster
from optimizers.errors import CheckpointError, PlanError
from optimizers.layout import Layout, completed
from optimizers.operators import OnError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.driver.adoption import Adoption, adopting, adopting_hops
from optimizers.runtime.driver.council import Council
from optimizers.runtime.driver.fitting import fitted
from optimizers.runtime.driver.history import REMEMBERED, Totals
from optimizers.runtime.driver.summary import BatchSummary, Decision, bad_rows
from optimizers.runtime.log.checkpoint import Checkpoint, SavedPlan
from optimizers.runtime.log.origins import Bounded, Origin, Progress
from optimizers.runtime.log.records import Commit
from optimizers.runtime.observe.call_mode import Trial
from optimizers.runtime.observe.probes import TRIAL, name_of
from optimizers.runtime.state.file import StateFile
from optimizers.runtime.state.schema import Columns, columns_after
from optimizers.runtime.task.reports import TaskReport, check_delivery
from optimizers.runtime.work import Settings, StateFiles, Ticket, Work, check_change, check_work
from optimizers.statistics import Probe
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap

_LOG = logging.getLogger(__name__)

_CLEANED_EVERY = 16  # batches; what is in the way of nobody need not go at once


@dataclass(frozen=True)
class Assignment:
    """One batch to be executed.

    Attributes:
        work: the job under the plan in force; the same object as long as that is.
        ticket: the batch.
        plan: the plan.
        planned: the batch with which the plan came in force.
        plan_revision: which of the plans that were saved for that batch it is.
    """

    work: Work
    ticket: Ticket
    plan: Plan
    planned: int
    plan_revision: int = 0


class Coordinator:
    """Leads one job.

    Args:
        topology: the job.
        cluster: the machines; or a function that returns those that are there by now, which is
            asked at first and at the end of each epoch.
        optimizer: who decides.
        checkpoint: where state and the log are kept; the job goes on where that ends.
        every: after how many batches the optimizer is asked.
        drift: by how much the share of tuples that stay on their node may fall, between keyed
            operators, before it is asked earlier; None for never.
        meanwhile: whether batches go on while it thinks. What it decides comes into force with
            the first batch that begins after its answer, and it is not asked again before.
        keep: of how many batches the state is kept at least.
        remember: how many batches, and how many decisions, it can tell of afterwards.
        settings: how tasks go about their work; what is observed is up to the optimizer.
    """

    def __init__(  # noqa: PLR0913
        self,
        topology: Topology,
        cluster: Cluster | Callable[[], Cluster],
        optimizer: Optimizer,
        checkpoint: Checkpoint,
        *,
        every: int = 10,
        drift: float | None = 0.1,
        meanwhile: bool = False,
        keep: int = 2,
        remember: int = REMEMBERED,
        settings: Settings | None = None,
    ) -> None:
        topology = topology.seeded(checkpoint.seed)
        check_work(topology)
        self._topology = topology
        self._look = cluster if callable(cluster) else lambda: cluster
        self._cluster = self._look()
        self._checkpoint = checkpoint
        self._council = Council(
            topology,
            self._cluster,
            optimizer,
            every=every,
            drift=drift,
            meanwhile=meanwhile,
            remember=remember,
        )
        self._keep = whole("keep", keep, at_least=1)
        self._settings = replace(settings or Settings(), observes=optimizer.observes)
        self._trials: dict[str, Trial] = defaultdict(Trial)
        self._columns: dict[str, Columns] = {}  # of state, by operator, as far as seen
        self._committed = checkpoint.last_commit()
        self._declared = {operator.name: operator.parallelism for operator in topology.operators}
        self._plan = completed(Plan(), topology, self._cluster)
        self._planned, self._plan_revision = 0, 0
        self._in_force: int | None = None  # the batch whose plan this coordinator put in force
        if self._committed is not None:
            known = checkpoint.plan_of(self._committed.batch)
            if known is not None:
                self._plan = self._fitted(known.plan)
                self._planned, self._plan_revision = known.number
        self._resumed = False  # whether it was looked for what an earlier driver has saved
        self._layout = Layout.of(topology, self._cluster, self._plan)
        self._work = self._work_under(self._layout, {})
        self._council.begin(self._layout)
        self._adoption = Adoption()
        self._adopts_only = False  # whether what comes next only gives unknown keys an owner
        begins = self._committed is None and checkpoint.plan_of(0) is None
        self._decided = Plan()
        if begins:
            self._decided = self._council.decide_first(self._plan, self._columns)

    @property
    def next_batch(self) -> int:
        """The batch that has to be executed next."""
        return 0 if self._committed is None else self._committed.batch + 1

    @property
    def committed(self) -> Commit | None:
        """What the last batch left behind; None before the first."""
        return self._committed

    @property
    def progress(self) -> Progress:
        """How far each input has come."""
        return Progress() if self._committed is None else self._committed.progress

    @property
    def batches(self) -> list[BatchSummary]:
        """What happened in the last batches."""
        return self._council.happened.batches

    @property
    def decisions(self) -> list[Decision]:
        """What the optimizer said the last times that it was asked."""
        return self._council.happened.decisions

    @property
    def totals(self) -> Totals:
        """Sums over all batches and decisions."""
        return self._council.happened.totals

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    @property
    def layout(self) -> Layout:
        """The job as it is laid out."""
        return self._layout

    @property
    def is_thinking(self) -> bool:
        """Whether the optimizer looks for an answer while batches go on."""
        return self._council.is_thinking

    def assign(self) -> Assignment:
        """Say what is to be done in the next batch; asked again, it says the same.

        A new plan is written down before anything is done by it, so that whoever takes over
        after a crash goes by the same.
        """
        batch = self.next_batch
        if self._in_force != batch:
            saved = self._plan_for(batch)
            if saved is not None:
                self._put_in_force(saved)
        self._decided, self._adopts_only = Plan(), False
        ways = {name: trial.way for name, trial in self._trials.items()}
        ticket = Ticket(batch, self._planned == batch, self._state, FrozenMap(ways))
        return Assignment(self._work, ticket, self._plan, self._planned, self._plan_revision)

    def commit(
        self,
        assignment: Assignment,
        reports: Sequence[TaskReport],
        seconds: float,
        origin: Origin | None = None,
    ) -> BatchSummary:
        """Commit a batch by the reports of its tasks, and ask the optimizer if it is time to.

        Args:
            assignment: the batch.
            reports: what its tasks report.
            seconds: how long it took.
            origin: what it stands for; by default a bounded batch without a name.

        Raises:
            DeliveryError: not all that was sent has arrived; nothing is committed.
            StateError: instances would keep keys or values of different types.
            CheckpointError: it cannot be written, or others have committed since.
        """
        came = origin or Bounded()
        batch = assignment.ticket.batch
        if batch != self.next_batch:
            raise CheckpointError(
                f"batch {batch} was to be committed, but {self.next_batch} is next; "
                "commit each batch once, in order"
            )
        # What comes of reports must not depend on the order in which they happened to arrive.
        reports = sorted(reports, key=lambda report: (report.operator, report.sender))
        check_delivery(reports, self._layout)
        location = self._checkpoint.location
        columns = columns_after(self._columns, reports, self._state, location)
        record = Commit(
            batch=batch,
            plan=assignment.planned,
            state=self._state_after(reports),
            outputs=tuple(file for report in reports for file in report.output),
            tuples=sum(report.tuples for report in reports if not self._inputs(report.operator)),
            plan_revision=assignment.plan_revision,
            origin=came,
            progress=self.progress.after(came),
        )
        self._checkpoint.commit(record, after=self._committed)
        self._committed, self._columns = record, columns
        summary = BatchSummary.of(batch, assignment.planned, seconds, self._layout, reports)
        for report in reports:
            for table in report.observed.get(name_of(TRIAL, report.operator), ()):
                self._trials[report.operator].add(table)
        self._council.hear(summary, reports, record.tuples)
        self._tell_bad_rows(batch, reports)
        if self._council.is_about_to_ask:
            self._meet(self._look())
        self._decided = self._council.decide(batch, self._plan, self._state, self._columns)
        self._adopt(reports)
        if batch % _CLEANED_EVERY == _CLEANED_EVERY - 1:
            self._checkpoint.clean(self._keep)
        return summary

    def _tell_bad_rows(self, batch: int, reports: Sequence[TaskReport]) -> None:
        """Log how many rows operators could not take in, with one of them."""
        for how, level, what in (
            (OnError.SKIP, logging.WARNING, "left out"),
            (OnError.ASIDE, logging.INFO, "handed aside"),
        ):
            for name, bad in bad_rows(reports, self._layout, how).items():
                _LOG.log(
                    level,
                    "batch %d: operator %r could not take %d rows, which were %s, such as: %s",
                    *(batch, name, bad.rows, what, bad.example),
                )

    @property
    def _state(self) -> StateFiles:
        return {} if self._committed is None else self._committed.state

    def _inputs(self, operator: str) -> int:
        return len(self._topology.inputs(operator))

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
        if batch > 0 and not self._decided:
            return None
        return self._saved(batch, self._plan.amended(self._decided, self._cluster))

    def _redeclared(self, batch: int, before: SavedPlan) -> SavedPlan:
        """Save, for the first batch of this driver, the plan that its job declares by now.

        Only operators whose declared parallelism has changed get another one: what an optimizer
        has decided for the others stays. A plan that was saved for this very batch is replaced,
        for it may be the one that the job could not be run under.

        Raises:
            PlanError: the job cannot have these numbers.
        """
        changed = {
            name: number
            for name, number in self._declared.items()
            if before.declared.get(name) != number
        }
        plan = self._whole(fitted(before.plan, self._cluster).plan)
        plan = plan.amended(Plan(parallelism=changed, notes=plan.notes), self._cluster)
        try:
            plan.check(self._topology)
            if self._committed is not None:
                check_change(self._layout.topology, self._topology.under(plan))
        except PlanError as error:
            raise PlanError(
                f"the job declares other numbers of instances than before: {error}"
            ) from error
        told = (f"{name}: {before.declared.get(name)} -> {changed[name]}" for name in changed)
        _LOG.info("the job declares other numbers of instances: %s", ", ".join(told))
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
        if self._adopts_only:
            return  # the epoch goes on: instances and machines are as they were
        self._adoption = Adoption()
        self._council.begin(layout)

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
        self._council.meet(cluster, layout)

    def _fitted(self, plan: Plan, came: Sequence[str] = ()) -> Plan:
        """Return a plan that the machines can carry out, and that says where everything is."""
        return self._whole(self._council.fitted(plan, self._cluster, self.next_batch - 1, came))

    def _whole(self, plan: Plan) -> Plan:
        """Return a plan with all that says where keys and instances are."""
        return completed(plan, self._topology, self._cluster)

    def _work_under(self, layout: Layout, handovers: Mapping[str, Handover]) -> Work:
        location, settings = self._checkpoint.location, self._settings
        if adopting_hops(layout.topology, self._plan):
            settings = replace(settings, observes=settings.observes | {Probe.PAIRS})
        return Work(layout, self._plan.batch, location, settings, handovers)

    def _adopt(self, reports: Sequence[TaskReport]) -> None:
        """Let the next plan give an owner to keys that are unknown to tables that adopt.

        Not in the batch after which something else changes, nor while the optimizer thinks, which
        may change these very tables.
        """
        tables = self._adoption.after(self._plan, self._layout, reports)
        if tables and not self._decided and not self._council.has_asked:
            before = adopting(self._plan)
            number = sum(len(table) - len(before[name]) for name, table in tables.items())
            names = " and ".join(tables)
            _LOG.info(
                "after batch %d: %d new keys of %s get an owner", self.next_batch - 1, number, names
            )
            self._decided = Plan(routing=tables, adopt=tuple(tables), notes=self._plan.notes)
            self._adopts_only = True

    def _state_after(self, reports: Sequence[TaskReport]) -> StateFiles:
        """Return the files of all state after a batch: those reported, else as they were."""
        written = {
            (report.operator, report.instance): report.state
            for report in reports
            if report.state is not None
        }
        found: dict[str, tuple[tuple[StateFile, ...], ...]] = {}
        for operator in self._layout.topology.operators:
            if operator.keyed:
                before = self._state.get(operator.name, ())
                found[operator.name] = tuple(
                    written.get(
                        (operator.name, number), before[number] if number < len(before) else ()
                    )
                    for number in range(operator.parallelism)
                )
        return found
