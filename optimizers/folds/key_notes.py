"""Notes on each key while a function works through them, one after the other."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats

Clock = Callable[[], float]

_WINDOW = 1e-4  # seconds: reading CPU time takes a fiftieth of it


class KeyNotes:
    """Notes the CPU time of keys, and how many rows are sent for each.

    Reading CPU time takes longer than the work of many a key. So it is read after a few keys, or
    after one that took long; the keys in between share it by the wall-clock time that passed.

    Args:
        keys: how many keys there are.
        wall: returns wall-clock time.
        cpu: returns CPU time.

    Attributes:
        seconds: CPU seconds of each key.
        rows: how many rows were sent for each.
    """

    def __init__(
        self, keys: int, wall: Clock = time.perf_counter, cpu: Clock = time.process_time
    ) -> None:
        self.seconds: Floats = np.zeros(keys)
        self.rows: NDArray[np.int64] = np.zeros(keys, dtype=np.int64)
        self._wall, self._cpu = wall, cpu
        self._first = self._next = 0
        self._times: list[float] = []
        self.begin()

    def begin(self) -> None:
        """Begin with the first key now."""
        self._spent = self._cpu()
        self._began = self._last = self._wall()

    def note(self, rows: int) -> None:
        """Note that the next key is done, and how many rows are sent for it."""
        now = self._wall()
        self._times.append(now - self._last)
        self._last = now
        self.rows[self._next] = rows
        self._next += 1
        if now - self._began >= _WINDOW:
            self._share()

    def forget(self, number: int) -> None:
        """Note that none of a key's rows are sent after all."""
        self.rows[number] = 0

    def end(self) -> None:
        """Note that all keys are done."""
        if self._times:
            self._share()

    def _share(self) -> None:
        """Share the CPU time since the last time among the keys since then."""
        spent, passed = self._cpu(), self._last - self._began
        rate = (spent - self._spent) / passed if passed > 0 else 0.0
        self.seconds[self._first : self._next] = np.array(self._times) * rate
        self._first, self._times = self._next, []
        self._spent = spent
        self._began = self._last = self._wall()
