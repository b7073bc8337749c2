"""The inflow of a job: how much came to each source since an epoch began, and how much waits.

A source counts in units of its own: seconds of a clock, rows of a recording, bytes of files. A
*meter* knows how many units there are, and up to which unit a batch was let in. The number of
tuples in a unit follows from the batches: how many tuples came from how many units.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from optimizers.control.summary import BatchSummary
from optimizers.flow import SourceStatistics
from optimizers.runtime.log.origins import OfStream, Origin

_KEPT = 64  # batches for which the tuples per unit are known
_STEADY = 0.1  # how far batches may differ in that, for it to be assumed of what waits


class SourceMeter(Protocol):
    """Knows how far a source has come, in units that rise with each tuple."""

    exact: bool
    """Whether all units have the same number of tuples."""

    @property
    def born(self) -> float:
        """The time before which nothing can have come, in seconds of the wall clock."""

    def latest(self, now: float) -> float | None:
        """Return how many units there are at a time; None where that cannot be known.

        Times do not go back from call to call, except to that of the last look.
        """

    def age(self, now: float) -> float:
        """Return how many seconds before that time the last answer was true; 0 for at that time."""

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return how many units were let in up to an offset; None where that cannot be known.

        Args:
            offset: how far the source was read.
            tuples: how many tuples were let in since the offset before.
        """


@dataclass
class _Source:
    """One source, since the epoch began.

    Attributes:
        meter: its meter.
        place: which of the query's offsets is its own.
        since: when the epoch began.
        began: how many units there were then; None where that was not known yet.
        before: how many units had been let in before the last batch.
        tuples: how many tuples were let in since.
        batches: the units and tuples of the last batches.
    """

    meter: SourceMeter
    place: int
    since: float
    began: float | None
    before: float | None = None
    tuples: float = 0.0
    batches: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def add(self, offset: str, tuples: float) -> None:
        """Note that a batch was let in, up to an offset."""
        self.tuples += tuples
        after = self.meter.admitted(offset, tuples)
        if after is not None and self.before is not None and after > self.before:
            self.batches.append((after - self.before, tuples))
        self.before = after

    def look(self, now: float) -> tuple[float | None, float]:
        """Return how many units there are, and how long ago that was seen."""
        units = self.meter.latest(now)
        return units, 0.0 if units is None else self.meter.age(now)

    def begin(self, now: float, units: float | None, age: float) -> None:
        """Begin an epoch, given the units as they were seen that long ago."""
        self.since, self.began, self.tuples = now - age, units, 0.0

    def statistics(self, now: float, units: float | None, age: float) -> SourceStatistics:
        """Return what came since the epoch began, given the units at its end."""
        size = self._tuples_of_a_unit()
        since = max(self.since, self.meter.born)
        began = self.began
        if began is None and not age:  # what it was then may be known by now
            began = self.meter.latest(since)
        arrived = waiting = None
        if units is not None and began is not None:
            arrived = _sized(units - began, size)
        seconds = max(0.0, now - age - since)
        if units is not None and self.before is not None:
            waiting = _sized(units - self.before, size)
            if age and not _is_sure(waiting, arrived, seconds, age):
                waiting = None
        return SourceStatistics(arrived, self.tuples, waiting, seconds)

    def _tuples_of_a_unit(self) -> float | None:
        """Return how many tuples a unit is; None where batches do not agree on that."""
        units = sum(each for each, _ in self.batches)
        if not units:
            return None
        size = sum(tuples for _, tuples in self.batches) / units
        if self.meter.exact:
            return size
        squares = sum(each * (tuples / each - size) ** 2 for each, tuples in self.batches)
        steady = len(self.batches) > 1 and math.sqrt(squares / units) <= _STEADY * size
        return size if steady else None


class Inflow:
    """Counts the tuples that come to the sources of a stream, from epoch to epoch.

    Args:
        clock: the wall clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sources: dict[str, _Source] = {}
        self._offsets = 0
        self._has_begun = False  # whether a batch was let in in this epoch

    def watch(
        self, meters: Mapping[str, tuple[int, SourceMeter]], offsets: int, last: Sequence[str] = ()
    ) -> None:
        """Begin to watch the sources of a query; earlier ones are forgotten.

        Args:
            meters: of the sources that can be told apart: which of the query's offsets is theirs,
                and their meter.
            offsets: how many offsets the query should have, one for each of its streams.
            last: its offsets after the last batch; empty before the first.
        """
        self._offsets = offsets
        self._sources = {}
        for name, (place, meter) in meters.items():
            before = meter.admitted(last[place], 0.0) if len(last) == offsets else 0.0
            now = self._clock()
            self._sources[name] = _Source(meter, place, now, meter.latest(now), before)

    def add(self, offsets: Sequence[str], tuples: Mapping[str, float]) -> None:
        """Note that a batch was let in.

        Args:
            offsets: how far each stream of the query was read.
            tuples: how many tuples each source let in.
        """
        self._has_begun = True
        if len(offsets) != self._offsets:
            self._sources = {}  # Spark sees the streams as one, with offsets of unknown owners
        for name, source in self._sources.items():
            source.add(offsets[source.place], tuples.get(name, 0.0))

    def hear(self, origin: Origin, summary: BatchSummary) -> None:
        """Take in a batch, if it is one of a stream."""
        if isinstance(origin, OfStream):
            admitted = {name: float(sum(summary.loads(name))) for name in self._sources}
            self.add(origin.offsets, admitted)

    def begin(self) -> None:
        """Begin an epoch; one without a batch goes on, so that it includes what came meanwhile."""
        if not self._has_begun:
            return
        self._has_begun = False
        now = self._clock()
        for source in self._sources.values():
            source.begin(now, *source.look(now))

    def end(self) -> dict[str, SourceStatistics]:
        """Return what came in the epoch, and begin the next."""
        self._has_begun = False
        now = self._clock()
        found = {}
        for name, source in self._sources.items():
            seen = source.look(now)
            found[name] = source.statistics(now, *seen)
            source.begin(now, *seen)
        return found


def _is_sure(waiting: float | None, arrived: float | None, seconds: float, age: float) -> bool:
    """Return whether what waited some time ago does still, but for a small part.

    Args:
        waiting: how many tuples waited then; None where that is not known.
        arrived: how many came in an epoch before, as for all below.
        seconds: how long that was.
        age: how many seconds ago it was.
    """
    if not waiting or arrived is None or not seconds:
        return False
    return arrived / seconds * age <= _STEADY * waiting


def _sized(units: float, size: float | None) -> float | None:
    """Return how many tuples some units are; 0 for no units of any size."""
    if units <= 0:
        return 0.0
    return None if size is None else units * size
