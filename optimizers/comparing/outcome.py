"""The outcome of a variant: its batches, decisions and differences."""

from dataclasses import asdict, dataclass
from typing import Any

from optimizers.control.decision import DecisionFacts
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.run_summary import RunSummary
from optimizers.documents import Record


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference from the reference: the first place, and how many there are.

    Attributes:
        what: state or output, of which operator.
        row: which row, by its key.
        column: which column of it; empty where a whole row is missing or there is one too many.
        expected: what the reference has there.
        found: what the variant has there.
        rows: how many rows differ.
    """

    what: str
    row: str
    column: str
    expected: str
    found: str
    rows: int = 1

    def __str__(self) -> str:
        column = f"{self.column} is " if self.column else "there is "
        others = f"; {self.rows} rows differ" if self.rows > 1 else ""
        return (
            f"{self.what}: {self.row}: {column}{self.found}, "
            f"where the reference has {self.expected}{others}"
        )

    @classmethod
    def from_record(cls, record: Record) -> "Difference":
        """Build it from the record of a document."""
        return cls(
            record.take("what", str),
            record.take("row", str),
            record.take("column", str),
            record.take("expected", str),
            record.take("found", str),
            record.take("rows", int),
        )


@dataclass(frozen=True)
class Outcome:
    """The outcome of one variant.

    Attributes:
        name: of the variant.
        strategy: the strategy that decided.
        batches: a summary of each batch.
        decisions: the optimizer's decisions.
        difference: where its results differ from the reference; None if they do not.
        observes: what its strategy observes, by the names of probes.
        checked: whether its results were compared with the reference; a simulation computes none.
        epochs: the facts that its strategy was told of each of the last epochs that are over, and
            what it decided.
    """

    name: str
    strategy: str
    batches: tuple[RunSummary, ...]
    decisions: tuple[DecisionFacts, ...] = ()
    difference: Difference | None = None
    observes: tuple[str, ...] = ()
    checked: bool = True
    epochs: tuple[EpochFacts, ...] = ()

    @property
    def idle(self) -> tuple[str, ...]:
        """Why its strategy can do nothing for this job; empty if it can, or has done something."""
        if any(decision.applied for decision in self.decisions):
            return ()
        return tuple(dict.fromkeys(text for said in self.decisions for text in said.idle))

    @property
    def first_change(self) -> int | None:
        """The first batch that came under another plan than the job began with."""
        return next((batch.first for batch in self.batches if batch.changed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {
            "name": self.name,
            "strategy": self.strategy,
            "batches": [batch.to_dict() for batch in self.batches],
            "decisions": [asdict(decision) for decision in self.decisions],
            "difference": None if self.difference is None else asdict(self.difference),
            "observes": list(self.observes),
            "checked": self.checked,
            "epochs": [epoch.to_dict() for epoch in self.epochs],
        }

    @classmethod
    def from_record(cls, record: Record) -> "Outcome":
        """Build it from the record of a document."""
        difference = record.optional("difference", dict)
        return cls(
            record.take("name", str),
            record.take("strategy", str),
            tuple(record.each("batches", RunSummary.from_record)),
            tuple(record.each("decisions", DecisionFacts.from_record)),
            None
            if difference is None
            else Record(difference, "difference").into(Difference.from_record),
            record.strings("observes"),
            record.optional("checked", bool) is not False,
            tuple(record.each("epochs", EpochFacts.from_record)),
        )
