"""The time of a batch, taken apart: where its seconds went, stage by stage."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from optimizers.documents import Record
from optimizers.errors import InvalidValueError
from sketches.checks import amount, optional_amount, whole
from sketches.values import listed

KEPT = 64
"""How many batches' times the statistics of an epoch keep: those of the last batches."""


def listed_times(given: object) -> tuple["BatchTime", ...]:
    """Return the last times of batches, as many as are kept; refuse what is not a BatchTime."""
    times = listed("batch_times", given)
    for time in times:
        if not isinstance(time, BatchTime):
            raise InvalidValueError(f"batch_times holds {time!r}; give a BatchTime for each batch")
    return times[-KEPT:]


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage of a batch: how its longest chain of tasks spent its seconds.

    The tasks of a stage run side by side, one for each core, and then the next ones. The times are
    of the *longest chain*: the tasks that ran one after the other on the core that finished last.
    If there is a core for each task, that is the slowest instance alone.

    Attributes:
        operators: those whose instances worked in it.
        size: how many tasks it had.
        turns: how many of them were in the longest chain.
        fixed: seconds until its first task began.
        tasks: seconds to start and end the tasks of the chain, apart from what they did.
        reading: seconds that they waited for rows of a source; 0 after the sources.
        work: seconds of the operators' functions and folds.
        shuffle: seconds for tuples that travel: waiting, unpacking, routing, packing, handing on.
        state: seconds to read state, take keys over, and write what changed.
    """

    operators: tuple[str, ...]
    size: int
    turns: int
    fixed: float = 0.0
    tasks: float = 0.0
    reading: float = 0.0
    work: float = 0.0
    shuffle: float = 0.0
    state: float = 0.0

    PARTS: ClassVar[tuple[str, ...]] = ("fixed", "tasks", "reading", "work", "shuffle", "state")

    def __post_init__(self) -> None:
        names = listed("operators", self.operators)
        for name in names:
            if not isinstance(name, str):
                raise InvalidValueError(f"operators holds {name!r}; name operators by strings")
        object.__setattr__(self, "operators", names)
        object.__setattr__(self, "size", whole("size", self.size, at_least=1))
        turns = whole("turns", self.turns, at_least=1, at_most=self.size)
        object.__setattr__(self, "turns", turns)
        for name in self.PARTS:
            object.__setattr__(self, name, amount(name, getattr(self, name)))

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(sum(getattr(self, name) for name in self.PARTS))

    @classmethod
    def from_record(cls, record: Record) -> "StageTime":
        """Build it from the record of a document."""
        operators, size = record.strings("operators"), record.take("size", int)
        turns = record.take("turns", int)
        return cls(operators, size, turns, *(record.take(name, float) for name in cls.PARTS))


@dataclass(frozen=True, slots=True)
class BatchTime:
    """Where the time of one batch went. Stages follow one another, so all parts add up.

    >>> count = StageTime(("count",), size=2, turns=1, fixed=0.02, tasks=0.04, work=0.3)
    >>> batch = BatchTime(7, tuples=1_000, seconds=0.5, planning=0.1, stages=[count], commit=0.03)
    >>> batch.parts["work"], round(batch.other, 3)
    (0.3, 0.01)

    Attributes:
        batch: its number.
        tuples: how many tuples came in with it.
        seconds: how long it took, by one clock: from when it was begun until it was committed; of
            a stream, with what its trigger took around that.
        planning: seconds from the begin until its first stage did.
        stages: what happened then, stage by stage.
        commit: seconds from the end of the last stage: to read the reports, check that all has
            arrived, and write the batch down.
        trigger: of a stream, seconds that its trigger took around all this: to look what there is,
            write down offsets, plan the query, hand the output out and decide. The triggers of a
            stream follow one another, so it can go on no faster. 0 where there is no trigger, as
            for bounded data; None where that is not known, as of the first batch of a query.
    """

    batch: int
    tuples: float
    seconds: float
    planning: float
    stages: tuple[StageTime, ...]
    commit: float
    trigger: float | None = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", whole("batch", self.batch, at_least=0))
        object.__setattr__(self, "trigger", optional_amount("trigger", self.trigger))
        for name in ("tuples", "seconds", "planning", "commit"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        stages = listed("stages", self.stages)
        for stage in stages:
            if not isinstance(stage, StageTime):
                raise InvalidValueError(f"stages holds {stage!r}; give a StageTime for each")
        object.__setattr__(self, "stages", stages)

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds of each part, all stages together; 0 of what is not known."""
        found = {"trigger": self.trigger or 0.0, "planning": self.planning}
        for name in StageTime.PARTS:
            found[name] = sum(getattr(stage, name) for stage in self.stages)
        return {**found, "commit": self.commit}

    @property
    def other(self) -> float:
        """The seconds in no part; negative where parts were counted twice."""
        return self.seconds - sum(self.parts.values())

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "stages": [asdict(stage) for stage in self.stages]}

    @classmethod
    def from_record(cls, record: Record) -> "BatchTime":
        """Build it from the record of a document."""
        return cls(
            record.take("batch", int),
            record.take("tuples", float),
            record.take("seconds", float),
            record.take("planning", float),
            tuple(record.each("stages", StageTime.from_record)),
            record.take("commit", float),
            record.optional("trigger", float),
        )
