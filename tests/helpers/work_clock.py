"""A clock that only work moves, and work of known cost to move it."""

import numpy as np


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self):
        self.now = 0.0
        self.calls = []  # of how many tuples each was

    def __call__(self):
        return self.now

    def busy(self, per_call, cost_of, then=lambda batch: batch):
        """A function of batches that takes so long for each call, and for each tuple in it."""

        def work(batch):
            self.calls.append(len(batch))
            self.now += per_call + sum(map(cost_of, batch.column("k").to_pylist()))
            return then(batch)

        return work

    def each_row(self, row):
        """Pass a row on, which takes its key's true cost."""
        self.now += true_cost(row["k"])
        return row


def keys(count, seed=0, most=9):
    return np.random.default_rng(seed).integers(0, most, count)


def true_cost(key):
    return float(1 << key)
