"""The tables of docs/results/locality.md, made of what `locality_measure` keeps."""

from collections.abc import Callable, Sequence

import numpy as np
from locality_experiments import INCREMENTAL, INERT, ORACLE, OURS, PUBLISHED, RENAMED, SCRATCH
from locality_measure import MANY_PARTS, Json
from page import spread, table
from rescaling import ANEW, BEFORE


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
    return table(head, [_contender(name, runs) for name in runs[0]["epochs"]])


def _contender(name: str, runs: Sequence[Json]) -> list[str]:
    later = [run["epochs"][name][1:] for run in runs]
    changed = [[epoch for epoch in epochs if epoch["reconfigured"]] for epochs in later]
    moved = [float(np.mean([epoch["moved"] for epoch in epochs])) for epochs in changed if epochs]
    placed = [float(np.mean([epoch["placed"] for epoch in epochs])) for epochs in later]
    times = [sum(epoch["reconfigured"] for epoch in run["epochs"][name]) for run in runs]
    worst = [max(max(epoch["imbalance"]) for epoch in epochs) for epochs in later]
    sides = [
        spread([float(np.mean([epoch["imbalance"][side] for epoch in week])) for week in later])
        for side in (0, 1)
    ]
    return [
        name,
        spread([float(np.mean([epoch["locality"] for epoch in epochs])) for epochs in later]),
        *sides,
        spread(worst, 2),
        _percent(moved) if moved else "",
        _percent(placed) if any(placed) else "",
        "" if name == ORACLE else spread(times, 0 if len(set(times)) < 2 else 1),
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
            spread([float(np.mean(run["expected"])) for run in data["seeds"]]),
        ],
    ]
    return table(["", ""], rows)


def _about_drift(data: Json) -> str:
    rows = [
        ["tuples in a week", f"{data['tuples']:,}"],
        ["pairs reported", f"{data['edges']:,}"],
        ["weeks", str(len(data["expected"]))],
    ]
    return table(["", ""], rows)


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
    return table(["", ""], [[label.strip(), spread([data[name]])] for name, label in _GAP.items()])


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
                    spread([step[who]["locality"] for step in steps])
                    for who in ("published", "ours")
                ),
                *(
                    spread([step[who]["imbalance"][side] for step in steps], 2)
                    for who in ("published", "ours")
                    for side in (0, 1)
                ),
                *(spread([step["reachable"][side] for step in steps], 2) for side in (0, 1)),
            ]
        )
    return table(head, rows)


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
                *(spread(times[who], 1) for who in (PUBLISHED, OURS)),
                *(_percent(moved[who]) for who in (PUBLISHED, OURS)),
            ]
        )
    return table(head, rows)


def _moves_table(data: Json) -> str:
    rows = [
        [
            kind,
            _percent([move["moved"][kind] for move in data["moves"]]),
            spread([move["local"][kind] for move in data["moves"]]),
        ]
        for kind in (INCREMENTAL, INERT, SCRATCH, RENAMED)
    ]
    return table(["", "load moved", "locality expected"], rows)


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
    return f"{table(['', 'CPU seconds', 'of METIS alone'], rows)}\n\nMeasured on {data['machine']}."


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
    return table(["tuples in a batch", "with an unknown tag", "routing", "placing"], rows)


def _loads_table(data: Json) -> str:
    rows = []
    for label, place in (("the pairs that are kept", 0), ("all their tuples", 1)):
        epochs = [run[place] for run in data["runs"]]
        rows.append(
            [
                label,
                spread([epoch["locality"] for epoch in epochs]),
                *(spread([epoch["imbalance"][side] for epoch in epochs]) for side in (0, 1)),
            ]
        )
    return table(["keys weighed by", "locality", "imbalance, first", "second"], rows)


def _paper_table(data: Json) -> str:
    rows = [
        [label, reported, spread([run[name] for run in data["runs"]])]
        for name, label, reported in (
            ("hash", "by hash", "0.166"),
            ("kept", "as METIS expects of the pairs kept", ""),
            ("same", "in the very week the tables are made from", "0.75"),
            ("following", "in the week after", "0.49"),
        )
    ]
    return table(["locality", "Twitter, by the paper", "drifting stream"], rows)


def _rescaling_table(data: Json) -> str:
    head = ["instances", "", "locality", "beside a new division"]
    head += ["imbalance, first", "second", "load moved"]
    rows = []
    for change, runs in data.items():
        for name in runs[0]:
            each = [run[name] for run in runs]
            beside = [run[name]["locality"] / run[ANEW]["locality"] for run in runs]
            rows.append(
                [
                    change,
                    name,
                    spread([way["locality"] for way in each]),
                    "" if name in {BEFORE, ANEW} else spread(beside, 2),
                    *(spread([way["imbalance"][side] for way in each], 2) for side in (0, 1)),
                    "" if name == BEFORE else _percent([way["moved"] for way in each]),
                ]
            )
    return table(head, rows)


def _forgotten_table(data: Json) -> str:
    rows = []
    for name in data["runs"][0]:
        weeks = [[epoch["locality"] for epoch in run[name]] for run in data["runs"]]
        rows.append(
            [
                name,
                spread([week[1] for week in weeks]),
                spread([week[-1] for week in weeks]),
                spread([float(np.mean(week[1:])) for week in weeks]),
            ]
        )
    return table(["tables keep", "second week", "last week", "mean"], rows)


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
    "rescaling": ("rescaling", _rescaling_table),
}
