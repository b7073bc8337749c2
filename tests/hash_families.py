"""Families of keys that weak hashes take for one another, in the manner of SMHasher.

Run it by hand with many keys, which takes some minutes:

    python tests/hash_families.py --keys 10000000

It prints for each family how many keys meet in all 64 bits of their place and in either half of
it, beside what chance predicts, and ends with an error if any is beyond it. The tests in
tests/sketches/test_hash_families.py do the same with fewer keys.

References:
    A. Appleby, SMHasher, https://github.com/aappleby/smhasher.
"""

import argparse
import hashlib
import itertools
import math
import string
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from grouping.hashing import key_places
from sketches.keys import Pairs, as_keys

HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
DIGITS = np.frombuffer(b"0123456789", np.uint8)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
LETTERS = np.frombuffer((string.ascii_letters + string.digits).encode(), np.uint8)


def placed(keys: Any, seed: int = 0) -> Any:
    """The places of keys: what all routing and all state goes by."""
    return key_places(as_keys(keys, seed=seed).codes, seed)


def expected(keys: int, bits: int) -> float:
    """How many keys a random function would send to where another is already."""
    values = 2.0**bits
    return keys + values * math.expm1(keys * math.log1p(-1 / values))


def allowed(keys: int, bits: int) -> float:
    """What a random function exceeds less than once in a billion."""
    chance = expected(keys, bits)
    return chance + 6 * math.sqrt(chance) + (1 if chance < 1e-3 else 6) - 0.5


def repeated(numbers: Any) -> int:
    """How many numbers are as another one before them; sorting is faster here than `np.unique`."""
    numbers = np.sort(numbers)
    return int(np.count_nonzero(numbers[1:] == numbers[:-1]))


def meetings(places: Any) -> dict[str, tuple[int, int]]:
    """How many keys meet another, of all bits and of either half, and of how many bits it is."""
    return {
        what: (repeated(part), bits)
        for what, part, bits in (
            ("all bits", places, 64),
            ("upper half", (places >> HALF).astype(np.uint32), 32),
            ("lower half", (places & LOW).astype(np.uint32), 32),
        )
    }


def beyond_chance(places: Any) -> list[str]:
    """What is worse of these places than chance allows; nothing if all is well."""
    return too_many(meetings(places), len(places))


def too_many(found: dict[str, tuple[int, int]], keys: int) -> list[str]:
    """What of these meetings is more than chance allows."""
    return [
        f"{met} of {keys} keys meet in {what}, {expected(keys, bits):.3g} by chance"
        for what, (met, bits) in found.items()
        if met > allowed(keys, bits)
    ]


def binary(cells: Any) -> Any:
    """Rows of bytes as keys."""
    cells = np.ascontiguousarray(cells, dtype=np.uint8)
    buffers = [None, pa.py_buffer(cells.tobytes())]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(cells.shape[1]), len(cells), buffers)


