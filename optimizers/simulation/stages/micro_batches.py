"""The costs of micro-batches beside the work of operators, as data."""

from dataclasses import dataclass

import numpy as np

from batching.stages import FEATURES, StageCosts
from optimizers.errors import InvalidValueError
from sketches.arrays import Floats
from sketches.checks import amount, whole

COUNTED = (*FEATURES, "row")
"""The names of the constants, in the order of the counts in `counted`."""


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """The constants of an engine that runs micro-batches, whose stages follow one another.

    A batch takes what `batching.stages` says, for the tasks that it really has::

        base + sum over stages of
          [stage + task * tasks / cores + work and rows of the longest chain of tasks
           + byte * bytes that cross hosts + what the links take]

    where the tasks of a node take turns on its cores, and the longest chain are those that follow
    one another on the core that is done last. `batching.calibration.fit` finds the constants from
    measured batches: `counted` tells for each by what they count.

    Attributes:
        costs: seconds for a batch, a stage, a task, and a byte that crosses hosts, and by what the
            work of operators is to be multiplied.
        row: seconds of a core for each tuple that an operator takes in, sources included: to
            unpack it, route it, and pack it again. Statistics tell it as `receiving`.
        parcel: how many tuples an instance packs at once, and at most into a parcel, unless the
            plan says fewer.
    """

    costs: StageCosts
    row: float = 0.0
    parcel: int = 1 << 16

    def __post_init__(self) -> None:
        if not isinstance(self.costs, StageCosts):
            raise InvalidValueError(
                f"costs={self.costs!r} is not a StageCosts; write StageCosts(base, stage, task)"
            )
        object.__setattr__(self, "row", amount("row", self.row))
        object.__setattr__(self, "parcel", whole("parcel", self.parcel, at_least=1))

    def seconds(self, counted: "Counted") -> float:
        """Return the time of a batch with these counts."""
        constants = [*(getattr(self.costs, name) for name in FEATURES), self.row]
        return float(counted.columns @ constants) + counted.links


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one batch that constants are multiplied by.

    Attributes:
        stages: how many stages it had.
        tasks: how many tasks a core had, added up over stages.
        bytes: how many bytes crossed hosts.
        work: seconds of work of the longest chain of tasks, added up.
        rows: how many tuples these took in, added up.
        links: seconds that links took, which no constant counts for.
    """

    stages: int
    tasks: float
    bytes: float
    work: float
    rows: float
    links: float

    @property
    def columns(self) -> Floats:
        """The same in the order of `COUNTED`."""
        return np.array([1.0, self.stages, self.tasks, self.bytes, self.work, self.rows])
