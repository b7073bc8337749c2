"""Where a key's 64-bit code comes from: mixing of integers, fingerprints of text and of pairs.

Everything works on whole arrays at once and gives the same codes in every process and on every
machine. Stored sketches hold keys by these codes: changing them breaks what is stored.
"""

import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.uint64]

# Odd constants of the splitmix64 generator and its finaliser (Steele, Lea, Flood 2014).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Text and bytes start from different seeds, so that "a" is not b"a".
_SEEDS = {"str": np.uint64(0x5D589B6A2F3C7E11), "bytes": np.uint64(0xA3B195354A39B70D)}

# Longer texts are rare as keys; word by word over whole arrays would pay for the longest of them.
_LONGEST_VECTORISED = 256
_WORD = 8


def mix(codes: Codes) -> Codes:
    """Scatter codes over all 64 bits; a bijection, so distinct codes stay distinct."""
    codes = (codes ^ (codes >> np.uint64(30))) * _MIX_1
    codes = (codes ^ (codes >> np.uint64(27))) * _MIX_2
    return codes ^ (codes >> np.uint64(31))


def pair_codes(left: Codes, right: Codes) -> Codes:
    """Return one code for each pair: with either side fixed, a bijection of the other."""
    return mix(mix(left + _GOLDEN) + right * _MIX_2)


def fingerprints(
    kind: str, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Codes:
    """Return the 64-bit fingerprint of each ``data[start : start + length]``.

    Strings are read eight bytes at a time, all of them at once; those that have ended drop out.
    Up to eight bytes and one length, different strings always have different fingerprints.
    """
    seed = _SEEDS[kind]
    codes = seed + lengths.astype(np.uint64) * _GOLDEN
    if not len(lengths):
        return codes
    longest = int(lengths.max())
    active = np.flatnonzero((lengths > 0) & (lengths <= _LONGEST_VECTORISED))
    if len(active):
        words = _unaligned_words(data)
        for offset in range(0, min(longest, _LONGEST_VECTORISED), _WORD):
            if offset:
                active = active[lengths[active] > offset]
                if not len(active):
                    break
            rest = np.minimum(lengths[active] - offset, _WORD).astype(np.uint64)
            word = words[starts[active] + offset]
            word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> ((np.uint64(_WORD) - rest) << np.uint64(3))
            word ^= codes[active]
            word *= _MIX_1
            codes[active] = word ^ (word >> np.uint64(32))
    for place in np.flatnonzero(lengths > _LONGEST_VECTORISED).tolist():
        text = data[starts[place] : starts[place] + lengths[place]].tobytes()
        digest = hashlib.blake2b(text, digest_size=_WORD, salt=int(seed).to_bytes(16, "little"))
        codes[place] = int.from_bytes(digest.digest(), "little")
    return mix(codes)


def _unaligned_words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a view: element ``i`` is the eight bytes from ``data[i]`` on, zeros after the end."""
    padded = np.zeros(len(data) + _WORD, dtype=np.uint8)
    padded[: len(data)] = data
    return np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
