"""The council: hears what happens in a job, asks the optimizer in time, and weighs its answer."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from grouping.key_pairs import KeyPairs
from optimizers.cluster import Cluster
from optimizers.errors import InvalidKeyError, PlanError, UnknownNameError
from optimizers.operators import EdgeName
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.epoch import Epoch
from optimizers.runtime.history import REMEMBERED, History
from optimizers.runtime.key_columns import check_kind
from optimizers.runtime.layout import Layout, completed
from optimizers.runtime.reports import TaskReport
from optimizers.runtime.state_columns import Columns
from optimizers.runtime.state_table import KEY
from optimizers.runtime.summary import BatchSummary, Decision
from optimizers.runtime.thinking import Answer, Question, Thought
from optimizers.runtime.work import StateFiles, check_change
from optimizers.statistics import EdgeStatistics
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
        remember: int = REMEMBERED,
    ) -> None:
        self._topology = topology
        self._cluster = cluster
        self._optimizer = optimizer
        self._every = whole("every", every, at_least=1)
        self._drift = None if drift is None else amount("drift", drift, up_to=1.0)
        self._history: dict[EdgeName, KeyPairs] = {}
        self._epochs = 0
        self.happened = History(remember)
        self.begin(Layout.of(topology, cluster, Plan()))

    def begin(self, layout: Layout) -> None:
        """Begin to count anew, for a job that is laid out in another way from now on."""
        self._layout = layout
        self._epoch = Epoch(layout, self._epochs)
        self._best_local = 0.0  # the share of local tuples in the best batch of this epoch

    def hear(self, summary: BatchSummary, reports: Sequence[TaskReport], tuples: int) -> bool:
        """Take in what happened in a batch; return whether it is time to ask.

        Args:
            summary: the batch.
            reports: what its tasks report.
            tuples: how many tuples came into the job.
        """
        self.happened.add_batch(summary, tuples=tuples)
        self._epoch.add(reports, summary.seconds)
        return self._has_drifted(summary) or self._epoch.batches >= self._every

    def question(self, batch: int, current: Plan, state: StateFiles) -> Question:
        """End an epoch with a batch, and return what the optimizer is to be asked.

        Args:
            batch: the batch; -1 for before the first.
            current: the plan in force.
            state: the state that the batch has left.
        """
        sizes = {
            name: float(sum(file.bytes for files in instances for file in files))
            for name, instances in state.items()
        }
        statistics = self._epoch.statistics(sizes, self._history)
        world = self._topology.under(current), self._cluster.under(current)
        local = _locality(self._epoch.edges, self._keyed_edges())
        if batch >= 0:
            if self._optimizer.memory:
                self._history |= statistics.remembered(self._optimizer.memory)
            self._epochs += 1
            self.begin(self._layout)
        return Question(batch, *world, statistics, current, local)

    def decide(self, question: Question, columns: Mapping[str, Columns]) -> Plan:
        """Ask the optimizer, wait for its answer, and return what is to change.

        Args:
            question: what it is asked.
            columns: the columns of state, as far as they are known.
        """
        return self.weigh(question, question.put_to(self._optimizer), columns)

    def begin_to_think(self, question: Question) -> Thought:
        """Ask the optimizer without waiting; see `weigh` for what it will say."""
        return Thought(question, self._optimizer)

    def weigh(self, question: Question, answer: Answer, columns: Mapping[str, Columns]) -> Plan:
        """Keep what the optimizer said, and return it if it can be carried out."""
        plan, current = answer.plan, question.current
        refused, changes = "", bool(plan)
        try:
            amended = current.amended(plan)
            amended.check(self._topology, self._cluster)
            later = self._topology.under(amended)
            check_change(question.topology, later)
            _check_kinds(later, columns)
            changes = bool(plan) and self._completed(amended) != self._completed(current)
        except (PlanError, UnknownNameError) as error:
            refused = str(error)
        applied = changes and not refused
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
        return replace(completed(plan, self._topology), notes=())

    def _keyed_edges(self) -> list[EdgeName]:
        """Return the edges into keyed operators that do not come from a source."""
        return [
            edge.name
            for edge in self._topology.edges
            if self._topology.operator(edge.target).keyed and self._topology.inputs(edge.source)
        ]


def _check_kinds(topology: Topology, columns: Mapping[str, Columns]) -> None:
    """Refuse tables of keys that are of another kind than those that state is kept of."""
    for name, kept in columns.items():
        types = [kind for column, kind in kept if column.startswith(KEY)]
        grouping = topology.grouping(*topology.inputs(name)[0].name)
        try:
            check_kind(grouping, topology.operator(name).parallelism, types)
        except InvalidKeyError as error:
            raise PlanError(
                f"routing[{name!r}]: operator {name!r} keeps state by keys of type "
                f"{', '.join(types)}, and {error}"
            ) from error


def _locality(seen: Mapping[EdgeName, EdgeStatistics], edges: Sequence[EdgeName]) -> float:
    """Return the share of the tuples on some edges that stayed on their node; 1 of none."""
    chosen = [seen[name] for name in edges if name in seen]
    tuples = sum(edge.tuples for edge in chosen)
    return sum(edge.local for edge in chosen) / tuples if tuples else 1.0
