"""Remake docs/results/locality.md: ``python tests/benchmarks/locality_report.py [part ...]``.

Each part is measured and kept as JSON; then the tables between the page's markers and the figures
beside it are written anew from what is kept. Without arguments all parts are measured, which takes
about an hour on two cores; ``--write`` measures none.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from figures import Line, Panel, draw
from locality_experiments import (
    HASH,
    INCREMENTAL,
    INERT,
    OFFLINE,
    ORACLE,
    OURS,
    PUBLISHED,
    RENAMED,
    SCRATCH,
)
from locality_measure import FRACTIONS, MANY_PARTS, MEASURED, SOME_PARTS, Json

_RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
_COLOURS = {HASH: 0, OFFLINE: 5, PUBLISHED: 1, OURS: 2, ORACLE: 3}
_DASHES = {HASH: 2, OFFLINE: 1, ORACLE: 1}
_FEW = 20

Rows = list[list[str]]


def main(arguments: list[str] | None = None) -> None:
    """Measure some parts and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of: {', '.join(MEASURED)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--folder", type=Path, default=_RESULTS, help="where locality.md is")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the page")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.parts) - set(MEASURED))
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(MEASURED)}")

    kept = options.folder / "locality"
    kept.mkdir(parents=True, exist_ok=True)
    for part in () if options.write else options.parts or MEASURED:
        start = time.perf_counter()
        measured = _rounded(MEASURED[part](options.scale))
        (kept / f"{part}.json").write_text(measured + "\n", encoding="utf-8")
        sys.stdout.write(f"{part}: {time.perf_counter() - start:.0f} s\n")
        sys.stdout.flush()
    data = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(kept.glob("*.json"))}
    write_page(options.folder, data)


def _rounded(measured: Json) -> str:
    """Return JSON with no more digits than mean anything."""
    exact = json.dumps(measured)
    rounded = json.loads(exact, parse_float=lambda text: round(float(text), 5))
    return json.dumps(rounded, separators=(",", ":"))


def write_page(folder: Path, data: Mapping[str, Json]) -> None:
    """Write the figures, and the tables into their places in the page."""
    for name, (needed, figure) in FIGURES.items():
        if set(needed) <= set(data):
            svg = figure(*(data[part] for part in needed))
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    page = folder / "locality.md"
    text = page.read_text("utf-8")
    for name, (part, make) in TABLES.items():
        if part in data:
            text = _replaced(text, name, make(data[part]))
    page.write_text(text, encoding="utf-8")


