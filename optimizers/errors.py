"""What Penstock refuses, as one tree: catch `PenstockError` and you catch all of it.

::

    PenstockError
    ├── InvalidValueError        a number out of its range, or lists that do not fit
    ├── InvalidKeyError          a key that cannot be counted or routed
    ├── EmptySketchError         a question about a stream without a tuple
    ├── MergeError               two sketches that do not describe one hash
    ├── CorruptDataError         bytes or JSON that are truncated, damaged or foreign
    ├── MissingPackageError      a package that is not installed
    ├── PartitionError           keys that cannot be divided among instances as asked
    ├── PlacementError           key groups that cannot be placed on nodes as asked
    ├── SolverError              a solver of such placements that failed
    ├── DataflowError            operators and edges that cannot be planned together
    ├── OverloadError            a load that no plan carries within the limits
    ├── FitError                 measurements that do not determine a cost model
    ├── OutsideRangeError        a cost model asked about more than it was fitted on
    ├── TopologyError            a graph of operators that is not a job
    ├── UnknownNameError         an undeclared operator, edge, node or strategy
    ├── PlanError                a decision that this topology or cluster cannot carry out
    │   └── PlanConflictError    two decisions on one thing
    ├── PluginError              a strategy that is registered but cannot be used
    ├── StrategyError            a strategy that raised instead of deciding
    ├── FoldError                tuples that an operator cannot work on
    ├── FunctionError            a function of yours, or a strategy, that raised
    ├── DeliveryError            tuples that were lost or doubled on their way
    ├── SinkError                output of a job that cannot be written where it should go
    └── CheckpointError          a checkpoint that is damaged, foreign, or cannot be written
        └── StateError           state that contradicts itself

The first six come from `sketches.errors`, the next three from `grouping.errors`, the next
four from `batching.errors`. Each message names the value and the remedy.
"""

from collections.abc import Iterable

from batching.errors import DataflowError, FitError, OutsideRangeError, OverloadError
from grouping.errors import PartitionError, PlacementError, SolverError
from sketches.errors import (
    CorruptDataError,
    EmptySketchError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
    MissingPackageError,
    PenstockError,
)

__all__ = [
    "CheckpointError",
    "CorruptDataError",
    "DataflowError",
    "DeliveryError",
    "EmptySketchError",
    "FitError",
    "FoldError",
    "FunctionError",
    "InvalidKeyError",
    "InvalidValueError",
    "MergeError",
    "MissingPackageError",
    "OutsideRangeError",
    "OverloadError",
    "PartitionError",
    "PenstockError",
    "PlacementError",
    "PlanConflictError",
    "PlanError",
    "PluginError",
    "SinkError",
    "SolverError",
    "StateError",
    "StrategyError",
    "TopologyError",
    "UnknownNameError",
]


class TopologyError(PenstockError, ValueError):
    """The operators and edges do not form a directed acyclic graph that could run."""


class UnknownNameError(PenstockError, LookupError):
    """A name was used that the topology, the cluster or the registry does not know."""

    @classmethod
    def among(cls, kind: str, name: object, known: Iterable[object]) -> "UnknownNameError":
        """Say which ``kind`` of thing is unknown, and which ones there are."""
        names = ", ".join(map(repr, known)) or "none"
        return cls(f"unknown {kind} {name!r}; known: {names}")


class PlanError(PenstockError, ValueError):
    """A plan cannot be carried out on this topology and cluster."""


class PlanConflictError(PlanError):
    """Two plans decide one thing differently.

    Attributes:
        part: the part of the plan, such as ``"parallelism"``.
        subject: the operator, edge or node it is about.
        first: the value in the left plan.
        second: the value in the right plan.
        where: what made the second plan, as a beginning of the message; may be empty.
    """

    def __init__(
        self, part: str, subject: object, first: object, second: object, where: str = ""
    ) -> None:
        super().__init__(
            f"{where}two plans decide the {part} of {subject!r}: {first!r} and {second!r}; "
            "drop one of the two strategies, or chain them so that only one decides it"
        )
        self.part = part
        self.subject = subject
        self.first = first
        self.second = second
        self.where = where

    def __reduce__(self) -> tuple[type["PlanConflictError"], tuple[object, ...]]:
        return type(self), (self.part, self.subject, self.first, self.second, self.where)


class PluginError(PenstockError):
    """A registered strategy cannot be loaded, or is not an `Optimizer`."""


class StrategyError(PenstockError, RuntimeError):
    """A strategy raised an error that is not one of ours; the message names both."""


class FoldError(PenstockError, ValueError):
    """The operator cannot work on the tuples that reach it."""


class FunctionError(PenstockError, RuntimeError):
    """A user's function has raised; its error is the cause of this one."""


class DeliveryError(PenstockError, RuntimeError):
    """Tuples of a batch were lost, doubled or changed on their way; the batch has to run again."""


class SinkError(PenstockError, RuntimeError):
    """The output of a batch cannot be written where it should go."""


class CheckpointError(PenstockError, RuntimeError):
    """A checkpoint is damaged, of another job or version, or cannot be read or written."""


class StateError(CheckpointError):
    """The state of a keyed operator contradicts itself."""
