"""A decision: what an optimizer said, and what became of it."""

from dataclasses import dataclass, fields, replace

from optimizers.control.plan_outline import PlanOutline
from optimizers.documents import Record
from optimizers.plan import Note, Plan


@dataclass(frozen=True, slots=True)
class Decision:
    """What an optimizer said after a batch, and what became of it.

    Attributes:
        after: the batch after which it was asked; -1 for before the first.
        plan: what it decided; `Plan()` with a note where it decided to leave things alone. Only the
            last decision has its tables; earlier ones have them in outline, see
            `in_outline`.
        refused: why the decision could not be carried out; empty if it was.
        before: the share of tuples that stayed on their node, on edges between keyed operators,
            in the epoch it was decided from.
        since: the same, in the epoch that followed; None as long as that is not over.
        seconds: CPU seconds that the decision took.
        applied: whether it changed anything; what is in force already changes nothing.
        fits: whether it is no optimizer's: machines came or went, and the plan in force was fitted
            to those that are there. The plan tells what had to be changed.
        provisions: whether it is no optimizer's: nodes were asked for, given back, or are late. The
            plan's notes tell which.
    """

    after: int
    plan: Plan | PlanOutline
    refused: str = ""
    before: float = 1.0
    since: float | None = None
    seconds: float = 0.0
    applied: bool = False
    fits: bool = False
    provisions: bool = False

    @property
    def of_machines(self) -> bool:
        """Whether it is no optimizer's, but about machines."""
        return self.fits or self.provisions

    @property
    def notes(self) -> tuple[Note, ...]:
        """Why, in the words and figures of the strategies."""
        return self.plan.notes

    def in_outline(self) -> "Decision":
        """Return the same with a few words in place of each table, so that it can be remembered."""
        plan = self.plan
        return self if isinstance(plan, PlanOutline) else replace(self, plan=PlanOutline.of(plan))

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.notes))
        if self.fits:
            return f"after batch {self.after}: fitted to the machines that are there ({reasons})"
        if self.refused:
            aside = f" ({reasons})" if reasons else ""
            return f"after batch {self.after}: refused, for {self.refused}{aside}"
        if self.provisions:
            return f"after batch {self.after}: nodes come and go as plans want ({reasons})"
        what = ", ".join(sorted(_parts(self.plan))) if self.applied else "nothing"
        return f"after batch {self.after}: {what} changes ({reasons or 'no reason given'})"


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What is kept of a decision in reports and documents.

    Attributes:
        after: after which batch; -1 for before the first.
        applied: whether it changed anything.
        refused: why it could not be carried out; empty if it was.
        seconds: CPU seconds that it took.
        text: what it said, and why.
        idle: what strategies said of why they can do nothing for this job.
    """

    after: int
    applied: bool
    refused: str
    seconds: float
    text: str
    idle: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> "DecisionFacts":
        """Return what is kept of a decision."""
        return cls(
            decision.after,
            decision.applied,
            decision.refused,
            decision.seconds,
            str(decision),
            tuple(f"{note.by} {note.text}" for note in decision.notes if note.idle),
        )

    @classmethod
    def from_record(cls, record: Record) -> "DecisionFacts":
        """Build it from the record of a document."""
        return cls(
            record.take("after", int),
            record.take("applied", bool),
            record.take("refused", str),
            record.take("seconds", float),
            record.take("text", str),
            record.strings("idle"),
        )


def _parts(plan: Plan | PlanOutline) -> list[str]:
    names = [field.name for field in fields(plan) if field.name != "notes"]
    return [name for name in names if getattr(plan, name)]
