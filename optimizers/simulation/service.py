"""The work of an operator."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.simulation.stream import Columns, Stream
from sketches.arrays import Floats
from sketches.checks import amount, number, weights, whole
from sketches.values import listed, numeric

_MOST_NOISE = 10.0  # more would make times that no double can hold


@dataclass(frozen=True)
class Work:
    """How long the instances of an operator work on a tuple, and what they emit.

    >>> Work(lambda columns: columns["length"] * 1e-6, speeds=[1.0, 0.5])
    Work(seconds=<function ...>, ..., speeds=(1.0, 0.5), ...)

    Attributes:
        seconds: how long a tuple takes: a number, or a function from the columns of a stream to
            an array with a number for each tuple. A function is called once for each source.
        seconds_at: instead of ``seconds``: a function of the columns and of the times at which
            tuples come to their source, for work that changes while the job runs.
        emits: how many tuples it emits for each, at once: a whole number, or a function from the
            columns to an array of whole numbers. They have the same columns.
        speeds: how fast each instance is, beside the capacity of its node: 2 takes half the
            time. None where all are at 1.
        noise: by how much times vary: the sigma of a log-normal factor whose mean is 1. All results
            of one tuple of a source vary together, and equally under every plan.
        state_bytes: how much state a keyed operator has for each key that has come.
    """

    seconds: float | Callable[[Columns], Any] = 0.0
    _: KW_ONLY
    seconds_at: Callable[[Columns, Floats], Any] | None = None
    emits: int | Callable[[Columns], Any] = 1
    speeds: tuple[float, ...] | None = None
    noise: float = 0.0
    state_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.seconds):
            object.__setattr__(self, "seconds", amount("seconds", self.seconds))
        if self.seconds_at is not None and not callable(self.seconds_at):
            raise InvalidValueError(
                f"seconds_at={self.seconds_at!r} is not a function of columns and times; "
                "give a number as seconds"
            )
        if self.seconds_at is not None and self.seconds != 0:
            raise InvalidValueError("seconds and seconds_at are both given; leave one of them out")
        if not callable(self.emits):
            object.__setattr__(self, "emits", whole("emits", self.emits, at_least=0))
        if self.speeds is not None:
            speeds = tuple(
                number(f"speeds[{place}]", speed, above=0)
                for place, speed in enumerate(listed("speeds", self.speeds))
            )
            object.__setattr__(self, "speeds", speeds)
        object.__setattr__(self, "noise", amount("noise", self.noise, up_to=_MOST_NOISE))
        object.__setattr__(self, "state_bytes", amount("state_bytes", self.state_bytes))

    def seconds_of(self, stream: Stream, where: str) -> Floats:
        """Return how long each tuple of a stream takes at speed 1."""
        name = f"the seconds of {where}"
        if self.seconds_at is not None:
            given = _asked(name, self.seconds_at, stream.columns, stream.times)
        elif callable(self.seconds):
            given = _asked(name, self.seconds, stream.columns)
        else:
            return np.full(len(stream), self.seconds)
        return weights(name, numeric(name, given), len(stream))

    def emitted_of(self, stream: Stream, where: str) -> NDArray[np.int64]:
        """Return how many tuples come of each tuple of a stream."""
        if not callable(self.emits):
            return np.full(len(stream), self.emits)
        name = f"what {where} emits"
        given = numeric(name, _asked(name, self.emits, stream.columns))
        counts = weights(
            name, given.astype(np.int64) if given.dtype == bool else given, len(stream)
        )
        whole_counts = counts.astype(np.int64)
        if (whole_counts != counts).any():
            place = int(np.flatnonzero(whole_counts != counts)[0])
            raise InvalidValueError(
                f"{name}: {counts[place]} tuples come of tuple {place}; give whole numbers"
            )
        return whole_counts


class _NamedColumns(dict[str, Any]):
    """Columns that say which there are if another is asked for."""

    def __missing__(self, name: object) -> NoReturn:
        raise UnknownNameError.among("column", name, self)


def _asked(name: str, function: Callable[..., Any], columns: Columns, *more: Floats) -> Any:
    try:
        return function(_NamedColumns(columns), *more)
    except UnknownNameError as error:
        raise UnknownNameError(f"{name}: {error}") from None
