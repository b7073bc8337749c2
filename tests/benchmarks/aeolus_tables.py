"""The tables of docs/results/aeolus.md, made of what `aeolus_study` keeps."""

from collections.abc import Callable

import numpy as np
from aeolus_waves import LEAST
from page import Json, table


def _planning(data: Json) -> str:
    names = {
        "build": "check and build the dataflow",
        "plan": "plan",
        "capped": "plan with a cap on all workers that binds",
        "published": "Algorithm 1 as published",
    }
    head = [f"{data['operators']:,} operators, {data['edges']:,} edges", "CPU ms, median of 9"]
    return table(head, [[names[name], f"{taken:.1f}"] for name, taken in data["ms"].items()])


def _shipping(data: Json) -> str:
    head = ["bytes of a tuple", "tuples a parcel", "CPU us a tuple"]
    return table(head, [[f"{w:g}", f"{b:g}", f"{us:.3g}"] for w, b, us in data["rows"]])


def _runs(data: Json) -> str:
    rows = []
    for name, job in data["jobs"].items():
        base = job["runs"]["not optimised"]["uptime"]
        for run, found in job["runs"].items():
            taken = found["uptime"]
            rows.append([f"{name}, {run}", f"{1000 * taken:.3g}", f"{base / taken:.3g}"])
    return table(["", "ms for all tuples", "times as fast"], rows)


def _emitted(name: str) -> Callable[[Json], str]:
    """Return what writes how many tuples all operators had emitted, as figures 4 and 6 show."""

    def written(data: Json) -> str:
        runs = data["jobs"][name]["runs"]
        ends = np.array(runs["not optimised"]["times"])
        rows = []
        for run, found in runs.items():
            times, emitted = [0.0, *found["times"]], [0, *found["emitted"]]
            at = np.interp(ends, times, emitted)
            rows.append([run, *(f"{count:,.0f}" for count in at)])
        return table(["after, ms", *(f"{1000 * end:.3g}" for end in ends)], rows)

    return written


def _configuration(name: str) -> Callable[[Json], str]:
    """Return what writes a configuration, as tables I and II do."""

    def written(data: Json) -> str:
        job = data["jobs"][name]
        rows = [
            ["us a tuple", *(f"{job['ppt_us'][each]:.2g}" for each in job["dop"])],
            ["dop", *map(str, job["dop"].values())],
            ["bS", *map(str, job["batch"].values())],
        ]
        return table(["", *job["dop"]], rows)

    return written


def _grid(data: Json) -> str:
    rows = []
    for name in ("ours", "best"):
        parse, agg, first, second, taken = data[name]
        rows.append([name, f"{parse}, {agg}", f"{first}, {second}", f"{taken:.4f}"])
    rows.append([f"worst of {data['points']}", "", "", f"{data['worst']:.4f}"])
    return table(["", "instances", "batches", "seconds for all tuples"], rows)


def _waves(data: Json) -> str:
    rows = []
    for load, outcomes in data.items():
        means = {who: np.mean(runs, axis=0) for who, runs in outcomes.items()}
        rival = min(late for who, (_, late, *_) in means.items() if who not in {"Aeolus", LEAST})
        for who, (mean, late, changes, cores) in means.items():
            rows.append(
                [
                    *(f"{load}, {who}", f"{mean:.2f}", f"{late:.2f}", f"{late / rival:.2f}"),
                    "" if who == LEAST else f"{changes:.1f}",
                    f"{cores:.2f}",
                ]
            )
    head = ["", "mean, s", "95th percentile, s", "of the best rival's", "rescales", "cores used"]
    return table(head, rows)


def _calibration(data: Json) -> str:
    head = ["constant", "is", "measured where it counts"]
    columns = (data["names"], data["constants"], data["lowest"], data["highest"])
    rows = [
        [name, f"{constant:.4g}", f"{low:.3g} to {high:.3g}"]
        for name, constant, low, high in zip(*columns, strict=True)
    ]
    rows += [
        ["off by, on settings left out", f"{data['error']:.1%}", f"{data['worst']:.1%} at most"],
        ["batches of one setting differ by", f"{data['spread']:.1%}", f"{data['batches']} batches"],
    ]
    return table(head, rows)


def _held_out(data: Json) -> str:
    rows = [
        [f"{where}, {job}", str(batches), *(f"{part:.1%}" for part in off)]
        for where, found in data.items()
        for job, (batches, *off) in found["errors"].items()
    ]
    return table(["", "settings", "off by, mean", "median", "at most"], rows)


