"""Remake docs/results/osg.md: ``python tests/benchmarks/osg_report.py [part ...]``.

Without arguments all parts are measured, which takes about ten minutes on two idle cores;
``--write`` measures none, and only writes the page again from what is kept.
"""

from osg_study import MEASURED
from osg_tables import TABLES
from page import Page

PAGE = Page(name="osg", parts=MEASURED, tables=TABLES)

if __name__ == "__main__":
    PAGE.main(__doc__)
