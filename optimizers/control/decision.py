"""A decision: an optimizer's answer and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from optimizers.control.expecting import told
from optimizers.control.plan_outline import PlanOutline
from optimizers.documents import Record
from optimizers.notes import note_from_record
from optimizers.past import MOST_NOTES
from optimizers.plan import Note, Plan
from sketches.values import FrozenMap


@dataclass(frozen=True, slots=True)
class Decision:
    """An optimizer's answer after a batch, and its outcome.

    Attributes:
        after: the batch after which it was asked; -1 for before the first.
        plan: what it decided; `Plan()`, often with a note, for no change. Only the last decision
            has its tables in full; earlier ones have outlines, see `in_outline`.
        refused: why the decision could not be carried out; empty if it was.
        before: the share of tuples that stayed on their node, on edges between keyed operators,
            in the epoch it was decided from.
        since: the same, in the epoch that followed; None until that is over.
        seconds: CPU seconds that the decision took.
        applied: whether it changed anything; restating the plan in force does not.
        fits: whether the control loop made it, not an optimizer: machines came or went, and the
            plan in force was fitted to those that are there. The plan says what was changed.
        provisions: whether the control loop made it, not an optimizer: nodes were asked for, given
            back, or are late. The plan's notes name them.
        expected: what it would bring, by the names of figures, see `PastDecision.expected`.
        found: the same figures in the epoch that followed; empty until that is over.
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
    expected: Mapping[str, float] = FrozenMap()
    found: Mapping[str, float] = FrozenMap()

    @property
    def of_machines(self) -> bool:
        """Whether it is about machines, and not an optimizer's."""
        return self.fits or self.provisions

    @property
    def notes(self) -> tuple[Note, ...]:
        """The reasons, in the words and figures of the strategies."""
        return self.plan.notes

    def in_outline(self) -> "Decision":
        """Return the same with a few words instead of each table, small enough to be remembered."""
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
        outcome = told(self.expected, self.found)
        return f"after batch {self.after}: {what} changes ({reasons or 'no reason given'}){outcome}"


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """The parts of a decision that reports and documents keep.

    Attributes:
        after: after which batch; -1 for before the first.
        applied: whether it changed anything.
        refused: why it could not be carried out; empty if it was.
        seconds: CPU seconds that it took.
        text: the plan and its reasons, in words.
        idle: why strategies can do nothing for this job, in their words.
        notes: the reasons with their figures, as many as are remembered.
    """

    after: int
    applied: bool
    refused: str
    seconds: float
    text: str
    idle: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> "DecisionFacts":
        """Return these parts of a decision."""
        return cls(
            decision.after,
            decision.applied,
            decision.refused,
            decision.seconds,
            str(decision),
            tuple(f"{note.by} {note.text}" for note in decision.notes if note.idle),
            tuple(decision.notes[:MOST_NOTES]),
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
            tuple(record.each("notes", note_from_record)),
        )


def _parts(plan: Plan | PlanOutline) -> list[str]:
    names = [field.name for field in fields(plan) if field.name != "notes"]
    return [name for name in names if getattr(plan, name)]
