"""The tables of docs/results/osg.md, made of what `osg_study` keeps."""

from collections.abc import Callable, Sequence

import numpy as np
from osg_study import CONTENDERS, CORE, FULL, OURS, PUBLISHED, ROUND_ROBIN
from page import Json, spread, table


def speed_up(outcomes: Json, name: str, figure: str = "mean") -> float:
    """Return how many times as fast as dealt out in turn: of the means over all seeds."""
    return float(np.mean(outcomes[ROUND_ROBIN][figure]) / np.mean(outcomes[name][figure]))


def of_full(outcomes: Json, name: str) -> float:
    """Return how much of the speed-up of full knowledge a contender has."""
    return speed_up(outcomes, name) / speed_up(outcomes, FULL)


def worst_seed(outcomes: Json, name: str) -> float:
    """Return the least speed-up of any seed."""
    there, here = (np.array(outcomes[who]["mean"]) for who in (ROUND_ROBIN, name))
    return float((there / here).min())


def messages(outcomes: Json, name: str) -> str:
    """Write how many messages there were for each tuple."""
    return f"{100 * np.mean(outcomes[name]['messages']):.3g} %"


def _by_seed(outcomes: Json, name: str) -> str:
    """Write the speed-up with its standard deviation over seeds."""
    each = np.array(outcomes[ROUND_ROBIN]["mean"]) / np.array(outcomes[name]["mean"])
    return f"{speed_up(outcomes, name):.2f} ± {np.std(each, ddof=1):.2f}"


def _contenders(outcomes: Json) -> str:
    head = [
        "",
        "completion, ms",
        "99th percentile, ms",
        "speed-up",
        "of full knowledge",
        "messages",
    ]
    rows = [
        [
            name,
            spread(outcomes[name]["mean"], 0),
            spread(outcomes[name]["p99"], 0),
            _by_seed(outcomes, name),
            f"{of_full(outcomes, name):.2f}",
            messages(outcomes, name),
        ]
        for name in outcomes
    ]
    return table(head, rows)


def _default_table(data: Json) -> str:
    return _contenders(data[0]["outcomes"])


def _budget_table(data: Json) -> str:
    return _contenders(data)


def _sweep(label: str, field: str) -> Callable[[Json], str]:
    """Return what writes a table of speed-ups, a row for each value of one field."""

    def written(data: Json) -> str:
        names = [name for name in CORE if name != ROUND_ROBIN]
        head = [label, "round robin, ms", *names, "ours, of full", "messages of ours"]
        return table(head, [_row(f"{p['setting'][field]:g}", p["outcomes"], names) for p in data])

    return written


def _row(label: str, outcomes: Json, names: Sequence[str]) -> list[str]:
    return [
        label,
        spread(outcomes[ROUND_ROBIN]["mean"], 0),
        *(_by_seed(outcomes, name) for name in names),
        f"{of_full(outcomes, OURS):.2f}",
        messages(outcomes, OURS),
    ]


def _harder_table(data: Json) -> str:
    names = [name for name in CONTENDERS if name in data[0]["outcomes"] and name != ROUND_ROBIN]
    head = ["", "round robin, ms", *names, "ours, of full", "messages of ours"]
    return table(head, [_row(seen["name"], seen["outcomes"], names) for seen in data])


def _schedulers_table(data: Json) -> str:
    names = [name for name in CORE if name != ROUND_ROBIN]
    head = ["schedulers, provision", "round robin, ms", *names, "ours, of full", "messages of ours"]
    rows = [
        _row(
            f"{seen['setting']['schedulers']}, {seen['setting']['provision']:g}",
            seen["outcomes"],
            names,
        )
        for seen in data
    ]
    return table(head, rows)


def _reach_table(data: Json) -> str:
    names = [name for name in data[0]["outcomes"] if name != ROUND_ROBIN]
    head = ["instances", "round robin, ms", *names, "ours, of full", "messages of ours"]
    return table(head, [_row(str(seen["instances"]), seen["outcomes"], names) for seen in data])


def _reach_summary(data: Json) -> str:
    rows = [["published figure (prototype)", "1.05", "1.5", "3.4"]]
    several = [seen["outcomes"] for seen in data if seen["instances"] > 1]
    for name in (PUBLISHED, OURS, FULL):
        each = [speed_up(outcomes, name) for outcomes in several]
        rows.append([name, *(f"{value:.2f}" for value in (min(each), np.mean(each), max(each)))])
    return table(["speed-up over 2 to 10 instances", "least", "mean", "most"], rows)


TABLES: dict[str, tuple[str, Callable[[Json], str]]] = {
    "default": ("default", _default_table),
    "alpha": ("alpha", _sweep("alpha", "alpha")),
    "instances": ("instances", _sweep("instances", "instances")),
    "provision": ("provision", _sweep("provision", "provision")),
    "harder": ("harder", _harder_table),
    "schedulers": ("schedulers", _schedulers_table),
    "budget": ("budget", _budget_table),
    "reach": ("reach", _reach_table),
    "reach, summary": ("reach", _reach_summary),
}
