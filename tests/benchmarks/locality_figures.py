"""The figures of docs/results/locality.md, made of what `locality_measure` keeps."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from figures import Line, Panel, draw
from locality_experiments import HASH, OFFLINE, ORACLE, OURS, PUBLISHED
from locality_measure import FRACTIONS, MANY_PARTS, SOME_PARTS, Json

_COLOURS = {HASH: 0, OFFLINE: 5, PUBLISHED: 1, OURS: 2, ORACLE: 3}
_DASHES = {HASH: 2, OFFLINE: 1, ORACLE: 1}
_FEW = 20


def _weeks_figure(data: Json, names: Sequence[str], what: str) -> str:
    """Draw figure 11: locality and imbalance over the weeks."""
    weeks = len(data["expected"])
    ticks = [(float(week), str(week)) for week in _some_weeks(weeks)]

    def lines(value: Callable[[Json], float]) -> list[Line]:
        return [
            Line(
                name=name,
                points=[
                    (float(week + 1), value(epoch))
                    for week, epoch in enumerate(data["epochs"][name])
                ],
                colour=_COLOURS[name],
                dash=_DASHES.get(name, 0),
            )
            for name in names
        ]

    locality = Panel(
        title="Locality",
        x_label="week",
        y_label="share of tuples that stay local",
        lines=lines(lambda epoch: epoch["locality"]),
        y_range=(0.0, 1.0),
        x_ticks=ticks,
    )
    uneven = [line for line in lines(lambda e: max(e["imbalance"])) if line.name != ORACLE]
    imbalance = Panel(
        title="Imbalance of the worse operator",
        x_label="week",
        y_label="fullest instance, of the average",
        lines=uneven,
        y_range=(1.0, math.ceil(10 * max(y for line in uneven for _, y in line.points)) / 10),
        x_ticks=ticks,
    )
    return draw([locality, imbalance], f"Locality and imbalance over the weeks, {what}")


def _some_weeks(weeks: int) -> list[int]:
    return list(range(1, weeks + 1)) if weeks <= _FEW else [1, *range(10, weeks + 1, 10)]


def _drift_weeks(data: Json) -> str:
    names = (HASH, OFFLINE, PUBLISHED, OURS, ORACLE)
    return _weeks_figure(data, names, "drifting stream")


def _flights_weeks(data: Json) -> str:
    names = (HASH, OFFLINE, PUBLISHED, OURS, ORACLE)
    return _weeks_figure(data["seeds"][0], names, "flights")


def _edges_figure(drift: Json, flights: Json) -> str:
    """Draw figure 12: next week's locality over the share of pairs that are kept."""
    ticks = [(share, f"{100 * share:g} %") for share in (0.0001, 0.001, 0.01, 0.1, 1.0)]
    panels = [
        Panel(
            title=title,
            x_label="distinct pairs kept, the most frequent ones",
            y_label="locality in the next week",
            lines=[
                Line(
                    name=f"{label}, {number} parts",
                    points=[
                        (share, _mean_of(data["runs"], share, number, who)) for share in FRACTIONS
                    ],
                    colour=(2, 3, 4, 1)[place],
                    dash=dash,
                )
                for who, label, dash in (("published", "published", 1), ("ours", "ours", 0))
                for place, number in enumerate(SOME_PARTS)
            ],
            y_range=(0.0, 1.0),
            x_ticks=ticks,
            logarithmic=True,
        )
        for title, data in (("Drifting stream", drift), ("Flights", flights))
    ]
    return draw(panels, "Locality over the share of the pairs that are kept")


def _mean_of(runs: Sequence[Sequence[Json]], share: float, number: int, who: str) -> float:
    return float(
        np.mean(
            [
                row[who]
                for run in runs
                for row in run
                if row["fraction"] == share and row["parts"] == number
            ]
        )
    )


def _parts_figure(drift: Json, flights: Json) -> str:
    """Draw locality over the number of parts."""
    panels = [
        Panel(
            title=title,
            x_label="parts",
            y_label="locality in the next week",
            lines=[
                Line(
                    name=who,
                    points=[
                        (
                            float(number),
                            float(np.mean([_locality(run[place], who) for run in data["runs"]])),
                        )
                        for place, number in enumerate(MANY_PARTS)
                    ],
                    colour=_COLOURS[who],
                    dash=_DASHES.get(who, 0),
                )
                for who in (HASH, PUBLISHED, OURS)
            ],
            y_range=(0.0, 1.0),
            x_ticks=[(float(number), str(number)) for number in (2, 4, 8, 16, 32, 64)],
            logarithmic=True,
        )
        for title, data in (("Drifting stream", drift), ("Flights", flights))
    ]
    return draw(panels, "Locality over the number of parts")


def _locality(step: Json, who: str) -> float:
    """Return a step's locality; by hash, as many tuples are local as there are equal parts."""
    return float(1 / step["parts"] if who == HASH else step[who]["locality"])


FIGURES: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "locality-weeks-drift": (("drift",), _drift_weeks),
    "locality-weeks-flights": (("flights_weeks",), _flights_weeks),
    "locality-edges": (("fractions_drift", "fractions_flights"), _edges_figure),
    "locality-parts": (("parts_drift", "parts_flights"), _parts_figure),
}
