"""An assignment: the coordinator's instructions for one batch."""

from dataclasses import dataclass

from optimizers.plan import Plan
from optimizers.runtime.work import JobContext, Ticket


@dataclass(frozen=True)
class Assignment:
    """One batch to be executed.

    Attributes:
        work: the job under the plan in force; the same object until the plan changes.
        ticket: the batch.
        plan: the plan.
        planned: the batch with which the plan came in force.
        plan_revision: the number of the plan among those saved for that batch.
    """

    work: JobContext
    ticket: Ticket
    plan: Plan
    planned: int
    plan_revision: int = 0
