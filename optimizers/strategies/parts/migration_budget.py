"""What moving key groups may cost, in what an operator of a cluster knows."""

import re
from dataclasses import dataclass

import numpy as np

from optimizers.errors import InvalidValueError
from optimizers.past import Past
from sketches.arrays import Floats
from sketches.checks import amount

_UNITS = {
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "B": ("bytes", 1.0),
    "kB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "%": ("share", 0.01),
    "groups": ("groups", 1.0),
    "group": ("groups", 1.0),
}
_WRITTEN = re.compile(r"\s*([0-9]+(?:[.][0-9]*)?)\s*([a-zA-Z%]+)\s*")

USUAL_PACE = 20e6
"""How many bytes of state move in a second until it was measured."""

_LEAST_PAUSE = 1e-6  # seconds, below which a pause tells nothing of a pace


@dataclass(frozen=True)
class MigrationBudget:
    """What all moves of one decision together may cost.

    >>> MigrationBudget.of("250 ms")
    MigrationBudget(amount=0.25, unit='seconds')
    >>> MigrationBudget.of("10 %").unit
    'share'

    Attributes:
        amount: how much.
        unit: of what: ``"seconds"`` that instances wait for state, ``"bytes"`` of state, a
            ``"share"`` of all state, or a number of key ``"groups"``.
    """

    amount: float
    unit: str

    def __post_init__(self) -> None:
        units = sorted({unit for unit, _ in _UNITS.values()})
        if self.unit not in units:
            raise InvalidValueError(
                f"unit={self.unit!r} is no unit of a budget; use one of {', '.join(units)}"
            )
        most = 1.0 if self.unit == "share" else np.inf
        object.__setattr__(self, "amount", amount("budget", self.amount, up_to=most))

    @classmethod
    def of(cls, given: "str | MigrationBudget") -> "MigrationBudget":
        """Return the budget that is written, as in ``"2 s"``, ``"64 MB"`` or ``"10 %"``."""
        if isinstance(given, cls):
            return given
        written = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
        if written is None or written[2] not in _UNITS:
            raise InvalidValueError(
                f"budget={given!r} is not a budget; write a number and one of {', '.join(_UNITS)}, "
                "as in '2 s', '64 MB', '10 %' or '20 groups'"
            )
        unit, times = _UNITS[written[2]]
        return cls(float(written[1]) * times, unit)

    def costs(self, state_bytes: Floats, past: Past) -> Floats:
        """Return what it costs to move each key group, in the unit of the budget.

        Args:
            state_bytes: how much state each group holds.
            past: earlier epochs, which tell how long state took to move.
        """
        if self.unit == "groups":
            return np.ones(len(state_bytes))
        if self.unit == "share":
            return state_bytes / (float(state_bytes.sum()) or 1.0)
        if self.unit == "seconds":
            return state_bytes / pace(past)
        return state_bytes.astype(np.float64)

    def __str__(self) -> str:
        if self.unit == "share":
            return f"{self.amount:.4g} of the state"
        return f"{self.amount:.6g} {self.unit}"


def pace(past: Past) -> float:
    """Return how many bytes of state move in a second of pause: as measured, or as is usual."""
    moved = paused = 0.0
    for epoch in past.epochs:
        if epoch.moved_bytes and epoch.pause is not None and epoch.pause > _LEAST_PAUSE:
            moved += epoch.moved_bytes
            paused += epoch.pause
    return moved / paused if moved else USUAL_PACE
