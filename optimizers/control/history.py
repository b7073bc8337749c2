"""The history of a job: the last batches and decisions, and sums over all of them."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizers.control.decision import Decision
from optimizers.control.plan_outline import PlanOutline
from optimizers.control.settings import REMEMBERED
from optimizers.control.summary import BatchSummary
from optimizers.flow import SourceStatistics
from optimizers.plan import Plan
from sketches.checks import whole
from sketches.values import FrozenMap

_MOST_INSTANCES = 1 << 20


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all batches and decisions since a driver began, also those no longer kept.

    Attributes:
        batches: how many batches were done.
        tuples: how many tuples came into the job.
        seconds: how long the batches took together.
        taken_over: how many keys changed their instance.
        decisions: how often the optimizer was asked.
        applied: how many of its decisions changed something.
        refused: how many of them could not be carried out, failed calls of a provisioner included.
        skipped: how many bad rows were left out.
        aside: how many bad rows were handed aside.
        fitted: how often the plan was fitted to machines that came or went.
        provisioned: how often nodes were acquired or given back.
        sources: what came to each source in all finished epochs, as far as that is known.
    """

    batches: int = 0
    tuples: int = 0
    seconds: float = 0.0
    taken_over: int = 0
    decisions: int = 0
    applied: int = 0
    refused: int = 0
    skipped: int = 0
    aside: int = 0
    fitted: int = 0
    provisioned: int = 0
    sources: Mapping[str, SourceStatistics] = FrozenMap()


class History:
    """Keeps the last batches and decisions in full, and sums of the rest, so that it never grows.

    It keeps fewer batches of jobs with very many instances: all that are kept have a million
    instances at most, which is 350 batches of three operators with 1,000 instances each.

    >>> history = History(2)
    >>> for batch in range(5):
    ...     history.add_batch(BatchSummary(batch, 0, 0.5, (), {}), tuples=10, plan=Plan())
    >>> [summary.batch for summary in history.batches], history.totals.tuples
    ([3, 4], 50)

    Args:
        remember: how many batches, and how many decisions, are kept at most.
    """

    def __init__(self, remember: int = REMEMBERED) -> None:
        length = whole("remember", remember, at_least=1)
        self._batches: deque[BatchSummary] = deque(maxlen=length)
        self._instances = 0  # in all of these batches
        self._plans: deque[Plan | PlanOutline] = deque(maxlen=length)  # one for each batch
        self._decisions: deque[Decision] = deque(maxlen=length)
        self.totals = Totals()

    @property
    def batches(self) -> list[BatchSummary]:
        """The last batches."""
        return list(self._batches)

    @property
    def plans(self) -> list[Plan | PlanOutline]:
        """The plan of each of these batches: the last plan whole, those before it in outline."""
        return list(self._plans)

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions: the last one whole, those before it in outline."""
        return list(self._decisions)

    def add_batch(self, summary: BatchSummary, *, tuples: int, plan: Plan) -> None:
        """Add a batch.

        Args:
            summary: the batch.
            tuples: how many tuples came into the job in it.
            plan: the plan that was in force.
        """
        kept = self._batches
        if len(kept) == kept.maxlen:
            self._forget_oldest()
        self._outline_plans_before(plan)
        kept.append(summary)
        self._plans.append(plan)
        self._instances += len(summary.instances)
        while self._instances > _MOST_INSTANCES and len(kept) > 1:
            self._forget_oldest()
        sums = self.totals
        self.totals = replace(
            sums,
            batches=sums.batches + 1,
            tuples=sums.tuples + tuples,
            seconds=sums.seconds + summary.seconds,
            taken_over=sums.taken_over + summary.taken_over,
            skipped=sums.skipped + sum(summary.skipped.values()),
            aside=sums.aside + sum(summary.aside.values()),
        )

    def _forget_oldest(self) -> None:
        self._instances -= len(self._batches.popleft().instances)
        self._plans.popleft()

    def _outline_plans_before(self, plan: Plan) -> None:
        """Drop the tables of the last plan if it is another: they would grow without end."""
        plans = self._plans
        if not plans or plans[-1] is plan or not isinstance(plans[-1], Plan):
            return
        last, outline = plans[-1], PlanOutline.of(plans[-1])
        for place in reversed(range(len(plans))):
            if plans[place] is not last:
                break
            plans[place] = outline

    def add_sources(self, sources: Mapping[str, SourceStatistics]) -> None:
        """Add what came to sources in an epoch."""
        known = self.totals.sources
        found = {
            name: known[name].then(seen) if name in known else seen
            for name, seen in sources.items()
        }
        self.totals = replace(self.totals, sources=FrozenMap({**known, **found}))

    def add_found(self, found: Mapping[str, float]) -> None:
        """Add what came of the last decision of an optimizer, in the epoch after it."""
        said = self._decisions
        last = next((n for n in reversed(range(len(said))) if not said[n].of_machines), None)
        if last is not None and not said[last].found:
            expected = said[last].expected
            known = {name: value for name, value in found.items() if name in expected}
            said[last] = replace(said[last], found=FrozenMap(known))

    def add_decision(self, decision: Decision) -> None:
        """Add a decision, and the outcome of the one before, if this one is after a batch.

        Its tables are dropped, as they would grow without end, see `outline`.
        """
        said = self._decisions
        if said:
            said[-1] = said[-1].in_outline()
        sums = self.totals
        if decision.of_machines:
            said.append(decision)
            self.totals = replace(
                sums,
                fitted=sums.fitted + decision.fits,
                provisioned=sums.provisioned + (decision.provisions and decision.applied),
                refused=sums.refused + bool(decision.refused),
            )
            return
        last = next((n for n in reversed(range(len(said))) if not said[n].of_machines), None)
        if last is not None and said[last].since is None and decision.after >= 0:
            said[last] = replace(said[last], since=decision.before)
        said.append(decision)
        self.totals = replace(
            sums,
            decisions=sums.decisions + 1,
            applied=sums.applied + decision.applied,
            refused=sums.refused + bool(decision.refused),
        )