def _replaced(text: str, name: str, table: str) -> str:
    """Put a table between its two markers."""
    begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
    before, marker, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not marker or not closing:
        raise ValueError(f"the page has no place for table {name!r}; write {begin!r} and {end!r}")
    return f"{before}{begin}{table}\n{end}{after}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(values: Sequence[float], digits: int = 3) -> str:
    """Write a mean, and the standard deviation where there are several values."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * np.mean(values):.1f}"
    spread = "" if len(values) < 2 else f" ± {100 * np.std(values, ddof=1):.1f}"
    return f"{mean}{spread} %"


def _contenders(runs: Sequence[Json]) -> str:
    """Return the table of all contenders; of several runs, means and standard deviations."""
    head = [
        "",
        "locality",
        "imbalance, first",
        "second",
        "worst week",
        "load moved each time",
        "moved after batches",
        "reconfigurations",
    ]
    return _table(head, [_contender(name, runs) for name in runs[0]["epochs"]])


def _contender(name: str, runs: Sequence[Json]) -> list[str]:
    later = [run["epochs"][name][1:] for run in runs]
    changed = [[epoch for epoch in epochs if epoch["reconfigured"]] for epochs in later]
    moved = [float(np.mean([epoch["moved"] for epoch in epochs])) for epochs in changed if epochs]
    placed = [float(np.mean([epoch["placed"] for epoch in epochs])) for epochs in later]
    times = [sum(epoch["reconfigured"] for epoch in run["epochs"][name]) for run in runs]
    worst = [max(max(epoch["imbalance"]) for epoch in epochs) for epochs in later]
    sides = [
        _spread([float(np.mean([epoch["imbalance"][side] for epoch in week])) for week in later])
        for side in (0, 1)
    ]
    return [
        name,
        _spread([float(np.mean([epoch["locality"] for epoch in epochs])) for epochs in later]),
        *sides,
        _spread(worst, 2),
        _percent(moved) if moved else "",
        _percent(placed) if any(placed) else "",
        "" if name == ORACLE else _spread(times, 0 if len(set(times)) < 2 else 1),
    ]


def _drift_table(data: Json) -> str:
    return _contenders([data])


def _seeds_table(data: Json) -> str:
    return _contenders(data["seeds"])


def _about_flights(data: Json) -> str:
    rows = [
        ["flights with a tail number", f"{data['flights']:,}"],
        ["flights without, left out", f"{data['dropped']:,}"],
        ["aircraft", f"{data['aircraft']:,}"],
        ["destinations", f"{data['destinations']:,}"],
        ["weeks", str(len(data["seeds"][0]["expected"]))],
        [
            "locality that METIS expects as published",
            _spread([float(np.mean(run["expected"])) for run in data["seeds"]]),
        ],
    ]
    return _table(["", ""], rows)


def _about_drift(data: Json) -> str:
    rows = [
        ["tuples in a week", f"{data['tuples']:,}"],
        ["pairs reported", f"{data['edges']:,}"],
        ["weeks", str(len(data["expected"]))],
    ]
    return _table(["", ""], rows)


_GAP = {
    "oracle": "locality: keys divided by the week itself (mean over METIS seeds, one try)",
    "spread": "  how far METIS' seed alone lets that vary (standard deviation)",
    "half": "  by half of the week's flights, on the other half; unknown keys by hash",
    "half_placed": "  the same, unknown keys by first touch",
    "others": "  by all 51 other weeks, those to come too",
    "earlier": "  by all weeks before",
    "last": "  by the week before alone",
    "known_last": "share of the flights whose aircraft flew in the week before",
    "known_ever": "  in any week before",
    "paired_last": "share of the flights whose aircraft had that destination in the week before",
    "paired_ever": "  in any week before",
    "once": "share of the flights whose aircraft has that destination only once in the week",
}


def _gap_table(data: Json) -> str:
    return _table(
        ["", ""], [[label.strip(), _spread([data[name]])] for name, label in _GAP.items()]
    )


def _parts_table(data: Json) -> str:
    head = [
        "parts",
        "locality, published",
        "ours",
        "imbalance, published: first",
        "second",
        "ours: first",
        "second",
        "least possible: first",
        "second",
    ]
    rows = []
    for place, number in enumerate(MANY_PARTS):
        steps = [run[place] for run in data["runs"]]
        rows.append(
            [
                str(number),
                *(
                    _spread([step[who]["locality"] for step in steps])
                    for who in ("published", "ours")
                ),
                *(
                    _spread([step[who]["imbalance"][side] for step in steps], 2)
                    for who in ("published", "ours")
                    for side in (0, 1)
                ),
                *(_spread([step["reachable"][side] for step in steps], 2) for side in (0, 1)),
            ]
        )
    return _table(head, rows)


def _gate_table(data: Json) -> str:
    head = ["", "weeks", "reconfigured, published", "ours", "load moved a week, published", "ours"]
    rows = []
    for name, runs in data.items():
        weeks = len(runs[0]["expected"])
        times, moved = {}, {}
        for who in (PUBLISHED, OURS):
            epochs = [run["epochs"][who] for run in runs]
            times[who] = [sum(epoch["reconfigured"] for epoch in run) for run in epochs]
            moved[who] = [float(np.mean([epoch["moved"] for epoch in run])) for run in epochs]
        rows.append(
            [
                name,
                str(weeks),
                *(_spread(times[who], 1) for who in (PUBLISHED, OURS)),
                *(_percent(moved[who]) for who in (PUBLISHED, OURS)),
            ]
        )
    return _table(head, rows)


def _moves_table(data: Json) -> str:
    rows = [
        [
            kind,
            _percent([move["moved"][kind] for move in data["moves"]]),
            _spread([move["local"][kind] for move in data["moves"]]),
        ]
        for kind in (INCREMENTAL, INERT, SCRATCH, RENAMED)
    ]
    return _table(["", "load moved", "locality expected"], rows)


def _pipeline_table(data: Json) -> str:
    seconds = data["pipeline"]
    labels = {
        "count": "counting pairs",
        "graph": "making the graph",
        "METIS": "METIS alone, balancing both operators",
        "METIS, one sum": "METIS alone, balancing their sum, as published",
        "all": "all, from tuples to tables",
    }
    rows = [
        [label, f"{seconds[name]:.2f}", f"{seconds[name] / seconds['METIS']:.2f}"]
        for name, label in labels.items()
    ]
    return (
        f"{_table(['', 'CPU seconds', 'of METIS alone'], rows)}\n\nMeasured on {data['machine']}."
    )


def _touch_table(data: Json) -> str:
    rows = [
        [
            f"{cost['batch']:,}",
            _percent([cost["unknown"]]),
            f"{cost['routing']:.3f}",
            f"{cost['placing']:.3f}",
        ]
        for cost in data["touch"]
    ]
    return _table(["tuples in a batch", "with an unknown tag", "routing", "placing"], rows)


def _loads_table(data: Json) -> str:
    rows = []
    for label, place in (("the pairs that are kept", 0), ("all their tuples", 1)):
        epochs = [run[place] for run in data["runs"]]
        rows.append(
            [
                label,
                _spread([epoch["locality"] for epoch in epochs]),
                *(_spread([epoch["imbalance"][side] for epoch in epochs]) for side in (0, 1)),
            ]
        )
    return _table(["keys weighed by", "locality", "imbalance, first", "second"], rows)


def _paper_table(data: Json) -> str:
    rows = [
        [label, reported, _spread([run[name] for run in data["runs"]])]
        for name, label, reported in (
            ("hash", "by hash", "0.166"),
            ("kept", "as METIS expects of the pairs kept", ""),
            ("same", "in the very week the tables are made from", "0.75"),
            ("following", "in the week after", "0.49"),
        )
    ]
    return _table(["locality", "Twitter, by the paper", "drifting stream"], rows)


def _forgotten_table(data: Json) -> str:
    rows = []
    for name in data["runs"][0]:
        weeks = [[epoch["locality"] for epoch in run[name]] for run in data["runs"]]
        rows.append(
            [
                name,
                _spread([week[1] for week in weeks]),
                _spread([week[-1] for week in weeks]),
                _spread([float(np.mean(week[1:])) for week in weeks]),
            ]
        )
    return _table(["tables keep", "second week", "last week", "mean"], rows)


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


TABLES: dict[str, tuple[str, Callable[[Json], str]]] = {
    "about the drift": ("drift", _about_drift),
    "drift": ("drift", _drift_table),
    "drift, seeds": ("drift_seeds", _seeds_table),
    "about the flights": ("flights_weeks", _about_flights),
    "flights": ("flights_weeks", _seeds_table),
    "gap": ("flights_gap", _gap_table),
    "parts, drift": ("parts_drift", _parts_table),
    "parts, flights": ("parts_flights", _parts_table),
    "gate": ("gate", _gate_table),
    "moves": ("costs", _moves_table),
    "pipeline": ("costs", _pipeline_table),
    "touch": ("costs", _touch_table),
    "loads": ("loads", _loads_table),
    "paper": ("paper", _paper_table),
    "forgotten": ("forgotten", _forgotten_table),
}
FIGURES: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "locality-weeks-drift": (("drift",), _drift_weeks),
    "locality-weeks-flights": (("flights_weeks",), _flights_weeks),
    "locality-edges": (("fractions_drift", "fractions_flights"), _edges_figure),
    "locality-parts": (("parts_drift", "parts_flights"), _parts_figure),
}


if __name__ == "__main__":
    main()
