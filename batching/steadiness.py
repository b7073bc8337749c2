"""When a load is another one: once for each level of it, and never for noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from batching.admission.controller import share
from sketches.checks import whole

_FEW = 10  # the highest tenth does not count for a lower level: the load was still falling then


@dataclass(frozen=True)
class Steadiness:
    """Tells when a plan that was made for one level of a load has to be made for another.

    All of the last measurements have to be off by more than a band, on the same side. So noise
    within the band, and a burst that is over before, change nothing.

    >>> steady = Steadiness(band=0.25, patience=3)
    >>> steady.level(100.0, [110, 95, 240, 90])
    >>> steady.level(100.0, [110, 95, 240, 250, 236])
    240

    Attributes:
        band: by what share a load may be off; 25 % leaves noise of 10 % both ways.
        patience: how many measurements in a row have to be outside the band.
        calm: how many times as many have to be below it: a plan for more than comes is slower by
            little, and one for less lets it wait.
    """

    band: float = 0.25
    patience: int = 3
    calm: int = 1

    def __post_init__(self) -> None:
        share("band", self.band)
        whole("patience", self.patience, at_least=1)
        whole("calm", self.calm, at_least=1)

    def level(self, planned: float | None, seen: Sequence[float]) -> float | None:
        """Return the level to plan for; None for the one that was planned for.

        Args:
            planned: the level that was planned for; None before any was.
            seen: what was measured, the last one at the end; at least one.
        """
        if planned is None:
            return seen[-1]
        last, longer = seen[-self.patience :], seen[-self.patience * self.calm :]
        if len(last) == self.patience and min(last) > planned * (1 + self.band):
            return median(last)
        if len(longer) < self.patience * self.calm or max(longer) >= planned / (1 + self.band):
            return None
        return sorted(longer)[-1 - len(longer) // _FEW]
