"""How an engine runs the instances of a job, which decides the cost of having many."""

from dataclasses import dataclass

from optimizers.errors import InvalidValueError
from optimizers.names import check_name
from sketches.checks import whole
from sketches.values import listed


@dataclass(frozen=True, slots=True)
class Execution:
    """How an engine runs a job; every engine says it with the statistics of an epoch.

    >>> Execution(micro_batches=True, slots=8).slots
    8

    Attributes:
        micro_batches: whether a batch goes through the job stage by stage, the instances of a stage
            beginning when those before have ended; if not, all instances run all the time and send
            each other tuples.
        slots: how many instances can run at the same time, on all nodes together; None where that
            is not known, or each has a processor of its own.
        sized: the sources for which a plan can say how much they let in.
        paced: whether a plan can say how often a batch begins.
        cuts: whether a batch of which a plan admits less is recorded first and then cut, as bounded
            data is; that costs more than to let less in.
    """

    micro_batches: bool
    slots: int | None = None
    sized: tuple[str, ...] = ()
    paced: bool = False
    cuts: bool = False

    def __post_init__(self) -> None:
        for name in ("micro_batches", "paced", "cuts"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidValueError(
                    f"{name}={getattr(self, name)!r} is not a bool; give True or False"
                )
        if self.slots is not None:
            object.__setattr__(self, "slots", whole("slots", self.slots, at_least=1))
        names = {check_name("sized source", name) for name in listed("sized", self.sized)}
        object.__setattr__(self, "sized", tuple(sorted(names)))
