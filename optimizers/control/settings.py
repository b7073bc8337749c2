"""When an optimizer is asked, and how many decisions are remembered."""

from dataclasses import dataclass, fields
from typing import Self

from optimizers.errors import InvalidValueError
from sketches.checks import amount, whole

REMEMBERED = 1_000
"""How many batches, and how many decisions, are kept by default."""

ALL = 1 << 31
"""More batches and decisions than any run that ends has."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """When an optimizer is asked.

    Attributes:
        every: after how many batches the optimizer is asked.
        drift: by how much the share of tuples that stay on their node may fall, between keyed
            operators, before the optimizer is asked earlier; None for never.
        meanwhile: whether batches go on while the optimizer thinks. What it decides comes into
            force with the first batch that begins after its answer, and it is not asked again
            before. Results are the same, but equal runs need not change plans after equal batches.
        remember: how many batches, and how many decisions, are kept in full, at most; older ones
            count in sums only. Fewer batches are kept of a job with thousands of instances.
    """

    every: int = 10
    drift: float | None = 0.1
    meanwhile: bool = False
    remember: int = REMEMBERED

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", whole("every", self.every, at_least=1))
        if self.drift is not None:
            object.__setattr__(self, "drift", amount("drift", self.drift, up_to=1.0))
        if not isinstance(self.meanwhile, bool):
            raise InvalidValueError(
                f"meanwhile={self.meanwhile!r} is not a bool; give True or False"
            )
        object.__setattr__(self, "remember", whole("remember", self.remember, at_least=1))

    @classmethod
    def of(cls, settings: "Asking") -> Self:
        """Return these settings of a value that has others as well, such as an engine."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})
