"""The figures of a comparison, computed from summaries of batches, and their formats."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optimizers.comparing.outcome import Outcome
from optimizers.comparing.table import Line, Section
from optimizers.control.run_summary import NOTHING, RunSummary

Batches = Sequence[RunSummary]


class Measure(NamedTuple):
    """A figure of one variant.

    Attributes:
        value: the figure; the median over batches, if each batch has one.
        low: a quarter of the batches is below.
        high: a quarter of the batches is above. Shown is half of the way from low to high.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        label: what it is.
        of: how it is computed, from the batches of a variant and the same of the first variant.
        show: how a value is written.
        more: whether more is better; if not, less is.
    """

    label: str
    of: Callable[[Batches, Batches], Measure | None]
    show: Callable[[float], str]
    more: bool

    def line(self, each: Sequence[Batches]) -> Line:
        """Return the figure of each variant, with the best marked.

        Values that differ from the best by no more than its own spread are marked as well; if all
        do, none is.
        """
        measures = [self.of(batches, each[0]) for batches in each]
        cells = [NOTHING if measure is None else self._shown(measure) for measure in measures]
        known = [measure for measure in measures if measure is not None]
        if not known:
            return Line(self.label, tuple(cells), (False,) * len(cells))
        best = (max if self.more else min)(known, key=lambda measure: measure.value)
        marks = [
            measure is not None
            and (
                best.low <= measure.value <= best.high
                or self.show(measure.value) == self.show(best.value)
            )
            for measure in measures
        ]
        return Line(self.label, tuple(cells), tuple(mark and not all(marks) for mark in marks))

    def _shown(self, measure: Measure) -> str:
        if measure.low == measure.high:
            return self.show(measure.value)
        spread = (measure.high - measure.low) / 2 / measure.value
        return f"{self.show(measure.value)} ±{spread:.0%}"


def section(title: str, variants: Sequence[Outcome], span: Sequence[int]) -> Section:
    """Return the figures of some batches."""
    each = [batches_of(outcome, span) for outcome in variants]
    figures = [*_figures(variants[0].name), *map(_imbalance, _balanced(each[0][0]))]
    if any(batch.latency is not None for batches in each for batch in batches):
        figures.insert(2, _LATENCY)
    return Section(title, tuple(figure.line(each) for figure in figures))


def overall(variants: Sequence[Outcome]) -> Section:
    """Return figures of the whole run, without marks: doing nothing is no merit there."""
    rows = {
        "plans changed": [sum(batch.changed for batch in v.batches) for v in variants],
        "plans refused": [sum(bool(d.refused) for d in v.decisions) for v in variants],
        "keys moved": [sum(batch.taken_over for batch in v.batches) for v in variants],
    }
    lines = [_unmarked(label, [f"{count:,}" for count in counts]) for label, counts in rows.items()]
    planning = [f"{sum(d.seconds for d in v.decisions):.2f}" for v in variants]
    lines.append(_unmarked("planning, CPU seconds", planning))
    if all(outcome.checked for outcome in variants):
        equal = ["equal" if v.difference is None else "DIFFERENT" for v in variants]
        lines.append(_unmarked("results, beside sequential", equal))
    return Section("all batches", tuple(lines))


def batches_of(outcome: Outcome, span: Sequence[int]) -> list[RunSummary]:
    """Return some batches of a variant."""
    return [batch for batch in outcome.batches if batch.first in span]


def local_share(batches: Batches) -> float | None:
    """Return the share of tuples that stayed on their node; None if none went between keys."""
    hops = sum(batch.hops for batch in batches)
    return sum(batch.local for batch in batches) / hops if hops else None


def remote_bytes(batches: Batches) -> float | None:
    """Return how many bytes went to another node in a batch, on average; None if not known."""
    known = [batch.remote_bytes for batch in batches if batch.remote_bytes is not None]
    return sum(known) / len(known) if len(known) == len(batches) else None


def speed_beside(batches: Batches, first: Batches) -> Measure:
    """Return how many times as fast a variant was as another, batch by batch."""
    return _median([_ratio(b.seconds, a.seconds) for a, b in zip(batches, first, strict=True)])


def _ratio(one: float, other: float) -> float:
    """Return the ratio of two times; without a second one, as in a simulation, it is infinite."""
    if other == 0:
        return 1.0 if one == 0 else math.inf
    return one / other


def size_text(size: float) -> str:
    """Write a number of bytes with its unit.

    >>> size_text(1_234_567)
    '1.23 MB'
    """
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size:.0f} B"


def _median(values: Sequence[float]) -> Measure:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return Measure(float(middle), float(low), float(high))


def _exactly(value: float | None) -> Measure | None:
    return None if value is None else Measure(value, value, value)


def _balanced(batch: RunSummary) -> list[str]:
    """Return the operators whose loads a grouping can even out."""
    return [
        found.operator
        for found in batch.operators
        if found.spread_by == "key" or (found.spread_by == "cost" and len(found.tuples) > 1)
    ]


def _imbalance(operator: str) -> Figure:
    """Return the load of the busiest instance, in averages, weighted by load."""

    def of(batches: Batches, _: Batches) -> Measure | None:
        found = [batch.operator(operator) for batch in batches]
        loads = [sum(each.loads) for each in found]
        weighed = [each.imbalance * load for each, load in zip(found, loads, strict=True)]
        return _exactly(sum(weighed) / sum(loads) if sum(loads) else None)

    return Figure(f"busiest {operator}, times the mean", of, "{:.2f}".format, more=False)


def _unmarked(label: str, cells: Sequence[str]) -> Line:
    return Line(label, tuple(cells), (False,) * len(cells))


def _per_batch(
    of: Callable[[RunSummary], float | None],
) -> Callable[[Batches, Batches], Measure | None]:
    """Return the median over batches; None if the value is unknown for one of them."""

    def median(batches: Batches, _: Batches) -> Measure | None:
        known = [value for value in map(of, batches) if value is not None]
        return _median(known) if len(known) == len(batches) else None

    return median


def _seconds(value: float) -> str:
    return f"{value:.3g}"


def mean_latency(batches: Batches, _: Batches = ()) -> Measure | None:
    """Return the mean latency of a tuple; None if that is unknown for one of the batches."""
    return _per_batch(lambda batch: None if batch.latency is None else batch.latency.mean)(
        batches, ()
    )


_LATENCY = Figure("latency of a tuple, mean s", mean_latency, _seconds, more=False)


def _figures(first: str) -> Iterator[Figure]:
    yield Figure(
        "tuples a second",
        _per_batch(lambda batch: _ratio(batch.tuples, batch.seconds)),
        "{:,.0f}".format,
        more=True,
    )
    yield Figure("seconds a batch", _per_batch(lambda batch: batch.seconds), _seconds, more=False)
    yield Figure(f"speed beside {first}", speed_beside, "{:.2f}".format, more=True)
    yield Figure(
        "makespan of a batch, CPU s", _per_batch(lambda batch: batch.makespan), _seconds, more=False
    )
    yield Figure(
        "tuples that stay on a node",
        lambda batches, _: _exactly(local_share(batches)),
        "{:.1%}".format,
        more=True,
    )
    yield Figure(
        "bytes between nodes, a batch",
        lambda batches, _: _exactly(remote_bytes(batches)),
        size_text,
        more=False,
    )
