"""What Aeolus remembers: what it planned for and has measured since, kept in its own notes."""

from collections.abc import Mapping
from dataclasses import dataclass

from batching.steadiness import Steadiness
from optimizers.notes import Note
from optimizers.statistics import Statistics
from sketches.values import FrozenMap

JOB = "the job"

_NEW = "planned now"  # the figure of a note that comes with a plan, or says that none is needed
_PLANNED = "planned "  # before the names of figures that were planned with


@dataclass(frozen=True)
class Memory:
    """What was planned for, and what was measured since.

    Attributes:
        planned: the figures that were planned with, by name; empty before the first plan.
        since: the figures of each epoch since then, the oldest first.
    """

    planned: Mapping[str, float]
    since: tuple[Mapping[str, float], ...]

    def level(self, figure: str, now: float, steady: Steadiness) -> float | None:
        """Return the level of a figure to plan for; None if it is the one that was planned for.

        Args:
            figure: its name; it counts from the last plan on.
            now: what it is in the present epoch.
            steady: when a level is another one.
        """
        seen = [figures[figure] for figures in self.since if figure in figures]
        return steady.level(self.planned.get(figure), [*seen, now])

    def kept(self, by: str, text: str, measured: Mapping[str, float]) -> Note:
        """Return the note of an epoch after which all stays as it is.

        Past epochs are forgotten in time; so each note says again what was planned with.
        """
        again = {_PLANNED + name: value for name, value in self.planned.items()}
        return Note(by, JOB, text, {**measured, **again})


def memory_of(statistics: Statistics, by: str) -> Memory:
    """Return what a strategy has said of earlier epochs; `Statistics.past` keeps its notes."""
    planned, since = dict[str, float](), list[dict[str, float]]()
    for epoch in statistics.past.epochs:
        decision = epoch.decision
        if decision is None or decision.refused:
            continue
        for note in decision.notes:
            if note.by == by and note.about == JOB:
                figures = dict(note.figures)
                again = {
                    name.removeprefix(_PLANNED): value
                    for name, value in figures.items()
                    if name.startswith(_PLANNED) and name != _NEW
                }
                planned = again or planned
                if _NEW in figures:
                    since = []
                else:
                    since.append(figures)
    return Memory(planned, tuple(since))


def planned_note(
    by: str, text: str, planned: Mapping[str, float], expected: Mapping[str, float] = FrozenMap()
) -> Note:
    """Return the note of a plan, with the figures that it was made with, and what it is to bring.

    Args:
        by: the strategy.
        text: the reason.
        planned: the figures that the plan was made with.
        expected: what it is to bring, by the names of `optimizers.control.expecting`.
    """
    figures = {_PLANNED + name: value for name, value in planned.items()}
    return Note(by, JOB, text, {**figures, _NEW: 1.0, **expected})
