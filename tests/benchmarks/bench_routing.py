"""Routing: a table against binary search and a dict, and every router by itself.

Integers are drawn from a table of 1e5 keys spread over 62 bits, in random order, nine of ten of
them known; texts are short tags, by Zipf's law as hashtags are. The rivals answer known keys only
and leave the others at -1, so the hash fallback is extra work that only the table does.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from harness import Result, interleaved
from numpy.typing import NDArray

from grouping.groupings import (
    DChoices,
    Fields,
    Grouping,
    LocalOrShuffle,
    PartialKey,
    RoutingTable,
    Shuffle,
    WChoices,
    WorstCase,
)
from grouping.skew.distribution_aware import distribution_aware
from sketches.space_saving import SpaceSaving

ROWS = 1_000_000
ENTRIES = 100_000
INSTANCES = 50


def run(scale: float) -> list[Result]:
    """Measure the table, text and the routers."""
    rows = max(1_000, int(ROWS * scale))
    rng = np.random.default_rng(3)
    return [*_integers(rng, rows), *_texts(rng, rows), *_growth(rng), *_routers(rng, rows)]


def _integers(rng: np.random.Generator, rows: int) -> list[Result]:
    known = np.unique(rng.integers(-(1 << 61), 1 << 61, ENTRIES))
    parts = rng.integers(0, INSTANCES, len(known))
    table = RoutingTable(known, parts, INSTANCES)
    asked = rng.choice(known, rows)
    strangers = rng.random(rows) < 0.1
    asked[strangers] = rng.integers(1 << 61, 1 << 62, int(strangers.sum()))
    owners = dict(zip(known.tolist(), parts.tolist(), strict=True))
    listed = asked.tolist()  # making the list is not the rival's fault
    table.assign(asked[:1])  # nor is building the slots, which are measured on their own

    def searched() -> NDArray[np.int32]:
        places = np.searchsorted(known, asked)
        places[places == len(known)] = 0
        return np.where(known[places] == asked, parts[places], -1).astype(np.int32)

    def looked_up() -> NDArray[np.int32]:
        return np.array([owners.get(key, -1) for key in listed], dtype=np.int32)

    seconds = interleaved(
        {
            "table": lambda: table.assign(asked),
            "search": searched,
            "dict": looked_up,
            "first": lambda: RoutingTable(known, parts, INSTANCES).assign(asked[:1]),
        }
    )
    found = table.find(asked)
    if not np.array_equal(np.where(*found, -1), searched()):
        raise AssertionError("the table and binary search disagree")
    return [
        _rate("table of 1e5 integers", rows, seconds["table"], goal=10),
        Result(
            name="  against np.searchsorted",
            measured=seconds["search"] / seconds["table"],
            unit="x",
        ),
        Result(name="  against a dict", measured=seconds["dict"] / seconds["table"], unit="x"),
        Result(name="  making it and its slots", measured=seconds["first"] * 1e3, unit="ms"),
    ]


def _texts(rng: np.random.Generator, rows: int) -> list[Result]:
    words = np.array([f"#tag-{number}" for number in rng.permutation(ENTRIES)], dtype=object)
    table = RoutingTable(words, rng.integers(0, INSTANCES, ENTRIES), INSTANCES)
    strings = words[_zipf(rng, ENTRIES, rows, 1.0)]
    plain = pa.array(strings)
    encoded = plain.dictionary_encode()
    listed = strings.tolist()
    owners = dict(zip(table.keys.tolist(), table.parts.tolist(), strict=True))
    table.assign(words[:1])
    seconds = interleaved(
        {
            "list": lambda: table.assign(listed),
            "arrow": lambda: table.assign(plain),
            "dictionary": lambda: table.assign(encoded),
            "dict": lambda: np.array([owners.get(key, -1) for key in listed], dtype=np.int32),
        }
    )
    return [
        _rate("table of 1e5 texts, asked by a list", rows, seconds["list"]),
        _rate("  by an Arrow array", rows, seconds["arrow"]),
        _rate("  by an Arrow dictionary array", rows, seconds["dictionary"], goal=10),
        Result(
            name="  dictionary against a dict",
            measured=seconds["dict"] / seconds["dictionary"],
            unit="x",
        ),
        Result(
            name="  dictionary against plain",
            measured=seconds["arrow"] / seconds["dictionary"],
            unit="x",
        ),
    ]


def _growth(rng: np.random.Generator) -> list[Result]:
    """Measure what it costs to tell a table of 1e5 keys of 1e4 more."""
    keys = rng.permutation(ENTRIES + 10_000)
    parts = rng.integers(0, INSTANCES, len(keys))
    old, new = slice(0, ENTRIES), slice(ENTRIES, None)
    texts = np.array([f"#tag-{key}" for key in keys.tolist()], dtype=object)
    integers, tags = (RoutingTable(each[old], parts[old], INSTANCES) for each in (keys, texts))
    seconds = interleaved(
        {
            "integers": lambda: integers.with_keys(keys[new], parts[new]),
            "texts": lambda: tags.with_keys(texts[new], parts[new]),
        }
    )
    return [
        Result(name=f"1e4 more keys, {name}", measured=taken * 1e3, unit="ms")
        for name, taken in seconds.items()
    ]


def _routers(rng: np.random.Generator, rows: int) -> list[Result]:
    keys = rng.permutation(ENTRIES)[_zipf(rng, ENTRIES, rows, 1.4)]
    sketch = SpaceSaving(10_000)
    sketch.update(keys[: rows // 5])
    table = RoutingTable(np.arange(ENTRIES), rng.integers(0, INSTANCES, ENTRIES), INSTANCES)
    groupings: list[Grouping] = [
        Shuffle(),
        LocalOrShuffle(),
        Fields(),
        table,
        WorstCase(table),
        distribution_aware(sketch, INSTANCES),
        PartialKey(),
        PartialKey(5),
        DChoices(),
        WChoices(),
    ]
    table.assign(keys[:1])

    def routes(grouping: Grouping) -> Callable[[], object]:
        return lambda: grouping.router(INSTANCES, local=[1, 2]).route(rows, keys)

    names = [
        f"{grouping.kind} {getattr(grouping, 'choices', '')}".strip() for grouping in groupings
    ]
    seconds = interleaved(
        {name: routes(grouping) for name, grouping in zip(names, groupings, strict=True)}, repeats=5
    )
    return [_rate(f"router, Zipf 1.4: {name}", rows, seconds[name]) for name in names]


def _zipf(rng: np.random.Generator, values: int, rows: int, exponent: float) -> NDArray[np.int64]:
    weights = np.arange(1, values + 1) ** -exponent
    return rng.choice(values, rows, p=weights / weights.sum())


def _rate(name: str, rows: int, seconds: float, goal: float | None = None) -> Result:
    return Result(name=name, measured=rows / seconds / 1e6, unit="M rows/s", goal=goal)
