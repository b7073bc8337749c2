"""Streams for SpaceSaving, and what must hold of a sketch of them."""

from collections import Counter

import pytest
from hypothesis import strategies as st

from sketches.space_saving import HeavyHitter

# Each kind names twelve keys, by number.

# Each kind names twelve keys, by number.
KINDS = {
    "integers": lambda n: n,
    "large and negative integers": lambda n: (n - 6) * 10**18,
    "text": lambda n: "é" * n,
    "bytes": lambda n: b"\0" * n,
    "pairs of small integers": lambda n: (n, 2**32 - 1 - n),
    "pairs of other integers": lambda n: (-n, n + 2**40),
    "pairs that are small at times": lambda n: (n, n - 2**40 if n > 8 else n),
    "pairs of text and integers": lambda n: (f"tag {n % 3}", n),
}
NUMBERS = st.integers(0, 11)
# Sums of quarters are exact, and so are the laws.
WEIGHTS = st.integers(0, 40).map(lambda quarters: quarters / 4)
STREAMS = st.lists(st.tuples(NUMBERS, WEIGHTS), max_size=30)
CAPACITIES = st.integers(1, 7)
BLOCKS = st.integers(1, 9)

every_kind = pytest.mark.parametrize("name", KINDS.values(), ids=KINDS.keys())


def feed(sketch, name, stream, *, weighted=True):
    if weighted:
        sketch.update([name(n) for n, _ in stream], [weight for _, weight in stream])
    else:
        sketch.update([name(n) for n, _ in stream])


def exact(stream, *, weighted=True):
    truth = Counter()
    for number, weight in stream:
        truth[number] += weight if weighted else 1
    return truth


def check_against(sketch, truth, name):
    """Assert all that is promised about a sketch of a stream with these true weights."""
    total = sum(truth.values())
    assert sketch.total == total
    heavy = sketch.top()
    assert len(heavy) == len(sketch) <= sketch.capacity
    assert [row.estimate for row in heavy] == sorted((r.estimate for r in heavy), reverse=True)

    lower, upper = sketch.bracket([name(n) for n in range(12)])
    for number in range(12):
        assert lower[number] <= truth[number] <= upper[number]
    tracked = {row.key: row for row in heavy}
    assert len(heavy) == len(tracked)
    for number in range(12):
        row = tracked.pop(name(number), HeavyHitter(None, sketch.floor, sketch.floor))
        assert (row.estimate, row.estimate - row.error) == (upper[number], lower[number])
        assert 0 <= row.error <= sketch.floor <= row.estimate
    assert tracked == {}

    leads = sum(row.estimate - sketch.floor for row in heavy)
    assert leads + (sketch.capacity + 1) * sketch.floor <= total
    if len(+truth) <= sketch.capacity and not sketch.floor:
        assert {name(n): weight for n, weight in (+truth).items()} == {
            row.key: row.estimate for row in heavy
        }


def same_now_and_later(first, second):
    """Whether two sketches answer the same, and still do after they see more."""
    later = [sketch.copy() for sketch in (first, second)]
    for sketch in later:
        key = sketch.top(1)[0].key if len(sketch) else 0
        sketch.update([key] * 3)
    return first == second and later[0] == later[1]
