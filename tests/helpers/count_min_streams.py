"""Streams and shapes of Count-Min sketches, and their true counts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st

from sketches.count_min import CountMin

# Multiples of 1/4 below 2^20 add up exactly in any order, so laws can be asked of the last bit.
WEIGHTS = st.integers(0, 2**22).map(lambda quarters: quarters / 4)
INTEGERS = st.integers(-3, 30) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
KINDS = {
    "int": INTEGERS,
    "str": TEXTS,
    "bytes": st.binary(max_size=12),
    "(int, str)": st.tuples(INTEGERS, TEXTS),
}
SHAPES = st.builds(
    dict,
    width=st.integers(1, 40),
    depth=st.integers(1, 5),
    seed=st.integers(0, 2**64 - 1),
)
STREAMS = st.lists(st.tuples(INTEGERS, WEIGHTS), max_size=60)
BOTH = pytest.mark.parametrize("conservative", [False, True], ids=["plain", "conservative"])


def fed(stream, *, conservative=False, **shape):
    """A sketch that got the (key, weight) pairs as one batch."""
    sketch = CountMin(**shape, conservative=conservative)
    sketch.update([key for key, _ in stream], [weight for _, weight in stream])
    return sketch


def counted(stream):
    """The true weight of each key."""
    counts = Counter()
    for key, weight in stream:
        counts[key] += weight
    return counts


def zipf(*, keys, exponent, length, seed):
    shares = 1 / np.arange(1, keys + 1) ** exponent
    return np.random.default_rng(seed).choice(keys, size=length, p=shares / shares.sum())
