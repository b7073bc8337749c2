"""An assignment: what the coordinator says is to be done in one batch."""

from dataclasses import dataclass

from optimizers.plan import Plan
from optimizers.runtime.work import Ticket, Work


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
