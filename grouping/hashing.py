"""The part of a key by its hash: the same in every process, in any container.

The hash is made from the 64-bit codes of `sketches.keys` and has nothing in common with the one
that gives sketches their columns. Stored state lies where it puts keys: changing it breaks what
is stored.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from grouping.key_batch import KeyBatch
from sketches.arrays import Codes, Parts
from sketches.checks import whole
from sketches.keys import mix
from sketches.mixing import constants, scattered

LARGEST_PARTS = (1 << 31) - 1

# Codes hashed at a time: few enough for the cache, which is twice as fast as all at once.
BLOCK = 1 << 16

_HALF = np.uint64(32)
_SEED = 0x8F3A6D51C2B4E907
_STEP = 0x9E3779B97F4A7C15
_ALL_BITS = (1 << 64) - 1


def hash_parts(keys: Any, parts: int, *, choice: int = 0, seed: int | None = None) -> Parts:
    """Return, for each key, the part from 0 to ``parts - 1`` that its hash chooses.

    Args:
        keys: keys of one kind in any container that `sketches.keys.as_keys` reads.
        parts: how many parts there are.
        choice: which of the hash functions to use. They are independent, so two keys that collide
            by one are no likelier than others to collide by the next.
        seed: of the hash; without, that of keys that were read before, and else 0.

    >>> hash_parts(["Asia", "Oceania", "Asia"], 4).tolist()
    [2, 0, 2]
    >>> hash_parts(["Asia", "Oceania", "Asia"], 4, choice=1).tolist()
    [1, 2, 1]
    """
    count = whole("parts", parts, at_least=1, at_most=LARGEST_PARTS)
    function = whole("choice", choice, at_least=0)
    batch = KeyBatch.read(keys, seed)
    column = batch.column
    return batch.spread(code_parts(column.codes, count, choice=function, seed=column.seed))


def code_parts(codes: Codes, parts: int, *, choice: int = 0, seed: int = 0) -> Parts:
    """Return the part of each key, given the keys' codes by this seed; see `hash_parts`."""
    constant = _constant(choice, seed)
    chosen = np.empty(len(codes), dtype=np.int32)
    for start in range(0, len(codes), BLOCK):
        span = slice(start, start + BLOCK)
        chosen[span] = place_parts(mix(codes[span] ^ constant, seed), parts)
    return chosen


def key_places(codes: Codes, seed: int = 0) -> Codes:
    """Return the place of each key on the ring of hashes, given the keys' codes by this seed.

    For any number of parts, keys of one part are together: in the order of places, each part is a
    contiguous stretch. Different codes have different places, but two keys may have one code.
    """
    return mix(codes ^ _constant(0, seed), seed)


def place_parts(places: Codes, parts: int) -> Parts:
    """Return the part that each place of the ring falls into, as `code_parts` does for codes."""
    chosen = places >> _HALF
    chosen *= np.uint64(parts)
    chosen >>= _HALF
    return chosen.astype(np.int32)


@lru_cache(maxsize=64)
def _constant(choice: int, seed: int) -> np.uint64:
    """Return a scattered number that sets one hash function apart from the next."""
    state = _SEED + constants(seed).base + choice * _STEP
    return np.uint64(scattered(state & _ALL_BITS))
