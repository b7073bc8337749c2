"""Remake docs/results/simulation.md: ``python tests/benchmarks/simulation_report.py [part ...]``.

Without arguments all parts are measured, which takes twenty minutes on two idle cores; ``hosts``
needs root. ``--write`` measures none, and only simulates and writes the page again.
"""

from batches_study import hosts, local
from batches_tables import TABLES
from page import Page

PAGE = Page(name="simulation", parts={"local": local, "hosts": hosts}, tables=TABLES)

if __name__ == "__main__":
    PAGE.main(__doc__)
