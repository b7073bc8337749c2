"""Notes: why something was decided, or was not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.documents import Record
from optimizers.errors import InvalidValueError
from sketches.checks import number
from sketches.values import listed


@dataclass(frozen=True, slots=True, order=True, init=False)
class Note:
    """Why something was decided, or was not.

    >>> print(Note("Calmer", "count", "to be calm", {"load": 0.9}))
    Calmer on count: to be calm (load 0.9)

    Attributes:
        by: the strategy that says it.
        about: the operator, edge or node it is about.
        text: the reason, in words.
        figures: the numbers behind it, each with its name; given as pairs or as a mapping.
        idle: whether the strategy says that it can never do anything for this job. Engines log that
            once as a warning, and comparisons do not judge it.
    """

    by: str
    about: str
    text: str
    figures: tuple[tuple[str, float], ...] = ()
    idle: bool = False

    def __init__(
        self,
        by: str,
        about: str,
        text: str,
        figures: Mapping[str, float] | Iterable[tuple[str, float]] = (),
        idle: bool = False,  # noqa: FBT001, FBT002  # a field like the others
    ) -> None:
        if not isinstance(idle, bool):
            raise InvalidValueError(f"note: idle={idle!r} is not a bool; give True or False")
        for name, value in (("by", by), ("about", about), ("text", text)):
            if not isinstance(value, str):
                raise InvalidValueError(f"note: {name}={value!r} is not text")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "figures", tuple(map(_figure, _entries(figures))))
        object.__setattr__(self, "idle", idle)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:g}" for name, value in self.figures)
        return f"{self.by} on {self.about}: {self.text}" + (f" ({numbers})" if numbers else "")

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        fields: dict[str, Any] = {
            "by": self.by,
            "about": self.about,
            "text": self.text,
            "figures": [list(figure) for figure in self.figures],
        }
        return {**fields, "idle": True} if self.idle else fields


def note_from_record(record: Record) -> Note:
    """Build a note from the record of a document."""
    return Note(
        record.take("by", str),
        record.take("about", str),
        record.take("text", str),
        record.take("figures", list, []),
        record.take("idle", bool, False),  # noqa: FBT003
    )


def _entries(figures: object) -> tuple[Any, ...]:
    return tuple(figures.items()) if isinstance(figures, Mapping) else listed("figures", figures)


def _figure(figure: object) -> tuple[str, float]:
    match figure:
        case (str() as name, value):
            # Adding zero turns -0.0 into 0.0, so that equal notes are written the same.
            return name, number(f"figure {name!r}", value) + 0.0
        case _:
            raise InvalidValueError(f"figure {figure!r} is not a name with a number")
