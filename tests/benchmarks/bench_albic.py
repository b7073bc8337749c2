"""Placement under a budget, and scaling: against the goals; ``albic_report.py`` measures more."""

import numpy as np
from albic_scaling import scaling
from albic_study import OURS, small
from albic_tables import below
from harness import Result


def run(scale: float) -> list[Result]:
    """Measure distances, times and rescales."""
    found = [entry for entry in small(scale) if entry["budget"] in {15, 20}]
    distances = [one for entry in found for one in entry["rows"][OURS]]
    flux = [one for entry in found for one in entry["rows"]["Flux"]]
    times = [one for entry in found for one in entry["rows"][f"{OURS}: ms"]]
    shapes = scaling(scale)
    ratios = [
        float(np.sum(shapes[shape]["Albic"]["rescales"]) / np.sum(shapes[shape]["Ds2"]["rescales"]))
        for shape in shapes
    ]
    return [
        Result(
            name="20 nodes x 300 groups, 15 or 20 moves: instances below one point",
            measured=below(distances),
            unit="",
            goal=1.0,
        ),
        Result(name="the same, Flux", measured=below(flux), unit=""),
        Result(
            name="the same: CPU time of ours, median",
            measured=float(np.median(times)),
            unit="ms",
            better="lower",
        ),
        Result(
            name="changes of the number of nodes, of those of DS2: worst shape",
            measured=max(ratios),
            unit="x",
            goal=0.5,
            better="lower",
        ),
    ]
