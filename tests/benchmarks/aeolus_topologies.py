"""The two topologies of the paper, with generators of what comes in and functions to be timed."""

import itertools
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from batching.dataflow import Dataflow
from grouping.groupings import Shuffle
from optimizers import Operator, Topology
from optimizers.operators import Edge


@dataclass(frozen=True)
class Job:
    """A topology, and what was timed of it.

    Attributes:
        names: the operators in their order; the first is the source.
        edges: (producer, consumer, columns of the key or None).
        seconds: CPU seconds of each operator for a tuple.
        every: of how many tuples that it gets an operator emits one.
        bytes: of a tuple.
        columns: what tuples hold that keys are made of.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    seconds: dict[str, float]
    every: dict[str, int]
    bytes: float
    columns: dict[str, Any]

    def topology(self) -> Topology:
        """Return the job; an operator that is fed by key is keyed."""
        keys = {target: key for _, target, key in self.edges}
        return Topology(
            tuple(Operator(name, key=keys.get(name), key_groups=1024) for name in self.names),
            tuple(
                Edge(source, target, Shuffle() if key is None else None)
                for source, target, key in self.edges
            ),
        )

    def flow(self, rate: float) -> Dataflow:
        """Return what planners get."""
        return Dataflow.of(
            self.names,
            [(source, target) for source, target, _ in self.edges],
            seconds=[self.seconds[name] for name in self.names],
            rates=[rate, *[0.0] * (len(self.names) - 1)],
            selectivity=[1 / self.every.get(source, 1) for source, _, _ in self.edges],
            sizes=self.bytes,
            keyed=[key is not None for _, _, key in self.edges],
        )


def timed(function: Callable[[Any], Any], inputs: Iterable[Any]) -> float:
    """Return the CPU seconds of a call, the best of five rounds over all inputs."""
    given = list(inputs)
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for each in given:
            function(each)
        best = min(best, time.process_time() - started)
    return best / len(given)


def linear_road(count: int, seed: int = 0) -> Job:
    """Return Linear Road as the paper has it: position reports of vehicles on segments."""
    random = np.random.default_rng(seed)
    xway, way = random.integers(0, 10, count), random.integers(0, 2, count)
    segment, vehicle = random.integers(0, 100, count), random.integers(0, 50_000, count)
    speed = random.integers(20, 100, count)
    records = [
        f"0,{row // 100},{v},{s},{x},{row % 5},{d},{g},{g * 5280}"
        for row, (v, s, x, d, g) in enumerate(zip(vehicle, speed, xway, way, segment, strict=True))
    ][:20_000]

    def parse(record: str) -> tuple[int, ...]:
        return tuple(map(int, record.split(",")))

    sums: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])

    def aggregate(report: tuple[int, ...]) -> None:
        known = sums[report[4], report[6], report[7]]
        known[0] += report[3]
        known[1] += 1

    windows: dict[tuple[int, ...], deque[float]] = defaultdict(lambda: deque(maxlen=5))

    def moving(report: tuple[int, ...]) -> float:
        window = windows[report[4], report[6]]
        window.append(report[3])
        return sum(window) / len(window)

    tolls: dict[tuple[int, ...], float] = {}

    def toll(report: tuple[int, ...]) -> None:
        tolls[report[4], report[6], report[7]] = 2.0 * max(0, 40 - report[3]) ** 2

    cars: Counter[tuple[int, ...]] = Counter()

    def block(report: tuple[int, ...]) -> None:
        cars[report[4], report[6], report[7]] += 1

    parsed = list(map(parse, records))
    seconds = {
        "spout": 0.0,
        "parse": timed(parse, records),
        "agg": timed(aggregate, parsed),
        "mv": timed(moving, parsed),
        "toll": timed(toll, parsed),
        "block": timed(block, parsed),
    }
    by_segment, by_way = ("xway", "dir", "seg"), ("xway", "dir")
    return Job(
        ("spout", "parse", "agg", "mv", "toll", "block"),
        (
            ("spout", "parse", None),
            ("parse", "agg", by_segment),
            ("agg", "mv", by_way),
            ("agg", "block", by_segment),
            ("mv", "toll", by_segment),
        ),
        seconds,
        {"agg": 100},
        50.0,
        {"xway": xway, "dir": way, "seg": segment},
    )


_WORDS = [
    "the",
    "new",
    "phone",
    "is",
    "not",
    "bad",
    "but",
    "battery",
    "life",
    "could",
    "have",
    "been",
    "much",
    "better",
    "than",
    "before",
    "and",
    "i",
    "really",
    "love",
    "this",
    "amazing",
    "screen",
    "http://a.b",
    "#gadget",
    "@shop",
    "great",
    "awful",
    "price",
]
_TAGS = {word: ("JJ" if len(word) % 3 == 0 else "NN") for word in _WORDS}
_STOP = frozenset(_WORDS[:20:3])


def sentiment(count: int, seed: int = 0) -> Job:
    """Return Sentiment Analysis as the paper has it: a chain of 15 steps over tweets."""
    random = np.random.default_rng(seed)
    tweets = [
        " ".join(random.choice(_WORDS, int(random.integers(6, 22))).tolist()) for _ in range(2_000)
    ]
    lists = [tweet.split() for tweet in tweets]
    steps: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
        "filter": (lambda text: sum(word in _STOP for word in text.split()) > 1, tweets),
        "sentence": (lambda text: re.split(r"[.!?] ?", text), tweets),
        "tok": (lambda text: re.findall(r"[\w#@:/.']+", text), tweets),
        "posTag": (_tagged, lists),
        "custN": (lambda words: [w for w in words if w[0] in "#@"], lists),
        "cplxP": (lambda words: list(zip(words, words[1:], words[2:], strict=False)), lists),
        "neg": (lambda words: [i for i, w in enumerate(words) if w in {"not", "no"}], lists),
        "baseF": (lambda words: [w.removesuffix("s").removesuffix("ing") for w in words], lists),
        "sentWord": (lambda words: [w for w in words if w in {"love", "great", "awful"}], lists),
        "att": (lambda words: [w for w in words if _TAGS.get(w) == "NN"], lists),
        "norm": (lambda words: [w.lower() for w in words], lists),
        "stopWord": (lambda words: [w for w in words if w not in _STOP], lists),
        "SA": (lambda words: sum(len(w) % 3 - 1 for w in words), lists),
        "html": (lambda words: "<p>" + " ".join(words) + "</p>", lists),
        "res": (len, lists),
    }
    names = ("spout", *steps)
    seconds = {"spout": 0.0, **{name: timed(*step) for name, step in steps.items()}}
    edges = tuple((first, second, None) for first, second in itertools.pairwise(names))
    return Job(names, edges, seconds, {"filter": 2}, 140.0, {"tweet": np.arange(count)})


def _tagged(words: list[str]) -> list[tuple[str, str]]:
    """Tag words by trying all tags for pairs of neighbours, as a Viterbi search does."""
    best: dict[str, float] = {"NN": 0.0, "JJ": 0.0, "VB": 0.0, "DT": 0.0}
    found = []
    for word in words:
        fits = {tag: -1.0 if _TAGS.get(word) == tag else -2.0 for tag in best}
        best = {
            tag: max(best[before] + (tag != before) * 0.1 for before in best) + fits[tag]
            for tag in best
        }
        found.append((word, max(best, key=best.__getitem__)))
    return found
