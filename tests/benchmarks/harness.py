"""What every benchmark here is made of: fair timing, and results that know their goal.

A machine that others use too cannot give absolute speeds, but it can give ratios: `interleaved`
lets the rivals take turns, so that a busy minute hits all of them.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal


def interleaved(
    variants: Mapping[str, Callable[[], object]], *, repeats: int = 7
) -> dict[str, float]:
    """Time rivals in turns: a, b, c, then b, c, a, then c, a, b, and so on.

    Args:
        variants: what to run, by name. Each call must do the whole work again.
        repeats: how often each is run; the first round warms caches, the median forgets it.

    Returns:
        The median of each variant, in seconds of CPU time of this process (`time.process_time`:
        all its threads together, without the time that other processes took).
    """
    names = list(variants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    was_enabled = gc.isenabled()
    try:
        for turn in range(repeats):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                gc.collect()
                gc.disable()
                start = time.process_time()
                variants[name]()
                seconds[name].append(time.process_time() - start)
                gc.enable()
    finally:
        (gc.enable if was_enabled else gc.disable)()
    return {name: statistics.median(taken) for name, taken in seconds.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured number and, if it has one, the goal it must reach.

    Attributes:
        name: what was measured, in a few words.
        measured: the number.
        unit: of both numbers ("x", "M/s", "B").
        goal: the worst number that is good enough; None for a number that only informs.
        better: whether a good number is a high or a low one.
    """

    name: str
    measured: float
    unit: str
    goal: float | None = None
    better: Literal["higher", "lower"] = "higher"

    @property
    def holds(self) -> bool:
        """Whether the goal is met; a number without one always holds, NaN never meets one."""
        if self.goal is None:
            return True
        if self.better == "higher":
            return self.measured >= self.goal
        return self.measured <= self.goal


def table(results: Iterable[Result]) -> str:
    """Return the results as aligned lines, each with a mark: met, missed or no goal."""
    rows = [(_mark(result), result.name, _amount(result), _goal(result)) for result in results]
    if not rows:
        return "nothing was measured"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{mark:<{widths[0]}}  {name:<{widths[1]}}  {amount:>{widths[2]}}  {goal}".rstrip()
        for mark, name, amount, goal in rows
    )


def _mark(result: Result) -> str:
    if result.goal is None:
        return "    "
    return "ok  " if result.holds else "MISS"


def _amount(result: Result) -> str:
    return f"{result.measured:,.4g} {result.unit}"


def _goal(result: Result) -> str:
    if result.goal is None:
        return ""
    limit = "at least" if result.better == "higher" else "at most"
    return f"goal: {limit} {result.goal:,.4g} {result.unit}"
