"""A clock that stands still while others have the processor."""

import math
import os
from time import perf_counter

_PLACE = "/proc/thread-self/schedstat"
_LONGEST = 128  # bytes: three numbers
_GAP = 0.0002  # seconds: a turn of another takes longer, and to ask takes a twentieth of it


class BusyClock:
    """Tells seconds as the clock on the wall does, but for those spent waiting for a processor.

    How long a tuple takes is to be known of the tuple. On a machine that is shared, a tuple may
    wait a hundred times as long for its turn as it takes, and that says nothing of the next one
    with the same key. What it waits for otherwise, a disk or a service, is its own affair and
    counts.

    Linux tells how long a thread has waited; it is asked only where so much time has passed since
    the clock was last read that the thread may have waited. Where Linux does not tell, this is the
    wall clock.

    A clock is for the thread that made it, and read there only.

    >>> clock = BusyClock()
    >>> clock() <= clock()
    True
    """

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open(_PLACE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None
        self._read = -math.inf
        self._waited = 0.0
        self._shown = -math.inf

    def __call__(self) -> float:
        """Return what time it is, in seconds since some moment."""
        now = perf_counter()
        if now - self._read > _GAP:
            self._waited = self._waited_so_far()
        self._read = now
        # A short wait before the last reading may only show now.
        self._shown = max(self._shown, now - self._waited)
        return self._shown

    def _waited_so_far(self) -> float:
        """Return how many seconds this thread has waited for a processor, ever."""
        if self._file is None:
            return 0.0
        # Time on a processor, time waiting for one, turns; the times in nanoseconds.
        return int(os.pread(self._file, _LONGEST, 0).split()[1]) / 1e9

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]
