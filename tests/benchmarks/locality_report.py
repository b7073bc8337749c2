"""Remake docs/results/locality.md: ``python tests/benchmarks/locality_report.py [part ...]``.

Without arguments all parts are measured, which takes about an hour on two cores; ``--write``
measures none, and only writes the page again from what is kept.
"""

from locality_figures import FIGURES
from locality_measure import MEASURED
from locality_tables import TABLES
from page import Page

PAGE = Page(name="locality", parts=MEASURED, tables=TABLES, figures=FIGURES)

if __name__ == "__main__":
    PAGE.main(__doc__)
