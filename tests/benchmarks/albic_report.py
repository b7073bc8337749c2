"""Remake docs/results/albic.md: ``python tests/benchmarks/albic_report.py [part ...]``.

Without arguments all parts are measured, which takes about three hours on two idle cores, two of
them the solves of ten minutes; ``--write`` measures none, and only writes the page again from what
is kept. ``--instances 30`` lets `solver` have all instances of each scenario where the budget is 15
or 20, which takes an hour; ``--seconds`` is how long each solve of `solver` or `long` may take.
"""

import argparse
import sys
from dataclasses import replace
from functools import partial

from albic_real import airline, edits
from albic_scaling import scaling
from albic_solvers import long, proven, solver
from albic_spark import SPARK_TABLES, stages
from albic_study import MEASURED
from albic_tables import TABLES
from page import Page

PARTS = {
    **MEASURED,
    "proven": proven,
    "solver": solver,
    "long": long,
    "airline": airline,
    "edits": edits,
    "scaling": scaling,
    "stages": stages,
}
PAGE = Page(name="albic", parts=PARTS, tables={**TABLES, **SPARK_TABLES})


def main(arguments: list[str]) -> None:
    """Measure some parts, with the settings of the solves, and write the page."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    options, others = parser.parse_known_args(arguments)
    time = {} if options.seconds is None else {"seconds": options.seconds}
    parts = {
        **PARTS,
        "solver": partial(solver, instances=options.instances, **time),
        "long": partial(long, **time),
    }
    replace(PAGE, parts=parts).main(__doc__, others)


if __name__ == "__main__":
    main(sys.argv[1:])
