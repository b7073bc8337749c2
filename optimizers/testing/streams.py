"""Streams of keys to try groupings and sketches on, in all containers that keys come in."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from grouping.key_batch import KeyBatch
from sketches.keys import Pairs

Keys: TypeAlias = Sequence[Any]
"""Keys of one kind."""

_EACH = 12
_LONGEST = 700
_SEEDS = st.integers(0, 1 << 32)
_CUTS = st.integers(0, 5)
_PLAIN = (int, str, bytes)


def example_keys() -> tuple[Keys, ...]:
    """Return keys of several kinds, to draw streams from.

    >>> [type(keys[0]).__name__ for keys in example_keys()]
    ['str', 'int', 'bytes', 'date', 'tuple']
    """
    numbers = [0, 1, -1, 7, 1 << 40, *range(100, 100 + _EACH - 5)]
    words = ["", "ü", *(f"key {number}" for number in range(_EACH - 2))]
    days = [date(2020, 2, 28) + timedelta(days=number) for number in range(_EACH)]
    pairs = [(word, number % 3) for word, number in zip(words, numbers, strict=True)]
    return words, numbers, [word.encode() for word in words], days, pairs


def streams(keys: Keys, *, longest: int = _LONGEST) -> st.SearchStrategy[list[Any]]:
    """Return streams of these keys, with some frequent ones."""
    return _streams(tuple(keys), longest)


@lru_cache
def _streams(keys: tuple[Any, ...], longest: int) -> st.SearchStrategy[list[Any]]:
    # Hypothesis draws the length of a stream and its seed, not each key: in a few examples it would
    # hardly draw a long one. Made once, as it inspects new strategies at length.
    return st.builds(_drawn, st.just(keys), st.integers(0, longest), _SEEDS)


def _drawn(keys: tuple[Any, ...], length: int, seed: int) -> list[Any]:
    random = Random(seed)  # noqa: S311  # nothing secret
    weights = [random.random() ** 3 for _ in keys]
    return random.choices(keys, weights, k=length)


@st.composite
def batches(draw: st.DrawFn, stream: Keys) -> list[Keys]:
    """Return a stream in batches; where there are several, at least one of them is empty."""
    random = Random(draw(_SEEDS))  # noqa: S311  # nothing secret
    cuts = sorted(random.randint(0, len(stream)) for _ in range(draw(_CUTS)))
    if cuts:
        cuts = sorted([*cuts, random.choice(cuts)])
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def containers(keys: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the same keys in each container that they may come in, with its name.

    >>> dict(containers([3, 4]))["a numpy array"]
    array([3, 4])
    """
    if not keys:
        yield "an empty list", []
        return
    yield "keys that were read before", KeyBatch.read(keys)
    if isinstance(keys[0], tuple):
        left, right = ([key[side] for key in keys] for side in (0, 1))
        yield "Pairs of two columns", Pairs(left, right)
        yield "a tuple of two Arrow arrays", (pa.array(left), pa.array(right))
        return
    plain = pa.array(keys)
    first, last = pa.array(keys[:1]), pa.array(keys[-1:])
    yield "an Arrow array", plain
    yield "a slice of an Arrow array", pa.concat_arrays([last, plain, first])[1:-1]
    yield "a chunked Arrow array", pa.chunked_array([plain[:1], plain[1:]])
    # Twice, so that there are fewer words than rows.
    twice = pa.concat_arrays([plain, plain]).dictionary_encode()
    yield "an Arrow dictionary array", twice[: len(keys)]
    yield "an array of objects", np.array(keys, dtype=object)
    if isinstance(keys[0], _PLAIN):
        yield "a numpy array", np.array(keys)
