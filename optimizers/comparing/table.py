"""A table with a line for each figure and a column for each variant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BEST = "*"
"""What marks the best of a line in plain text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure.

    Attributes:
        label: what it is.
        cells: its value for each variant, as text.
        best: whether it is the best, for each variant.
    """

    label: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together.

    Attributes:
        title: what they have in common.
        lines: the figures.
    """

    title: str
    lines: tuple[Line, ...]


def as_text(names: Sequence[str], sections: Iterable[Section]) -> str:
    """Return the table as text.

    >>> line = Line("tuples per second", ("1,000", "2,000"), (False, True))
    >>> print(as_text(["hash", "ours"], [Section("batches 1 to 8", (line,))]))
                        hash     ours
    batches 1 to 8
      tuples per second  1,000  2,000*
    """
    shown = list(sections)
    lines = [line for section in shown for line in section.lines]
    first = max((len(line.label) + 2 for line in lines), default=0)
    columns = [
        [name, *(_marked(line, place) for line in lines)] for place, name in enumerate(names)
    ]
    widths = [max(len(cell.rstrip(BEST)) for cell in column) for column in columns]
    rows = [_row("", names, first, widths)]
    for section in shown:
        rows.append(section.title)
        for line in section.lines:
            cells = [_marked(line, place) for place in range(len(names))]
            rows.append(_row(f"  {line.label}", cells, first, widths))
    return "\n".join(rows)


def _marked(line: Line, place: int) -> str:
    return line.cells[place] + BEST * line.best[place]


def _row(label: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    """Align cells to the right, with marks hanging over."""
    text = label.ljust(first)
    for cell, width in zip(cells, widths, strict=True):
        plain = cell.removesuffix(BEST)
        text += "  " + plain.rjust(width) + (BEST if plain != cell else " ")
    return text.rstrip()
