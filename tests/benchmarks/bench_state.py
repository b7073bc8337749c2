"""What it costs that keys are told apart by themselves, not by their 64-bit codes alone.

A job of one keyed operator goes on batch by batch over a state that is there already. What is done
with keys is timed on its own, as the rest of a batch (files, mostly) varies more than that: numbers
are given to the keys of the batch, and these are found in the state. The first rival is what was
done before, which compared keys with those in state, and looked for them twice. The second trusts
codes altogether: what must not be done, and the least that can be done. Both are put in relation to
a whole batch of one instance in this process; the second also to one on Spark, by the clock, as if
all of it were on the way of a single instance.
"""

import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from harness import Result, interleaved
from numpy.typing import NDArray

from grouping.hashing import key_places
from optimizers import Cluster, Plan, Topology
from optimizers.folds import Count, KeyNumbers, codes_of, key_numbers
from optimizers.folds.casting import take_rows
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.state.keys import keys_at, match
from optimizers.runtime.state.table import places_of
from optimizers.runtime.storage.location import Location
from optimizers.spark import SparkEngine, local_session
from optimizers.strategies.fixed import Fixed

ROWS = 200_000
KEYS = 300_000
COSTS_AT_MOST = 1.05
BATCHES = 9  # on Spark


def run(scale: float) -> list[Result]:
    """Measure batches with keys of several kinds."""
    rows, keys = max(2_000, int(ROWS * scale)), max(3_000, int(KEYS * scale))
    random = np.random.default_rng(5)
    users = random.permutation(keys)
    often = users[np.minimum(random.zipf(1.3, rows), keys) - 1]
    evenly = random.integers(0, keys, rows)
    return [
        result
        for name, drawn in (("by Zipf's law", often), ("evenly", evenly))
        for kind, of in (("text", _texts), ("integers", _integers), ("pairs", _pairs))
        for result in _batches(
            f"{kind}, {name}", of(np.arange(keys)), of(drawn), on_spark=scale >= 1
        )
    ]


def _texts(numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
    return {"user": pa.array([f"user-{number:010}" for number in numbers.tolist()])}


def _integers(numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
    return {"user": pa.array(numbers * 0x9E3779B1)}


def _pairs(numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
    return {**_texts(numbers // 10), "item": pa.array(numbers % 10)}


def _batches(
    name: str, known: dict[str, pa.Array], come: dict[str, pa.Array], *, on_spark: bool
) -> list[Result]:
    """Measure batches in which some keys come, over a state of all that are known."""
    names = tuple(known)
    tuples = pa.table(come)
    numbers, firsts, codes = key_numbers(pa.table(known), names)
    state = keys_at(key_places(codes), take_rows(pa.table(known), firsts))
    numbers, firsts, codes = key_numbers(tuples, names)
    keys = keys_at(key_places(codes), take_rows(tuples, firsts))
    if not match(state, keys).found.all() or len(numbers) != len(tuples):
        raise AssertionError("keys of the batch are not found in the state")
    with tempfile.TemporaryDirectory() as folder:
        seconds = interleaved(
            {
                "batch": _job(folder, known, come),
                "numbers": lambda: key_numbers(tuples, names),
                "by codes": lambda: _numbers_of_codes(tuples, names),
                "match": lambda: match(state, keys),
                "look up": lambda: _look_up(state, keys),
            },
            repeats=21,
        )
        cache.forget()
    compared = seconds["match"] - seconds["look up"]
    trusting = seconds["by codes"] - seconds["numbers"] - compared
    before = seconds["by codes"] + seconds["look up"] - seconds["numbers"]
    batch = seconds["batch"]
    there = []
    if on_spark:
        whole = _on_spark(known, come)
        share = Result(
            name=f"{name}, against codes alone on Spark",
            measured=whole / (whole + trusting),
            unit="x",
            goal=COSTS_AT_MOST,
            better="lower",
        )
        there = [share, Result(name=f"  {name}, a batch on Spark", measured=whole * 1e3, unit="ms")]
    return [
        *there,
        Result(
            name=f"{name}, against what was done before",
            measured=batch / (batch + before),
            unit="x",
            goal=COSTS_AT_MOST,
            better="lower",
        ),
        Result(
            name=f"  {name}, against codes alone", measured=batch / (batch + trusting), unit="x"
        ),
        Result(name=f"  {name}, a batch", measured=batch * 1e3, unit="ms"),
    ]


def _job(
    folder: str, known: dict[str, pa.Array], come: dict[str, pa.Array]
) -> Callable[[], object]:
    """Return what runs one batch more of a job that knows its keys."""
    job = Topology.source("in").then("count", key=tuple(known), apply=Count())
    checkpoint = Checkpoint.create_or_open(Location(folder), job)
    coordinator = Coordinator(job, Cluster.uniform(1), Fixed(Plan()), checkpoint)

    def batch(columns: dict[str, pa.Array]) -> None:
        assigned = coordinator.assign()
        tuples = pa.record_batch(columns)
        reports = run_batch(assigned.work, assigned.ticket, {"in": [[tuples]]})
        coordinator.commit(assigned, reports, 1.0)

    batch(known)
    return lambda: batch(come)


def _on_spark(known: dict[str, pa.Array], come: dict[str, pa.Array]) -> float:
    """Return the median seconds of such a batch on Spark, on two cores."""
    spark = local_session(2, memory="2g")
    job = Topology.source("in").then("count", key=tuple(known), parallelism=2, apply=Count())
    first, rows = (spark.createDataFrame(pa.table(each)).cache() for each in (known, come))
    rows.count()
    with tempfile.TemporaryDirectory() as folder:
        run = SparkEngine(checkpoint=folder, spark=spark).run(job, first)
        seconds = []
        for _ in range(BATCHES):
            began = time.perf_counter()
            run.execute(rows)
            seconds.append(time.perf_counter() - began)
    rows.unpersist()
    first.unpersist()
    return statistics.median(seconds)


def _look_up(state: pa.Table, keys: pa.Table) -> NDArray[np.bool_]:
    """Find places only."""
    known, places = places_of(state), places_of(keys)
    rows = np.minimum(np.searchsorted(known, places), len(known) - 1)
    return known[rows] == places


def _numbers_of_codes(table: pa.Table, columns: tuple[str, ...]) -> KeyNumbers:
    """Number keys by their codes."""
    encoded = pa.array(codes_of(table, columns)).dictionary_encode()
    codes = encoded.dictionary.to_numpy()
    order = np.argsort(key_places(codes))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    rows = numbers[encoded.indices.to_numpy()]
    firsts = np.empty(len(order), dtype=np.int64)
    firsts[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return KeyNumbers(rows, firsts, codes[order])
