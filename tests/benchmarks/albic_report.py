"""Remake docs/results/albic.md: ``python tests/benchmarks/albic_report.py [part ...]``.

Without arguments all parts are measured, which takes about two hours on two idle cores, half of it
the solves of ten minutes; ``--write`` measures none, and only writes the page again from what is
kept.
"""

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

if __name__ == "__main__":
    PAGE.main(__doc__)
