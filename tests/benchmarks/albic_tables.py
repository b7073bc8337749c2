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
    rows = []
    for scenario, budget in dict.fromkeys((one["scenario"], one["budget"]) for one in data):
        found = [one for one in data if (one["scenario"], one["budget"]) == (scenario, budget)]
        answers = [one["CBC"] for one in found if one["CBC"] is not None]
        lost = len(found) - len(answers)
        cpu = [one["cpu"] for one in found if "cpu" in one]
        rows.append(
            [
                scenario,
                str(budget),
                str(len(found)),
                (_cell(answers) if answers else "-") + (f"; {lost} without" if lost else ""),
                f"{np.median([one['seconds'] for one in found]):.0f}",
                f"{np.median(cpu):.0f}" if cpu else "-",
                _cell([one["ours"] for one in found]),
                f"{np.median([one['ms'] for one in found]):.0f}",
            ]
        )
    head = ["scenario", "budget", "instances", "CBC, cold", "s (wall)", "s (CPU)", "ours"]
    return table([*head, "ms (CPU)"], rows)


def _large(data: Json) -> str:
    rows = []
    for size in dict.fromkeys((one["nodes"], one["groups"], one["budget"]) for one in data):
        found = [one for one in data if (one["nodes"], one["groups"], one["budget"]) == size]
        columns = ["before", OURS, f"{OURS}: s", LONG, f"{LONG}: s", "bound"]
        digits = [2, 3, 1, 3, 0, 3]
        cells = [
            _mean_and_worst([one[name] for one in found if name in one], places)
            for name, places in zip(columns, digits, strict=True)
        ]
        rows.append([f"{size[0]} x {size[1]:,}", str(size[2]), *cells])
    head = ["nodes x groups", "budget", "before", OURS, "s (CPU)", LONG, "s (CPU)", "bound"]
    return table(head, rows)


def _mean_and_worst(values: Sequence[float], digits: int) -> str:
    """Write a mean, and the worst where there are several."""
    if not values:
        return "-"
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ({np.max(values):,.{digits}f})"


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
    rows = []
    for one in data:
        distance, ours = one["distance"], one.get("ours")
        rows.append(
            [
                f"{one['nodes']} x {one['groups']:,}",
                str(one["budget"]),
                one["solver"],
                "ours" if one.get("warm") else "nothing",
                "nothing" if distance is None else f"{distance:.3f}",
                "-" if ours is None else f"{ours:.3f}",
                "-" if ours is None or not distance else f"{ours / distance:.2f}",
                f"{one['cpu']:.0f}",
                f"{one['wall']:.0f}" if "wall" in one else "-",
                f"{one['proven']:.3f}",
            ]
        )
    head = ["nodes x groups", "budget", "solver", "from", "distance", "ours", "ours, times that"]
    return table([*head, "s (CPU)", "of s (wall)", "bound"], rows)


def _runs(data: Json) -> list[Json]:
    """Return what was measured by seed; the parts that have one seed keep no list."""
    return data if isinstance(data, list) else [data]


def _periods(data: Json) -> str:
    rows = []
    for name in _runs(data)[0]:
        found = [run[name]["distance"][1:] for run in _runs(data)]
        rows.append(
            [
                name,
                _mean_and_worst([float(np.median(values)) for values in found], 2),
                _mean_and_worst([max(values) for values in found], 2),
                f"{100 * below([one for values in found for one in values]):.0f} %",
                _mean_and_worst([sum(run[name]["moves"]) for run in _runs(data)], 0),
            ]
        )
    return table(["", "median", "worst", "below 1 point", "migrations"], rows)


def _collocation(data: Json) -> str:
    rows = []
    for name in _runs(data)[0]:
        found = [run[name] for run in _runs(data)]
        last = [periods[-5:] for periods in found]
        local = [periods[-1]["local"] for periods in found]
        rows.append(
            [
                name,
                f"{np.mean(local):.2f}" + (f" ({min(local):.2f})" if len(local) > 1 else ""),
                _mean_and_worst([periods[-1]["index"] for periods in found], 0),
                _mean_and_worst([_mean(periods, "with moves") for periods in last], 0),
                f"{max(period['moves'] for periods in found for period in periods)}",
                _mean_and_worst([_mean(x, "moves") * len(x) for x in found], 0),
                _mean_and_worst([_mean(periods, "distance") for periods in last], 1),
            ]
        )
    head = ["", "local", "load index", "with moves", "most moves", "all moves", "distance"]
    return table(head, rows)


def _mean(periods: Json, name: str) -> float:
    return float(np.mean([period[name] for period in periods]))


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
