"""Streams of keys and costs, and a CostSketch made of loops."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st

from sketches import wire
from sketches.cost_sketch import CostSketch
from sketches.keys import as_keys, mix
from sketches.row_hashes import RowHashes

# Multiples of 1/4 below 2^20 add up exactly in any order, so laws can be asked of the last bit.
COSTS = st.integers(0, 2**22).map(lambda quarters: quarters / 4)
KEYS = st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1)
STREAMS = st.lists(st.tuples(KEYS, COSTS), max_size=40)
BATCHES = st.lists(STREAMS, max_size=5)
SHAPES = st.builds(
    dict,
    width=st.integers(1, 20),
    depth=st.integers(1, 4),
    seed=st.integers(0, 2**64 - 1),
)
EXACT = pytest.mark.parametrize("exact", [0, 1, 5])
TABLES = ("counts", "costs", "heavy_codes", "heavy_counts", "heavy_costs", "heavy_before")


def feed(sketch, stream):
    sketch.update([key for key, _ in stream], [cost for _, cost in stream])


def fed(*batches, exact=0, **shape):
    sketch = CostSketch(**shape, exact=exact)
    for batch in batches:
        feed(sketch, batch)
    return sketch


def parts_of(sketch):
    """The arrays inside, from the bytes."""
    _, arrays = wire.unpack(sketch.to_bytes(), "CostSketch", 2)
    for name in ("counts", "costs"):
        arrays[name] = arrays[name].reshape(sketch.depth, sketch.width)
    return arrays


def counts_and_costs(stream):
    counts, costs = Counter(), Counter()
    for key, cost in stream:
        counts[key] += 1
        costs[key] += cost
    return counts, costs


class NaiveCostSketch:
    """The same sketch in loops over keys, as its documentation describes it."""

    def __init__(self, *, width, depth, seed, exact=0):
        self.hashes = RowHashes(width=width, depth=depth, seed=seed)
        self.counts = [[0.0] * width for _ in range(depth)]
        self.costs = [[0.0] * width for _ in range(depth)]
        self.limit = exact
        self.heavy = {}  # code: [count, cost, before]
        self.total = self.total_cost = 0.0

    def columns(self, code):
        ((_, columns),) = self.hashes.columns(np.array([code], dtype=np.uint64))
        return columns[:, 0].tolist()

    def least(self, code):
        return min(self.counts[row][column] for row, column in enumerate(self.columns(code)))

    def count(self, code, count, cost):
        for row, column in enumerate(self.columns(code)):
            self.counts[row][column] += count
            self.costs[row][column] += cost

    def update(self, stream):
        codes = as_keys([key for key, _ in stream]).codes.tolist()
        batch = counts_and_costs(zip(codes, [cost for _, cost in stream], strict=True))
        self.total += len(stream)
        self.total_cost += sum(cost for _, cost in stream)
        candidates = []
        for code, count in batch[0].items():
            if code in self.heavy:
                self.heavy[code][0] += count
                self.heavy[code][1] += batch[1][code]
            else:
                before = self.least(code)
                candidates.append((before + count, code, [count, batch[1][code], before]))
        # The heaviest candidate first; the lightest of the table has to go; the code decides ties.
        candidates.sort(key=lambda candidate: (-candidate[0], scattered(candidate[1])))
        for rank, code, entry in candidates:
            if len(self.heavy) < self.limit:
                self.heavy[code] = entry
                continue
            ranks = {old: (e[0] + e[2], -scattered(old)) for old, e in self.heavy.items()}
            lightest = min(ranks, key=ranks.__getitem__) if ranks else None
            if lightest is not None and rank > ranks[lightest][0]:
                self.count(lightest, *self.heavy.pop(lightest)[:2])
                self.heavy[code] = entry
            else:
                self.count(code, *entry[:2])

    def estimate(self, key):
        code = as_keys([key]).codes[0].item()
        if code in self.heavy:
            return self.heavy[code][1] / self.heavy[code][0]
        best, ratio = math.inf, None
        for row, column in enumerate(self.columns(code)):
            count = self.counts[row][column]
            if count < best:
                best = count
                ratio = self.costs[row][column] / count if count else self.total_cost / self.total
        return ratio

    def frequency(self, key):
        code = as_keys([key]).codes[0].item()
        if code in self.heavy:
            return self.heavy[code][0] + self.heavy[code][2]
        return self.least(code)

    def averages(self):
        folded = copy.deepcopy(self)
        for code, (count, cost, _) in self.heavy.items():
            folded.count(code, count, cost)
        return [
            [cost / count if count else 0.0 for cost, count in zip(costs, counts, strict=True)]
            for costs, counts in zip(folded.costs, folded.counts, strict=True)
        ]

    def tables(self):
        entries = sorted((code, *entry) for code, entry in self.heavy.items())
        columns = [list(column) for column in zip(*entries, strict=True)] or [[], [], [], []]
        return dict(zip(TABLES, [self.counts, self.costs, *columns], strict=True))


def scattered(code):
    return mix(np.array([code], dtype=np.uint64))[0].item()
