"""The control loop of a job: ask, check, refuse, adopt, remember, log.

Every engine runs this loop: it hands in a summary of each batch, and gets what is to change. So the
same question has the same answer and the same reasons on all engines.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grouping.key_table import KeyTable
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.cluster import Cluster
from optimizers.control.adoption import Adoption, adopting
from optimizers.control.asking import Answer, Idleness, ask, reason
from optimizers.control.background import BackgroundAnswer
from optimizers.control.checking import EngineLimits, check_decision
from optimizers.control.decision import Decision
from optimizers.control.epoch_facts import EpochFacts, ToldEpochs
from optimizers.control.expecting import expected_by
from optimizers.control.fitting import fitted, idle_nodes
from optimizers.control.history import History
from optimizers.control.provisioning import Provisioning, kept_by
from optimizers.control.question import Question
from optimizers.control.remembering import Remembering, expected_loads, parts_of
from optimizers.control.settings import Asking
from optimizers.control.stand_ins import renamed
from optimizers.control.summary import BatchSummary
from optimizers.layout import Layout, completed
from optimizers.operators import EdgeName
from optimizers.optimizer import Optimizer
from optimizers.past import PastDecision, PastEpoch
from optimizers.plan import Note, Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.values import FrozenMap

_LOG = logging.getLogger(__name__)

Pasts = Mapping[EdgeName, KeyPairs]
"""The pairs of the epochs before, by hop; see `Statistics.history`."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observations of an engine, which it computes only when the loop asks for them.

    Attributes:
        statistics: returns the statistics of the epoch, given the pairs of those before. It is
            called once, as the epoch ends.
        pairs: returns the pairs of keys on a hop in the last batch.
    """

    statistics: Callable[[Pasts], Statistics]
    pairs: Callable[[EdgeName], KeyPairs]


@dataclass(frozen=True, slots=True)
class Change:
    """What is to change before the next batch.

    Attributes:
        plan: what is decided; `Plan()` if nothing changes.
        adopts: whether it only gives unknown keys an owner, so that the epoch goes on.
    """

    plan: Plan = field(default_factory=Plan)
    adopts: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and the epoch that it is about.

    Attributes:
        question: the question.
        after: the batch after which it was asked.
        local: the share of tuples that stayed on their node, between keyed operators.
        epoch: what is remembered of the epoch; None before the first.
    """

    question: Question
    after: int
    local: float
    epoch: PastEpoch | None = None


