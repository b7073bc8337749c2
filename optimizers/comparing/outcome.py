"""What is known of a variant after a comparison: facts of each batch, decisions, differences."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from optimizers.batch_time import BatchTime
from optimizers.control.decision import DecisionFacts
from optimizers.documents import Record
from sketches.values import FrozenMap


@dataclass(frozen=True, slots=True)
class Difference:
    """Where results are not those of the reference: the first place, and how many there are.

    Attributes:
        what: state or output, of which operator.
        row: which row, by its key.
        column: which column of it; empty where a whole row is missing or there is one too many.
        expected: what the reference has there.
        found: what is there instead.
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
class BatchFacts:
    """What one batch was for one variant.

    Attributes:
        batch: its number.
        tuples: how many tuples came in.
        seconds: how long it took from the first task to the last report.
        makespan: CPU seconds that the slowest chain of instances would have needed: over all
            stages, the sum of those of the busiest instance.
        moved: how many keys changed their instance.
        changed: whether another plan came into force with it.
        hops: how many tuples went from a keyed operator to the next.
        local: how many of these stayed on their node.
        bytes: how large all that was sent between instances was.
        remote_bytes: how much of it was for an instance on another node.
        loads: by operator, what each instance had to do: of a keyed one, how many tuples it
            received; of one without state whose tuples may be scheduled by a key, the CPU
            microseconds that they took.
        latency: how many seconds a tuple took on average until all that came of it was done; None
            where the engine does not tell.
        time: where its time went, with planning and the commit; None where the engine does not
            tell.
    """

    batch: int
    tuples: int
    seconds: float
    makespan: float
    moved: int
    changed: bool
    hops: float
    local: float
    bytes: float
    remote_bytes: float
    loads: Mapping[str, tuple[int, ...]]
    latency: float | None = None
    time: BatchTime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **fields,
            "loads": {name: list(load) for name, load in self.loads.items()},
            "time": None if self.time is None else self.time.to_dict(),
        }

    @classmethod
    def from_record(cls, record: Record) -> "BatchFacts":
        """Build it from the record of a document."""
        return cls(
            record.take("batch", int),
            record.take("tuples", int),
            record.take("seconds", float),
            record.take("makespan", float),
            record.take("moved", int),
            record.take("changed", bool),
            record.take("hops", float),
            record.take("local", float),
            record.take("bytes", float),
            record.take("remote_bytes", float),
            FrozenMap(
                {
                    name: Record({"load": load}, where).integers("load")
                    for name, (load, where) in record.mapping("loads", _placed).items()
                }
            ),
            record.optional("latency", float),
            BatchTime.of_record(record, "time"),
        )


@dataclass(frozen=True)
class Outcome:
    """What one variant came to.

    Attributes:
        name: of the variant.
        strategy: what decided.
        batches: what each batch was.
        decisions: what the optimizer said.
        difference: where its results are not those of the reference; None if they all are.
        observes: what its strategy observes, by the names of probes.
        checked: whether its results were compared with the reference; the simulation computes none.
    """

    name: str
    strategy: str
    batches: tuple[BatchFacts, ...]
    decisions: tuple[DecisionFacts, ...] = ()
    difference: Difference | None = None
    observes: tuple[str, ...] = ()
    checked: bool = True

    @property
    def idle(self) -> tuple[str, ...]:
        """Why its strategy can do nothing for this job; empty if it may, or has done something."""
        if any(decision.applied for decision in self.decisions):
            return ()
        return tuple(dict.fromkeys(text for said in self.decisions for text in said.idle))

    @property
    def first_change(self) -> int | None:
        """The first batch that came under another plan than the job began with."""
        return next((facts.batch for facts in self.batches if facts.changed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {
            "name": self.name,
            "strategy": self.strategy,
            "batches": [facts.to_dict() for facts in self.batches],
            "decisions": [asdict(decision) for decision in self.decisions],
            "difference": None if self.difference is None else asdict(self.difference),
            "observes": list(self.observes),
            "checked": self.checked,
        }

    @classmethod
    def from_record(cls, record: Record) -> "Outcome":
        """Build it from the record of a document."""
        difference = record.optional("difference", dict)
        return cls(
            record.take("name", str),
            record.take("strategy", str),
            tuple(record.each("batches", BatchFacts.from_record)),
            tuple(record.each("decisions", DecisionFacts.from_record)),
            None
            if difference is None
            else Record(difference, "difference").into(Difference.from_record),
            record.strings("observes"),
            record.optional("checked", bool) is not False,
        )


def _placed(value: Any, where: str) -> tuple[Any, str]:
    return value, where
