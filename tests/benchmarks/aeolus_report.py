"""Remake docs/results/aeolus.md: ``python tests/benchmarks/aeolus_report.py [part ...]``.

Without arguments all parts are measured, which takes about an hour on two idle cores;
``--write`` measures none, and only writes the page again from what is kept.
"""

from aeolus_study import MEASURED
from aeolus_tables import TABLES
from page import Page

PAGE = Page(name="aeolus", parts=MEASURED, tables=TABLES)

if __name__ == "__main__":
    PAGE.main(__doc__)
