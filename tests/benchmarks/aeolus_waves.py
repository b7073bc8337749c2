"""Loads that rise and fall, on an engine of micro-batches that is as the model says."""

import itertools
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from page import Json

from batching.stage_planner import fastest
from batching.stages import BatchCost, batch_cost
from optimizers import Topology
from optimizers.optimizer import Optimizer
from optimizers.strategies.admission import Admission
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.ds2 import Ds2
from optimizers.strategies.fixed import Hash

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))
from staged_engine import LEAST as LEAST_SECONDS
from staged_engine import StagedEngine

PARTITIONS = (2, 4, 8)
"""Of the source: how many tasks let rows in, which no plan changes."""


def job_of(partitions: int) -> Topology:
    """Return the job, with 8 instances of each operator behind its source."""
    return (
        Topology.source("s", parallelism=partitions)
        .then("parse", parallelism=8)
        .then("count", key="k", parallelism=8)
        .then("score", parallelism=8)
        .then("total", key="l", parallelism=8)
    )


SECONDS = {"s": 0.0, "parse": 20e-6, "count": 10e-6, "score": 30e-6, "total": 5e-6}


def sine(now: float) -> float:
    """Return a rate that goes from 5,000 to 35,000 and back every minute."""
    return 20_000 + 15_000 * float(np.sin(now / 60 * 2 * np.pi))


def markov(seed: int) -> Callable[[float], float]:
    """Return a rate that jumps between four levels, on average every 20 seconds."""
    random = np.random.default_rng(seed)
    ends = np.cumsum(random.exponential(20.0, 100))
    levels = random.choice([3_000.0, 10_000.0, 25_000.0, 40_000.0], 101)
    return lambda now: float(levels[int(np.searchsorted(ends, now))])


CONTENDERS: dict[str, Callable[[], Optimizer]] = {
    "Aeolus": Aeolus,
    "as declared": Hash,
    "published": Aeolus.published,
    "DS2": Ds2,
    "PID": lambda: Admission("pid"),
    "fixed point": lambda: Admission("fixed-point"),
    "DyBBS": lambda: Admission("dybbs"),
}


LEAST = "least possible"


def waves(scale: float) -> Json:
    """Run all contenders under a sine and under jumps, with noise of a tenth."""
    seconds = 300 * max(scale, 0.2)
    found: dict[str, dict[str, list[list[float]]]] = {}
    loads: dict[str, list[Callable[[float], float]]] = {
        "sine": [sine] * 3,
        "Markov": [markov(20 + seed) for seed in range(3)],
    }
    for (name, rates), partitions in itertools.product(loads.items(), PARTITIONS):
        job = job_of(partitions)
        runs = found[f"{name}, {partitions} partitions"] = {who: [] for who in CONTENDERS}
        runs[LEAST] = []
        for seed, rate in enumerate(rates):
            for who, strategy in CONTENDERS.items():
                engine = StagedEngine(job, SECONDS, strategy(), rate, noise=0.1, seed=seed)
                runs[who].append(_figures(engine.run(seconds)))
            engine = StagedEngine(job, SECONDS, Hash(), rate, noise=0.1, seed=seed)
            runs[LEAST].append(_figures(_at_once(engine, seconds)))
    return found


def _figures(engine: StagedEngine) -> list[float]:
    waits = latencies(engine)
    changes = sum(bool(plan.parallelism) for _, plan in engine.decided)
    busy = engine.core_seconds / engine.now
    return [float(np.mean(waits)), float(np.quantile(waits, 0.95)), changes, busy]


def _at_once(engine: StagedEngine, seconds: float) -> StagedEngine:
    """Run batches of which each has the fastest stages there are for the rate at that moment."""
    job, _ = engine.as_laid_out()

    @cache
    def fastest_for(rate: float) -> BatchCost:
        stages = fastest(job, engine.costs, rate=rate, cores=engine.slots).stages
        return batch_cost(job, engine.costs, stages, engine.slots)

    engine.came(LEAST_SECONDS)
    while engine.now < seconds:
        rows, engine.waiting = engine.waiting, 0.0
        batch = fastest_for(round(engine.rate(engine.now), -3))
        taken = batch.seconds(rows) * (1 + engine.random.uniform(-engine.noise, engine.noise))
        engine.core_seconds += batch.cores + rows * batch.cores_each
        engine.spans.append((engine.now, rows, taken))
        engine.came(max(LEAST_SECONDS, taken))
    return engine


def latencies(engine: StagedEngine) -> np.ndarray:
    """Return for how long rows waited until their batch was done; of all batches, some rows."""
    ends, came = np.array(engine.arrived).T
    waits, done = [], 0.0
    for begun, rows, taken in engine.spans:
        if rows < 1:
            continue
        numbers = done + np.linspace(0, rows, 20)
        done += rows
        arrived = np.minimum(np.interp(numbers, came, ends), begun)
        waits.append(np.repeat(begun + taken - arrived, max(1, int(rows / 2_000))))
    return np.concatenate(waits)
