"""Online shuffle scheduling: ours against full knowledge and the published method, and its speed.

What is simulated does not depend on the machine; ``osg_report.py`` measures more of it, for
docs/results/osg.md. The makespans are those of a real job on Spark whose rows sleep, so that two
cores can be eight instances.
"""

import heapq
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
from harness import Result, interleaved
from osg_study import CORE, FULL, HARDER, OURS, OURS_FEW, PUBLISHED, SEEDS, Setting, point
from osg_tables import of_full, speed_up
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from grouping.scheduling.least_work.grouping import LeastWork
from grouping.scheduling.longest_first import longest_first
from optimizers.spark import balance, learn_costs, local_session
from sketches.cost_sketch import CostSketch

_PARTITIONS = 8
_FILES = 400
_SECONDS = 1.0  # that each partition has to work, if all have as much
_WIDTH, _DEPTH = 55, 4  # of the published matrices
_PRIME = 10_000_019


def run(scale: float) -> list[Result]:
    """Measure speed-ups, messages, decisions a second, and makespans on Spark."""
    return [*_study(scale), *_decisions(scale), *_makespans(scale)]


def _study(scale: float) -> list[Result]:
    seeds = max(2, round(SEEDS * min(1.0, scale)))
    tuples = max(1_000, round(32_768 * min(1.0, scale)))

    def at(setting: Setting) -> dict[str, dict[str, list[float]]]:
        found: dict[str, dict[str, list[float]]] = point(
            replace(setting, tuples=tuples), (*CORE, OURS_FEW), seeds
        )
        return found

    usual = at(Setting())
    steep = [at(Setting(alpha=alpha)) for alpha in (1.5, 2.0, 3.0)]
    others = [
        Setting(alpha=0.5),
        Setting(instances=2),
        Setting(instances=10),
        Setting(provision=0.95),
        Setting(provision=1.2),
        HARDER["costs have nothing to do with values"],
        HARDER["all costs change in mid-stream"],
    ]
    everywhere = [usual, *steep, *map(at, others)]
    return [
        Result(
            name="default point: round robin against ours", measured=speed_up(usual, OURS), unit="x"
        ),
        Result(
            name="default point: round robin against published",
            measured=speed_up(usual, PUBLISHED),
            unit="x",
        ),
        Result(
            name="default point: round robin against full knowledge",
            measured=speed_up(usual, FULL),
            unit="x",
        ),
        Result(
            name="default point: ours, of full knowledge",
            measured=of_full(usual, OURS),
            unit="x",
            goal=0.9,
        ),
        Result(
            name="default point: ours with 144 keys, of full knowledge",
            measured=of_full(usual, OURS_FEW),
            unit="x",
        ),
        Result(
            name="default point: messages for each tuple",
            measured=100 * float(np.mean(usual[OURS]["messages"])),
            unit="%",
            goal=7.0,
            better="lower",
        ),
        Result(
            name="alpha 1.5, 2 and 3: ours, of full knowledge, the least",
            measured=min(of_full(outcomes, OURS) for outcomes in steep),
            unit="x",
            goal=0.97,
        ),
        Result(
            name="round robin against ours, the least of all settings tried",
            measured=min(speed_up(outcomes, OURS) for outcomes in everywhere),
            unit="x",
            goal=0.98,
        ),
    ]


# Decisions a second.


def _decisions(scale: float) -> list[Result]:
    rng = np.random.default_rng(5)
    size = max(2_000, round(100_000 * min(1.0, scale)))
    frequencies = np.arange(1, 4_097) ** -1.0
    keys = rng.choice(4_096, size, p=frequencies / frequencies.sum())
    values, seconds = np.arange(4_096), rng.uniform(0.001, 0.064, 4_096)
    costs = CostSketch(_WIDTH, _DEPTH, exact=144)
    costs.update(values, seconds)
    cells = _Cells(values, seconds)
    results = []
    for instances in (5, 64, 1_000):
        taken = interleaved(
            {
                "one by one": lambda k=instances: _one_by_one(cells, keys, k),
                "router": lambda k=instances: LeastWork(costs=costs).router(k).route(size, keys),
                "dispatcher": lambda k=instances: _dispatched(costs, keys, k),
            },
            repeats=5,
        )
        rate = {name: size / each for name, each in taken.items()}
        results += [
            Result(
                name=f"decisions a second, {instances} instances: {name} against one by one",
                measured=rate[name] / rate["one by one"],
                unit="x",
                goal=5.0 if name == "router" and instances == 5 else None,
            )
            for name in ("router", "dispatcher")
        ]
        results.append(
            Result(
                name=f"decisions of the router, {instances} instances",
                measured=rate["router"] / 1e6,
                unit="M/s",
            )
        )
    return results


