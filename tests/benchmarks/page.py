"""Pages of results that are remade by a command: measured parts are kept, tables and figures drawn.

What a part measures is kept as JSON in a folder named like the page. From what is kept, the tables
are written into their places in the page, between markers, and the figures beside it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Json = Any

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page, and how it is made.

    Attributes:
        name: of the page, without its ending.
        parts: what is measured, by name: functions of a scale.
        tables: for each table, of which part it is, and how it is written.
        figures: for each figure, of which parts it is, and how it is drawn, as SVG.
    """

    name: str
    parts: Mapping[str, Callable[[float], Json]]
    tables: Mapping[str, tuple[str, Callable[[Json], str]]]
    figures: Mapping[str, tuple[Sequence[str], Callable[..., str]]] = field(default_factory=dict)

    def main(self, about: str | None, arguments: Sequence[str] | None = None) -> None:
        """Measure some parts and write the page."""
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("parts", nargs="*", metavar="part", help=f"of: {', '.join(self.parts)}")
        parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
        parser.add_argument("--folder", type=Path, default=RESULTS, help="where the page is")
        parser.add_argument("--write", action="store_true", help="measure nothing, write the page")
        options = parser.parse_args(arguments)
        unknown = sorted(set(options.parts) - set(self.parts))
        if unknown:
            parser.error(
                f"no part is called {', '.join(unknown)}; there are {', '.join(self.parts)}"
            )
        kept = options.folder / self.name
        kept.mkdir(parents=True, exist_ok=True)
        for part in () if options.write else options.parts or self.parts:
            start = time.perf_counter()
            measured = _rounded(self.parts[part](options.scale))
            (kept / f"{part}.json").write_text(measured + "\n", encoding="utf-8")
            sys.stdout.write(f"{part}: {time.perf_counter() - start:.0f} s\n")
            sys.stdout.flush()
        known = sorted(kept.glob("*.json"))
        self.write(
            options.folder, {path.stem: json.loads(path.read_text("utf-8")) for path in known}
        )

    def write(self, folder: Path, data: Mapping[str, Json]) -> None:
        """Write the figures, and the tables into their places in the page."""
        for name, (needed, figure) in self.figures.items():
            lacking = [part for part in needed if part not in data]
            if lacking:
                why = f"{', '.join(lacking)} was never measured"
                sys.stdout.write(f"{name}.svg is left as it is: {why}\n")
            else:
                svg = figure(*(data[part] for part in needed))
                (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        page = folder / f"{self.name}.md"
        text = page.read_text("utf-8")
        for name, (part, make) in self.tables.items():
            if part in data:
                text = _replaced(text, name, make(data[part]))
        page.write_text(text, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as markdown, numbers to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Write a mean, and the standard deviation where there are several values."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def _rounded(measured: Json) -> str:
    """Return JSON with no more digits than mean anything."""
    exact = json.dumps(measured)
    rounded = json.loads(exact, parse_float=lambda text: round(float(text), 5))
    return json.dumps(rounded, separators=(",", ":"))


def _replaced(text: str, name: str, written: str) -> str:
    """Put a table between its two markers."""
    begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
    before, marker, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not marker or not closing:
        raise ValueError(f"the page has no place for table {name!r}; write {begin!r} and {end!r}")
    return f"{before}{begin}{written}\n{end}{after}"