def written(numbers: Any, width: int, alphabet: Any = DIGITS) -> Any:
    """Numbers in some alphabet, one row of characters each."""
    powers = len(alphabet) ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return alphabet[numbers[:, np.newaxis] // powers % len(alphabet)]


def template(before: bytes, cells: Any, after: bytes = b"") -> Any:
    """The same text around each row of characters."""
    ends = [np.tile(np.frombuffer(text, np.uint8), (len(cells), 1)) for text in (before, after)]
    return binary(np.concatenate([ends[0], cells, ends[1]], axis=1))


def families(count: int) -> Iterator[tuple[str, Any]]:
    """Yield each family's name and a limited number of different keys of it."""
    yield from numbers_and_pairs(count)
    yield from texts(count)
    yield from patterns(count)


def numbers_and_pairs(count: int) -> Iterator[tuple[str, Any]]:
    running = np.arange(count, dtype=np.int64)
    yield "integers in turn", running
    yield "negative integers", -running
    for shift in (8, 16, 32, 40):
        yield f"integers times 2^{shift}", running << shift
    yield "seconds of days", 1_600_000_000 + running * 86_400
    side = math.isqrt(count)
    left, right = (cells.ravel() for cells in np.indices((side, side)))
    yield "a grid of pairs", Pairs(left, right)
    yield "a grid of large pairs", Pairs(left << 32, right << 32)
    yield "a grid of negative pairs", Pairs(-left, right - side // 2)
    yield "pairs of a number and itself", Pairs(running, running)
    yield "pairs of opposite numbers", Pairs(running, -running)
    yield "pairs of a constant sum", Pairs(running, count - running)
    yield "pairs of days and orders", Pairs(20_200_101 + left, right)
    texts_ = binary(written(left, 6))
    yield "pairs of a text and a number", Pairs(texts_, right)
    yield "pairs of two texts", Pairs(texts_, binary(written(right, 6)))


def texts(count: int) -> Iterator[tuple[str, Any]]:
    running = np.arange(count, dtype=np.int64)
    width = max(8, len(str(count)))
    number = written(running, width)
    for place in range(25):
        after = b"-of-the-day"[: max(0, 24 - place)]
        yield (
            f"a running number at {place}",
            template(b"order-number-of-a-customer"[:place], number, after),
        )
    days = max(1, count // 100_000)
    dated = [
        written(20_200_101 + running // max(1, count // days), 8),
        written(running % (count // days), 8),
    ]
    yield "YYYYMMDD and 8 digits", binary(np.concatenate(dated, axis=1))
    ten = [written(20_200_220 + running % 10, 8), written(running // 10, 8)]
    yield "ten days in turn and 8 digits", binary(np.concatenate(ten, axis=1))
    some = running[: min(count, 1_000_000)]
    spread = [
        written(20_200_220 + some % 10, 8),
        written(some // 10 % 10 + some // 100 * 10_000, 8),
    ]
    yield "ten days and digits at 9, 11 and 15", binary(np.concatenate(spread, axis=1))
    size = min(len(LETTERS), round(count ** (1 / 3)))
    grid = [cells.ravel() for cells in np.indices((size, size, size))]
    for head, gap in ((7, 3), (8, 3), (4, 7), (0, 7), (8, 7), (15, 8)):
        cells = np.full((len(grid[0]), head + 3 + 2 * gap), ord("0"), np.uint8)
        for column, letters in zip((head, head + gap + 1, head + 2 * gap + 2), grid, strict=True):
            cells[:, column] = LETTERS[letters]
        yield f"letters at {head}, {head + gap + 1}, {head + 2 * gap + 2}", binary(cells)
    for head in (b"", b"0x", b"trace00", b"https://example.org/"):
        yield f"hexadecimal after {head!r}", template(head, written(running, 16, HEX))
    yield "hexadecimal of 32", binary(written_wide(running))


def written_wide(running: Any) -> Any:
    """Numbers far up in 32 hexadecimal digits."""
    cells = np.full((len(running), 32), ord("0"), np.uint8)
    cells[:, 2:12] = written(running, 10, HEX)
    return cells


def patterns(count: int) -> Iterator[tuple[str, Any]]:
    random = np.random.default_rng(1)
    for size, bits in ((8, 4), (16, 3), (20, 3), (32, 2), (256, 2)):
        yield f"{size} bytes with up to {bits} bits", binary(sparse(size, bits, count))
    for size, times in ((3, 8), (4, 8), (5, 8), (8, 8), (16, 3)):
        words = np.unique(random.integers(0, 256, (count, size), dtype=np.uint8), axis=0)
        yield f"{size} bytes {times} times over", binary(np.tile(words, (1, times)))
    for name, words in (
        ("the lowest bits", [b"\1\0\0\0", b"\2\0\0\0", b"\3\0\0\0", b"\4\0\0\0"]),
        ("the highest bits", [b"\0\0\0\x20", b"\0\0\0\x40", b"\0\0\0\x60", b"\0\0\0\x80"]),
        ("nothing and a bit", [b"\0\0\0\0", b"\0\0\0\x80"]),
        ("eight bytes and a bit", [b"\0" * 8, b"\0" * 7 + b"\x80", b"\x80" + b"\0" * 7]),
        ("names", [b"north", b"south", b"east!", b"west!"]),
    ):
        length = int(math.log(count) / math.log(len(words)))
        chosen = np.array([np.frombuffer(word, np.uint8) for word in words])
        rows = np.array(
            list(itertools.islice(itertools.product(range(len(words)), repeat=length), count))
        )
        yield f"sequences of {name}", binary(chosen[rows].reshape(len(rows), -1))
    heads = np.unique(random.integers(1, 256, (max(1, count // 200), 9), dtype=np.uint8), axis=0)
    padded = [head.tobytes() + bytes(zeros) for head in heads for zeros in range(200)]
    yield "zeros at the end", padded
    yield "nothing but zeros", [bytes(size) for size in range(min(count, 2000))]


def sparse(size: int, bits: int, count: int) -> Any:
    """Bytes with a limited number of bits set, a limited number of them."""
    chosen = [
        np.array(places, dtype=np.int64).reshape(-1, number)
        for number in range(1, bits + 1)
        for places in [
            list(itertools.islice(itertools.combinations(range(8 * size), number), count))
        ]
    ]
    cells = np.zeros((sum(map(len, chosen)), size), np.uint8)
    start = 0
    for places in chosen:
        rows = np.arange(start, start + len(places))
        for column in places.T:
            cells[rows, column // 8] |= np.left_shift(1, column % 8).astype(np.uint8)
        start += len(places)
    return cells[:count]


def integers(cells: Any) -> Any:
    """Rows of eight bytes as whole numbers."""
    return np.ascontiguousarray(cells).view("<i8").ravel()


def pairs(cells: Any) -> Any:
    """Rows of sixteen bytes as pairs: a whole number, and a key of eight bytes."""
    return Pairs(integers(cells[:, :8]), binary(cells[:, 8:]))


def number_pairs(cells: Any) -> Any:
    """Rows of sixteen bytes as pairs of whole numbers."""
    return Pairs(integers(cells[:, :8]), integers(cells[:, 8:]))


KINDS = {"integers": (8, integers), "pairs": (16, pairs), "pairs of integers": (16, number_pairs)}
"""How many bytes avalanches have of keys that are not bytes, and what makes keys of them."""


def avalanche(
    size: int,
    samples: int,
    hashed: Callable[[Any], Any] = placed,
    made: Callable[[Any], Any] = binary,
) -> float:
    """The largest bias of any output bit when any one input bit flips: 0 is best, 1 worst."""
    cells = np.random.default_rng(size).integers(0, 256, (samples, size), dtype=np.uint8)
    before = hashed(made(cells))
    worst = 0.0
    for bit in range(8 * size):
        flipped = cells.copy()
        flipped[:, bit // 8] ^= np.uint8(1 << bit % 8)
        changed = (before ^ hashed(made(flipped))).view(np.uint8).reshape(-1, 8)
        shares = np.unpackbits(changed, axis=1).mean(axis=0)
        worst = max(worst, float(np.abs(2 * shares - 1).max()))
    return worst


def digest_of(keys: Any) -> Any:
    """A hash that others made, one key after the other: what the families must accept."""
    found = [
        hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
        for key in as_keys(keys).objects().tolist()
    ]
    return np.frombuffer(b"".join(found), dtype="<u8")


def half_mixed(keys: Any) -> Any:
    """Fingerprints as they once were, which let words cancel: what the families must refuse."""
    strings = as_keys(keys)
    data, lengths = (strings.arrays()[name] for name in ("data", "lengths"))
    starts = np.cumsum(lengths) - lengths
    codes = lengths.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    codes += np.uint64(0x5D589B6A2F3C7E11)
    size = int(lengths[0])
    cells = np.zeros((len(lengths), -(-size // 8) * 8), np.uint8)
    cells[:, :size] = data[starts[:, np.newaxis] + np.arange(size)]
    for word in cells.view("<u8").T:
        codes = (codes ^ word) * np.uint64(0xBF58476D1CE4E5B9)
        codes ^= codes >> HALF
    return key_places(codes)


def main() -> int:
    """Try all families and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000, help="of each family, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the hash")
    parser.add_argument("--samples", type=int, default=300_000, help="for avalanches")
    parser.add_argument("--only", default="", help="families whose name has this in it")
    options = parser.parse_args()
    failed = 0
    for name, keys in families(options.keys):
        if options.only not in name:
            continue
        started = time.perf_counter()
        places = placed(keys, options.seed)
        seconds = time.perf_counter() - started
        found = meetings(places)
        wrong = too_many(found, len(places))
        met = ", ".join(
            f"{number} ({expected(len(places), bits):.3g})" for number, bits in found.values()
        )
        print(
            f"{name}: {len(places)} keys, {seconds:.2f} s; meet: {met}{' BAD' * bool(wrong)}",
            flush=True,
        )
        failed += bool(wrong)
    kinds = {f"{size} bytes": (size, binary) for size in (4, 8, 12, 16, 24)} | KINDS
    for name, (size, made) in kinds.items():
        bias = avalanche(size, options.samples, made=made)
        print(f"avalanche of {name}: bias {bias:.2%}{' BAD' * (bias > 0.01)}", flush=True)
        failed += bias > 0.01
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