class _Cells:
    """A pair of Count-Min matrices as plain lists, looked at tuple by tuple."""

    def __init__(self, keys: np.ndarray, seconds: np.ndarray) -> None:
        rng = np.random.default_rng(11)
        self.hashes = [tuple(rng.integers(1, _PRIME, 2).tolist()) for _ in range(_DEPTH)]
        self.counts = [[0] * _WIDTH for _ in range(_DEPTH)]
        self.costs = [[0.0] * _WIDTH for _ in range(_DEPTH)]
        for key, cost in zip(keys.tolist(), seconds.tolist(), strict=True):
            for row, (factor, offset) in enumerate(self.hashes):
                cell = (factor * key + offset) % _PRIME % _WIDTH
                self.counts[row][cell] += 1
                self.costs[row][cell] += cost

    def estimate(self, key: int) -> float:
        """Return the ratio in the cell that the fewest tuples share."""
        least, its_cost = float("inf"), 0.0
        for row, (factor, offset) in enumerate(self.hashes):
            cell = (factor * key + offset) % _PRIME % _WIDTH
            count = self.counts[row][cell]
            if count < least:
                least, its_cost = count, self.costs[row][cell]
        return its_cost / least


def _one_by_one(cells: _Cells, keys: np.ndarray, instances: int) -> None:
    """Look every tuple's cost up in the matrices, and take the least loaded of a heap."""
    heap = [(0.0, place) for place in range(instances)]
    estimate = cells.estimate
    for key in keys.tolist():
        load, place = heap[0]
        heapq.heapreplace(heap, (load + estimate(key), place))


def _dispatched(costs: CostSketch, keys: np.ndarray, instances: int) -> None:
    dispatcher = LeastWork(costs=costs).dispatcher(instances)
    for key in keys.tolist():
        dispatcher.dispatch(key, 0.0)


# Makespans on Spark.


def _makespans(scale: float) -> list[Result]:
    """Work through files whose sizes differ as those of files do, log-normally."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = local_session(_PARTITIONS, memory="2g")
    work = min(1.0, max(0.02, scale))  # a small run only shows that everything works
    ratios: dict[str, list[float]] = {"repartition": [], "balance": [], "learned": []}
    for seed in range(max(2, round(SEEDS * min(1.0, scale)))):
        sizes = np.sort(np.random.default_rng([seed, 71]).lognormal(0.0, 1.5, _FILES))
        seconds = sizes * (_SECONDS * work * _PARTITIONS / sizes.sum())
        table = pa.table({"file": np.arange(_FILES), "seconds": seconds})
        frame = spark.createDataFrame(table).coalesce(4).cache()
        frame.count()
        best = np.bincount(longest_first(seconds, _PARTITIONS), seconds).max()
        learned = learn_costs(frame, _slept, key="file", sample=1.0)
        rivals = {
            "repartition": frame.repartition(_PARTITIONS),
            "balance": balance(frame, _PARTITIONS, costs="seconds"),
            "learned": balance(frame, _PARTITIONS, costs=learned, key="file"),
        }
        for name, spread in rivals.items():
            ratios[name].append(_makespan(spread) / best)
        frame.unpersist()
    gains = np.array(ratios["repartition"]) / np.array(ratios["balance"])
    return [
        Result(
            name="makespan on Spark, median: repartition against balance",
            measured=float(np.median(gains)),
            unit="x",
            goal=1.5,
        ),
        *(
            Result(name=f"the same, {which} of {len(gains)} seeds", measured=value, unit="x")
            for which, value in (("least", gains.min()), ("most", gains.max()))
        ),
        Result(
            name="makespan on Spark, median: balance against who knows all costs",
            measured=float(np.median(ratios["balance"])),
            unit="x",
            goal=1.1,
            better="lower",
        ),
        Result(
            name="the same, costs learned by doing the work once",
            measured=float(np.median(ratios["learned"])),
            unit="x",
            goal=1.1,
            better="lower",
        ),
    ]


def _makespan(spread: DataFrame) -> float:
    """Return how long the slowest task is at work."""
    done = spread.mapInArrow(_asleep, "seconds double").toArrow()
    return float(max(done.column("seconds").to_pylist()))


def _slept(batch):
    for seconds in batch.column("seconds").to_pylist():
        time.sleep(seconds)
    return batch


def _asleep(batches):
    started = time.perf_counter()
    for batch in batches:
        _slept(batch)
    yield pa.record_batch({"seconds": [time.perf_counter() - started]})
