"""Mixing: 64-bit numbers scattered over all 64 bits, by constants that a seed chooses.

Seed 0 has the public constants of splitmix64. Any other seed has its own, so that keys cannot be
crafted to collide without knowing the seed.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sketches import checks
from sketches.arrays import Codes

SEED_LIMIT = 1 << 63

# Numbers mixed at a time: as many as stay in the cache, which is twice as fast as all at once.
BLOCK = 1 << 15

# Odd constants of the splitmix64 generator and its finaliser (Steele, Lea, Flood 2014).
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_ALL_BITS = (1 << 64) - 1
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
_FEWEST_CHANGES = 24  # from 0 to 1 or back along the bits of a multiplier; others mix too little


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a seed.

    Attributes:
        multipliers: the two odd factors of `mix`.
        pair_start: what is added to the left side of a pair.
        pair_factor: an odd factor of its right side.
        base: where all other numbers of this seed are drawn from; 0 for seed 0.
    """

    multipliers: tuple[np.uint64, np.uint64]
    pair_start: np.uint64
    pair_factor: np.uint64
    base: int


@lru_cache(maxsize=64)
def constants(seed: int) -> Constants:
    """Return the constants of a seed."""
    if not seed:
        multipliers = np.uint64(_MIX_1), np.uint64(_MIX_2)
        return Constants(multipliers, np.uint64(_GOLDEN), multipliers[1], 0)
    drawn = _drawn(seed)
    first, second, factor = (np.uint64(_multiplier(drawn)) for _ in range(3))
    return Constants((first, second), np.uint64(next(drawn)), factor, next(drawn))


def checked_seed(seed: object) -> int:
    """Return the seed of a hash, or say what is wrong with it."""
    return checks.whole("seed", seed, at_least=0, at_most=SEED_LIMIT - 1)


def mix(codes: Codes, seed: int = 0) -> Codes:
    """Scatter codes over all 64 bits; a bijection, so distinct codes stay distinct."""
    mixed: Codes = codes.copy()
    scratch = np.empty(min(len(mixed), BLOCK), dtype=np.uint64)
    for start in range(0, len(mixed), BLOCK):
        block = mixed[start : start + BLOCK]
        scatter(block, scratch[: len(block)], seed)
    return mixed


def scatter(codes: Codes, scratch: Codes, seed: int = 0) -> None:
    """Mix codes where they stand, with the help of an array of the same length."""
    first, second = constants(seed).multipliers
    np.right_shift(codes, _SHIFTS[0], out=scratch)
    codes ^= scratch
    codes *= first
    np.right_shift(codes, _SHIFTS[1], out=scratch)
    codes ^= scratch
    codes *= second
    np.right_shift(codes, _SHIFTS[2], out=scratch)
    codes ^= scratch


def scattered(number: int) -> int:
    """Return one number mixed by the constants of seed 0."""
    number = ((number ^ (number >> 30)) * _MIX_1) & _ALL_BITS
    number = ((number ^ (number >> 27)) * _MIX_2) & _ALL_BITS
    return number ^ (number >> 31)


def steps(start: int) -> Iterator[int]:
    """Yield numbers that follow each other in equal steps round all 64 bits; not mixed."""
    while True:
        yield start & _ALL_BITS
        start += _GOLDEN


def _drawn(seed: int) -> Iterator[int]:
    """Yield numbers that tell nothing about the seed, nor about each other."""
    key = seed.to_bytes(8, "little")
    number = 0
    while True:
        digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=8, key=key)
        yield int.from_bytes(digest.digest(), "little")
        number += 1


def _multiplier(drawn: Iterator[int]) -> int:
    """Return the next odd number that is good to multiply by.

    Few changes along its bits, as in 1 or in 2^40 - 1, would move bits without spreading them.
    """
    while True:
        number = next(drawn) | 1
        if (number ^ (number >> 1)).bit_count() >= _FEWEST_CHANGES:
            return number
