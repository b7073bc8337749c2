"""The hash of bytes in Spark's sketches: Murmur3 of 32 bits, with the last bytes one by one.

References:
    A. Appleby, "MurmurHash3", 2011 (public domain), for words of four bytes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = 4
_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_THIRD, _FOURTH = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

Words = NDArray[np.uint32]


def hashes_of(texts: Sequence[bytes], seeds: Words) -> Words:
    """Return the hash of each text under its own seed.

    >>> hashes_of([b"", b"abc"], np.zeros(2, np.uint32)).tolist()
    [0, 3445827480]
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    found = np.empty(len(texts), dtype=np.uint32)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        joined = b"".join(texts[place] for place in places.tolist())
        block = np.frombuffer(joined, dtype=np.uint8).reshape(len(places), length)
        found[places] = _finished(_mixed(block, seeds[places]), length)
    return found


def _mixed(block: NDArray[np.uint8], state: Words) -> Words:
    """Mix the bytes of texts of one length into the state: by words, and the last ones singly."""
    whole = block.shape[1] // _WORD * _WORD
    for start in range(0, whole, _WORD):
        word = np.ascontiguousarray(block[:, start : start + _WORD]).view("<u4")[:, 0]
        state = _mixed_in(state, word.astype(np.uint32))
    for place in range(whole, block.shape[1]):
        # As signed numbers, like all bytes in Java.
        state = _mixed_in(state, block[:, place].astype(np.int8).astype(np.int32).view(np.uint32))
    return state


def _mixed_in(state: Words, word: Words) -> Words:
    state = state ^ _turned(word * _FIRST, 15) * _SECOND
    return _turned(state, 13) * _FIVE + _ADDED


def _finished(state: Words, length: int) -> Words:
    state = state ^ np.uint32(length)
    state = (state ^ state >> np.uint32(16)) * _THIRD
    state = (state ^ state >> np.uint32(13)) * _FOURTH
    finished: Words = state ^ state >> np.uint32(16)
    return finished


def _turned(words: Words, by: int) -> Words:
    turned: Words = words << np.uint32(by) | words >> np.uint32(32 - by)
    return turned
