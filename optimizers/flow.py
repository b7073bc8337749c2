"""What flows into a job: how much came to each source, was let in, and waits."""

from dataclasses import dataclass, fields

from optimizers.documents import Record
from sketches.checks import optional_amount


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """What came to one source during an epoch. What is not known is None, never zero.

    The time in which tuples arrive is not the time in which batches work: a job that works half of
    the time is twice as fast as its stream. So `seconds` here is wall-clock time, from the last
    look at the source before the epoch to the last one in it, pauses included.

    >>> SourceStatistics(arrived=3_330, admitted=3_000, waiting=330, seconds=10).rate
    333.0

    Attributes:
        arrived: how many tuples came to the source.
        admitted: how many of all that had come it let in.
        waiting: how many were there at the end and not let in.
        seconds: in how much time that was.
    """

    arrived: float | None = None
    admitted: float | None = None
    waiting: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            given = optional_amount(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, given)

    def then(self, later: "SourceStatistics") -> "SourceStatistics":
        """Return it together with the following epoch; facts unknown in one are unknown in both.

        >>> SourceStatistics(10, 8, 2, 5).then(SourceStatistics(20, None, 9, 5))
        SourceStatistics(arrived=30.0, admitted=None, waiting=9.0, seconds=10.0)
        """
        arrived, admitted, seconds = (
            None if one is None or other is None else one + other
            for one, other in (
                (self.arrived, later.arrived),
                (self.admitted, later.admitted),
                (self.seconds, later.seconds),
            )
        )
        return SourceStatistics(arrived, admitted, later.waiting, seconds)

    @property
    def rate(self) -> float | None:
        """How many tuples arrive a second; None where that is not known."""
        if self.arrived is None or not self.seconds:
            return None
        return self.arrived / self.seconds

    @classmethod
    def from_record(cls, record: Record) -> "SourceStatistics":
        """Build it from the record of a document."""
        return cls(*(record.optional(field.name, float) for field in fields(cls)))
