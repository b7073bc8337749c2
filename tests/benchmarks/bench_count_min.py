"""CountMin and CostSketch against the Count-Min sketch of datasketches, called key by key.

The rival is fed the tightest way Python has: a bound method over a ready list of Python objects.
Ours gets the numpy array. Both keep their sketch over all repeats: it is the counting that is
timed. With 55 columns (an error of 5 %) there are 4096 keys, with 2719 (0.1 %) a million.
"""

from collections.abc import Callable

import datasketches
import numpy as np
import pyarrow as pa
from harness import Result, interleaved

from sketches.arrays import Integers
from sketches.cost_sketch import CostSketch
from sketches.count_min import CountMin

DEPTH = 4
LENGTHS = (100_000, 1_000_000)
KEYS_BY_WIDTH = {55: 4096, 2719: 1_000_000}

Variants = dict[str, Callable[[], object]]


def run(scale: float) -> list[Result]:
    """Measure speed on batches and on single keys, and the error of conservative updates."""
    results = []
    for length in LENGTHS:
        for width, keys in KEYS_BY_WIDTH.items():
            results += _speed(width, zipf(keys, 1.0, max(1000, int(length * scale))))
    results += _text(max(1000, int(LENGTHS[0] * scale)))
    results.append(_single_keys(max(1000, int(LENGTHS[0] * scale))))
    for width in (55, 272):
        for exponent in (0.5, 1.0):
            results += _conservative(width, exponent, max(1000, int(200_000 * scale)))
    return results


def zipf(keys: int, exponent: float, length: int) -> Integers:
    """Return keys drawn by Zipf's law."""
    shares = np.arange(1, keys + 1) ** -exponent
    return np.random.default_rng(1).choice(keys, size=length, p=shares / shares.sum())


def _speed(width: int, keys: Integers) -> list[Result]:
    items = keys.tolist()
    costs = np.random.default_rng(2).integers(1, 65, len(keys)).astype(np.float64)
    weights = costs.tolist()
    ours, pair = CountMin(width, DEPTH), CostSketch(width, DEPTH)
    counts, sums = (datasketches.count_min_sketch(DEPTH, width) for _ in range(2))

    def update() -> None:
        count = counts.update
        for item in items:
            count(item)

    def update_pair() -> None:
        count, add = counts.update, sums.update
        for item, weight in zip(items, weights, strict=True):
            count(item)
            add(item, weight)

    def query() -> list[float]:
        return list(map(counts.get_estimate, items))

    case = f"{len(keys):,} int keys, width {width}"
    return [
        _ratio(f"update, {case}", lambda: ours.update(keys), update, goal=8),
        _ratio(f"update F and W, {case}", lambda: pair.update(keys, costs), update_pair, goal=10),
        _ratio(f"query, {case}", lambda: ours.estimate(keys), query, goal=15),
    ]


def _text(length: int) -> list[Result]:
    """Compare text: touching Python's str objects one by one is most of what a list of it costs."""
    texts = [f"key {key}" for key in zipf(4096, 1.0, length).tolist()]
    ours, theirs = CountMin(55, DEPTH), datasketches.count_min_sketch(DEPTH, 55)

    def update() -> None:
        count = theirs.update
        for text in texts:
            count(text)

    array = pa.array(texts)
    return [
        _ratio(f"update, {length:,} str keys in a list", lambda: ours.update(texts), update),
        _ratio(f"update, {length:,} str keys in Arrow", lambda: ours.update(array), update),
    ]


def _single_keys(length: int) -> Result:
    """Compare the two backends one key at a time: this is what the other one is for."""
    items = zipf(4096, 1.0, length).tolist()
    ours, theirs = CountMin(55, DEPTH), CountMin(55, DEPTH, backend="datasketches")

    def adding(sketch: CountMin) -> Callable[[], None]:
        def add_all() -> None:
            for item in items:
                sketch.add(item)

        return add_all

    return _ratio("add one by one, numpy against datasketches", adding(ours), adding(theirs))


def _conservative(width: int, exponent: float, length: int) -> list[Result]:
    """Compare the mean errors over the keys that occur, in batches of ten thousand."""
    keys = zipf(40_000, exponent, length)
    truth = np.bincount(keys)
    seen = np.flatnonzero(truth)
    plain, careful = CountMin(width, DEPTH), CountMin(width, DEPTH, conservative=True)
    for batch in np.array_split(keys, -(-length // 10_000)):
        plain.update(batch)
        careful.update(batch)
    errors = careful.estimate(seen) - truth[seen]
    gain = float((plain.estimate(seen) - truth[seen]).mean() / errors.mean())
    case = f"conservative, Zipf {exponent}, width {width}"
    return [
        Result(name=f"mean error plain/{case}", measured=gain, unit="x", goal=5),
        Result(
            name=f"underestimates, {case}",
            measured=float((errors < 0).sum()),
            unit="keys",
            goal=0,
            better="lower",
        ),
    ]


def _ratio(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    goal: float | None = None,
) -> Result:
    """Return how many times faster ours is."""
    seconds = interleaved({"ours": ours, "theirs": theirs})
    return Result(name=name, measured=seconds["theirs"] / seconds["ours"], unit="x", goal=goal)
