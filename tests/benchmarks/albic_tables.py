"""The tables of docs/results/albic.md, made of what `albic_study` keeps."""

from collections.abc import Callable, Sequence

import numpy as np
from albic_study import LONG, OURS, SEARCHING
from page import Json, table


def below(values: Sequence[float], limit: float = 1.0) -> float:
    """Return the share of values below a limit."""
    return float(np.mean(np.array(values) < limit))


def _cell(values: Sequence[float]) -> str:
    """Write median, worst and the share below one point."""
    return f"{np.median(values):.2f}, {np.max(values):.2f}, {100 * below(values):.0f} %"


def _small(data: Json) -> str:
    names = [OURS, SEARCHING, "Flux", "Readj"]
    head = ["scenario", "budget", "before", *names, "bound", f"{OURS}: ms"]
    rows = []
    for entry in data:
        found = entry["rows"]
        times = found[f"{OURS}: ms"]
        rows.append(
            [
                entry["scenario"],
                str(entry["budget"]),
                f"{np.median(found['before']):.1f}",
                *(_cell(found[name]) if name in found else "-" for name in names),
                f"{np.median(found['bound']):.2f}",
                f"{np.median(times):.0f} ({np.max(times):.0f})",
            ]
        )
    return table(head, rows)


def _solver(data: Json) -> str:
    rows = [
        [
            entry["scenario"],
            str(entry["budget"]),
            "nothing" if entry["CBC"] is None else f"{entry['CBC']:.2f}",
            f"{entry['seconds']:.0f}",
            f"{entry['ours']:.2f}",
            f"{entry['ms']:.0f}",
        ]
        for entry in data
    ]
    head = ["scenario", "budget", "CBC, cold", "s (wall)", "ours", "ms (CPU)"]
    return table(head, rows)


def _large(data: Json) -> str:
    rows = [
        [
            f"{entry['nodes']} x {entry['groups']:,}",
            str(entry["budget"]),
            f"{entry['before']:.2f}",
            f"{entry[OURS]:.3f}",
            f"{entry[f'{OURS}: s']:.1f}",
            f"{entry[LONG]:.3f}" if LONG in entry else "-",
            f"{entry[f'{LONG}: s']:.0f}" if LONG in entry else "-",
            f"{entry['bound']:.3f}",
        ]
        for entry in data
    ]
    head = ["nodes x groups", "budget", "before", OURS, "s (CPU)", LONG, "s (CPU)", "bound"]
    return table(head, rows)


def _proven(data: Json) -> str:
    rows = []
    for scenario in dict.fromkeys(entry["scenario"] for entry in data):
        found = [entry["verdict"] for entry in data if entry["scenario"] == scenario]
        counts = [found.count(word) for word in ("bound", "impossible", "open")]
        better = [
            entry["ours"] / entry["verdict"]
            for entry in data
            if entry["scenario"] == scenario and not isinstance(entry["verdict"], str)
        ]
        shown = ", ".join(f"{ratio:.2f}" for ratio in better) or "-"
        rows.append([scenario, str(len(found)), *map(str, counts), shown])
    head = ["scenario", "instances", "by the bound", "by clusters", "open", "a better one, by"]
    return table(head, rows)


def _long(data: Json) -> str:
    rows = [
        [
            f"{entry['nodes']} x {entry['groups']:,}",
            str(entry["budget"]),
            entry["solver"],
            "nothing" if entry["distance"] is None else f"{entry['distance']:.2f}",
            f"{entry['cpu']:.0f}",
            f"{entry['proven']:.2f}",
        ]
        for entry in data
    ]
    head = ["nodes x groups", "budget", "solver", "distance", "s (CPU)", "bound"]
    return table(head, rows)


def _periods(data: Json) -> str:
    rows = [
        [
            name,
            f"{np.median(found['distance'][1:]):.2f}",
            f"{np.max(found['distance'][1:]):.2f}",
            f"{100 * below(found['distance'][1:]):.0f} %",
            str(sum(found["moves"])),
        ]
        for name, found in data.items()
    ]
    return table(["", "median", "worst", "below 1 point", "migrations"], rows)


def _collocation(data: Json) -> str:
    rows = []
    for name, periods in data.items():
        last = periods[-1]
        moves = [period["moves"] for period in periods]
        settled = [period["with moves"] for period in periods[-5:]]
        rows.append(
            [
                name,
                f"{last['local']:.2f}",
                f"{last['index']:.0f}",
                f"{np.mean(settled):.0f}",
                f"{max(moves)}",
                f"{sum(moves):,}",
                f"{np.mean([period['distance'] for period in periods[-5:]]):.1f}",
            ]
        )
    head = ["", "local", "load index", "with moves", "most moves", "all moves", "distance"]
    return table(head, rows)


def _scaling(data: Json) -> str:
    rows = [
        [
            shape,
            *(
                f"{np.mean(found[name]['rescales']):.1f}, {np.mean(found[name]['lag']):.1f}"
                for name in ("Albic", "Ds2")
            ),
            *(f"{np.mean(found[name]['nodes']):.1f}" for name in ("Albic", "Ds2")),
        ]
        for shape, found in data.items()
    ]
    head = ["", "Albic: rescales, lag", "Ds2: rescales, lag", "Albic: nodes", "Ds2: nodes"]
    return table(head, rows)


TABLES: dict[str, tuple[str, Callable[[Json], str]]] = {
    "small": ("small", _small),
    "solver": ("solver", _solver),
    "large": ("large", _large),
    "proven": ("proven", _proven),
    "long": ("long", _long),
    "periods": ("periods", _periods),
    "edits": ("edits", _periods),
    "collocation": ("collocation", _collocation),
    "airline": ("airline", _collocation),
    "scaling": ("scaling", _scaling),
}
