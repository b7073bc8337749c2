"""The 64-bit codes of keys: fingerprints of text, of bytes and of pairs.

Everything works on whole arrays at once and gives the same codes in every process and on every
machine. Stored sketches hold keys by these codes: changing them breaks what is stored.
"""

import hashlib
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Codes
from sketches.mixing import BLOCK, constants, mix, scatter, scattered, steps

__all__ = [
    "LONGEST_VECTORISED",
    "fingerprints",
    "fingerprints_of",
    "mix",
    "padded",
    "pair_codes",
    "same_strings",
    "unaligned_words",
]

# Each kind starts from a number of its own, so that "a" is not b"a".
_STARTS = {
    "str": 0x5D589B6A2F3C7E11,
    "bytes": 0xA3B195354A39B70D,
    "decimal": 0xE8C14F7B93A0562D,
}

# Longer texts are rare as keys; word by word over whole arrays would pay for the longest of them.
LONGEST_VECTORISED = 256
_WORD = 8
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype=np.uint64)


def pair_codes(left: Codes, right: Codes, seed: int = 0) -> Codes:
    """Return one code for each pair: with either side fixed, a bijection of the other."""
    chosen = constants(seed)
    return mix(mix(left + chosen.pair_start, seed) + right * chosen.pair_factor, seed)


def fingerprints(
    kind: str,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    seed: int = 0,
) -> Codes:
    """Return the 64-bit fingerprint of each ``data[start : start + length]``.

    It begins with a number for the text's length, and takes in eight bytes at a time, each time
    mixing all 64 bits: so a difference has reached every bit before the next word comes. Up to
    eight bytes and one length, different texts always have different fingerprints.
    """
    return fingerprints_of(kind, padded(data), starts, lengths, seed)


def fingerprints_of(
    kind: str,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    seed: int,
) -> Codes:
    """Return the same as `fingerprints`, of data that is `padded` already."""
    codes = np.empty(len(lengths), dtype=np.uint64)
    words = unaligned_words(data)
    scratch = np.empty(min(len(codes), BLOCK), dtype=np.uint64)
    table = _starts(kind, seed)
    for begin in range(0, len(codes), BLOCK):
        block = slice(begin, begin + BLOCK)
        sizes = lengths[block]
        some = table[np.minimum(sizes, LONGEST_VECTORISED + 1)]
        _take_in(some, words, starts[block], sizes, scratch, seed)
        codes[block] = some
    long = np.flatnonzero(lengths > LONGEST_VECTORISED)
    if len(long):
        codes[long] = mix(_digests(kind, data, starts[long], lengths[long], seed), seed)
    return codes


def _take_in(  # noqa: PLR0913, PLR0917
    codes: Codes,
    words: Codes,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    scratch: Codes,
    seed: int,
) -> None:
    """Take the words of some texts into their codes; of those that are too long, take some."""
    shortest = int(lengths.min())
    for offset in range(0, min(int(lengths.max()), LONGEST_VECTORISED), _WORD):
        if offset + _WORD <= shortest:
            codes ^= words[starts + offset]
            scatter(codes, scratch[: len(codes)], seed)
            continue
        active = np.flatnonzero(lengths > offset)
        some = words[starts[active] + offset]
        some &= _MASKS[np.minimum(lengths[active] - offset, _WORD)]
        some ^= codes[active]
        scatter(some, scratch[: len(some)], seed)
        codes[active] = some


def _digests(
    kind: str,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    seed: int,
) -> Codes:
    """Return a digest of each text, one after the other."""
    salt = _STARTS[kind].to_bytes(16, "little")
    key = constants(seed).base.to_bytes(8, "little") if seed else b""
    codes = np.empty(len(lengths), dtype=np.uint64)
    for place, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        text = data[start : start + length].tobytes()
        digest = hashlib.blake2b(text, digest_size=_WORD, salt=salt, key=key)
        codes[place] = int.from_bytes(digest.digest(), "little")
    return codes


@lru_cache(maxsize=64)
def _starts(kind: str, seed: int) -> Codes:
    """Return the number that the fingerprint of a text of each length begins with."""
    numbers = steps(constants(seed).base ^ _STARTS[kind])
    return np.array(
        [scattered(number) for number in islice(numbers, LONGEST_VECTORISED + 2)],
        dtype=np.uint64,
    )


def same_strings(
    words: tuple[Codes, Codes],
    starts: tuple[NDArray[np.int64], NDArray[np.int64]],
    lengths: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return for each two strings of one length whether they are equal.

    Args:
        words: the `unaligned_words` of both.
        starts: where each string begins, of the first and of the second.
        lengths: the length of each two; no more than `LONGEST_VECTORISED`.
    """
    equal = np.ones(len(lengths), dtype=np.bool_)
    shortest = int(lengths.min(initial=LONGEST_VECTORISED))
    longest = int(lengths.max(initial=0))
    for offset in range(0, longest, _WORD):
        if offset + _WORD <= shortest or shortest == longest:
            differ = words[0][starts[0] + offset] ^ words[1][starts[1] + offset]
            if offset + _WORD > shortest:
                differ &= _MASKS[shortest - offset]
            equal &= differ == 0
            continue
        active = np.flatnonzero(lengths > offset)
        differ = words[0][starts[0][active] + offset] ^ words[1][starts[1][active] + offset]
        differ &= _MASKS[np.minimum(lengths[active] - offset, _WORD)]
        equal[active] &= differ == 0
    return equal


def padded(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a copy with as many zeros at the end as `unaligned_words` wants."""
    longer = np.zeros(len(data) + _WORD, dtype=np.uint8)
    longer[: len(data)] = data
    return longer


def unaligned_words(data: NDArray[np.uint8]) -> Codes:
    """Return a view of `padded` data: element ``i`` is the eight bytes from ``data[i]`` on."""
    return np.ndarray((len(data) - _WORD + 1,), dtype="<u8", buffer=data, strides=(1,))
