"""Simulation: a million tuples through two operators, against a plain loop over events.

Poisson arrivals, 4,096 keys by Zipf's law with 64 costs, ten instances or a thousand. Seconds are
of a busy machine; the ratios are of one run. The loop knows nothing but round robin over queues,
and must find the same times.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from harness import Result, interleaved
from numpy.typing import NDArray

from grouping.feedback import Dispatcher, Letters, Message, Reporter, Truth
from grouping.groupings import Fields, Grouping, PartialKey, Shuffle
from optimizers import Edge, Operator, Plan, Topology
from optimizers.simulation import Network, Simulated, SimulationEngine, Stream, Work

TUPLES = 1_000_000
BATCHED = 100_000
VALUES = 4_096
COSTS = 64
LOAD = 0.9


@dataclass(frozen=True, slots=True)
class Trivial(Grouping):
    """Deals tuples out in turn, and hears of every hundredth that an instance has done."""

    kind = "trivial"
    listens = True

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        return InTurn(instances, sender)

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        return EveryHundredth()


class InTurn(Dispatcher):
    """Takes one instance after the other."""

    def __init__(self, instances: int, first: int) -> None:
        self._instances = instances
        self._next = first - 1
        self.heard = 0

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the next instance."""
        self._next = (self._next + 1) % self._instances
        return self._next, None

    def receive(self, message: Message, now: float) -> None:
        """Count what is heard."""
        self.heard += 1


class EveryHundredth(Reporter):
    """Writes to the sender of every hundredth tuple."""

    def __init__(self) -> None:
        self._done = 0

    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Count a tuple."""
        self._done += 1
        return () if self._done % 100 else ((sender, self._done),)


def run(scale: float) -> list[Result]:
    """Measure all ways through the engine."""
    count = max(2_000, int(TUPLES * scale))
    batched = max(1_000, int(BATCHED * scale))
    return [*_ways(count, 10), *_ways(count, 1_000), *_against_loop(count), *_events(batched)]


def _stream(count: int, instances: int) -> Stream:
    rng = np.random.default_rng(5)
    weights = 1 / np.arange(1, VALUES + 1)
    keys = rng.choice(VALUES, count, p=weights / weights.sum())
    mean = float(_costs(keys).mean())
    return Stream.poisson({"key": keys}, rate=LOAD * instances / mean, seed=5, bytes=100.0)


def _costs(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    taken: NDArray[np.float64] = (keys * 40_503 % COSTS + 1) / 1_000
    return taken


WORK = {"work": Work(lambda columns: _costs(columns["key"]))}


def _job(grouping: Grouping, instances: int) -> Topology:
    return Topology(
        [
            Operator("source", parallelism=min(instances // 5, 50)),
            Operator("work", None, instances),
        ],
        [Edge("source", "work", grouping, "key")],
    )


def _ways(count: int, instances: int) -> list[Result]:
    stream = _stream(count, instances)
    network = Network(latency=0.001, bandwidth=1e8, links="edges", per_batch=1e-6, per_byte=1e-9)

    def runs(grouping: Grouping, network: Network | None = None) -> Callable[[], Simulated]:
        engine = SimulationEngine(network=network or Network(), cores=math.inf)
        return lambda: engine.run(_job(grouping, instances), stream, work=WORK)

    seconds = interleaved(
        {
            "shuffle": runs(Shuffle()),
            "shuffle over links": runs(Shuffle(), network),
            "fields": runs(Fields()),
            "partial key": runs(PartialKey()),
            "listening": runs(Trivial()),
            "listening over links": runs(
                Trivial(), Network(latency=0.001, bandwidth=1e8, links="edges")
            ),
        },
        repeats=3,
    )
    goals = {"listening": 12.0, "listening over links": 12.0}
    return [
        Result(
            name=f"{name}, {instances:,} instances, 1e6 tuples",
            measured=taken * TUPLES / count,
            unit="s",
            goal=goals.get(name, 5.0),
            better="lower",
        )
        for name, taken in seconds.items()
    ]


def _against_loop(count: int) -> list[Result]:
    stream = _stream(count, 10)
    seconds = _costs(stream.columns["key"])
    job = Topology.source("source").then("work", parallelism=10)
    engine = SimulationEngine()

    def simulated() -> NDArray[np.float64]:
        return engine.run(job, stream, work=WORK).completed

    def looped() -> NDArray[np.float64]:
        return _loop(stream.times.tolist(), seconds.tolist(), 10)

    if not np.array_equal(simulated(), looped()):
        raise AssertionError("the engine and the plain loop disagree")
    taken = interleaved({"engine": simulated, "loop": looped}, repeats=3)
    return [
        Result(
            name="shuffle, a plain loop over events against the engine",
            measured=taken["loop"] / taken["engine"],
            unit="x",
        )
    ]


def _loop(times: list[float], seconds: list[float], instances: int) -> NDArray[np.float64]:
    """Return when each tuple is done: every arrival and every end is an event in a heap."""
    heap = [(time, 1, row) for row, time in enumerate(times)]  # sorted, so a heap already
    queues: list[deque[int]] = [deque() for _ in range(instances)]
    at: list[int | None] = [None] * instances
    done = np.empty(len(times))
    given = 0
    while heap:
        now, arrives, row = heappop(heap)
        if arrives:
            instance = given % instances
            given += 1
            queues[instance].append(row)
        else:
            instance = row % instances
            done[row] = now
            at[instance] = None
        if at[instance] is None and queues[instance]:
            first = at[instance] = queues[instance].popleft()
            heappush(heap, (now + seconds[first], 0, first))
    return done


def _events(count: int) -> list[Result]:
    """Measure what has to be gone through event by event, scaled to a million tuples."""
    stream = _stream(count, 10)
    network = Network(latency=0.001, per_batch=1e-4, per_byte=1e-9)
    engine = SimulationEngine(network=network, cores=math.inf)
    ways = {
        "batches of 50": (Shuffle(), Plan(batch={"source": 50})),
        "listening where sending has its cost": (Trivial(), Plan()),
    }
    taken = interleaved(
        {
            name: lambda grouping=grouping, plan=plan: engine.run(
                _job(grouping, 10), stream, plan, work=WORK
            )
            for name, (grouping, plan) in ways.items()
        },
        repeats=3,
    )
    return [
        Result(name=f"{name}, 1e6 tuples", measured=seconds * TUPLES / count, unit="s")
        for name, seconds in taken.items()
    ]
