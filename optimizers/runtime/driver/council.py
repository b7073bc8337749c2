"""The council: hears what happens in a job, asks the optimizer in time, and weighs its answer."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grouping.keygraph.key_pairs import KeyPairs
from optimizers.cluster import Cluster
from optimizers.control.asking import Answer, Idleness, reason
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout, completed
from optimizers.operators import EdgeName
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.driver.epoch import Epoch
from optimizers.runtime.driver.fitting import fitted
from optimizers.runtime.driver.history import REMEMBERED, History
from optimizers.runtime.driver.summary import BatchSummary, Decision
from optimizers.runtime.driver.thinking import Question, Thought
from optimizers.runtime.driver.weighing import check_decision
from optimizers.runtime.state.schema import Columns
from optimizers.runtime.task.reports import TaskReport
from optimizers.runtime.work import StateFiles
from optimizers.statistics import EdgeStatistics, Statistics
from optimizers.topology import Topology
from sketches.checks import amount, whole

_LOG = logging.getLogger(__name__)


class Council:
    """Hears of each batch, and after some of them asks the optimizer what should change.

    Args:
        topology: the job.
        cluster: the machines.
        optimizer: who decides.
        every: after how many batches it is asked.
        drift: by how much the share of tuples that stay on their node may fall, between keyed
            operators, before it is asked earlier; None for never.
        meanwhile: whether batches go on while it thinks; it is not asked again before it has
            answered.
        remember: how many batches, and how many decisions, can be told of afterwards.

    Attributes:
        happened: what happened so far.
    """

    def __init__(  # noqa: PLR0913
        self,
        topology: Topology,
        cluster: Cluster,
        optimizer: Optimizer,
        *,
        every: int = 10,
        drift: float | None = 0.1,
        meanwhile: bool = False,
        remember: int = REMEMBERED,
    ) -> None:
        self._topology = topology
        self._cluster = cluster
        self._optimizer = optimizer
        self._every = whole("every", every, at_least=1)
        self._drift = None if drift is None else amount("drift", drift, up_to=1.0)
        if not isinstance(meanwhile, bool):
            raise InvalidValueError(f"meanwhile={meanwhile!r} is not a bool; give True or False")
        self._meanwhile = meanwhile
        self._thought: Thought | None = None
        self._idleness = Idleness()
        self._history: dict[EdgeName, KeyPairs] = {}
        self._epochs = 0
        self.happened = History(remember)
        self.begin(Layout.of(topology, cluster, Plan()))

    @property
    def has_asked(self) -> bool:
        """Whether the optimizer was asked something, and its answer is not weighed yet."""
        return self._thought is not None

    @property
    def is_about_to_ask(self) -> bool:
        """Whether the epoch is over, so that the optimizer is asked next."""
        return self._is_time and not self.has_asked

    @property
    def is_thinking(self) -> bool:
        """Whether the optimizer looks for an answer while batches go on."""
        return self._thought is not None and not self._thought.is_over

    def begin(self, layout: Layout) -> None:
        """Begin to count anew, for a job that is laid out in another way from now on."""
        self._layout = layout
        self._epoch = Epoch(layout, self._epochs)
        self._best_local = 0.0  # the share of local tuples in the best batch of this epoch
        self._is_time = False  # to ask

    def meet(self, cluster: Cluster, layout: Layout) -> None:
        """Go by other machines, and the job as it is laid out on them, from the next epoch on."""
        self._cluster, self._layout = cluster, layout

    def fitted(self, plan: Plan, cluster: Cluster, after: int, came: Collection[str] = ()) -> Plan:
        """Return a plan without the machines that are gone, and tell what had to be changed.

        Args:
            plan: the plan.
            cluster: the machines that are there.
            after: the batch that is done.
            came: the names of those that are new, and that no plan has asked for.
        """
        fit = fitted(plan, cluster, came)
        if fit.changed.notes:
            told = Decision(after, fit.changed, applied=True, fits=True)
            _LOG.warning("%s", told)
            self.happened.add_decision(told)
        return fit.plan

    def hear(self, summary: BatchSummary, reports: Sequence[TaskReport], tuples: int) -> None:
        """Take in what happened in a batch.

        Args:
            summary: the batch.
            reports: what its tasks report.
            tuples: how many tuples came into the job.
        """
        self.happened.add_batch(summary, tuples=tuples)
        self._epoch.add(reports, summary.seconds)
        self._is_time = self._has_drifted(summary) or self._epoch.batches >= self._every

    def decide_first(self, current: Plan, columns: Mapping[str, Columns]) -> Plan:
        """Return what the optimizer wants before the first batch, when nothing was seen."""
        question = self._question(-1, Statistics(), current)
        return self._weighed(question, question.put_to(self._optimizer), columns)

    def decide(
        self, batch: int, current: Plan, state: StateFiles, columns: Mapping[str, Columns]
    ) -> Plan:
        """Return what is to change after a batch; most often nothing.

        Args:
            batch: the batch, which was heard of.
            current: the plan in force.
            state: the state that the batch has left.
            columns: the columns of state, as far as they are known.
        """
        thought = self._thought
        if thought is not None:
            if not thought.is_over:
                return Plan()
            self._thought = None
            return self._weighed(thought.question, thought.answer(), columns)
        if not self._is_time:
            return Plan()
        question = self._end_epoch(batch, current, state)
        if self._meanwhile:
            self._thought = Thought(question, self._optimizer)
            return Plan()
        return self._weighed(question, question.put_to(self._optimizer), columns)

    def _end_epoch(self, batch: int, current: Plan, state: StateFiles) -> Question:
        """Return what the optimizer is to be asked, and begin to count anew."""
        sizes = {
            name: float(sum(file.bytes for files in instances for file in files))
            for name, instances in state.items()
        }
        statistics = self._epoch.statistics(sizes, self._history)
        question = self._question(batch, statistics, current)
        if self._optimizer.memory:
            self._history |= statistics.remembered(self._optimizer.memory)
        self._epochs += 1
        self.begin(self._layout)
        return question

    def _question(self, batch: int, statistics: Statistics, current: Plan) -> Question:
        world = self._topology.under(current), self._cluster.under(current)
        local = _locality(self._epoch.edges, self._keyed_edges())
        return Question(batch, *world, statistics, current, local)

    def _weighed(self, question: Question, answer: Answer, columns: Mapping[str, Columns]) -> Plan:
        """Keep what the optimizer said, and return it if it can be carried out."""
        plan, current, refused = answer.plan, question.current, answer.refused
        changes = False
        if plan and not refused:
            try:
                amended = check_decision(self._topology, self._cluster, current, plan, columns)
                changes = self._completed(amended) != self._completed(current)
            except Exception as error:  # noqa: BLE001  # groupings may be of somebody else's
                refused = reason(error)
        applied = changes and not refused
        self._idleness.tell(plan)
        decision = Decision(
            question.after,
            plan,
            refused,
            question.local,
            seconds=answer.seconds,
            applied=applied,
        )
        _LOG.log(logging.WARNING if refused else logging.INFO, "%s", decision)
        self.happened.add_decision(decision)
        return plan if applied else Plan()

    def _has_drifted(self, batch: BatchSummary) -> bool:
        """Return whether much less stays local than in an earlier batch of the epoch."""
        local = _locality(batch.edges, self._keyed_edges())
        self._best_local = max(self._best_local, local)
        return self._drift is not None and local < self._best_local - self._drift

    def _completed(self, plan: Plan) -> Plan:
        """Return a plan with all that it leaves as the job is declared, and without the reasons."""
        return replace(completed(plan, self._topology, self._cluster), notes=())

    def _keyed_edges(self) -> list[EdgeName]:
        """Return the edges into keyed operators that do not come from a source."""
        return [
            edge.name
            for edge in self._topology.edges
            if self._topology.operator(edge.target).keyed and self._topology.inputs(edge.source)
        ]


def _locality(seen: Mapping[EdgeName, EdgeStatistics], edges: Sequence[EdgeName]) -> float:
    """Return the share of the tuples on some edges that stayed on their node; 1 of none."""
    chosen = [seen[name] for name in edges if name in seen]
    tuples = sum(edge.tuples for edge in chosen)
    return sum(edge.local for edge in chosen) / tuples if tuples else 1.0
