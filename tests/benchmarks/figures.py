"""Line charts as SVG, drawn by hand so that no package is needed.

A figure is a row of panels over one legend. The background is white whatever the page's is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Told apart by people of any colour vision (Okabe and Ito), and by their dashes in print.
COLOURS = ("#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("", "7 4", "2 3")

_WIDTH, _HEIGHT = 440, 330  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 40, 50
_LEGEND_ROW = 22
_LETTER = 6.7  # how wide a letter of the legend is at most, in pixels
_SAMPLE = 34  # how long a line in the legend is


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a panel.

    Attributes:
        name: what the legend calls it; equal names in other panels share one entry.
        points: x and y; a y of NaN is left out.
        colour: number of its colour.
        dash: number of its dashes.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dash: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart.

    Attributes:
        title: what it shows.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis counts.
        lines: what is drawn.
        y_range: lowest and highest value of the vertical axis.
        x_ticks: where the horizontal axis has numbers, and how these are written.
        logarithmic: whether the horizontal axis is.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    y_range: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False


def draw(panels: Sequence[Panel], description: str) -> str:
    """Return the figure as the text of an SVG file.

    Args:
        panels: from left to right.
        description: what is to be seen, for those who cannot.
    """
    entries = {line.name: line for panel in panels for line in panel.lines}
    width = _WIDTH * len(panels)
    rows = _legend_rows(list(entries.values()), width)
    height = _HEIGHT + _LEGEND_ROW * len(rows) + 12
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#222222">'
    )
    drawn = [
        opening,
        f"<title>{escape(description)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        drawn += [f'<g transform="translate({number * _WIDTH} 0)">', *_panel(panel), "</g>"]
    for number, row in enumerate(rows):
        drawn += _legend(row, width, _HEIGHT + _LEGEND_ROW * number + 10)
    return "\n".join([*drawn, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    """Return the axes and the lines of a panel."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle = (_LEFT + right) / 2
    drawn = [_text(middle, 24, panel.title, size=14, weight="bold")]
    for value in round_ticks(*panel.y_range):
        y = _y(panel, value)
        drawn.append(_stroke(_LEFT, y, right, y, "#dddddd"))
        drawn.append(_text(_LEFT - 8, y + 4, f"{value:.4g}", anchor="end"))
    for value, label in panel.x_ticks:
        x = _x(panel, value)
        drawn.append(_stroke(x, bottom, x, bottom + 5, "#222222"))
        drawn.append(_text(x, bottom + 19, label))
    drawn.append(_stroke(_LEFT, bottom, right, bottom, "#222222"))
    drawn.append(_stroke(_LEFT, _TOP, _LEFT, bottom, "#222222"))
    drawn.append(_text(middle, bottom + 40, panel.x_label))
    across = (_TOP + bottom) / 2
    drawn.append(
        f'<text transform="translate(16 {across:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y_label)}</text>"
    )
    for line in panel.lines:
        drawn += _line(panel, line)
    return drawn


def _line(panel: Panel, line: Line) -> list[str]:
    """Return a line, and a dot at each point where these are few."""
    at = [(_x(panel, x), _y(panel, y)) for x, y in line.points if not math.isnan(y)]
    colour = _colour(line)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    shape = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
    drawn = [f'{shape}stroke-linejoin="round"{_dashes(line)}/>']
    if len(at) <= 20:
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
    return drawn


def _legend_rows(lines: Sequence[Line], width: float) -> list[list[Line]]:
    """Return the entries of the legend, as many in a row as fit."""
    rows: list[list[Line]] = [[]]
    for line in lines:
        if rows[-1] and math.fsum(map(_entry_width, [*rows[-1], line])) > width - 20:
            rows.append([])
        rows[-1].append(line)
    return rows


def _legend(lines: Sequence[Line], width: float, y: float) -> list[str]:
    """Return one row of the legend, in the middle."""
    x = (width - math.fsum(map(_entry_width, lines))) / 2
    drawn = []
    for line in lines:
        drawn.append(
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + _SAMPLE:.1f}" y2="{y:.1f}" '
            f'stroke="{_colour(line)}" stroke-width="2"{_dashes(line)}/>'
        )
        drawn.append(_text(x + _SAMPLE + 7, y + 4, line.name, anchor="start"))
        x += _entry_width(line)
    return drawn


def _entry_width(line: Line) -> float:
    return _SAMPLE + 26 + _LETTER * len(line.name)


def _x(panel: Panel, value: float) -> float:
    values = [x for line in panel.lines for x, _ in line.points] + [x for x, _ in panel.x_ticks]
    low, high = min(values), max(values)
    if panel.logarithmic:
        low, high, value = math.log(low), math.log(high), math.log(value)
    inner = _WIDTH - _LEFT - _RIGHT - 20
    return _LEFT + 10 + inner * (value - low) / (high - low or 1.0)


def _y(panel: Panel, value: float) -> float:
    low, high = panel.y_range
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (value - low) / (high - low)


def round_ticks(low: float, high: float) -> list[float]:
    """Return five to ten round numbers in a range."""
    step = 10 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 10)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _text(  # noqa: PLR0917
    x: float,
    y: float,
    text: str,
    anchor: str = "middle",
    size: int = 12,
    weight: str = "normal",
) -> str:
    style = (
        "" if (size, weight) == (12, "normal") else f' font-size="{size}" font-weight="{weight}"'
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="1"/>'
    )


def _colour(line: Line) -> str:
    return COLOURS[line.colour % len(COLOURS)]


def _dashes(line: Line) -> str:
    dashes = DASHES[line.dash % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""
