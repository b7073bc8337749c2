"""SpaceSaving in any order of steps, beside a textbook rival, and in every process."""

import heapq
import os
import subprocess
import sys
from collections import Counter

import datasketches
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

# Each kind names twelve keys, by number.
from space_saving_streams import (
    BLOCKS,
    KINDS,
    NUMBERS,
    STREAMS,
    WEIGHTS,
    check_against,
    exact,
    feed,
)

from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.space_saving import SpaceSaving


class SpaceSavingMachine(RuleBasedStateMachine):
    """Sketches of one capacity, each beside the exact counts of its stream."""

    sketches = Bundle("sketches")
    name = staticmethod(KINDS["pairs that are small at times"])

    def __init__(self):
        super().__init__()
        self.pairs = []

    def remember(self, sketch, truth):
        self.pairs.append((sketch, truth))
        return sketch, truth

    @rule(target=sketches, block=BLOCKS)
    def start(self, block):
        return self.remember(SpaceSaving(3, block=block), Counter())

    @rule(pair=sketches, stream=STREAMS, weighted=st.booleans())
    def update(self, pair, stream, weighted):
        feed(pair[0], self.name, stream, weighted=weighted)
        pair[1].update(exact(stream, weighted=weighted))

    @rule(pair=sketches, number=NUMBERS, weight=WEIGHTS)
    def add(self, pair, number, weight):
        pair[0].add(self.name(number), weight)
        pair[1][number] += weight

    @rule(target=sketches, first=sketches, second=sketches)
    def merge(self, first, second):
        return self.remember(first[0] | second[0], first[1] + second[1])

    @rule(target=sketches, pair=sketches)
    def store_and_restore(self, pair):
        return self.remember(SpaceSaving.from_bytes(pair[0].to_bytes()), Counter(pair[1]))

    @rule(target=sketches, pair=sketches)
    def copy(self, pair):
        twin = self.remember(pair[0].copy(), Counter(pair[1]))
        assert pair[0] == twin[0]
        return twin

    @rule(pair=sketches, number=NUMBERS)
    def ask(self, pair, number):
        assert pair[0].estimate([self.name(number)])[0] >= pair[1][number]

    @rule(target=sketches, pair=sketches)
    def be_refused(self, pair):
        before = pair[0].copy()
        with pytest.raises(InvalidValueError):
            pair[0].update([self.name(0)], [-1])
        with pytest.raises(InvalidKeyError):
            pair[0].update([self.name(0), 7])
        assert before == pair[0]
        return multiple()

    @invariant()
    def all_promises_hold(self):
        for sketch, truth in self.pairs:
            check_against(sketch, truth, self.name)


TestSpaceSavingMachine = SpaceSavingMachine.TestCase
TestSpaceSavingMachine.settings = settings(max_examples=40, stateful_step_count=15)


class TextbookSpaceSaving:
    """The algorithm as published, with a heap whose entries are renewed when they come up."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.counts = {}
        self.heap = []

    def update(self, keys):
        for key in keys:
            if key in self.counts:
                self.counts[key] += 1
            elif len(self.counts) < self.capacity:
                self.counts[key] = 1
                heapq.heappush(self.heap, (1, key))
            else:
                count, lightest = heapq.heappop(self.heap)
                while count != self.counts[lightest]:
                    count, lightest = heapq.heappushpop(
                        self.heap, (self.counts[lightest], lightest)
                    )
                del self.counts[lightest]
                self.counts[key] = count + 1
                heapq.heappush(self.heap, (count + 1, key))

    def top(self, k):
        return sorted(self.counts, key=lambda key: (-self.counts[key], key))[:k]


def zipf_stream(size=100_000, distinct=50_000, seed=7):
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(1, distinct + 1))
    ranks = np.searchsorted(shares, rng.random(size) * shares[-1])
    return rng.permutation(distinct)[ranks]


def recall(found, stream, k):
    return len(set(found) & {key for key, _ in Counter(stream.tolist()).most_common(k)}) / k


class TestQuality:
    def test_the_heaviest_hundred_of_a_zipf_stream_are_found(self):
        stream = zipf_stream()
        sketch = SpaceSaving(1000, block=4096)
        sketch.update(stream)
        # Measured: all of them.
        assert recall([row.key for row in sketch.top(100)], stream, 100) >= 0.95

    def test_it_finds_more_than_the_textbook_with_as_many_counters(self):
        stream = zipf_stream()
        sketch, rival = SpaceSaving(1000, block=4096), TextbookSpaceSaving(1000)
        sketch.update(stream)
        rival.update(stream.tolist())
        ours = recall(sketch.arrays()[0].tolist(), stream, 1000)
        theirs = recall(rival.top(1000), stream, 1000)
        # Measured: 0.617 and 0.427, and a floor of 25 beside one of 59. The block pays for it.
        assert ours > theirs + 0.15
        assert sketch.floor < min(rival.counts.values()) / 2

    def test_it_agrees_with_datasketches(self):
        stream = zipf_stream(size=20_000, distinct=2000)
        sketch = SpaceSaving(96, block=512)
        sketch.update(stream)
        rival = datasketches.frequent_items_sketch(7)
        for key in stream.tolist():
            rival.update(key)
        truth = Counter(stream.tolist())
        lower, upper = sketch.bracket(list(truth))
        for key, low, high in zip(truth, lower, upper, strict=True):
            their_low, their_high = rival.get_lower_bound(key), rival.get_upper_bound(key)
            assert their_low <= truth[key] <= their_high
            assert low <= truth[key] <= high
            assert max(low, their_low) <= min(high, their_high)
        assert sketch.floor <= sketch.total / 97


PROGRAM = """
import hashlib, random
from sketches.space_saving import SpaceSaving
random.seed(3)
everything = hashlib.sha256()
for name in (int, str, lambda n: (n, n * n), lambda n: (str(n), -n)):
    for weights in (None, [random.randrange(1, 9) / 8 for _ in range(20_000)]):
        sketch = SpaceSaving(100, block=3000)
        sketch.update([name(int(random.paretovariate(0.5)) % 5000) for _ in range(20_000)], weights)
        everything.update((sketch | sketch).to_bytes())
print(everything.hexdigest())
"""


def digest(environment):
    """Return what the program prints in a process with these variables."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


class TestEveryProcess:
    def test_the_bytes_do_not_depend_on_the_hash_seed(self):
        first, second = (digest({"PYTHONHASHSEED": seed}) for seed in ("1", "2"))
        assert first == second
        assert len(first) == 65

    def test_the_bytes_do_not_depend_on_the_processor(self):
        found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
        assert digest({}) == digest({"NPY_DISABLE_CPU_FEATURES": " ".join(found)})
