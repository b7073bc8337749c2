"""Remake docs/results/albic.md: ``python tests/benchmarks/albic_report.py [part ...]``.

Without arguments all parts are measured, which takes about half an hour on two idle cores;
``--write`` measures none, and only writes the page again from what is kept.
"""

from albic_scaling import scaling
from albic_spark import SPARK_TABLES, stages
from albic_study import MEASURED
from albic_tables import TABLES
from page import Page

PAGE = Page(
    name="albic",
    parts={**MEASURED, "scaling": scaling, "stages": stages},
    tables={**TABLES, **SPARK_TABLES},
)

if __name__ == "__main__":
    PAGE.main(__doc__)
