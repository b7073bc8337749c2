"""What an observation is of: the key of the tables that a task reports."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

EACH, MEAN = "each", "mean"
"""Costs of each tuple by itself; of all tuples of a call the same."""


class Seen(StrEnum):
    """What was observed."""

    PAIRS = "pairs"
    """Pairs of keys, of two operators."""
    KEYS = "keys"
    """The keys of an operator."""
    TRAFFIC = "traffic"
    """Tuples between the key groups of two operators."""
    COSTS = "costs"
    """What tuples cost, of an operator, by keys of a kind, `EACH` or `MEAN`."""
    TRIAL = "trial"
    """What was tried of the function of an operator; see `call_mode`."""


@dataclass(frozen=True, slots=True, order=True)
class Observation:
    """What was observed, and of what.

    >>> Observation(Seen.PAIRS, ("place", "tag")) == Observation.of("pairs", "place", "tag")
    True

    Attributes:
        kind: what was observed.
        about: the operators, and for costs what kind of keys and of costs they are.
    """

    kind: Seen
    about: tuple[str, ...]

    @classmethod
    def of(cls, kind: str, *about: str) -> "Observation":
        """Return the observation of this kind about these."""
        return cls(Seen(kind), about)


Sighting: TypeAlias = tuple[Observation, pa.Table]
"""A table of what was observed, and what that is of."""
