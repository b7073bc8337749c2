"""What docs/results/locality.md is made of: every part is measured and kept as JSON.

A part is a function of the scale that returns JSON types; `locality_report` makes tables and
figures of them.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from epochs import BATCH, EDGES, Epoch, counted, every_pair
from locality_experiments import (
    CONTENDERS,
    FLIGHTS_BATCH,
    ORACLE,
    OURS,
    PARTS,
    PUBLISHED,
    Story,
    always_new,
    by_pairs_or_keys,
    forgetting,
    gap,
    over_fractions,
    over_parts,
    over_weeks,
    pipeline_seconds,
    reproduction,
    second_division,
    shuffled,
    touch_costs,
    uncorrelated,
)
from rescaling import rescaled
from streams import Drift, Week, flights

from grouping.keygraph.partition import partition_keys

Json = dict[str, Any]

WEEKS = 6
SEEDS = (0, 1, 2)
MANY_PARTS = (2, 4, 6, 8, 16, 32, 64)
SOME_PARTS = (2, 6, 16, 64)
CHANGES = ((6, 8), (8, 9), (8, 6))  # of the number of instances
FRACTIONS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
QUARTER = 0.25
_TENTH = 0.1
_EVERY = 5  # of the weeks of flights, where all would take long
_ALL = (*CONTENDERS, ORACLE)


def drift(scale: float) -> Json:
    """Run all contenders through the drifting stream at full size."""
    return _over_drift(scale, 0, WEEKS)


def drift_seeds(scale: float) -> Json:
    """Run them at a quarter of the size, with several seeds."""
    return {"seeds": [_over_drift(scale * QUARTER, seed, WEEKS - 2) for seed in SEEDS]}


def flights_weeks(scale: float) -> Json:
    """Run all contenders through the flights, with several seeds of METIS."""
    year = flights()
    weeks = _some(year.weeks, scale)
    return {
        "dropped": year.dropped,
        "flights": int(sum(map(len, year.weeks))),
        "aircraft": year.aircraft,
        "destinations": year.destinations,
        "seeds": [
            _written(over_weeks(weeks, _ALL, batch=FLIGHTS_BATCH, seed=seed)) for seed in SEEDS
        ],
    }


def flights_gap(scale: float) -> Json:
    """Take the gap between ours and the oracle apart."""
    return asdict(gap(_some(flights().weeks, scale), batch=FLIGHTS_BATCH))


def parts_drift(scale: float) -> Json:
    """Divide among more and more parts, with each of several seeds."""
    small = scale * _TENTH
    runs = []
    for seed in SEEDS:
        taught, tried = Drift(seed=seed).scaled(small).weeks(2)
        pairs = counted(taught, _sized(EDGES, small))
        runs.append(_steps(pairs, tried, _sized(BATCH, small), seed))
    return {"runs": runs}


def parts_flights(scale: float) -> Json:
    """Likewise with flights, trying every fifth week."""
    weeks = _some(flights().weeks, scale)
    runs = [
        _steps(every_pair(weeks[number - 1]), weeks[number], FLIGHTS_BATCH, 0)
        for number in range(1, len(weeks), _EVERY)
    ]
    return {"runs": runs}


def fractions_drift(scale: float) -> Json:
    """Keep more and more of the pairs."""
    small = scale * _TENTH
    taught, tried = Drift().scaled(small).weeks(2)
    return {"runs": [_fractions(taught, tried, _sized(BATCH, small))]}


def fractions_flights(scale: float) -> Json:
    """Likewise with flights, trying every fifth week."""
    weeks = _some(flights().weeks, scale)
    runs = [
        _fractions(weeks[number - 1], weeks[number], FLIGHTS_BATCH)
        for number in range(1, len(weeks), _EVERY)
    ]
    return {"runs": runs}


def gate(scale: float) -> Json:
    """Count reconfigurations of streams without anything to learn."""
    small = scale * _TENTH
    runs: dict[str, list[Json]] = {}
    for seed in SEEDS:
        stream = Drift(seed=seed).scaled(small)
        streams = {
            "drift": stream.weeks(WEEKS),
            "uncorrelated": uncorrelated(stream).weeks(WEEKS),
            "other correlations every week": always_new(stream).weeks(WEEKS),
            "flights, destinations shuffled": shuffled(_some(flights().weeks, scale), seed),
        }
        for name, weeks in streams.items():
            real = name.startswith("flights")
            story = over_weeks(
                weeks,
                (PUBLISHED, OURS),
                batch=FLIGHTS_BATCH if real else _sized(BATCH, small),
                edges=EDGES if real else _sized(EDGES, small),
                seed=seed,
            )
            runs.setdefault(name, []).append(_written(story))
    return runs


def costs(scale: float) -> Json:
    """Measure what moves at a second division, and what everything costs."""
    moves = []
    for seed in SEEDS:
        first, second = Drift(seed=seed).scaled(scale).weeks(2)
        before = counted(first, _sized(EDGES, scale))
        after = counted(second, _sized(EDGES, scale))
        moves.append(asdict(second_division(before, after, seed=seed)))
    known = partition_keys(before, PARTS).tables
    batches = [_sized(BATCH * factor, scale) for factor in (0.1, 1, 10)]
    return {
        "moves": moves,
        "pipeline": pipeline_seconds(first, edges=_sized(EDGES, scale), repeats=5),
        "touch": [asdict(cost) for cost in touch_costs((known[0], known[1]), second, batches)],
        "known": [len(table) for table in known],
        "machine": f"{platform.machine()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}",
    }


def loads(scale: float) -> Json:
    """Compare balance by the loads of pairs with balance by the loads of keys."""
    small = scale * QUARTER
    runs = []
    for seed in SEEDS:
        week, later = Drift(seed=seed).scaled(small).weeks(2)
        both = by_pairs_or_keys(
            week, later, edges=_sized(EDGES, small), batch=_sized(BATCH, small), seed=seed
        )
        runs.append([asdict(epoch) for epoch in both])
    return {"runs": runs}


def paper(scale: float) -> Json:
    """Check that the drifting stream does what the paper reports of Twitter."""
    edges = _sized(EDGES, scale)
    streams = {seed: Drift(seed=seed).scaled(scale) for seed in SEEDS}
    return {
        "runs": [
            asdict(reproduction(stream, edges=edges, seed=seed)) for seed, stream in streams.items()
        ]
    }


def rescaling(scale: float) -> Json:
    """Give both operators other numbers of instances after a week, in several ways."""
    small = scale * _TENTH
    runs: dict[str, list[Json]] = {}
    for seed in SEEDS:
        taught, tried = Drift(seed=seed).scaled(small).weeks(2)
        for before, after in CHANGES:
            ways = rescaled(taught, tried, before, after, edges=_sized(EDGES, small), seed=seed)
            found = {name: asdict(way) for name, way in ways.items()}
            runs.setdefault(f"{before} to {after}", []).append(found)
    return runs


def forgotten(scale: float) -> Json:
    """Compare tables that keep every key with such that keep those reported."""
    small = scale * _TENTH
    runs = []
    for seed in SEEDS:
        stream = Drift(seed=seed).scaled(small)
        found = forgetting(stream, WEEKS, batch=_sized(BATCH, small), edges=_sized(EDGES, small))
        runs.append({name: list(map(_kept, epochs)) for name, epochs in found.items()})
    return {"runs": runs}


MEASURED: Mapping[str, Callable[[float], Json]] = {
    function.__name__: function
    for function in (
        drift,
        drift_seeds,
        flights_weeks,
        flights_gap,
        parts_drift,
        parts_flights,
        fractions_drift,
        fractions_flights,
        gate,
        costs,
        loads,
        paper,
        forgotten,
        rescaling,
    )
}


def _over_drift(scale: float, seed: int, weeks: int) -> Json:
    stream = Drift(seed=seed).scaled(scale)
    story = over_weeks(
        stream.weeks(weeks),
        _ALL,
        batch=_sized(BATCH, scale),
        edges=_sized(EDGES, scale),
        seed=seed,
    )
    return {"tuples": stream.tuples, "edges": _sized(EDGES, scale), **_written(story)}


def _steps(pairs: Any, tried: Week, batch: int, seed: int) -> list[Json]:
    steps = over_parts(pairs, tried, MANY_PARTS, batch=batch, seed=seed)
    return [{"parts": number, **asdict(step)} for number, step in steps.items()]


def _fractions(taught: Week, tried: Week, batch: int) -> list[Json]:
    found = over_fractions(every_pair(taught), tried, FRACTIONS, SOME_PARTS, batch=batch)
    return [
        {"fraction": fraction, "parts": number, "published": published, "ours": ours}
        for (fraction, number), (published, ours) in found.items()
    ]


def _written(story: Story) -> Json:
    return {
        "expected": story.expected,
        "epochs": {name: list(map(_kept, epochs)) for name, epochs in story.epochs.items()},
    }


def _kept(epoch: Epoch) -> Json:
    """Return a week without its times, which mean little here; `costs` measures those in turns."""
    return {name: v for name, v in asdict(epoch).items() if name not in {"placing", "planning"}}


def _some(weeks: Sequence[Week], scale: float) -> Sequence[Week]:
    return weeks[: max(2, round(len(weeks) * min(scale, 1.0)))]


def _sized(amount: float, scale: float) -> int:
    return max(100, int(amount * scale))
