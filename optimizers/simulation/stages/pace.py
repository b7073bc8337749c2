"""When batches begin, and which tuples they take in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.simulation.control import Control
from optimizers.simulation.run import Running
from sketches.arrays import Floats


@dataclass(frozen=True)
class Pace:
    """Says of each batch when it begins, once it is known when the one before has ended.

    A batch begins when its tuples are there and the one before has ended. Which tuples these are is
    given, or they are all that came until then: at the next multiple of an interval, or as soon as
    there are any.

    Attributes:
        times: when tuples come in, in order.
        ends: the times before which the tuples of each batch but the last come; None where each
            takes all that there is.
        interval: how many seconds pass from one to the next, unless that takes longer.
    """

    times: Floats
    ends: Sequence[float] | None = None
    interval: float = 0.0

    def following(
        self, number: int, taken: int, begun: float, ended: float, period: float
    ) -> tuple[float, float]:
        """Return when a batch begins, and before when what it takes in comes.

        Args:
            number: of the batch.
            taken: how many tuples the batches before have.
            begun: when the one before began.
            ended: when it ended.
            period: how many seconds pass at least from its beginning to that of this one.
        """
        if self.ends is not None:
            until = self.ends[number] if number < len(self.ends) else math.inf
            last = int(np.searchsorted(self.times, until)) - 1
            return max(ended, float(self.times[max(0, last)])), until
        begin = float(self.times[0])
        if number:
            begin = max(ended, self._due(begun), begun + period)
        there = float(self.times[taken])
        if there > begin:  # no engine begins a batch without a tuple
            begin = self._due(there, at_once=True)
        return begin, float(np.nextafter(begin, math.inf))

    def _due(self, time: float, *, at_once: bool = False) -> float:
        """Return the first multiple of the interval after a time, or at once where it is one."""
        if not self.interval:
            return time
        first = float(self.times[0])
        passed = (time - first) / self.interval
        steps = math.ceil(passed) if at_once else math.floor(passed) + 1
        return max(time, first + steps * self.interval)


def run_paced(running: Running, control: Control, pace: Pace, sources: Sequence[str]) -> None:
    """Run a job batch by batch until all that comes in is done."""
    number, place, taken, begun, ended = 0, 0, 0, -math.inf, -math.inf
    while taken < len(pace.times):
        # A batch that is given is taken in piece by piece where a plan admits less.
        which = number if pace.ends is None else place
        begun, until = pace.following(which, taken, begun, ended, control.period)
        batch = control.begin(number, begun)
        end = min(until, running.full(control.plan.admit))
        place += end >= until
        ended = running.advance(batch, end)
        taken += sum(len(batch.served[name]) for name in sources)
        control.end(batch, ended, more=taken < len(pace.times))
        number += 1
