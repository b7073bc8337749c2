"""Locality-aware routing: ours against the published method, on a drifting stream and on flights.

What each number means and how it comes about is told in docs/results/locality.md, which
``locality_report.py`` makes with more weeks, seeds and sizes than there is time for here.
"""

import sys

import numpy as np
from epochs import BATCH, EDGES, counted
from harness import Result
from locality_experiments import (
    ALL_FOR_LOCALITY,
    FLIGHTS_BATCH,
    HASH,
    INCREMENTAL,
    INERT,
    ORACLE,
    OURS,
    PUBLISHED,
    SCRATCH,
    Moves,
    Story,
    always_new,
    over_weeks,
    pipeline_seconds,
    second_division,
    touch_costs,
    uncorrelated,
)
from rescaling import ANEW, BY_TRAFFIC, REHASHED, rescaled
from streams import Drift, NoDataError, flights

from grouping.keygraph.partition import partition_keys

_WEEKS = 3
_GATE_SCALE = 0.1
_TENTH = 0.1
_GATE_WEEKS = 4
_LEAST_WEEKS = 4  # of the flights, at small scales


def run(scale: float) -> list[Result]:
    """Measure locality, balance, moves, the gate, and time."""
    drift = Drift().scaled(scale)
    return [
        *_drift(drift, scale),
        *over_flights(scale),
        *_steps(drift, scale),
        *_rescaled(drift.scaled(_TENTH), scale * _TENTH),
        *_gate(drift.scaled(_GATE_SCALE), scale * _GATE_SCALE),
    ]


def _drift(drift: Drift, scale: float) -> list[Result]:
    story = over_weeks(
        drift.weeks(_WEEKS),
        (HASH, PUBLISHED, OURS),
        batch=_sized(BATCH, scale),
        edges=_sized(EDGES, scale),
    )
    return [
        Result(name="drift: locality expected by METIS", measured=story.expected[0], unit=""),
        *_localities("drift", story, (HASH, PUBLISHED)),
        Result(name="drift: locality, ours", measured=story.locality(OURS), unit="", goal=0.70),
        *(
            Result(
                name=f"drift: imbalance of the {which} operator, ours",
                measured=measured,
                unit="x",
                goal=1.05,
                better="lower",
            )
            for which, measured in zip(("first", "second"), story.imbalance(OURS), strict=True)
        ),
    ]


def _rescaled(drift: Drift, scale: float) -> list[Result]:
    taught, tried = drift.weeks(2)
    ways = rescaled(taught, tried, 6, 8, edges=_sized(EDGES, scale))
    ours, fresh = ways[BY_TRAFFIC], ways[ANEW]
    return [
        Result(
            name="6 to 8 instances: locality beside a new division",
            measured=ours.locality / fresh.locality,
            unit="x",
            goal=0.95,
        ),
        Result(
            name="6 to 8 instances: load that moves",
            measured=ours.moved,
            unit="",
            goal=0.30,
            better="lower",
        ),
        Result(name="6 to 8, a new division: load that moves", measured=fresh.moved, unit=""),
        Result(name="6 to 8, by hash: load that moves", measured=ways[REHASHED].moved, unit=""),
    ]


def over_flights(scale: float) -> list[Result]:
    """Measure locality over the year of flights; nothing where these cannot be had."""
    try:
        year = flights()
    except NoDataError as error:
        sys.stdout.write(f"flights are skipped: {error}\n")
        return []
    weeks = year.weeks[: max(_LEAST_WEEKS, round(len(year.weeks) * min(scale, 1.0)))]
    names = (HASH, PUBLISHED, OURS, ALL_FOR_LOCALITY, ORACLE)
    story = over_weeks(weeks, names, batch=FLIGHTS_BATCH)
    return [
        *_localities("flights", story, (HASH, PUBLISHED)),
        Result(name="flights: locality, ours", measured=story.locality(OURS), unit="", goal=0.60),
        *_localities("flights", story, (ALL_FOR_LOCALITY,)),
        *_localities("flights", story, (ORACLE,)),
    ]


def _steps(drift: Drift, scale: float) -> list[Result]:
    """Measure one step from a week to the next: what moves, and how long all of it takes."""
    edges = _sized(EDGES, scale)
    first, second = drift.weeks(2)
    before = counted(first, edges)
    moves = second_division(before, counted(second, edges))
    seconds = pipeline_seconds(first, edges=edges)
    known = partition_keys(before, 6).tables
    [cost] = touch_costs((known[0], known[1]), second, [_sized(BATCH, scale)], most=10)
    return [
        Result(
            name="second division: load moved, from scratch",
            measured=moves.moved[SCRATCH],
            unit="",
        ),
        *_moves(moves, INCREMENTAL, "ours"),
        *_moves(moves, INERT, "with inertia 0.1"),
        Result(
            name="from tuples to tables, of METIS alone",
            measured=seconds["all"] / seconds["METIS"],
            unit="x",
            goal=2.5,
            better="lower",
        ),
        Result(
            name="from tuples to tables, of METIS with one sum",
            measured=seconds["all"] / seconds["METIS, one sum"],
            unit="x",
        ),
        Result(name="placing unknown keys, for each tuple", measured=cost.placing, unit="us"),
        Result(name="routing by tables alone, for each tuple", measured=cost.routing, unit="us"),
    ]


def _moves(moves: Moves, kind: str, label: str) -> list[Result]:
    return [
        Result(
            name=f"second division: load moved, {label}",
            measured=moves.moved[kind],
            unit="",
            goal=0.25,
            better="lower",
        ),
        Result(
            name=f"second division: locality lost, {label}",
            measured=moves.local[SCRATCH] - moves.local[kind],
            unit="",
            goal=0.02,
            better="lower",
        ),
    ]


def _gate(drift: Drift, scale: float) -> list[Result]:
    """Count the reconfigurations of streams that offer nothing to learn."""
    results = []
    for name, stream in (("uncorrelated", uncorrelated(drift)), ("new weekly", always_new(drift))):
        story = over_weeks(
            stream.weeks(_GATE_WEEKS),
            (OURS,),
            batch=_sized(BATCH, scale),
            edges=_sized(EDGES, scale),
        )
        later = sum(epoch.reconfigured for epoch in story.later(OURS))
        results += [
            Result(
                name=f"{name}: reconfigurations in the first week",
                measured=float(story.reconfigurations(OURS) - later),
                unit="",
            ),
            Result(
                name=f"{name}: reconfigurations in {_GATE_WEEKS - 1} weeks after it",
                measured=float(later),
                unit="",
                goal=0,
                better="lower",
            ),
        ]
    return results


def _localities(stream: str, story: Story, names: tuple[str, ...]) -> list[Result]:
    return [
        Result(
            name=f"{stream}: locality, {name}",
            measured=float(np.round(story.locality(name), 4)),
            unit="",
        )
        for name in names
    ]


def _sized(amount: int, scale: float) -> int:
    return max(100, int(amount * scale))
