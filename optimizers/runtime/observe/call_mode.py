"""Ways of handing tuples over to a function of batches, so as to learn what each of them costs.

The mode is decided on by the driver, from what tasks have tried in earlier batches: all attempts of
one task must work in the same mode, as they have to make the same parcels; their clocks differ.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from statistics import fmean, median
from typing import NamedTuple

import pyarrow as pa

SCHEMA = pa.schema([("rows", pa.int64()), ("alone", pa.bool_()), ("seconds", pa.float64())])
"""A table of calls that were tried: of how many tuples, and whether to compare it with others;
without seconds if the function cannot do with one tuple."""

_LEAST_ALONE, _LEAST_TOGETHER = 32, 128  # tuples that it takes to tell
_MOST_ALONE = 1 << 10  # whose seconds are kept, of a function that is never tried enough together
_WORTH = 1 / 3  # of what a tuple costs alone may go into the call itself
_PER_ROW = 1.2e-5  # seconds that it takes to time a row, and to call for those before it
_AROUND = 2e-5  # seconds around a tuple handed over alone, and around a call for those before it
_SHARE, _SHARE_OF_ROWS = 0.02, 0.01  # of the function's own time, at most, are spent so
_MOST_EVERY = 1 << 12


class CallMode(Enum):
    """How tuples are handed to a function of batches."""

    UNKNOWN = "unknown"
    """Most at once, and a few alone, for the driver to compare."""
    TOGETHER = "together"
    """All at once, for it is the calls that cost; each tuple of a call counts the same."""
    APART = "apart"
    """By runs of one key, or some of these runs alone and those between them at once."""


class Calls(NamedTuple):
    """How a function of batches is called.

    Attributes:
        mode: how tuples are handed to it.
        every: of so many runs of one key one is handed over alone; of so many rows one is timed.
    """

    mode: CallMode = CallMode.UNKNOWN
    every: int = 1


@dataclass(slots=True)
class CallTrial:
    """What is known of a function: what tuples cost alone, and among others.

    >>> trial = CallTrial()
    >>> trial.add(pa.Table.from_pylist([{"rows": 128, "alone": False, "seconds": 64.0}], SCHEMA))
    >>> trial.calls.mode
    <CallMode.UNKNOWN: 'unknown'>
    >>> trial.add(pa.Table.from_pylist([{"rows": 1, "alone": True, "seconds": 0.6}] * 32, SCHEMA))
    >>> trial.calls
    Calls(mode=<CallMode.APART: 'apart'>, every=1)

    Attributes:
        alone: the seconds of each of the last tuples that were alone.
        calls_together: in how many calls others were together.
        rows: how many those were.
        seconds: how long they took.
        failed: whether the function cannot do with one tuple.
    """

    alone: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_ALONE))
    calls_together: int = 0
    rows: int = 0
    seconds: float = 0.0
    failed: bool = False

    def add(self, table: pa.Table) -> None:
        """Take in what a task has tried; see `SCHEMA`."""
        for row in table.to_pylist():
            if row["seconds"] is None:
                self.failed = True
            elif row["alone"]:
                self.alone.append(row["seconds"])
            else:
                self.calls_together += 1
                self.rows += row["rows"]
                self.seconds += row["seconds"]

    @property
    def calls(self) -> Calls:
        """How to hand tuples over: apart, if a call costs little beside the tuple in it."""
        if self.failed:
            return Calls(CallMode.TOGETHER)
        few = self.rows < max(_LEAST_TOGETHER, 2 * self.calls_together)
        if few or len(self.alone) < _LEAST_ALONE:
            each = self.seconds / self.rows if self.rows else math.inf
            return Calls(every=_every(_PER_ROW / _SHARE_OF_ROWS, each))
        # A delay of one of them makes the mean too large; what few of them cost, the median.
        alone = min(fmean(self.alone), median(self.alone))
        call = (self.rows * alone - self.seconds) / (self.rows - self.calls_together)
        if call > _WORTH * alone:
            return Calls(CallMode.TOGETHER)
        return Calls(CallMode.APART, _every(_AROUND / _SHARE, alone))


def _every(seconds: float, each: float) -> int:
    """Return how many tuples take so long together; one at least, and not any number."""
    return max(1, min(_MOST_EVERY, math.ceil(seconds / each))) if each > 0.0 else _MOST_EVERY
