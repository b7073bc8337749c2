"""Remake docs/results/locality.md: ``python tests/benchmarks/locality_report.py [part ...]``.

Each part is measured and kept as JSON; then the tables between the page's markers and the figures
beside it are written anew from what is kept. Without arguments all parts are measured, which takes
about an hour on two cores; ``--write`` measures none.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from locality_figures import FIGURES
from locality_measure import MEASURED, Json
from locality_tables import TABLES

_RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def main(arguments: list[str] | None = None) -> None:
    """Measure some parts and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of: {', '.join(MEASURED)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--folder", type=Path, default=_RESULTS, help="where locality.md is")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the page")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.parts) - set(MEASURED))
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(MEASURED)}")

    kept = options.folder / "locality"
    kept.mkdir(parents=True, exist_ok=True)
    for part in () if options.write else options.parts or MEASURED:
        start = time.perf_counter()
        measured = _rounded(MEASURED[part](options.scale))
        (kept / f"{part}.json").write_text(measured + "\n", encoding="utf-8")
        sys.stdout.write(f"{part}: {time.perf_counter() - start:.0f} s\n")
        sys.stdout.flush()
    data = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(kept.glob("*.json"))}
    write_page(options.folder, data)


def _rounded(measured: Json) -> str:
    """Return JSON with no more digits than mean anything."""
    exact = json.dumps(measured)
    rounded = json.loads(exact, parse_float=lambda text: round(float(text), 5))
    return json.dumps(rounded, separators=(",", ":"))


def write_page(folder: Path, data: Mapping[str, Json]) -> None:
    """Write the figures, and the tables into their places in the page."""
    for name, (needed, figure) in FIGURES.items():
        if set(needed) <= set(data):
            svg = figure(*(data[part] for part in needed))
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    page = folder / "locality.md"
    text = page.read_text("utf-8")
    for name, (part, make) in TABLES.items():
        if part in data:
            text = _replaced(text, name, make(data[part]))
    page.write_text(text, encoding="utf-8")


def _replaced(text: str, name: str, table: str) -> str:
    """Put a table between its two markers."""
    begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
    before, marker, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not marker or not closing:
        raise ValueError(f"the page has no place for table {name!r}; write {begin!r} and {end!r}")
    return f"{before}{begin}{table}\n{end}{after}"


if __name__ == "__main__":
    main()