class ControlLoop:
    """Hears of each batch, and asks the optimizer after some of them what should change.

    Args:
        topology: the job as declared.
        cluster: the machines.
        optimizer: decides what changes.
        asking: when it is asked.
        provisioning: gets the machines that plans want; by default plans only advise.

    Attributes:
        happened: what happened so far.
        epochs: how many epochs are over.
    """

    def __init__(
        self,
        topology: Topology,
        cluster: Cluster,
        optimizer: Optimizer,
        asking: Asking,
        provisioning: Provisioning | None = None,
    ) -> None:
        self._provisioning = provisioning or Provisioning(None)
        self._topology = topology
        self._cluster = cluster
        self._optimizer = optimizer
        self._asking = asking
        self._keyed_edges = _keyed_edges(topology)
        self._idleness = Idleness()
        self._refused = ""  # why the last decision was that could not be carried out
        self._pasts: dict[EdgeName, KeyPairs] = {}
        self._remembering = Remembering()
        self._told = ToldEpochs()
        self._pending: tuple[_Asked, BackgroundAnswer] | None = None
        self._stand_ins: Mapping[str, str] = {}
        self.epochs = 0
        self.happened = History(asking.remember)
        self.begin(Layout.of(topology, cluster, Plan()))

    @property
    def is_thinking(self) -> bool:
        """Whether the optimizer is thinking while batches go on."""
        return self._pending is not None and not self._pending[1].is_there

    @property
    def told(self) -> tuple[EpochFacts, ...]:
        """The facts of the last epochs that are over, each with the decision at its end."""
        return self._told.told(self._remembering.past.epochs)

    def begin(self, layout: Layout) -> None:
        """Begin an epoch under a new layout of the job."""
        self._layout = layout
        self._adoption = Adoption()
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._batches = 0
        self._local = self._tuples = 0.0  # between keyed operators
        self._best_local = 0.0  # the share of local tuples in the best batch of this epoch
        self._is_over = False
        self._remembering.begin_epoch()

    def adopted(self, layout: Layout) -> None:
        """Use tables with more keys; the epoch goes on."""
        self._layout = layout

    def meet(self, cluster: Cluster, layout: Layout) -> None:
        """Use other machines, and the job's layout on them, from the next batch on."""
        self._cluster, self._layout = cluster, layout

    def started(self, plan: Plan, cluster: Cluster, *, again: bool) -> None:
        """Log the nodes that a job leaves idle as it starts.

        Args:
            plan: the plan in force, whole.
            cluster: the machines that are there.
            again: whether the job has run before, so that its plan places nothing there.
        """
        idle = idle_nodes(plan, cluster)
        if idle:
            _LOG.log(
                logging.WARNING if again else logging.INFO,
                "no instance is on %s: nothing moves there that no plan mentions; declare more "
                "instances, or take a strategy that decides where key groups live, as Albic does",
                ", ".join(idle),
            )

    def fitted(self, plan: Plan, cluster: Cluster, after: int, came: Collection[str] = ()) -> Plan:
        """Return a plan without the machines that are gone, and log the changes.

        Args:
            plan: the plan.
            cluster: the machines that are there.
            after: the batch that is done.
            came: the names of new ones that no plan has asked for.
        """
        self._stand_ins = self._provisioning.meet(plan, cluster)
        others = set(self._stand_ins.values())
        fit = fitted(
            renamed(plan, self._stand_ins), cluster, [name for name in came if name not in others]
        )
        notes = [
            Note("machines", node.name, f"{self._stand_ins[node.name]} has come in its stead")
            for node in plan.add
            if node.name in self._stand_ins
        ]
        changed = replace(fit.changed, notes=(*notes, *fit.changed.notes))
        if changed.notes:
            decision = Decision(after, changed, applied=True, fits=True)
            _LOG.warning("%s", decision)
            self.happened.add_decision(decision)
        return fit.plan

    def provide(  # noqa: PLR0913, PLR0917
        self,
        plan: Plan,
        change: Plan,
        layouts: Sequence[Layout],
        after: int,
        now: float,
        left: Collection[str] = (),
    ) -> None:
        """Acquire missing nodes, and give back empty ones.

        Args:
            plan: the plan in force.
            change: what is to change before the next batch.
            layouts: the layout of the last batch, and the present one.
            after: the batch that is done.
            now: the time in seconds.
            left: the names of other nodes that still have work to do.
        """
        coming, later = plan, [*layouts]
        if change:
            coming = plan.amended(change, self._cluster)
            later.append(Layout.of(self._topology, self._cluster, coming))
        kept = kept_by(coming, self._cluster, later) | {*left}
        for decision in self._provisioning.settle(plan, self._cluster, kept, after, now):
            self.happened.add_decision(decision)

    def hear(self, summary: BatchSummary, tuples: int, plan: Plan) -> None:
        """Take in what happened in a batch.

        Args:
            summary: the batch.
            tuples: how many tuples came into the job.
            plan: the plan that was in force.
        """
        self.happened.add_batch(summary, tuples=tuples, plan=plan)
        self._last = summary
        self._remembering.hear(summary)
        flows = [summary.edges[name] for name in self._keyed_edges if name in summary.edges]
        tuples_between = sum(flow.tuples for flow in flows)
        local = sum(flow.local for flow in flows)
        self._tuples += tuples_between
        self._local += local
        self._batches += 1
        drifted = tuples_between > 0 and self._has_drifted(local / tuples_between)
        self._is_over = drifted or self._batches >= self._asking.every

    def ask_first(self, current: Plan, limits: EngineLimits) -> Plan:
        """Return what the optimizer wants before the first batch, without statistics."""
        asked = self._question(-1, Statistics(), current)
        return self._checked(asked, ask(self._optimizer, asked.question), current, limits)

    def decide(self, current: Plan, observed: Observed, limits: EngineLimits) -> Change:
        """Return what is to change after the last batch; most often nothing.

        Args:
            current: the plan in force.
            observed: what was observed.
            limits: what the engine knows about its operators.
        """
        decided = self._answered(current, observed, limits)
        tables = self._adoption.after(current, self._layout, observed.pairs, self._last)
        # Not while it thinks: it may change the same tables.
        if not tables or decided or self._pending is not None:
            return Change(decided)
        self._log_adoption(current, tables)
        adopted = Plan(routing=tables, adopt=tuple(tables), notes=current.notes)
        return Change(adopted, adopts=True)

    def _answered(self, current: Plan, observed: Observed, limits: EngineLimits) -> Plan:
        """Return the decision that is ready, after asking for one if it is time to."""
        # 1. A question of an earlier batch comes first.
        if self._pending is not None:
            asked, answer = self._pending
            if not answer.is_there:
                return Plan()
            self._pending = None
            return self._checked(asked, answer.wait(), current, limits)
        if not self._is_over:
            return Plan()
        # 2. The epoch ends and is remembered.
        statistics = observed.statistics(self._pasts)
        self.happened.add_found(self._remembering.found(statistics.seconds, self._local_share))
        statistics = replace(statistics, past=self._remembering.past)
        self.happened.add_sources(statistics.sources)
        asked = self._question(self._last.batch, statistics, current)
        self._told.add(self._last.batch, statistics, asked.question.cluster, current.nodes)
        ended = self._remembering.end_epoch(self.epochs, statistics, asked.local, self._layout)
        asked = replace(asked, epoch=ended)
        if self._optimizer.memory:
            self._pasts |= statistics.remembered(self._optimizer.memory)
        self.epochs += 1
        self._begin_epoch()
        # 3. The optimizer is asked.
        if self._asking.meanwhile:
            self._pending = asked, BackgroundAnswer(asked.question, self._optimizer)
            return Plan()
        return self._checked(asked, ask(self._optimizer, asked.question), current, limits)

    def _question(self, after: int, statistics: Statistics, current: Plan) -> _Asked:
        job, machines = self._topology.under(current), self._cluster.under(current)
        question = Question(job, machines, statistics, current, self._stand_ins)
        return _Asked(question, after, self._local_share)

    @property
    def _local_share(self) -> float:
        return self._local / self._tuples if self._tuples else 1.0

    def _checked(self, asked: _Asked, answer: Answer, current: Plan, limits: EngineLimits) -> Plan:
        """Keep the optimizer's answer; return it if it changes anything and can be carried out."""
        # A node may have come while it was thinking.
        plan, refused = renamed(answer.plan, self._stand_ins), answer.refused
        changes = False
        if plan and not refused:
            try:
                amended = check_decision(self._topology, self._cluster, current, plan, limits)
                changes = self._completed(amended) != self._completed(current)
            except Exception as error:  # noqa: BLE001  # groupings of other packages raise anything
                refused = reason(error)
        applied = changes and not refused
        expected = self._remember(asked, plan, refused, applied=applied)
        self._idleness.tell(plan)
        decision = Decision(
            asked.after,
            plan,
            refused,
            asked.local,
            seconds=answer.seconds,
            applied=applied,
            expected=FrozenMap(expected),
        )
        # What is refused for one reason after each epoch is no news.
        is_news = bool(refused) and refused != self._refused
        _LOG.log(logging.WARNING if is_news else logging.INFO, "%s", decision)
        if refused or applied:
            self._refused = refused
        self.happened.add_decision(decision)
        return plan if applied else Plan()

    def _remember(
        self, asked: _Asked, plan: Plan, refused: str, *, applied: bool
    ) -> dict[str, float]:
        """Remember the decision after an epoch, and return what is expected of it."""
        if asked.epoch is None:
            return expected_by(plan.notes, {}) if applied else {}
        loads: dict[str, float] = {}
        if applied and not plan.routing:
            current = asked.question.current
            plans = current, current.amended(plan, self._cluster)
            loads = expected_loads(
                asked.epoch,
                asked.question.statistics.groups,
                *(Layout.of(self._topology, self._cluster, each) for each in plans),
            )
        expected = expected_by(plan.notes, loads) if applied else {}
        decided = PastDecision(
            parts_of(plan), applied, refused, plan.notes, expected=expected, loads=loads
        )
        self._remembering.decided(asked.epoch.epoch, decided)
        return expected

    def _completed(self, plan: Plan) -> Plan:
        """Return a plan with its defaults written out, without notes."""
        return replace(completed(plan, self._topology, self._cluster), notes=())

    def _has_drifted(self, local: float) -> bool:
        """Return whether much less of a batch stays local than of an earlier one of the epoch."""
        drift = self._asking.drift
        self._best_local = max(self._best_local, local)
        return drift is not None and local < self._best_local - drift

    def _log_adoption(self, current: Plan, tables: Mapping[str, KeyTable]) -> None:
        before = adopting(current)
        number = sum(len(table) - len(before[name]) for name, table in tables.items())
        names = " and ".join(tables)
        _LOG.info("after batch %d: %d new keys of %s get an owner", self._last.batch, number, names)


def _keyed_edges(topology: Topology) -> list[EdgeName]:
    """Return the edges into keyed operators that do not come from a source."""
    return [
        edge.name
        for edge in topology.edges
        if topology.operator(edge.target).keyed and topology.inputs(edge.source)
    ]
