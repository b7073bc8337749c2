"""Spark's rate estimator for DStreams, from its published rule.

It takes the speed of the last batch for what can be carried. Part of what a batch takes does not
depend on its rows, so small batches look slow; it then admits less, which makes them smaller.

References:
    Apache Spark, "Spark Streaming programming guide" and configuration
    `spark.streaming.backpressure.pid.*`: 1, 0.2, 0, and at least 100 rows a second.
"""

from dataclasses import dataclass, replace
from typing import Self

from batching.admission.controller import BatchReport, NextBatch
from sketches.checks import amount, number


@dataclass(frozen=True)
class PidRate:
    """Admits at a rate that is corrected in proportion to what it missed.

    Attributes:
        period: seconds from batch to batch; it does not change.
        proportional: what the difference between admitted and measured speed counts.
        integral: what the rows that could have been done while batches waited count.
        derivative: what the change of the difference counts.
        lowest: the least that is admitted, in rows a second.
        rate: what is admitted, in rows a second; None before two batches were measured.
        speed: the rate that the next correction begins from.
        error: the last difference.
        since: seconds since the last correction.
    """

    period: float
    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    lowest: float = 100.0
    rate: float | None = None
    speed: float | None = None
    error: float = 0.0
    since: float = 0.0

    def __post_init__(self) -> None:
        number("period", self.period, above=0.0)
        for name in ("proportional", "integral", "derivative"):
            amount(name, getattr(self, name))
        number("lowest", self.lowest, above=0.0)

    @property
    def admission(self) -> NextBatch:
        """What holds for the next batch."""
        if self.rate is None:
            return NextBatch(self.period)
        return NextBatch(self.period, self.rate * self.period)

    def after(self, report: BatchReport) -> Self:
        """Return the controller that has heard of a batch; an empty one says nothing."""
        since = self.since + report.period
        if not report.rows or not report.seconds:
            return replace(self, since=since)
        measured = report.rows / report.seconds
        if self.speed is None:
            return replace(self, speed=measured, since=0.0)
        error = self.speed - measured
        missed = report.waited * measured / self.period
        change = (error - self.error) / since
        rate = max(
            self.lowest,
            self.speed
            - self.proportional * error
            - self.integral * missed
            - self.derivative * change,
        )
        return replace(self, rate=rate, speed=rate, error=error, since=0.0)
