"""SpaceSaving over pairs of keys, against the frequent items sketch of datasketches.

The stream is made like that of a hashtag topology: locations and tags, both with Zipf's law, and
communities of locations that share most of their tags. Identifiers are shuffled, so that their
order says nothing about how frequent they are. The rival gets each pair as one integer, which is
the fastest it can be fed; of the capacities it has, it gets the next above ours.
"""

from dataclasses import dataclass

import datasketches
import numpy as np
from harness import Result, interleaved

from sketches.arrays import Integers
from sketches.keys import Pairs
from sketches.space_saving import SpaceSaving

PAIRS = 10_000_000
CAPACITY = 10_000
RIVAL_LOG_SIZE = 14  # holds 0.75 * 2^14 = 12288 counters


@dataclass(frozen=True)
class Stream:
    """Pairs of a location and a tag, and how often each truly occurs."""

    left: Integers
    right: Integers
    truth: dict[int, int]

    @property
    def codes(self) -> Integers:
        """Each pair as one integer."""
        return self.left << 32 | self.right


def make_stream(size: int) -> Stream:
    """Return `size` pairs of 1e5 locations and 1e6 tags in 200 communities."""
    rng = np.random.default_rng(20)
    locations, tags, communities = 100_000, 1_000_000, 200
    left = _zipf(rng, locations, size)
    home = rng.integers(0, communities, locations)[left]
    own = _zipf(rng, tags // communities, size) * communities + home
    right = np.where(rng.random(size) < 0.7, own, _zipf(rng, tags, size))
    left, right = rng.permutation(locations)[left], rng.permutation(tags)[right]
    codes, counts = np.unique(left << 32 | right, return_counts=True)
    return Stream(left, right, dict(zip(codes.tolist(), counts.tolist(), strict=True)))


def run(scale: float) -> list[Result]:
    """Measure speed, recall, mass and memory."""
    size = max(1000, int(PAIRS * scale))
    stream = make_stream(size)
    found: dict[str, list[int]] = {}
    sketches: list[SpaceSaving] = []
    integers = stream.codes.tolist()  # making the list is not the rival's fault

    def ours() -> None:
        sketch = SpaceSaving(CAPACITY)
        sketch.update(Pairs(stream.left, stream.right))
        pairs = sketch.arrays()[0]
        found["ours"] = (pairs.left << 32 | pairs.right).tolist()
        sketches[:] = [sketch]

    def theirs() -> None:
        sketch = datasketches.frequent_items_sketch(RIVAL_LOG_SIZE)
        update = sketch.update
        for integer in integers:
            update(integer)
        kind = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
        items = sketch.get_frequent_items(kind, 0)
        found["theirs"] = [item[0] for item in items]

    seconds = interleaved({"ours": ours, "theirs": theirs}, repeats=5)
    recall = {name: _recall(keys, stream.truth) for name, keys in found.items()}
    mass = {name: _mass(keys, stream.truth) for name, keys in found.items()}
    [sketch] = sketches
    return [
        Result(
            name="pairs: speed against datasketches",
            measured=seconds["theirs"] / seconds["ours"],
            unit="x",
            goal=2.5,
        ),
        Result(name="pairs: recall at capacity", measured=recall["ours"], unit="", goal=0.75),
        Result(name="pairs: recall of datasketches", measured=recall["theirs"], unit=""),
        Result(name="pairs: mass found of the best possible", measured=mass["ours"], unit=""),
        Result(name="pairs: mass found by datasketches", measured=mass["theirs"], unit=""),
        Result(
            name="pairs: memory of a counter",
            measured=sketch.nbytes / len(sketch),
            unit="B",
            goal=32,
            better="lower",
        ),
        Result(
            name="pairs: floor, of what is promised",
            measured=sketch.floor * (CAPACITY + 1) / sketch.total,
            unit="",
            goal=1,
            better="lower",
        ),
        *_speeds(stream, seconds),
    ]


def _speeds(stream: Stream, seconds: dict[str, float]) -> list[Result]:
    """Return plain speeds, which say little on a shared machine, for other kinds of keys."""
    some = min(1_000_000, len(stream.left))
    texts = np.char.add("#", stream.right[:some].astype("S8").astype("U8"))
    weights = np.random.default_rng(21).random(some)
    others = interleaved(
        {
            "integers": lambda: SpaceSaving(CAPACITY).update(stream.right),
            "weighted integers": lambda: SpaceSaving(CAPACITY).update(stream.right[:some], weights),
            "text in an array": lambda: SpaceSaving(CAPACITY).update(texts),
            "text in a list": lambda: SpaceSaving(CAPACITY).update(texts.tolist()),
        },
        repeats=3,
    )
    sizes = dict.fromkeys(others, some) | {"integers": len(stream.right)}
    rates = {
        "pairs": len(stream.left) / seconds["ours"],
        "pairs, datasketches": len(stream.left) / seconds["theirs"],
    } | {name: sizes[name] / taken for name, taken in others.items()}
    return [
        Result(name=f"{name}: speed", measured=rate / 1e6, unit="M/s")
        for name, rate in rates.items()
    ]


def _zipf(rng: np.random.Generator, distinct: int, size: int) -> Integers:
    """Return ranks from 0 on, with Zipf's law of exponent 1."""
    shares = np.cumsum(1 / np.arange(1, distinct + 1))
    return np.searchsorted(shares, rng.random(size) * shares[-1]).astype(np.int64)


def _recall(keys: list[int], truth: dict[int, int]) -> float:
    """Return the share of the heaviest CAPACITY keys that was found, in as many keys.

    Keys as heavy as the lightest of those count too: which of them is chosen is luck.
    """
    number = min(CAPACITY, len(truth))
    least = sorted(truth.values())[-number]
    chosen = keys[:number]  # both give the heaviest first
    sure = sum(count > least for count in truth.values())
    hits = sum(truth[key] > least for key in chosen)
    ties = min(sum(truth[key] == least for key in chosen), number - sure)
    return (hits + ties) / number


def _mass(keys: list[int], truth: dict[int, int]) -> float:
    """Return the true weight of as many found keys, as a share of the most there could be."""
    number = min(CAPACITY, len(truth))
    return sum(truth[key] for key in keys[:number]) / sum(sorted(truth.values())[-number:])