def _choices(data: Json) -> str:
    rows = [
        [
            *(f"{where}, {job}", f"{count:,}", f"{micros}", f"{mine}", f"{best}"),
            f"{taken / least:.2f}",
        ]
        for where, found in data.items()
        for job, count, micros, mine, best, taken, least in found["chosen"]
    ]
    head = ["", "tuples", "us each", "tasks chosen", "tasks of the best", "times its seconds"]
    return table(head, rows)


def _spark(data: Json) -> str:
    rows = []
    for job, found in data.items():
        base = found["seconds"]["as declared"]
        for who, taken in found["seconds"].items():
            equal = "equal" if found["correct"] else "DIFFERENT"
            rows.append([f"{job}, {who}", f"{taken:.2f}", f"{base / taken:.2f}", equal])
    return table(["", "seconds a batch", "times as fast", "results"], rows)


def _spark_grid(data: Json) -> str:
    rows = []
    for job, found in data.items():
        seconds = found["seconds"]
        points = {who: taken for who, taken in seconds.items() if who not in _OTHERS}
        least = min(points.values())
        ranked = sorted(points, key=points.__getitem__)
        shown = ["Aeolus", "as declared", *ranked[:3], ranked[len(ranked) // 2], ranked[-1]]
        rows += [
            [f"{job}, {who}", f"{seconds[who]:.3f}", f"{seconds[who] / least:.2f}"] for who in shown
        ]
    return table(["", "seconds for 60,000 lines", "times the best point's"], rows)


_OTHERS = {"Aeolus", "as declared"}


def _spark_model(data: Json) -> str:
    rows = []
    for job, found in data.items():
        model = found["model"]
        off = (f"{part:.1%}" for part in model["off"])
        rows.append([f"{job}, each by all others", str(len(model["batches"])), *off])
    return table(["", "points", "off by, mean", "median", "at most"], rows)


def _spark_choices(data: Json) -> str:
    rows = [
        [
            f"{job}, {best.split(', ', 1)[1]}",
            *(each.split(",")[0] for each in (mine, best)),
            f"{times:.2f}",
        ]
        for job, found in data.items()
        for mine, best, times in found["model"]["chosen"]
    ]
    return table(["", "chosen by other sizes", "best", "times its seconds"], rows)


def _spark_rates(data: Json) -> str:
    rows = []
    for job, found in data.items():
        for level, variants in found["found"].items():
            rate = found["rates"][level]
            for who, run in variants.items():
                behind = run["behind"] > _SECONDS_BEHIND * rate
                waited = "not carried" if behind else f"{run['mean']:.2f}"
                late = "" if behind else f"{run['p95']:.2f}"
                rows.append([f"{job}, {level}, {who}", waited, late, f"{run['cores']:.2f}"])
    head = ["", "rows waited, mean, s", "95th percentile, s", "cores used"]
    return table(head, rows)


_SECONDS_BEHIND = 10  # of what comes: more is not caught up with


def _spark_carried(data: Json) -> str:
    rows = []
    for job, found in data.items():
        declared = found["carried"]["as declared"]
        for who, rate in found["carried"].items():
            rows.append([f"{job}, {who}", f"{rate:,.0f}", f"{rate / declared:.2f}"])
    return table(["", "rows a second, at most", "times as declared"], rows)


TABLES = {
    "planning": ("planning", _planning),
    "shipping": ("shipping", _shipping),
    "runs": ("topologies", _runs),
    "linear-road": ("topologies", _configuration("Linear Road")),
    "sentiment": ("topologies", _configuration("Sentiment Analysis")),
    "emitted-linear-road": ("topologies", _emitted("Linear Road")),
    "emitted-sentiment": ("topologies", _emitted("Sentiment Analysis")),
    "grid": ("grid", _grid),
    "waves": ("waves", _waves),
    "calibration": ("calibration", _calibration),
    "held-out": ("held-out", _held_out),
    "choices": ("held-out", _choices),
    "spark": ("spark", _spark),
    "spark-grid": ("spark-grid", _spark_grid),
    "spark-model": ("spark-grid", _spark_model),
    "spark-choices": ("spark-grid", _spark_choices),
    "spark-rates": ("spark-rates", _spark_rates),
    "spark-carried": ("spark-rates", _spark_carried),
}
