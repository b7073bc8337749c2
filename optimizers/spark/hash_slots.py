"""Slots: integers that Spark's own hash partitioning sends to a wanted partition.

Spark sends a row to the partition ``hash(column) mod n``, by a hash that is documented and stable
(Murmur3, seed 42). For each partition there is a smallest integer that lands there, its slot. So
an ordinary ``repartition(n, "slot")`` routes exactly as a plan says, and everything that Spark
knows of hash-partitioned data holds for ours.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

_SEED = 42
_FOUR_BYTES = 4


@cache
def slots(partitions: int) -> NDArray[np.int32]:
    """Return for each partition its slot.

    >>> slots(4).tolist()
    [12, 6, 2, 0]
    """
    found = np.full(partitions, -1, dtype=np.int32)
    start = 0
    while (found < 0).any():
        numbers = np.arange(start, start + 16 * partitions, dtype=np.int32)
        numbers_of = spark_partitions(numbers, partitions)
        # Written from the last to the first, so that the smallest stays.
        fresh = np.full(partitions, -1, dtype=np.int32)
        fresh[numbers_of[::-1]] = numbers[::-1]
        found = np.where(found < 0, fresh, found)
        start += len(numbers)
    found.flags.writeable = False
    return found


def spark_partitions(numbers: NDArray[np.int32], partitions: int) -> NDArray[np.int64]:
    """Return the partition that Spark's hash partitioning sends each integer to."""
    mixed = _rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15)
    mixed *= np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(_FOUR_BYTES)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32).astype(np.int64) % partitions


def _rotated(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    rotated: NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return rotated
