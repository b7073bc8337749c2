"""What a stream's trigger takes around the batch that is in it.

Spark looks what there is, writes down which of it is in the batch, plans the query and calls us;
then we hand the output out and the optimizer decides, and Spark notes that the batch is done. All
of that comes between two batches, also where no one waits for rows. What comes before a batch is
known of itself: Spark writes down when it has fixed what is in it. What comes after it is known
once the trigger is over, so it is that of the batch before.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from optimizers.batch_time import BatchTime
from optimizers.spark.progress_meters import LastProgress


class _DoneBatch(NamedTuple):
    """The last batch that is done.

    Attributes:
        number: by which Spark knows it.
        cut: when Spark had fixed what is in it.
        seconds: from then until it was committed.
    """

    number: int
    cut: float
    seconds: float


@dataclass
class Triggers:
    """Tells what the triggers of a query take around its batches, as far as that is known."""

    _progress: LastProgress | None = field(default=None, init=False)
    _done: _DoneBatch | None = field(default=None, init=False)

    def watch(self, progress: LastProgress) -> None:
        """Use what tells of the last batch of the query that is done."""
        self._progress = progress

    def forget(self) -> None:
        """Forget the last batch, as one has come once more and was not run."""
        self._done = None

    def before(self, number: int, cut: float | None, now: float) -> float | None:
        """Return the seconds of a batch's trigger that are not its own, as it is begun.

        They are not known of the first batch of a query, nor after a batch that was cut in an
        earlier trigger than the one that it ran in.

        Args:
            number: by which Spark knows the batch.
            cut: when Spark had fixed what is in it; None if that is not known.
            now: the time, by the same clock.
        """
        done, told = self._done, None if self._progress is None else self._progress()
        if done is None or told is None or cut is None:
            return None
        begun = datetime.fromisoformat(told["timestamp"]).timestamp()
        if not told["batchId"] == done.number == number - 1 or done.cut < begun:
            return None
        took = told["durationMs"].get("triggerExecution")
        if took is None:
            return None
        return max(0.0, now - cut) + max(0.0, float(took) / 1e3 - done.seconds)

    def after(self, number: int, cut: float | None, begun: float, time: BatchTime | None) -> None:
        """Take in a batch that is done.

        Args:
            number: by which Spark knows it.
            cut: when Spark had fixed what is in it; None if that is not known.
            begun: when it was begun.
            time: where its time went; None if that is not known.
        """
        self._done = None
        if time is not None and cut is not None:
            own = time.seconds - (time.trigger or 0.0)
            self._done = _DoneBatch(number, cut, begun - cut + own)

    def paused(self, seconds: float) -> None:
        """Leave out of the last batch's trigger for how long it was held back by a plan."""
        if self._done is not None:
            self._done = self._done._replace(seconds=self._done.seconds + seconds)
