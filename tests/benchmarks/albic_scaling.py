"""Scaling: how often nodes come and go, and how far a job falls behind, under Albic and DS2.

A model of a cluster: each epoch lasts a minute, a node does a node-second a second, and a node that
is wanted comes an epoch later. What more comes than the busiest node can do waits. DS2 says how
many nodes the rates need at a usage of 70 %, as Albic's target is; its load is dealt evenly, at
once and at no cost, which is better than it could do.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from page import Json

from optimizers import Albic

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

SHAPES = ("step", "ramp", "day", "spike", "noise")
EPOCHS = 240  # four hours of minutes
SEEDS = 2
MOST = 20
TARGET = 0.7


def rates(shape: str, seed: int) -> list[float]:
    """Return how many node-seconds of work come in a second, epoch by epoch."""
    drawn = np.random.default_rng([seed, SHAPES.index(shape)])
    time = np.arange(EPOCHS)
    level = {
        "step": np.where((time // 60) % 2, 5.0, 2.0),
        "ramp": 1.5 + 5.0 * time / EPOCHS,
        "day": 4.0 + 2.5 * np.sin(2 * np.pi * time / EPOCHS),
        "spike": np.where(time % 80 == 40, 6.0, 2.5),
        "noise": np.full(EPOCHS, 3.0),
    }[shape]
    noise = 0.15 if shape == "noise" else 0.05
    found: list[float] = (level * (1 + noise * drawn.standard_normal(EPOCHS))).clip(0.1).tolist()
    return found


def scaling(scale: float) -> Json:
    """Return rescales, lag and nodes by shape of load."""
    seeds = max(1, round(SEEDS * min(scale, 1.0)))
    found: dict[str, Any] = {}
    for shape in SHAPES if scale >= 0.1 else SHAPES[:1]:
        rows: dict[str, dict[str, list[float]]] = {}
        for seed in range(seeds):
            for name, run in (("Albic", _albic), ("Ds2", _ds2)):
                rescales, lag, nodes = run(rates(shape, seed))
                row = rows.setdefault(name, {"rescales": [], "lag": [], "nodes": []})
                row["rescales"].append(rescales)
                row["lag"].append(lag)
                row["nodes"].append(nodes)
        found[shape] = rows
    return found


def _albic(coming: list[float]) -> tuple[float, float, float]:
    """Return rescales, mean lag in seconds of stream, and mean nodes under Albic."""
    from scaling_world import World  # noqa: PLC0415  # of the tests' helpers

    strategy = Albic(budget="40 %", nodes=(1, MOST), by_stage=False, resource="cpu")
    world = World(strategy, nodes=4)
    for rate in coming:
        world.epoch(rate)
    lag = np.array(world.lags) / np.array(coming)
    return float(world.rescales), float(lag.mean()), float(np.mean(world.counts))


def _ds2(coming: list[float]) -> tuple[float, float, float]:
    """Return the same under DS2: as many nodes as what came in the last epoch needs."""
    nodes, wanted, waiting, rescales = 4, 4, 0.0, 0
    lags, counts = [], []
    for rate in coming:
        done = min(rate + waiting / 60.0, float(nodes))
        waiting = max(0.0, waiting + (rate - done) * 60.0)
        lags.append(waiting / rate)
        counts.append(nodes)
        nodes = wanted
        needed = min(MOST, max(1, int(np.ceil(rate / TARGET))))
        if needed != wanted:
            rescales += 1
            wanted = needed
            nodes = min(nodes, wanted)
    return float(rescales), float(np.mean(lags)), float(np.mean(counts))
