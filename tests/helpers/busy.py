"""Work that takes a known time of the processor, whatever else runs on the machine."""

import time

import numpy as np
import pyarrow as pa

from optimizers.folds import Emit
from optimizers.folds.fold import Fold


def spin(seconds):
    """Use this number of CPU seconds, and return how many it were."""
    started = now = time.process_time()
    while now - started < seconds:
        now = time.process_time()
    return now - started


def by_key(key, rows, state):
    """For `EachKey`: takes as long as `cost_of` says, and keeps as much as `size_of` says."""
    (number,) = key
    spin(len(rows) * cost_of(number))
    return "x" * size_of(number)


def cost_of(key):
    """The CPU seconds of a tuple of a key of `by_key`."""
    return (1 + key % 5) * 1e-4


def size_of(key):
    """The bytes that `by_key` keeps of a key."""
    return 10 * (key % 7) ** 3


class Spinning(Fold):
    """Counts tuples; a call takes ``call`` seconds, a tuple ``tuple`` more."""

    even = True
    call, tuple = 2e-3, 2e-5

    def state(self, tuples):
        return pa.schema([("count", pa.int64())])

    def absorb(self, tuples, keys, before):
        spin(self.call + self.tuple * len(tuples))
        counts = np.bincount(keys, minlength=len(before))
        old = before.column("count").to_numpy(zero_copy_only=False)
        return pa.table({"count": pa.array(np.nan_to_num(old).astype(np.int64) + counts)})


class Slow(Spinning):
    """Takes long enough that what the engine does for a tuple is little beside it."""

    call, tuple = 5e-3, 5e-5


class Uneven(Spinning):
    """As if tuples of some keys took longer, which it does not say."""

    even = False


def slow_batch(batch):
    """For an operator without a key: a call takes 1 ms, a tuple 10 us."""
    spin(1e-3 + 1e-5 * len(batch))
    return batch


KEPT = Emit.TUPLES
